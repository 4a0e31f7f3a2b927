"""Executors on several hosts, as far as one machine goes: hosts that Spark tells apart by name, and one in a
network namespace of its own, which cannot reach the others' memory.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from lwmq_spark.spark import publish
from tests.namespaces import Namespace, why_not
from tests.spark.addresses import free_port
from tests.spark.cluster import Cluster
from tests.spark.oracle import every_row_once
from tests.spark.producers import Producer, kept, read
from tests.spark.standalone import Worker, standalone
from tests.spark.streams import Consumer, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
ROWS = 4000
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


@contextmanager
def cluster_of(folder: Path, host: str, other: Worker, more: dict[str, Any]) -> Iterator[Cluster]:
    """A worker at `host`, where the driver is, and the `other` one; `more`: of Spark's configuration."""
    with standalone(folder, host, [Worker(host), other]) as master:
        cluster = Cluster(folder / "driver", conf={**conf(master, host), **more})
        try:
            cluster.run("wait_for_executors", 2)
            yield cluster
        finally:
            cluster.close()


# ---- Speculation ----------------------------------------------------------------------------------------


@pytest.fixture
def sink(ipc: str) -> str:
    return ipc + "-sink"


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two names of one machine: Spark makes no copy of a task on the host where it runs already."""
    host = "127.0.0.1"
    folder = tmp_path_factory.mktemp("hosts")
    with cluster_of(folder, host, Worker("127.0.0.2"), SPECULATION) as cluster:
        yield cluster


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


# ---- What tasks are told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]"])
def test_tasks_are_told_the_drivers_host_in_place_of_every_interface(spark: SparkSession, host: str) -> None:
    driver = spark.conf.get("spark.driver.host")
    jvm: Any = spark._jvm
    for of in (jvm.org.lwmq.spark.conf.TaskAddress.told, publish._for_tasks):
        assert of(f"tcp://{host}:7000/x?stream=y") == f"tcp://{driver}:7000/x?stream=y"
        for as_it_is in ("tcp://10.0.0.7:7000/x", "tcp://[fe80::1]:7000", "ipc://x", "ipc:///tmp/x"):
            assert of(as_it_is) == as_it_is


def test_tasks_are_told_the_port_that_was_chosen_for_the_driver(spark: SparkSession, ipc: str) -> None:
    given = f"tcp://127.0.0.1:0/{ipc.removeprefix('ipc://')}"
    write(spark.range(0, 100, 1, 4), given)
    rows = read(spark, given).select("id", "_endpoint").collect()
    assert sorted(row.id for row in rows) == list(range(100))
    (address,) = {row._endpoint for row in rows}
    assert re.fullmatch(given.replace(":0/", r":[1-9]\d+/"), address)


def test_published_batches_are_read_at_the_port_that_was_chosen(spark: SparkSession, ipc: str) -> None:
    given = f"tcp://127.0.0.1:0/{ipc.removeprefix('ipc://')}"
    frame = spark.range(0, 100, 1, 2)
    try:
        frame.mapInArrow(lwmq.publish(given, partitions=2), lwmq.PUBLISH_SCHEMA).collect()
        rows = spark.range(0, 2, 1, 2).mapInArrow(lwmq.subscribe(given), "id long").collect()
    finally:
        publish._close_kept()  # else this process serves the address until it ends
    assert sorted(row.id for row in rows) == list(range(100))


# ---- Two hosts: our network namespace and another one ------------------------------------------------------


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[tuple[Namespace, str, str]]:
    """The other one, our address on the cable to it, and its own."""
    if reason := why_not():
        pytest.skip(reason)
    made = Namespace()
    try:
        yield made, *made.connect("10.213.78")
    finally:
        made.close()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a key, which is the same on both hosts."""
    file = tmp_path_factory.mktemp("key") / "streams.psk"
    file.touch(mode=0o600)
    file.write_text(secrets.token_hex(32) + "\n")
    return file


@pytest.fixture(scope="module")
def far_cluster(
    elsewhere: tuple[Namespace, str, str], key: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A worker on each host, and the driver on ours."""
    there, host, far = elsewhere
    folder = tmp_path_factory.mktemp("far")
    more = {
        "spark.datasource.lwmq.psk": str(key),
        "spark.sql.autoBroadcastJoinThreshold": -1,
        "spark.locality.wait": "60s",
    }
    with cluster_of(folder, host, Worker(far, there), more) as cluster:
        yield cluster


@pytest.mark.row("P29")
@pytest.mark.parametrize("killed", [False, True])
def test_tasks_on_two_hosts_exchange_rows_over_the_network(
    far_cluster: Cluster, tmp_path: Path, elsewhere: tuple[Namespace, str, str], killed: bool
) -> None:
    """Also after one has died, and Spark has tried the stage again."""
    _, host, far = elsewhere
    rows, as_spark_has_it, hosts = far_cluster.run("exchanged", str(tmp_path) if killed else None)
    assert rows == as_spark_has_it
    assert hosts == sorted([host, far])


FAR_PRODUCER = """
import sys
import pyarrow as pa
import lwmq_spark as lwmq

table = pa.table({"k": range(4000), "v": range(0, 40000, 10)})
with lwmq.open_writer(sys.argv[1], table.schema, partitions=2, timeout=60, linger=60) as writer:
    for number, batch in enumerate(table.to_batches(max_chunksize=100)):
        writer.write(batch, partition=number % 2)
"""


@pytest.mark.slow
@pytest.mark.row("P12")
def test_streams_of_two_hosts_are_joined_on_two_hosts(
    far_cluster: Cluster, elsewhere: tuple[Namespace, str, str], key: Path, ipc: str
) -> None:
    """One is served on the other host. The driver reads ours at an address of shared memory. Tasks on the
    other host take the address of the network at which the same endpoint listens."""
    there, host, far = elsewhere
    left = f"tcps://{far}:{free_port('127.0.0.1')}/left"
    sink = f"tcps://*:{free_port('127.0.0.1')}/sums"
    command = there.command(sys.executable, "-c", FAR_PRODUCER, f"{left}?psk={key}")
    producer = subprocess.Popen(command, cwd=ROOT)
    endpoint = Endpoint(ipc, linger=0)
    try:
        endpoint.listen(f"tcps://{host}:{free_port(host)}/right?psk={key}")
        ours = Producer(ipc, pa.table({"k": range(ROWS), "w": range(ROWS)}), rows=100, partitions=4)
        far_cluster.start("joined", left, ipc, sink)
        consumer = Consumer(f"{sink.replace('*', host)}?psk={key}", role="client")
        assert consumer.column("s") == [11 * k for k in range(ROWS)]
        far_cluster.answer()
        ours.finish()
        assert producer.wait(300) == 0
    finally:
        producer.kill()
        producer.wait()
        endpoint.close()
    hosts = far_cluster.run("task_hosts")
    assert [far] in hosts, "the tasks of `left` prefer the host of its endpoint"
    assert any(set(stage) == {host, far} for stage in hosts), "no stage ran on both"


@pytest.mark.slow
def test_python_workers_of_two_hosts_publish_and_subscribe(far_cluster: Cluster, key: Path) -> None:
    address = f"tcps://*:{free_port('127.0.0.1')}/published?psk={key}"
    rows, _ = far_cluster.run("published", address)
    assert rows == list(range(1000))
    assert any(len(stage) == 2 for stage in far_cluster.run("task_hosts"))


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
                r"this task runs in (\d+) on (\S+): share the namespace, use ipc:///dir/name in .*, "
                r"or serve .* tcp://.*",
                said,
            )
            assert told, said
            assert told[1] == ipc and int(told[2]) == ours and int(told[4]) == elsewhere.id
            every_row_once(Consumer(ipc, role="client").column("k"), range(ROWS))  # who can reach it reads it
            producer.finish()
    finally:
        elsewhere.close()
