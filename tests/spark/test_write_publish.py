"""Streams inside mapInArrow: Python workers that write and read record batches themselves."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.spark.streams import Consumer, Gate, fail_first, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_publish_delivers_a_dataframe_and_tells_of_every_task(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id / 2 half")
    rows = frame.mapInArrow(lwmq.publish(ipc, partitions=4), lwmq.PUBLISH_SCHEMA).collect()
    table = consumer.table()
    assert sorted(table["id"].to_pylist()) == list(range(1000))
    assert table.schema.names == ["id", "half"]
    assert sorted((row.partition, row.rows, row.batches, row.won) for row in rows) == [
        (partition, 250, 1, True) for partition in range(4)
    ]
    assert all(row.bytes > 250 * 16 for row in rows)


def test_evaluating_a_published_dataframe_again_delivers_nothing_twice(spark: SparkSession, ipc: str) -> None:
    with Endpoint(ipc, linger=60):
        frame = spark.range(0, 100, 1, 2).mapInArrow(lwmq.publish(ipc, partitions=2), lwmq.PUBLISH_SCHEMA)
        assert {row.won for row in frame.collect()} == {True}
        assert [(row.won, row.rows) for row in frame.collect()] == [(False, 50)] * 2
        assert Consumer(ipc).column("id") == list(range(100))


def test_rows_of_failed_attempts_are_never_published(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 100, 1, 2).mapInArrow(fail_first(2), "id long")
    frame.mapInArrow(lwmq.publish(ipc, partitions=2), lwmq.PUBLISH_SCHEMA).collect()
    assert consumer.column("id") == list(range(100))


def test_an_attempt_whose_input_breaks_off_is_never_published(spark: SparkSession, ipc: str) -> None:
    def break_off(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        first = next(batches).slice(0, 10)
        yield first
        if TaskContext.get().attemptNumber() < 2:
            raise RuntimeError("told to break off")  # the next worker just sees the end of its input
        yield pa.record_batch([pa.array(range(1000, 1010))], schema=first.schema)

    consumer = Consumer(ipc)
    frame = spark.range(0, 100, 1, 1).mapInArrow(break_off, "id long")
    rows = frame.mapInArrow(lwmq.publish(ipc, partitions=1), lwmq.PUBLISH_SCHEMA).collect()
    assert [(row.rows, row.won) for row in rows] == [(20, True)]
    assert consumer.column("id") == [*range(10), *range(1000, 1010)]


def test_an_empty_partition_takes_the_schema_that_another_has_declared(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 100, 1, 2).where("id < 50")
    rows = frame.mapInArrow(lwmq.publish(ipc, partitions=2), lwmq.PUBLISH_SCHEMA).collect()
    assert sorted(row.rows for row in rows) == [0, 50]
    assert consumer.column("id") == list(range(50))


def test_partitions_that_are_all_empty_need_a_schema(spark: SparkSession, ipc: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    consumer = Consumer(ipc)
    frame = spark.range(0, 100, 1, 2).where("id < 0")
    rows = frame.mapInArrow(lwmq.publish(ipc, partitions=2, schema=schema), lwmq.PUBLISH_SCHEMA).collect()
    assert [row.rows for row in rows] == [0, 0]
    assert consumer.table().schema.names == ["id"]


DOOR = """
import sys
import lwmq_spark as lwmq

with lwmq.Endpoint(sys.argv[1], linger=0):
    print("serves", flush=True)
    sys.stdin.read()
"""


def test_a_stream_is_made_behind_an_address_that_another_process_serves(
    spark: SparkSession, ipc: str
) -> None:
    door = subprocess.Popen([sys.executable, "-c", DOOR, ipc], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with door:
        assert door.stdout is not None and door.stdout.readline() == b"serves\n"
        published = lwmq.publish(f"{ipc}?stream=fresh", partitions=2)
        spark.range(0, 100, 1, 2).mapInArrow(published, lwmq.PUBLISH_SCHEMA).collect()
        assert sorted(Consumer(f"{ipc}?stream=fresh").column("id")) == list(range(100))
        assert door.stdin is not None
        door.stdin.close()
    assert door.returncode == 0


def test_a_dataframe_with_more_partitions_than_were_said_is_refused(spark: SparkSession, ipc: str) -> None:
    with Endpoint(ipc, linger=60):
        frame = spark.range(0, 100, 1, 3).mapInArrow(lwmq.publish(ipc, partitions=2), lwmq.PUBLISH_SCHEMA)
        with pytest.raises(Exception, match="give it the number of partitions that the DataFrame has"):
            frame.collect()
        Consumer(ipc).table()


@pytest.mark.row("P28")
def test_a_job_reads_what_another_job_publishes_while_that_one_still_runs(
    spark: SparkSession, ipc: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    with Endpoint(ipc, linger=60):
        published = (
            spark.range(0, 200_000, 1, 1)  # more than the buffers between Spark and its workers hold
            .mapInArrow(gate.hold(0), "id long")
            .mapInArrow(lwmq.publish(ipc, partitions=1, delivery="live"), lwmq.PUBLISH_SCHEMA)
        )
        results: list[Any] = []
        job = threading.Thread(target=lambda: results.extend(published.collect()))
        job.start()

        def open_the_gate(batches: Any) -> Any:
            for batch in batches:
                gate.open()  # only now can the job that publishes end
                yield batch

        read = spark.range(0, 1, 1, 1).mapInArrow(lwmq.subscribe(ipc), "id long")
        seen = read.mapInArrow(open_the_gate, "id long").collect()
        job.join(300)
    assert sorted(row.id for row in seen) == list(range(200_000))
    assert [row.rows for row in results] == [200_000]


@pytest.mark.row("P28")
def test_subscribe_reads_the_partitions_that_its_rows_name(spark: SparkSession, ipc: str) -> None:
    with Endpoint(ipc, linger=60):
        write(spark.range(0, 60, 1, 6), ipc, partitions="3")
        first = spark.range(0, 1, 1, 1).mapInArrow(lwmq.subscribe(ipc), "id long").collect()
        assert sorted(row.id for row in first) == [*range(10), *range(30, 40)]
        rest = spark.range(1, 3, 1, 2).mapInArrow(lwmq.subscribe(ipc), "id long").collect()
        assert sorted(row.id for row in rest) == [*range(10, 30), *range(40, 60)]
