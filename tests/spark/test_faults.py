"""Executors, drivers and consumers that die, and attempts that come twice: every row once, or an error.

The oracle (oracle.py): rows are numbered; what arrives is compared as a multiset, and in its order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.spark.cluster import Cluster
from tests.spark.oracle import every_row_once, in_order
from tests.spark.producers import Producer, kept, read
from tests.spark.streams import Consumer, Gate, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
SLOW = os.environ.get("LWMQ_SLOW") == "1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def sink(ipc: str) -> str:
    return ipc + "-sink"


def numbers(rows: int = ROWS) -> pa.Table:
    return pa.table({"k": pa.array(range(rows), pa.int64())})


pytestmark = pytest.mark.row("P15")


# ---- A cluster of its own, in the order that saves starts of executors ----------------------------------


@pytest.mark.alone
def test_a_killed_executor_reads_its_batches_again(cluster: Cluster, ipc: str, tmp_path: Path) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100, partitions=2)
        every_row_once(cluster.run("killed_while_reading", ipc, str(tmp_path)), range(ROWS))
        producer.finish()


@pytest.mark.alone
@pytest.mark.parametrize("delivery", ["job", pytest.param("task", marks=pytest.mark.slow)])
def test_a_killed_executor_writes_every_row_once(
    cluster: Cluster, ipc: str, tmp_path: Path, delivery: str
) -> None:
    consumer = Consumer(ipc)
    cluster.run("killed_while_writing", ipc, str(tmp_path), delivery)
    every_row_once(consumer.column("k"), range(ROWS))


@pytest.mark.alone
def test_an_attempt_that_committed_stays_the_only_one_though_its_executor_is_lost(
    cluster: Cluster, ipc: str
) -> None:
    """Its result never reached the driver, which has it done again: the endpoint arbitrates, not Spark."""
    consumer = Consumer(ipc)
    cluster.run("halted_after_commit", ipc, str(cluster.halt), "task")
    every_row_once(consumer.column("k"), range(ROWS))


@pytest.mark.alone
@pytest.mark.slow
def test_a_stage_that_is_done_again_reads_its_batches_again(
    cluster: Cluster, ipc: str, tmp_path: Path
) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100, partitions=2)
        sums = cluster.run("stage_recomputed", ipc, str(tmp_path))
        assert sums == [[g, sum(range(g, ROWS, 10))] for g in range(10)]
        producer.finish()


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_whatever_dies_every_row_arrives_once(
    cluster: Cluster, ipc: str, sink: str, tmp_path: Path, seed: int
) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100, partitions=2)
        consumer = Consumer(sink)
        cluster.run("random_faults", ipc, sink, str(tmp_path), str(cluster.halt), seed)
        every_row_once(consumer.column("k"), range(ROWS))
        producer.finish()


# promise: the session stops / task, job, live
@pytest.mark.alone
@pytest.mark.parametrize(
    "delivery", ["task", *(pytest.param(other, marks=pytest.mark.slow) for other in ("job", "live"))]
)
def test_rows_saved_just_before_the_session_stops_wait_for_their_reader(
    cluster: Cluster, ipc: str, sink: str, delivery: str
) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100)
        cluster.run("stopped_after_save", ipc, sink, delivery)  # nobody has read it yet
        producer.finish()
    time.sleep(1.0)  # the reader is late by so much
    every_row_once(Consumer(sink).column("k"), range(1000))


@pytest.mark.alone
def test_a_killed_driver_is_an_error_after_the_rows_of_whole_tasks(
    cluster: Cluster, ipc: str, tmp_path: Path
) -> None:
    """The last one: it takes the cluster's process with it."""
    consumer = Consumer(ipc)
    cluster.start("killed_driver", ipc, str(tmp_path), "task")
    consumer.wait_for_rows(20)
    _kill(cluster)
    with pytest.raises(lwmq.AbortedError, match="left before the job's end"):
        consumer.table()
    assert consumer.rows == 20


@pytest.mark.alone
@pytest.mark.slow
def test_a_killed_driver_of_whom_nothing_was_seen_is_nothing_to_the_reader(
    spark: SparkSession, ipc: str, tmp_path: Path
) -> None:
    """With delivery=job: the reader goes on waiting, and has the rows of the next job."""
    consumer = Consumer(ipc)
    driver = Cluster(tmp_path / "driver", conf={"spark.master": "local[1]"})
    try:
        driver.start("killed_driver", ipc, str(tmp_path), "job")
        deadline = time.monotonic() + 300
        while not (tmp_path / "last").exists():
            assert time.monotonic() < deadline and driver.process.poll() is None
            time.sleep(0.05)
        _kill(driver)
    finally:
        driver.close()
    write(spark.range(100, 200, 1, 2).toDF("k"), ipc)
    every_row_once(consumer.column("k"), range(100, 200))


def _kill(driver: Cluster) -> None:
    """The driver, both its halves: Java and Python."""
    jvms = _children(driver.process.pid)
    assert jvms
    for pid in [*jvms, driver.process.pid]:
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


# ---- The session that all tests share -------------------------------------------------------------------

CONSUMER = """
import sys
import lwmq_spark as lwmq

with lwmq.open_reader(sys.argv[1], role="server") as reader:
    print("open", flush=True)
    print(sum(batch.num_rows for batch in reader), flush=True)
"""


def _consumer(address: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", CONSUMER, address], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    return process


@pytest.mark.parametrize("delivery", ["task", pytest.param("job", marks=pytest.mark.slow)])
def test_a_consumer_that_died_and_came_back_never_loses_rows_silently(
    spark: SparkSession, ipc: str, tmp_path: Path, delivery: str
) -> None:
    """Killed between the commit of tasks and the commit of the job: what they committed went with it."""
    gate = Gate(tmp_path)
    first = _consumer(ipc)
    outcome: list[Exception | None] = []
    frame = spark.range(0, 30, 1, 3).toDF("k").mapInArrow(gate.hold(2), "k bigint")

    def job() -> None:
        try:
            write(frame, ipc, delivery=delivery, timeout="20s")
            outcome.append(None)
        except Exception as failure:
            outcome.append(failure)

    running = threading.Thread(target=job)
    running.start()
    deadline = time.monotonic() + 300
    tracker = spark.sparkContext.statusTracker()
    while time.monotonic() < deadline:
        done = [
            info.numCompletedTasks
            for stage in tracker.getActiveStageIds()
            if (info := tracker.getStageInfo(stage)) is not None
        ]
        if done == [2]:
            break
        time.sleep(0.02)
    first.kill()
    first.communicate()
    second = _consumer(ipc)
    gate.open()
    running.join(300)
    assert len(outcome) == 1 and outcome[0] is not None, "the job has succeeded without its rows"
    assert isinstance(outcome[0], SparkRuntimeException) and "\n" not in str(outcome[0]), outcome[0]
    found = lwmq.error_of(outcome[0])
    assert isinstance(found, lwmq.AbortedError | lwmq.PeerLostError | lwmq.DataLossError), outcome[0]
    write(spark.range(0, 30, 1, 3).toDF("k"), ipc)  # as the text advises: run the job again
    assert second.communicate(timeout=300)[0] == "30\n"


@pytest.mark.parametrize("interrupt", [True, False])
def test_a_cancelled_job_gives_its_leases_back(
    spark: SparkSession, ipc: str, tmp_path: Path, interrupt: bool
) -> None:
    """Tasks that hold batches and wait for more; cancelled with threads interrupted, or asked to stop."""
    from pyspark import InheritableThread

    with kept(ipc):
        writer = lwmq.open_writer(ipc, numbers().schema, partitions=2, linger=0)
        for number in range(6):
            writer.write(numbers(100), partition=number % 2)
        context = spark.sparkContext
        outcome: list[BaseException] = []

        def run() -> None:
            context.setJobGroup("leases", "holds batches", interruptOnCancel=interrupt)
            try:
                read(spark, ipc).selectExpr("sum(k)").collect()
            except BaseException as failure:
                outcome.append(failure)

        thread = InheritableThread(target=run)
        thread.start()
        deadline = time.monotonic() + 300
        while describe(ipc, 60.0).readers_open < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
        context.cancelJobGroup("leases")
        deadline = time.monotonic() + 300
        while describe(ipc, 60.0).readers_open:
            assert time.monotonic() < deadline, "nobody has told its tasks"
            time.sleep(0.01)
        thread.join(300)
        assert outcome and "cancelled" in str(outcome[0])
        # what they held is the writer's again: a window is written over and over
        writer.abort("over")
        assert _leased_by_this_jvm(spark) == 0


@pytest.mark.parametrize("interrupt", [True, False])
def test_a_cancelled_job_that_waits_for_room_ends(spark: SparkSession, ipc: str, interrupt: bool) -> None:
    """Nobody reads what its tasks write; then somebody does, and hears of the abort behind it."""
    from pyspark import InheritableThread

    def in_the_log() -> int:
        return sum(partition.next_seq for partition in describe(ipc, 60.0).partitions)

    with kept(ipc):
        context = spark.sparkContext
        outcome: list[BaseException] = []

        def run() -> None:
            context.setJobGroup("room", "waits for room", interruptOnCancel=interrupt)
            frame = spark.range(0, 1_000_000, 1, 2).toDF("k")
            try:
                write(frame, ipc, delivery="live", windowBytes="256KiB", bufferBytes="16KiB")
            except BaseException as failure:
                outcome.append(failure)

        thread = InheritableThread(target=run)
        thread.start()
        deadline, before = time.monotonic() + 300, 0
        while time.monotonic() < deadline and not (before and in_the_log() == before):
            before = in_the_log()
            time.sleep(0.3)
        context.cancelJobGroup("room")
        thread.join(300)
        assert outcome and "cancelled" in str(outcome[0])
        consumer = Consumer(ipc, role="client")
        with pytest.raises(lwmq.AbortedError):
            consumer.table()
        assert 0 < consumer.rows < 1_000_000


def _leased_by_this_jvm(spark: SparkSession) -> int:
    """Batches that readers of Spark's process hold, as `lwmq top` has it."""
    from lwmq_spark.observer import Observer

    pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    entries = [entry for process in Observer().look() if process.pid == pid for entry in process.entries]
    return sum(entry.figures["leased_batches"] for entry in entries if entry.role == "reader")


@pytest.mark.parametrize("seed", range(50 if SLOW else 3))
def test_attempts_that_fail_anywhere_leave_every_row_once_and_in_order(
    spark: SparkSession, ipc: str, sink: str, seed: int
) -> None:
    """Read, mapped and written by tasks of which some fail, up to three times, after some of their rows."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import random

        from pyspark import TaskContext

        context = TaskContext.get()
        chance = random.Random(f"{seed} {context.partitionId()}")
        fails, after = chance.choice([0, 0, 1, 3]), chance.randrange(5)
        for number, batch in enumerate(batches):
            if number == after and context.attemptNumber() < fails:
                raise RuntimeError("told to fail")
            yield batch

    with kept(ipc):
        producer = Producer(ipc, numbers(), rows=100, partitions=4)
        consumer = Consumer(sink)
        frame = read(spark, ipc).select("k", "_partition").mapInArrow(fail, "k bigint, _partition int")
        options: dict[str, Any] = {"delivery": "task" if seed % 2 else "job", "partitions": 4}
        write(frame.withColumnRenamed("_partition", "p"), sink, **options)
        table = consumer.table()
        numbers_of, partition_of = table["k"].to_pylist(), table["p"].to_pylist()
        every_row_once(numbers_of, range(ROWS))
        in_order(zip(partition_of, numbers_of, strict=True))
        producer.finish()
        with contextlib.suppress(lwmq.LwmqError):
            deadline = time.monotonic() + 300
            while describe(ipc, 60.0).readers_open:
                assert time.monotonic() < deadline, "somebody reads still"
                time.sleep(0.02)
