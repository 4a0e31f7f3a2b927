"""One session for all Spark tests, which retries failed tasks, and addresses that nobody else uses."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import lwmq_spark as lwmq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()
QUIET = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False, "spark.sql.shuffle.partitions": 4}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two slots, in which a task may fail three times."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))  # else a table makes a folder in the checkout
    session = lwmq.session("tests", master="local[2,4]", **QUIET, **{"spark.sql.warehouse.dir": warehouse})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def ipc() -> str:
    """An ipc address of this test's own."""
    return f"ipc://spark-{os.getpid()}-{next(_numbers)}"
