"""Executors on several hosts, as far as one machine goes: hosts that Spark tells apart by name, and one in a
network namespace of its own, which cannot reach the others' memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.namespaces import Namespace, why_not
from tests.spark.cluster import Cluster
from tests.spark.oracle import every_row_once
from tests.spark.producers import Producer, kept
from tests.spark.standalone import Worker, standalone
from tests.spark.streams import Consumer

ROWS = 4000

pytestmark = pytest.mark.alone
# Copies are made as soon as Spark can see that a task is slow.
SPECULATION = {
    "spark.speculation": True,
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": 1.01,
    "spark.speculation.quantile": 0.1,
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.locality.wait": 0,
}


def numbers() -> pa.Table:
    return pa.table({"k": range(ROWS)})


def conf(master: str, host: str) -> dict[str, object]:
    return {"spark.master": master, "spark.driver.host": host, "spark.driver.bindAddress": host}


# ---- Speculation ----------------------------------------------------------------------------------------


@pytest.fixture
def sink(ipc: str) -> str:
    return ipc + "-sink"


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two names of one machine: Spark makes no copy of a task on the host where it runs already."""
    host = "127.0.0.1"
    folder = tmp_path_factory.mktemp("hosts")
    with standalone(folder, host, [Worker(host), Worker("127.0.0.2")]) as master:
        cluster = Cluster(folder / "driver", conf={**conf(master, host), **SPECULATION})
        try:
            cluster.run("wait_for_executors", 2)
            yield cluster
        finally:
            cluster.close()


@pytest.mark.slow
@pytest.mark.row("P15")
@pytest.mark.parametrize("delivery", ["task", "job"])
def test_a_speculative_copy_changes_nothing(
    two_hosts: Cluster, ipc: str, sink: str, tmp_path: Path, delivery: str
) -> None:
    """Two attempts of a task read the same batches side by side, and both would commit."""
    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100, partitions=2)
        consumer = Consumer(sink)
        attempts, failure, _ = two_hosts.run("copied", ipc, sink, str(tmp_path), delivery, 1)
        assert "0.1" in attempts, "Spark made no copy"
        assert failure is None
        every_row_once(consumer.column("k"), range(ROWS))
        producer.finish()


# promise: a copy of a task / then
@pytest.mark.slow
@pytest.mark.row("P15")
@pytest.mark.parametrize("delivery", ["task", "job"])
def test_a_speculative_copy_under_pressure_gives_way(
    two_hosts: Cluster, ipc: str, sink: str, tmp_path: Path, delivery: str
) -> None:
    """The window holds a part of the stream: what one attempt has read is gone when its copy comes. The copy
    ends, which counts as no failure, as often as Spark makes one."""
    with kept(ipc), kept(sink):
        producer = Producer(ipc, numbers(), rows=100, partitions=2, window_bytes=8192, buffer_bytes=2048)
        consumer = Consumer(sink, role="client")
        _, failure, errors = two_hosts.run("copied", ipc, sink, str(tmp_path), delivery, ROWS // 100 // 2)
        assert failure is None, errors
        assert any("LWMQ_SUPERSEDED" in text for text in errors), errors
        assert not any("LWMQ_DATA_LOSS" in text for text in errors), errors
        every_row_once(consumer.column("k"), range(ROWS))
        producer.finish()


# ---- Another network namespace --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_task_in_another_network_namespace_fails_at_once_and_names_both(ipc: str, tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    elsewhere = Namespace()
    try:
        host, far = elsewhere.connect("10.213.77")
        with standalone(tmp_path, host, [Worker(far, elsewhere)]) as master, kept(ipc):
            cluster = Cluster(tmp_path / "driver", conf=conf(master, host))
            try:
                cluster.run("wait_for_executors", 1)
                producer = Producer(ipc, numbers(), rows=100)
                said = cluster.run("read_plainly", ipc)
            finally:
                cluster.close()
            ours = Path("/proc/self/ns/net").stat().st_ino
            told = re.fullmatch(
                r"AddressError: (\S+) is served in network namespace (\d+) of host (\S+), "
                r"this task runs in (\d+) on (\S+): share the namespace, or use ipc:///dir/name in .*",
                said,
            )
            assert told, said
            assert told[1] == ipc and int(told[2]) == ours and int(told[4]) == elsewhere.id
            every_row_once(Consumer(ipc, role="client").column("k"), range(ROWS))  # who can reach it reads it
            producer.finish()
    finally:
        elsewhere.close()
