"""One session for all Spark tests, which retries failed tasks, and addresses that nobody else uses."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import lwmq_spark as lwmq
from tests.spark.addresses import WIRE, new_address, with_ticket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False, "spark.sql.shuffle.partitions": 4}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two slots, in which a task may fail three times. It authenticates. Its processes take no
    shorter way to a network address on this host."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))  # else a table makes a folder in the checkout
    conf = {**QUIET, "spark.sql.warehouse.dir": warehouse, "spark.authenticate": True}
    # Spark builds a column of 150 levels by recursion, which now and then is too deep for the usual 1 MiB.
    conf["spark.driver.extraJavaOptions"] = "-Xss4m"
    master = os.environ.get("LWMQ_TEST_MASTER", "local[2,4]")
    if master.startswith("local-cluster"):
        conf |= {"spark.authenticate.secret": secrets.token_hex(32), "spark.executor.memory": "1g"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WIRE.items():
            patch.setenv(name, value)
        session = lwmq.session("tests", master=master, **conf)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def ipc() -> str:
    """An ipc address of this test's own."""
    return new_address("ipc")


@pytest.fixture(params=["ipc", "tcp", pytest.param("tcps", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of this test's own, in shared memory or in a network. Over TLS this process has a ticket."""
    for name, value in WIRE.items():
        monkeypatch.setenv(name, value)
    if request.param == "tcps":
        request.getfixturevalue("spark")
    return with_ticket(new_address(request.param))
