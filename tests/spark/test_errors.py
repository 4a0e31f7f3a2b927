"""What a PySpark user sees where something is wrong: one line, that of our error, and no Java."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException

import lwmq_spark as lwmq
from tests.patience import HANG_S, until
from tests.spark.producers import Producer, end, kept, numbers, read
from tests.spark.streams import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def said_in_one_line(failing: Callable[[], Any], kind: type[lwmq.LwmqError], text: str) -> str:
    """The text of what `failing` raises: an exception of PySpark's own, and `error_of` gives ours."""
    with pytest.raises(SparkRuntimeException) as caught:
        failing()
    shown = str(caught.value)
    assert re.fullmatch(rf"LWMQ_[A-Z_]+: .*{text}.* SQLSTATE: P0001", shown), shown
    ours = lwmq.error_of(caught.value)
    assert type(ours) is kind
    assert f": {ours} SQLSTATE" in shown
    return str(ours)


Refused = tuple[str, dict[str, str], type[lwmq.LwmqError], str]
READS: dict[str, Refused] = {
    "nobody": (
        "",
        {"timeout": "100ms"},
        lwmq.TimeoutError,
        r"no writer has come with a schema to the endpoint in this process \(waited \d+ ms\)",
    ),
    "no scheme": ("flights", {}, lwmq.AddressError, "the address has no scheme: did you mean 'ipc://flights'"),
    "no such scheme": ("pigeon://flights", {}, lwmq.AddressError, "pigeon"),
    "option": ("", {"timeuot": "1s"}, lwmq.ArgumentError, "'timeuot' is unknown: did you mean timeout"),
    "value": ("", {"timeout": "soon"}, lwmq.ArgumentError, "option timeout: 'soon' is not a duration"),
    "two": ("", {"uri": "ipc://other"}, lwmq.AddressError, "two addresses in one call"),
}


@pytest.mark.parametrize("case", READS)
def test_a_load_that_cannot_work_says_why_in_one_line(spark: SparkSession, ipc: str, case: str) -> None:
    address, options, kind, text = READS[case]
    said_in_one_line(lambda: read(spark, address or ipc, **options), kind, text)


def test_a_schema_that_is_not_the_streams_is_told_in_one_line(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        Producer(ipc, numbers(3)).written.wait()
        other = spark.read.format("lwmq").schema("k string")
        said_in_one_line(lambda: other.load(ipc).collect(), lwmq.SchemaError, "field k is BIGINT")
        said_in_one_line(lambda: other.load(ipc).explain(), lwmq.SchemaError, "field k is BIGINT")
        frame = spark.sql("SELECT 'x' AS k")
        said_in_one_line(
            lambda: write(frame, ipc), lwmq.SchemaError, "this DataFrame does not fit the stream"
        )
        read(spark, ipc).count()


def test_a_save_that_cannot_work_says_why_in_one_line(spark: SparkSession, ipc: str) -> None:
    frame = spark.range(3)
    over = frame.write.format("lwmq").mode("overwrite")
    said_in_one_line(lambda: over.save(ipc), lwmq.LwmqError, "cannot be overwritten")
    said_in_one_line(lambda: write(frame, ipc, retain="some"), lwmq.ArgumentError, "retain: 'some' is none")
    twice = spark.sql("SELECT 1 AS a, 2 AS a")
    said_in_one_line(lambda: write(twice, ipc), lwmq.SchemaError, "two fields are named a")


def test_sql_says_in_one_line_what_is_wrong_with_a_table(spark: SparkSession, ipc: str) -> None:
    create = f"CREATE TABLE refused (k BIGINT) USING lwmq OPTIONS (uri '{ipc}', timeuot '1s')"
    said_in_one_line(lambda: spark.sql(create), lwmq.ArgumentError, "'timeuot'")


def test_what_is_not_there_says_what_is_in_one_line(spark: SparkSession, ipc: str, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    sink = rate.writeStream.format("lwmq").option("checkpointLocation", str(tmp_path))
    said_in_one_line(lambda: sink.start(ipc), lwmq.LwmqError, "no streaming sink: .*foreachBatch")
    source = spark.readStream.format("lwmq")
    said_in_one_line(lambda: source.load(ipc), lwmq.LwmqError, "no streaming source: .*endingOffsets=latest")
    parted = spark.range(3).write.format("lwmq").mode("append").partitionBy("id")
    said_in_one_line(lambda: parted.save(ipc), lwmq.LwmqError, "partitionBy.* as its option partitions says")
    spark.sql(f"CREATE TABLE altered (k BIGINT) USING lwmq OPTIONS (uri '{ipc}')")
    try:
        for change in ("ADD COLUMNS (x INT)", "RENAME COLUMN k TO x", "DROP COLUMN k"):
            alter = partial(spark.sql, f"ALTER TABLE altered {change}")
            said_in_one_line(alter, lwmq.LwmqError, "columns of lwmq .* are those of its stream.* DROP TABLE")
        spark.sql("ALTER TABLE altered SET TBLPROPERTIES ('of' = 'no concern to us')")
    finally:
        spark.sql("DROP TABLE altered")


def test_words_of_offsets_say_which_one_may_be_meant(spark: SparkSession, ipc: str) -> None:
    with kept(ipc):
        Producer(ipc, numbers(3)).written.wait()
        for option in ("startingOffsets", "endingOffsets"):
            slip = partial(read, spark, ipc, **{option: "erliest"})
            said_in_one_line(slip, lwmq.ArgumentError, f"{option} has 'erliest' .*: did you mean earliest")
        assert read(spark, ipc).count() == 3


def test_a_write_that_nobody_reads_ends_after_its_time_out(spark: SparkSession, ipc: str) -> None:
    options = {"bufferBytes": "16KiB", "windowBytes": "64KiB", "delivery": "live", "timeout": "500ms"}
    text = r"task 0 of a write to .*: the window of \d+ bytes is full: .* no reader is there: start one.*"
    text += r"\(waited \d+ ms\). The option timeout bounds this wait"
    with kept(ipc):
        one_task = spark.range(0, 100_000, 1, 1)
        said_in_one_line(lambda: write(one_task, ipc, **options), lwmq.TimeoutError, text)


@pytest.mark.parametrize("what", ["read", "write"])
def test_cancelled_jobs_end_in_one_line(spark: SparkSession, ipc: str, what: str) -> None:
    options = {"bufferBytes": "16KiB", "windowBytes": "64KiB", "delivery": "live"}
    with kept(ipc), lwmq.open_writer(ipc, pa.schema([("id", pa.int64())]), linger=0) as writer:
        writer.write(pa.record_batch({"id": [1]}))
        waiting: dict[str, Callable[[], Any]] = {
            "read": lambda: read(spark, ipc).count(),
            "write": lambda: write(spark.range(0, 100_000, 1, 1), ipc, **options),
        }
        tracker = spark.sparkContext.statusTracker()
        cancelling = threading.Thread(
            target=lambda: (until(lambda: tracker.getActiveJobsIds()), spark.sparkContext.cancelAllJobs())
        )
        cancelling.start()
        with pytest.raises(SparkRuntimeException) as caught:
            waiting[what]()
        cancelling.join(HANG_S)
        line = r"\[SPARK_JOB_CANCELLED\] Job \d+ cancelled as part of cancellation of all jobs SQLSTATE: \w+"
        assert re.fullmatch(line, str(caught.value))
        end(writer)


@pytest.mark.parametrize("broadcast", [False, True], ids=["scan", "broadcast"])
def test_what_a_task_finds_wrong_with_a_batch_is_told_in_one_line(
    spark: SparkSession, ipc: str, broadcast: bool
) -> None:
    with kept(ipc), lwmq.open_writer(ipc, pa.schema([("d", pa.date64())]), linger=0) as writer:
        day_and_a_bit = pa.py_buffer((86_400_001).to_bytes(8, "little"))
        array = pa.Array.from_buffers(pa.date64(), 1, [None, day_and_a_bit])
        writer.write(pa.record_batch([array], ["d"]))
        end(writer)
        frame = read(spark, ipc)
        if broadcast:
            frame = spark.range(3).crossJoin(frame.hint("broadcast"))
        said_in_one_line(frame.collect, lwmq.SchemaError, "field d: 86400001 ms is no whole number of days")


def test_what_a_writing_task_cannot_send_is_told_in_one_line(spark: SparkSession, ipc: str) -> None:
    frame = spark.sql("SELECT CAST(x'ff' AS STRING) AS word")
    text = "the string in word of row 0 of its task is not UTF-8"
    said_in_one_line(lambda: write(frame, ipc), lwmq.ArgumentError, text)
