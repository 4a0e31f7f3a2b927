"""Streams read as DataFrames: what arrives, when it is acknowledged, and what is refused."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.patience import HANG_S
from tests.spark.producers import Producer, end, kept, metrics, numbers, plan, read
from tests.stopping import stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def wait_until_acked(address: str, limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while any(p.unacked_seq != p.next_seq for p in describe(address, 60.0).partitions):
        assert time.monotonic() < deadline, describe(address, 60.0)
        time.sleep(0.02)


def cost(spark: SparkSession, frame: DataFrame) -> str:
    """The plan with its statistics; Spark shows numbers of rows where the cost-based optimizer is on."""
    spark.conf.set("spark.sql.cbo.enabled", True)
    try:
        return str(frame._jdf.queryExecution().explainString(_cost_mode(spark)))
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def _cost_mode(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("cost")  # type: ignore[union-attr]


def sums(spark: SparkSession, address: str, **options: str) -> tuple[int, int, float]:
    row = read(spark, address, **options).selectExpr("count(*)", "sum(k)", "sum(half)").first()
    assert row is not None
    return tuple(row)  # type: ignore[return-value]


STOPPABLE = """
import sys
import pyarrow as pa
import lwmq_spark as lwmq

with lwmq.open_writer(sys.argv[1], pa.schema([("k", pa.int64())]), role="server", linger=60) as writer:
    writer.write(pa.table({"k": range(10)}))
    print("written", flush=True)
"""


def test_an_endpoint_too_busy_to_answer_a_look_is_there_all_the_same(spark: SparkSession, ipc: str) -> None:
    """It was taken for none: the driver bound the address, and the job failed because it was taken."""
    producer = subprocess.Popen([sys.executable, "-c", STOPPABLE, ipc], stdout=subprocess.PIPE, text=True)
    try:
        assert producer.stdout is not None and producer.stdout.readline() == "written\n"
        stop(producer.pid)
        threading.Timer(4.0, producer.send_signal, [signal.SIGCONT]).start()
        assert read(spark, ipc).count() == 10
        assert producer.wait(300) == 0
    finally:
        producer.kill()
        producer.communicate()


@pytest.mark.row("P06")
def test_the_schema_comes_from_the_stream(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(10))
    frame = read(spark, ipc)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("k", "bigint"),
        ("half", "double"),
        ("text", "string"),
    ]
    assert sorted(tuple(row) for row in frame.collect()) == [(n, n / 2, f"row {n}") for n in range(10)]
    producer.finish()


@pytest.mark.row("P05")
def test_the_plan_is_columnar_and_nothing_is_copied(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(5000))
    frame = read(spark, ipc).filter("k % 2 = 0").select("k", "text")
    assert len(frame.collect()) == 2500
    assert "ColumnarToRow" in plan(frame)
    shown = dict(metrics(spark))
    assert shown["bytes copied while reading"] == "0.0 B" != shown["bytes read"]
    producer.finish()


@pytest.mark.row("P07")
def test_columns_that_are_not_read_are_not_counted(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(4000))
    frame = read(spark, ipc).selectExpr("sum(k)")
    assert frame.collect()[0][0] == sum(range(4000))
    assert dict(metrics(spark))["bytes read"] == "31.3 KiB"  # 8 * 4000
    assert "text" not in plan(frame)
    producer.finish()


@pytest.mark.row("P13")
def test_the_sql_tab_shows_rows_bytes_copies_batches_and_waiting_once_and_as_spark_does(
    spark: SparkSession, ipc: str
) -> None:
    producer = Producer(ipc, numbers(3000), rows=1000)
    read(spark, ipc).selectExpr("sum(half)").collect()
    waited = dict(metrics(spark))["time waited for batches"]
    assert re.fullmatch(r"\d[\d.]* (ms|s|m)", waited), waited
    assert sorted(metrics(spark)) == [
        ("bytes copied while reading", "0.0 B"),
        ("bytes read", "23.4 KiB"),
        ("number of output rows", "3,000"),
        ("record batches read", "3"),
        ("time waited for batches", waited),
    ]
    producer.finish()


def test_the_sql_tab_shows_the_least_the_median_and_the_most_of_several_tasks(
    spark: SparkSession, ipc: str
) -> None:
    producer = Producer(ipc, numbers(3000), rows=1000, partitions=2)
    read(spark, ipc).selectExpr("sum(half)").collect()
    shown = dict(metrics(spark))
    assert shown["bytes read"] == "total (min, med, max):\n23.4 KiB (7.8 KiB, 15.6 KiB, 15.6 KiB)"
    assert "driver" not in "".join(shown.values())
    producer.finish()


@pytest.mark.row("P06")
def test_a_wrong_schema_is_refused_with_both_types(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(3))
    frame = spark.read.format("lwmq").schema("k string").load(ipc)
    with pytest.raises(Exception, match=r"field k is BIGINT .* STRING in the schema given") as caught:
        frame.collect()
    assert isinstance(lwmq.error_of(caught.value), lwmq.SchemaError)
    fitting = spark.read.format("lwmq").schema("text string, k bigint").load(ipc)
    assert sorted(fitting.collect())[0] == ("row 0", 0)
    producer.finish()


def test_nobody_there_is_a_timeout_that_says_what_was_waited_for(spark: SparkSession, ipc: str) -> None:
    spark.conf.set("spark.lwmq.defaults.timeout", "280s")
    try:
        begin = time.monotonic()
        with pytest.raises(Exception, match="LWMQ_TIMEOUT") as caught:
            read(spark, ipc, timeout="1s")
        waited_s = time.monotonic() - begin
    finally:
        spark.conf.unset("spark.lwmq.defaults.timeout")
    assert isinstance(lwmq.error_of(caught.value), lwmq.TimeoutError)
    said = rf"{ipc}: no writer has come with a schema to .* \(waited (99\d|\d\d\d\d+) ms\)"
    assert re.search(said, str(caught.value)), caught.value
    assert waited_s < 4 * HANG_S, "it has waited as long as by default"


def test_an_address_without_scheme_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the address has no scheme: did you mean") as caught:
        read(spark, "flights")
    assert isinstance(lwmq.error_of(caught.value), lwmq.AddressError)


def test_spark_may_come_before_its_producer(spark: SparkSession, ipc: str) -> None:
    late: list[Producer] = []
    timer = threading.Timer(1.0, lambda: late.append(Producer(ipc, numbers(2000), partitions=2)))
    timer.start()
    assert sums(spark, ipc)[:2] == (2000, sum(range(2000)))
    late[0].finish()


def test_ten_windows_through_eight_partitions_and_two_slots_never_deadlock(
    spark: SparkSession, ipc: str
) -> None:
    table = numbers(200_000)  # 6 MB
    producer = Producer(
        ipc, table, rows=1000, partitions=8, window_bytes=table.nbytes // 10, buffer_bytes="64KiB"
    )
    assert sums(spark, ipc) == (200_000, sum(range(200_000)), sum(range(200_000)) / 2)
    producer.finish()


def test_a_finished_stream_gets_a_task_per_partition(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(8000), partitions=8)
        producer.written.wait(300)
        deadline = time.monotonic() + 300
        while describe(ipc, 60.0).state != "ended" and time.monotonic() < deadline:
            time.sleep(0.02)
        frame = read(spark, ipc)
        assert frame.rdd.getNumPartitions() == 8
        assert frame.count() == 8000
        producer.finish()


def test_an_unfinished_stream_gets_no_more_tasks_than_slots(spark: SparkSession, ipc: str) -> None:
    with kept(ipc), lwmq.open_writer(ipc, numbers(1).schema, partitions=8, linger=0) as writer:
        writer.write(numbers(10))
        frame = read(spark, ipc)
        assert frame.rdd.getNumPartitions() == 2
        limited = frame.limit(3)
        assert len(limited.collect()) == 3
        with contextlib.suppress(lwmq.LwmqError):
            writer.abort("enough")


@pytest.mark.row("P09")
def test_a_limit_on_an_endless_stream_ends_and_leaks_nothing(spark: SparkSession, ipc: str) -> None:
    stop = threading.Event()
    begun = threading.Event()

    def write() -> None:
        table = numbers(100)
        with (
            kept(ipc),
            lwmq.open_writer(
                ipc, table.schema, partitions=2, window_bytes="1MiB", linger=0, retain="none"
            ) as writer,
        ):
            begun.set()
            number = 0
            while not stop.is_set():
                with contextlib.suppress(lwmq.TimeoutError):
                    writer.write(table, partition=number % 2)
                    number += 1
            writer.abort("the test is over")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    begun.wait(300)
    try:
        for _ in range(3):
            assert len(read(spark, ipc).limit(10).collect()) == 10
        assert len(read(spark, ipc).take(5)) == 5
        deadline = time.monotonic() + 300
        while describe(ipc, 60.0).readers_open and time.monotonic() < deadline:
            time.sleep(0.02)
        assert describe(ipc, 60.0).readers_open == 0
    finally:
        stop.set()
        # a last reader makes room, so that the writer sees that it is to stop
        with contextlib.suppress(Exception), lwmq.open_reader(ipc, timeout=5.0) as reader:
            for _ in reader:
                pass
        thread.join(300)
    assert not thread.is_alive()


@pytest.mark.row("P10")
def test_a_small_finished_stream_is_broadcast_in_a_join(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(100))
        producer.written.wait(300)
        deadline = time.monotonic() + 300
        while describe(ipc, 60.0).state != "ended" and time.monotonic() < deadline:
            time.sleep(0.02)
        small = read(spark, ipc)
        joined = spark.range(1_000_000).withColumnRenamed("id", "k").join(small, "k")
        assert "BroadcastHashJoin" in plan(joined)
        assert "Statistics(sizeInBytes=2.9 KiB, rowCount=100)" in cost(spark, small)
        assert small.count() == 100
        producer.finish()


@pytest.mark.row("P12")
def test_tasks_are_placed_on_the_host_that_has_the_window(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(100), partitions=2)
        df = read(spark, ipc)
        rdd = df._jdf.rdd()  # type: ignore[operator]
        places = spark.sparkContext._jsc.sc().getPreferredLocs(rdd, 0).mkString(",")  # type: ignore[union-attr]
        assert describe(ipc, 60.0).endpoint.host in places.split(",")
        assert df.count() == 100
        producer.finish()


# promise: the execution succeeds / then
def test_a_succeeded_execution_acknowledges_what_it_has_read(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(5000), partitions=3)
        assert sums(spark, ipc)[0] == 5000
        producer.finish()
        wait_until_acked(ipc)


# promise: the execution fails / then
def test_a_failed_execution_acknowledges_nothing(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(3000))
        failing = read(spark, ipc).selectExpr("assert_true(k < 2999)")
        with pytest.raises(Exception, match="is not true"):
            failing.collect()
        assert sums(spark, ipc)[:2] == (3000, sum(range(3000)))
        producer.finish()


def test_a_task_may_end_while_another_thread_reads_for_it(spark: SparkSession, ipc: str) -> None:
    """What feeds a process does. It waits for a batch when the process, and with it the task, has ended."""
    with kept(ipc):
        writer = lwmq.open_writer(ipc, numbers(0).schema)
        for _ in range(5):
            piped = read(spark, ipc)._jdf.javaRDD().pipe("sleep 0.1")  # type: ignore[operator]
            assert piped.count() == 0
        end(writer)
    assert spark.range(3).count() == 3


def test_a_task_that_fails_behind_its_last_row_acknowledges_nothing(spark: SparkSession, ipc: str) -> None:
    """With ack=task a task's end counts, not that it has read everything: Spark closes readers before."""

    def read_and_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from list(batches)
        raise ValueError("behind the last row")

    with kept(ipc):
        producer = Producer(ipc, numbers(3000))
        with pytest.raises(Exception, match="behind the last row"):
            read(spark, ipc, ack="task").select("k").mapInArrow(read_and_fail, "k bigint").collect()
        assert sums(spark, ipc, ack="task")[:2] == (3000, sum(range(3000)))
        producer.finish()
        wait_until_acked(ipc)


@pytest.mark.parametrize("ack", ["task", "batch"])
def test_a_producer_that_ends_with_its_acknowledgement_fails_no_task(
    spark: SparkSession, ipc: str, ack: str
) -> None:
    """The endpoint that it kept went before it had answered the task, which was tried again in vain."""
    for number in range(5):
        address = f"{ipc}-{number}"
        producer = Producer(address, numbers(10))
        assert read(spark, address, ack=ack).count() == 10
        producer.finish()


@pytest.mark.parametrize("action", ["rdd", "foreach", "toLocalIterator"])
def test_jobs_outside_of_an_execution_acknowledge_too(spark: SparkSession, ipc: str, action: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(2000), partitions=2)
        frame = read(spark, ipc).select("k")
        if action == "rdd":
            assert frame.rdd.map(lambda row: row.k).sum() == sum(range(2000))
        elif action == "foreach":
            frame.foreach(lambda row: None)
        else:
            assert sum(row.k for row in frame.toLocalIterator()) == sum(range(2000))
        producer.finish()
        wait_until_acked(ipc)


def test_evaluating_a_frame_twice_is_a_data_loss_and_never_less_rows(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(3000))
        frame = read(spark, ipc)
        assert frame.count() == 3000
        producer.finish()
        wait_until_acked(ipc)
        with pytest.raises(Exception, match="LWMQ_DATA_LOSS") as caught:
            frame.count()
        assert isinstance(lwmq.error_of(caught.value), lwmq.DataLossError)


def test_a_new_stream_of_the_same_name_is_not_taken_for_the_old_one(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        old = Producer(ipc, numbers(3000), retain="all")
        old.written.wait(300)
        frame = read(spark, ipc)
        assert frame.count() == 3000
        old.finish()
    with kept(ipc):
        new = Producer(ipc, numbers(3000))
        new.written.wait(300)
        with pytest.raises(Exception, match="LWMQ_DATA_LOSS"):
            frame.count()
        assert read(spark, ipc).count() == 3000
        new.finish()


def test_sorting_reads_twice_and_is_right_or_a_data_loss(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(3000), partitions=2)
        rows = read(spark, ipc).orderBy("half", ascending=False).collect()
        assert [row.k for row in rows] == list(reversed(range(3000)))
        producer.finish()
    producer = Producer(ipc, numbers(3000), partitions=2)  # whose address goes when all was consumed once
    with pytest.raises(Exception, match="LWMQ_DATA_LOSS") as caught:
        read(spark, ipc).orderBy("half").collect()
    assert "reads a stream twice" in str(lwmq.error_of(caught.value))
    producer.finish()


def test_a_stream_that_keeps_everything_can_be_evaluated_again(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(3000), retain="all")
        frame = read(spark, ipc)
        assert [frame.count() for _ in range(3)] == [3000] * 3
        producer.finish()


def test_a_cached_frame_reads_its_stream_once(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(3000))
    frame = read(spark, ipc).cache()
    assert [frame.count(), frame.agg({"k": "sum"}).collect()[0][0]] == [3000, sum(range(3000))]
    producer.finish()
    assert frame.filter("k = 7").count() == 1
    frame.unpersist()


def test_a_self_join_reads_once(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(3000), partitions=2)
        frame = read(spark, ipc)
        left = frame.groupBy("k").count()
        joined = left.join(frame.groupBy("k").count().withColumnRenamed("count", "again"), "k")
        assert len(joined.collect()) == 3000
        assert "ReusedExchange" in plan(joined)
        producer.finish()


# promise: a task fails / then
@pytest.mark.row("P15")
def test_a_task_that_is_tried_again_reads_the_same_batches(spark: SparkSession, ipc: str) -> None:
    def fail_once(batches):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("told to fail")

    with kept(ipc):  # the first attempt consumes everything, which lets the producer end
        producer = Producer(ipc, numbers(4000), partitions=2)
        frame = read(spark, ipc).select("k").mapInArrow(fail_once, "k bigint")
        assert sorted(row.k for row in frame.collect()) == list(range(4000))
        producer.finish()


def test_a_producer_that_gives_up_is_an_error_after_what_was_visible(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        writer = lwmq.open_writer(ipc, numbers(1).schema, linger=0)
        writer.write(numbers(10))
        frame = read(spark, ipc)
        writer.abort("out of paper")
        with pytest.raises(Exception, match="out of paper") as caught:
            frame.collect()
        assert isinstance(lwmq.error_of(caught.value), lwmq.AbortedError)


# promise: a producer is killed / then
@pytest.mark.parametrize("who_serves", ["spark", "producer"])
def test_a_producer_that_is_killed_is_an_error_and_never_less_rows(
    spark: SparkSession, ipc: str, who_serves: str
) -> None:
    code = """
import itertools, sys, time
import pyarrow as pa
import lwmq_spark as lwmq

writer = lwmq.open_writer(sys.argv[1], pa.schema([("k", pa.int64())]), timeout=60.0)
for number in itertools.count():
    writer.write(pa.record_batch({"k": pa.array(range(1000))}))
    print(number, flush=True)
    time.sleep(0.01)
"""
    outcome: list[Any] = []

    def count() -> None:
        try:
            outcome.append(read(spark, ipc).count())
        except Exception as failure:
            outcome.append(lwmq.error_of(failure))

    reader = threading.Thread(target=count)
    if who_serves == "spark":
        reader.start()
        describe(ipc, 60.0, wait_declared=False)
    producer = subprocess.Popen([sys.executable, "-c", code, ipc], stdout=subprocess.PIPE)
    assert producer.stdout is not None
    producer.stdout.readline()
    if who_serves == "producer":
        reader.start()
    deadline = time.monotonic() + 300
    while not describe(ipc, 60.0).readers_open and time.monotonic() < deadline:
        producer.stdout.readline()
    producer.kill()
    producer.communicate(timeout=60)
    reader.join(300)
    assert not reader.is_alive()
    # where the endpoint went, too, the attempts that follow find nobody: what they ask for is lost
    gone = (lwmq.PeerLostError, lwmq.DataLossError)
    assert isinstance(outcome[0], lwmq.PeerLostError if who_serves == "spark" else gone), outcome
    if who_serves == "spark":
        assert f"the producer, process {producer.pid} (python" in str(outcome[0])


@pytest.mark.row("P24")
def test_metadata_columns_are_hidden_unless_selected(spark: SparkSession, ipc: str) -> None:
    before = time.time()
    producer = Producer(ipc, numbers(40), rows=10, partitions=2)
    frame = read(spark, ipc)
    assert frame.columns == ["k", "half", "text"]
    rows = frame.select("k", "_endpoint", "_partition", "_seq", "_timestamp").collect()
    assert {(row.k // 10, row._partition, row._seq) for row in rows} == {
        (0, 0, 0),
        (1, 1, 0),
        (2, 0, 1),
        (3, 1, 1),
    }
    assert {row._endpoint for row in rows} == {ipc}
    assert all(before - 1 < row._timestamp.timestamp() < time.time() + 1 for row in rows)
    producer.finish()


def test_a_field_hides_the_metadata_column_of_its_name(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, pa.table({"_seq": ["mine"], "x": [1]}))
    assert read(spark, ipc).select("_seq").collect() == [("mine",)]
    producer.finish()


@pytest.mark.row("P25")
def test_an_option_wins_over_the_sql_conf_which_wins_over_the_file(spark: SparkSession, ipc: str) -> None:
    spark.conf.set("spark.lwmq.defaults.timeout", "file")
    try:
        with pytest.raises(Exception, match="option timeout: 'file' is"):
            read(spark, ipc)
        with pytest.raises(Exception, match=r"option 'timeout' of .*: 'address' is"):
            read(spark, ipc + "?timeout=address")
        spark.conf.set("spark.datasource.lwmq.timeout", "conf")
        with pytest.raises(Exception, match="option timeout: 'conf' is"):
            read(spark, ipc)
        with pytest.raises(Exception, match="option timeout: 'option' is"):
            read(spark, ipc, timeout="option")
    finally:
        spark.conf.unset("spark.datasource.lwmq.timeout")
        spark.conf.unset("spark.lwmq.defaults.timeout")


def test_offsets_name_a_part_of_the_stream(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(40), rows=10, partitions=2, retain="all")
        producer.written.wait(300)
        pinned = read(spark, ipc, endingOffsets="latest")
        assert pinned.count() == 40
        part = read(spark, ipc, startingOffsets='{"0": 1, "1": 0}', endingOffsets='{"0": 2, "1": 1}')
        assert sorted(row.k for row in part.collect()) == [*range(10, 20), *range(20, 30)]
        with pytest.raises(Exception, match="startingOffsets"):
            read(spark, ipc, startingOffsets="sometimes")
        assert read(spark, ipc).count() == 40
        producer.finish()


def test_a_partition_that_does_not_exist_is_refused_with_those_that_do(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(40), rows=10, partitions=2, retain="all")
        producer.written.wait(20)
        for option, offsets in [
            ("startingOffsets", '{"9": 0}'),
            ("endingOffsets", '{"0": 1, "2": 1}'),
            ("startingOffsets", '{"first": 0}'),
        ]:
            with pytest.raises(Exception, match=rf"option {option} names partition .*which are 0 to 1"):
                read(spark, ipc, **{option: offsets})
        assert read(spark, ipc, startingOffsets='{"1": 0}').count() == 40
        producer.finish()


def test_words_are_taken_in_any_case(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(40), rows=10, partitions=2, retain="all")
        producer.written.wait(20)
        options = {"endingOffsets": "Latest", "trust": "VERIFY", "stall": "FOREVER", "ack": "Query"}
        assert read(spark, ipc, startingOffsets="EARLIEST", timeout="Forever", **options).count() == 40
        assert read(spark, ipc, startingOffsets='{"0": "LATEST", "1": "Earliest"}', **options).count() == 20
        assert read(spark, ipc + "?trust=VERIFY", endingOffsets="END").count() == 40
        producer.finish()


def test_an_option_that_nobody_knows_is_refused_with_the_one_that_is_meant(
    spark: SparkSession, ipc: str
) -> None:
    frame = spark.range(1)
    slips = {"retian": "retain", "buffer_bytes": "bufferBytes", "StartingOffset": "startingOffsets"}
    for slip, meant in slips.items():
        with pytest.raises(Exception, match=f"'{slip.lower()}' is unknown: did you mean {meant}?") as caught:
            read(spark, ipc, **{slip: "all"})
        assert "LWMQ_INVALID" in str(caught.value)
        with pytest.raises(Exception, match=f"did you mean {meant}?"):
            frame.write.format("lwmq").mode("append").option(slip, "all").save(ipc)
    with pytest.raises(Exception, match="'mergeschema' is unknown; known are uri, path, timeout"):
        read(spark, ipc, mergeSchema="true")
    spark.conf.set("spark.lwmq.defaults.retian", "all")
    try:
        with pytest.raises(Exception, match=r"'retian' in the \[spark\] table .* is unknown: did you"):
            read(spark, ipc)
    finally:
        spark.conf.unset("spark.lwmq.defaults.retian")


@pytest.mark.parametrize(
    ("address", "options", "why"),
    [
        ("ipx://flights", {}, r"did you mean 'ipc://flights'\?"),
        ("flights", {}, r"did you mean 'ipc://flights'\?"),
        ("ipc://flights?windw_bytes=4MiB", {}, r"did you mean 'window_bytes'\?"),
        ("ipc://a,ipc://b", {}, "a stream has one"),
        ("ipc:///missing/folder/flights", {}, r"/missing/folder is no directory: create it"),
        ("ipc://flights", {"partitions": "0"}, "option partitions: '0' is out of bounds: 1 to 16384"),
        ("ipc://flights", {"windowBytes": "100TiB"}, "windowBytes: '100TiB' .* no more bytes of memory"),
        ("ipc://flights?readers=0", {}, "option 'readers' of .*: '0' is out of bounds"),
    ],
)
def test_what_cannot_be_is_refused_when_a_write_is_planned(
    spark: SparkSession, address: str, options: dict[str, str], why: str
) -> None:
    writing = spark.range(1).write.format("lwmq").mode("append").options(**options)
    with pytest.raises(Exception, match=why) as caught:
        writing.save(address)
    assert type(lwmq.error_of(caught.value)) in (lwmq.AddressError, lwmq.ArgumentError)
    if not options:
        with pytest.raises(Exception, match=why):
            read(spark, address)


def test_an_option_of_writes_in_the_session_is_nothing_to_a_read(spark: SparkSession, ipc: str) -> None:
    settings = {"bufferBytes": "1MiB", "retain": "until_acked", "columnarWrite": "true"}
    for name, value in settings.items():
        spark.conf.set(f"spark.datasource.lwmq.{name}", value)
    try:
        producer = Producer(ipc, numbers(10))
        assert spark.read.format("lwmq").schema("k long").load(ipc).count() == 10
        producer.finish()
    finally:
        for name in settings:
            spark.conf.unset(f"spark.datasource.lwmq.{name}")


def test_the_path_of_a_call_wins_over_an_address_of_the_session(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        producer = Producer(ipc, numbers(10), retain="all")
        for setting in ("uri", "path"):
            spark.conf.set(f"spark.datasource.lwmq.{setting}", ipc + "-elsewhere")
            try:
                frame = read(spark, ipc, timeout="5s")
                assert spark.read.format("lwmq").option("uri", ipc).load().count() == 10
                spark.range(1).write.format("lwmq").mode("append").save(f"{ipc}-{setting}")
            finally:
                spark.conf.unset(f"spark.datasource.lwmq.{setting}")
            assert frame.count() == 10
            assert read(spark, f"{ipc}-{setting}").count() == 1
        producer.finish()


def test_two_addresses_in_one_call_are_refused_with_both(spark: SparkSession, ipc: str) -> None:
    both = rf"the option uri is '{ipc}-a', and the path is '{ipc}-b'"
    with pytest.raises(Exception, match=both) as caught:
        spark.read.format("lwmq").option("uri", ipc + "-a").load(ipc + "-b")
    assert isinstance(lwmq.error_of(caught.value), lwmq.AddressError)
    with pytest.raises(Exception, match=both):
        spark.range(1).write.format("lwmq").mode("append").option("uri", ipc + "-a").save(ipc + "-b")
    producer = Producer(ipc, numbers(10))
    assert spark.read.format("lwmq").option("uri", ipc).load(ipc).count() == 10
    producer.finish()


def test_the_conf_file_may_have_the_address(spark: SparkSession, ipc: str) -> None:
    spark.conf.set("spark.lwmq.defaults.uri", ipc)
    try:
        producer = Producer(ipc, numbers(10))
        assert spark.read.format("lwmq").load().count() == 10
        producer.finish()
    finally:
        spark.conf.unset("spark.lwmq.defaults.uri")


def test_a_list_of_addresses_is_refused_with_what_to_do(spark: SparkSession, ipc: str) -> None:
    with pytest.raises(Exception, match=r"load\(\) was given the list .*union\(\)") as caught:
        spark.read.format("lwmq").load([ipc + "-a", ipc + "-b"])
    assert isinstance(lwmq.error_of(caught.value), lwmq.AddressError)
    producer = Producer(ipc, numbers(10))
    assert spark.read.format("lwmq").load([ipc]).count() == 10
    producer.finish()


def test_verified_batches_are_private_copies(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(2000))
    assert sums(spark, ipc, trust="verify")[:2] == (2000, sum(range(2000)))
    shown = dict(metrics(spark))
    assert shown["bytes copied while reading"] == shown["bytes read"] != "0.0 B"
    producer.finish()


def test_an_empty_stream_is_an_empty_frame_with_its_schema(spark: SparkSession, ipc: str) -> None:
    producer = Producer(ipc, numbers(0))
    frame = read(spark, ipc)
    assert frame.columns == ["k", "half", "text"]
    assert frame.collect() == []
    producer.finish()


def test_a_cancelled_job_ends_and_gives_its_leases_back(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        writer = lwmq.open_writer(ipc, numbers(1).schema, linger=0)
        writer.write(numbers(10))
        frame = read(spark, ipc)
        outcome: list[BaseException] = []

        def run() -> None:
            try:
                frame.count()
            except BaseException as failure:
                outcome.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 300
        while not describe(ipc, 60.0).readers_open and time.monotonic() < deadline:
            time.sleep(0.02)
        spark.sparkContext.cancelAllJobs()
        thread.join(300)
        assert outcome and "cancelled" in str(outcome[0])
        while describe(ipc, 60.0).readers_open and time.monotonic() < deadline:
            time.sleep(0.02)
        assert describe(ipc, 60.0).readers_open == 0
        writer.abort("over")
