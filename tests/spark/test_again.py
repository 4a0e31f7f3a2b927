"""Streams that are read once more, and several at once: no empty answer, stale rows, or wait for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import StorageLevel

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.patience import HANG_S
from tests.spark.producers import LIMIT_S, Producer, end, kept, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("k", pa.int64())])
ROWS = pa.table({"k": range(100)}, schema=SCHEMA)


def written(address: str, rows: pa.Table = ROWS, **options: object) -> None:
    """A producer that has come, written and gone; somebody else serves the address."""
    writer = lwmq.open_writer(address, rows.schema, role="client", linger=0, **options)
    writer.write(rows)
    end(writer)


def await_consumed(address: str) -> None:
    """Until the endpoint has heard that the query which read everything has succeeded."""
    deadline = time.monotonic() + HANG_S
    while describe(address).state != "consumed":
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def consumed(spark: SparkSession, ipc: str) -> Iterator[str]:
    """The address of a stream that a query has read to its end."""
    with kept(ipc):
        written(ipc)
        assert read(spark, ipc).count() == 100
        await_consumed(ipc)
        yield ipc


# ---- Read again

AGAIN: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "load": lambda spark, address: read(spark, address, timeout="2s"),
    "table": lambda spark, _: spark.table("again"),
    "sql": lambda spark, _: spark.sql("SELECT k FROM again WHERE k >= 0"),
    "starting": lambda spark, address: read(spark, address, timeout="2s", startingOffsets="latest"),
}


@pytest.fixture
def table(spark: SparkSession, consumed: str) -> Iterator[None]:
    spark.sql(f"CREATE TABLE again (k BIGINT) USING lwmq OPTIONS (uri '{consumed}', timeout '2s')")
    yield
    spark.sql("DROP TABLE again")


@pytest.mark.parametrize("way", AGAIN)
def test_a_stream_that_was_read_to_its_end_is_never_an_empty_answer(
    spark: SparkSession, consumed: str, table: None, way: str
) -> None:
    with pytest.raises(Exception, match=r"was read to its end.*retain=.all.*\.cache"):
        AGAIN[way](spark, consumed).collect()


def test_a_read_of_a_consumed_stream_waits_for_the_next_producer(spark: SparkSession, consumed: str) -> None:
    counts: list[int] = []
    waiting = threading.Thread(target=lambda: counts.append(read(spark, consumed, timeout="120s").count()))
    waiting.start()
    waiting.join(1)  # it is waiting, or will find the producer there: both are right
    producer = Producer(consumed, pa.table({"k": range(7)}, schema=SCHEMA), role="client")
    waiting.join(LIMIT_S)
    assert counts == [7]
    producer.finish()


def test_what_has_come_since_may_be_nothing(spark: SparkSession, consumed: str) -> None:
    """A read of what is there now, which ends there: a result that goes on rolling."""
    assert read(spark, consumed, endingOffsets="latest").count() == 0


# ---- Cached

CACHES: dict[str, tuple[Callable[[SparkSession], object], str]] = {
    "table": (lambda spark: spark.sql("CACHE TABLE again"), "SELECT * FROM again"),
    "lazy table": (lambda spark: spark.sql("CACHE LAZY TABLE again"), "SELECT * FROM again"),
    "catalog": (lambda spark: spark.catalog.cacheTable("again"), "SELECT k FROM again"),
    "view": (lambda spark: spark.sql("CACHE TABLE seen"), "SELECT * FROM seen"),
    "query": (
        lambda spark: spark.sql("SELECT k FROM again WHERE k >= 0").cache(),
        "SELECT k FROM again WHERE k >= 0",
    ),
    "frame": (lambda spark: spark.table("again").where("k >= 0").cache(), "SELECT * FROM again WHERE k >= 0"),
    "select": (lambda spark: spark.sql("CACHE TABLE mine AS SELECT k FROM again"), "SELECT * FROM mine"),
}


@pytest.mark.parametrize("way", CACHES)
def test_what_was_cached_is_found_again(spark: SparkSession, ipc: str, way: str) -> None:
    """The stream keeps nothing: a second read would not find the rows."""
    cache, query = CACHES[way]
    with kept(ipc):
        written(ipc)
        spark.sql(f"CREATE TABLE again (k BIGINT) USING lwmq OPTIONS (uri '{ipc}', timeout '5s')")
        spark.sql("CREATE VIEW seen AS SELECT k FROM again")
        try:
            cache(spark)
            for _ in range(3):
                assert sorted(row.k for row in spark.sql(query).collect()) == list(range(100))
        finally:
            spark.catalog.clearCache()
            spark.catalog.dropTempView("mine")
            spark.sql("DROP VIEW seen")
            spark.sql("DROP TABLE again")


@pytest.mark.parametrize(
    "level", [StorageLevel.MEMORY_AND_DISK, StorageLevel.DISK_ONLY], ids=["memory", "disk"]
)
@pytest.mark.parametrize("options", [{}, {"startingOffsets": '{"0": 0}'}], ids=["", "from"])
def test_a_new_frame_does_not_get_the_rows_of_an_older_cached_one(
    spark: SparkSession, ipc: str, options: dict[str, str], level: StorageLevel
) -> None:
    with kept(ipc):
        first = lwmq.open_writer(ipc, SCHEMA, role="client", retain="all", linger=0)
        older = read(spark, ipc, **options).persist(level)
        first.write(ROWS.slice(0, 10))
        end(first)
        assert older.count() == 10
        second = lwmq.open_writer(ipc, SCHEMA, role="client", linger=0)
        second.write(ROWS.slice(10, 5))
        newer = read(spark, ipc, **options)
        end(second)
        assert newer.count() == 15
        assert older.count() == 10
        older.unpersist()


# ---- Offsets that cannot be


@pytest.mark.parametrize(
    ("start", "stop", "told"),
    [
        ('{"0":4,"1":0}', '{"0":2,"1":2}', "partition 0 .*at batch 2, before its start at 4"),
        ('{"0":99,"1":0}', None, "batch 99 of partition 0 .* next one to be written is 4"),
        ('{"0":0,"1":5}', None, "batch 5 of partition 1 .* next one to be written is 4"),
        ("latest", '{"0":2}', "partition 0 .*at batch 2, before its start at 4"),
    ],
)
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "open"])
def test_a_start_behind_the_end_is_an_error_with_both_numbers(
    spark: SparkSession, ipc: str, start: str, stop: str | None, told: str, ended: bool
) -> None:
    with kept(ipc):
        writer = lwmq.open_writer(ipc, SCHEMA, role="client", retain="all", partitions=2, linger=0)
        for number in range(8):
            writer.write(ROWS.slice(number, 1), partition=number % 2)
        if ended:
            end(writer)
        options = {"startingOffsets": start} | ({} if stop is None else {"endingOffsets": stop})
        with pytest.raises(Exception, match=told):
            read(spark, ipc, timeout="20s", **options).collect()
        if not ended:
            writer.abort()


# ---- Several live streams in one query


def two_by_turns(first: str, second: str, partitions: int) -> threading.Thread:
    """One producer, which writes to both streams by turns through windows that hold little of them."""

    def run() -> None:
        options = {"role": "server", "partitions": partitions, "window_bytes": "1MiB", "linger": LIMIT_S}
        with (
            lwmq.open_writer(first, SCHEMA, **options) as one,  # type: ignore[arg-type]
            lwmq.open_writer(second, SCHEMA, **options) as other,  # type: ignore[arg-type]
        ):
            for number in range(40):
                rows = pa.table({"k": range(number * 20_000, (number + 1) * 20_000)}, schema=SCHEMA)
                one.write(rows, partition=number % partitions)
                other.write(rows, partition=number % partitions)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("together", ["join", "union"])
def test_live_streams_of_one_query_share_the_slots(spark: SparkSession, ipc: str, together: str) -> None:
    producer = two_by_turns(f"{ipc}-a", f"{ipc}-b", 2)
    a, b = (read(spark, f"{ipc}-{name}", timeout="60s") for name in "ab")
    if together == "union":
        assert a.union(b).count() == 2 * 800_000
    else:  # a broadcast is over before the other side begins: no slots help there
        assert a.join(b.hint("merge"), "k").count() == 800_000
    producer.join(LIMIT_S)
    assert not producer.is_alive()


def test_more_live_streams_than_slots_are_refused_with_both_numbers(spark: SparkSession, ipc: str) -> None:
    writers = [lwmq.open_writer(f"{ipc}-{n}", SCHEMA, role="server") for n in range(3)]
    frames = [read(spark, f"{ipc}-{n}", timeout="60s") for n in range(3)]
    with pytest.raises(Exception, match=r"reads 3 streams that have not ended, .*has 2 slots.*local\[3\]"):
        frames[0].union(frames[1]).union(frames[2]).count()
    for writer in writers:
        writer.abort()


# ---- A consumer that dies in the middle of a job

CONSUMER = """
import sys, time
import lwmq_spark as lwmq

rows = 0
with lwmq.open_reader(sys.argv[1], role="client", timeout=300) as reader:
    for batch in reader:
        rows += batch.num_rows
        print("first" if rows == batch.num_rows else "", end="", flush=True)
        time.sleep(float(sys.argv[2]))
        if sys.argv[3] == "raise" and rows > 3 * batch.num_rows:
            raise SystemExit("the consumer has failed")
print("end", rows, flush=True)
"""


def consumer(address: str, pause_s: float, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CONSUMER, address, str(pause_s), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# promise: a consumer without a name / task, job, live
@pytest.mark.parametrize(
    ("delivery", "how"), [("live", "kill"), ("task", "kill"), ("job", "kill"), ("live", "raise")]
)
def test_no_consumer_gets_a_normal_end_behind_what_another_one_took(
    spark: SparkSession, ipc: str, delivery: str, how: str
) -> None:
    """The driver serves. Either the job fails, or whoever reads the rest hears that some of it is gone."""
    rows = 2_000_000
    second: list[subprocess.Popen[str]] = []

    def replace_the_first() -> None:
        first = consumer(ipc, 0.05, how)
        assert first.stdout is not None
        assert first.stdout.read(5) == "first"
        if how == "kill":
            time.sleep(0.2)  # somewhere in the middle
            first.kill()
        first.communicate(timeout=LIMIT_S)
        second.append(consumer(ipc, 0, ""))

    replacing = threading.Thread(target=replace_the_first)
    replacing.start()
    options = {"delivery": delivery, "windowBytes": "1MiB", "bufferBytes": "64KiB"}
    failure = ""
    try:
        spark.range(0, rows, 1, 4).write.format("lwmq").mode("append").options(**options).save(ipc)
    except Exception as exc:
        failure = str(exc)
    replacing.join(LIMIT_S)
    said, failed = second[0].communicate(timeout=LIMIT_S)
    assert "end" not in said or int(said.split()[-1]) == rows, (failure, said)
    # The job where it had not committed yet, else the next consumer: with `job` always that.
    assert "which it had read, and nobody else can" in failure + failed
    assert "AbortedError" in failed or "DataLossError" in failed
    assert delivery != "live" or failure
