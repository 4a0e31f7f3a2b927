"""What conf/GUARANTEES.md promises to who writes from Spark, where no other test holds it:
tests/tree/test_promises.py looks for a test of each cell of its tables."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.producers import kept
from tests.spark.streams import LIMIT_S, Consumer, fail_first, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELIVERIES = ["task", "job", "live"]
SMALL = {"bufferBytes": "16KiB", "windowBytes": "1MiB"}


# promise: an attempt fails / live
def test_rows_of_a_failed_attempt_stay_visible_with_delivery_live(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 4000, 1, 2).selectExpr("id", "repeat('x', 100) text")
    write(frame.mapInArrow(fail_first(1), "id long, text string"), ipc, delivery="live", **SMALL)
    times = Counter(consumer.column("id"))
    assert sorted(times) == list(range(4000))
    assert max(times.values()) == 2


# promise: the job fails / live
def test_a_job_that_fails_is_an_error_behind_its_rows_with_delivery_live(
    spark: SparkSession, ipc: str
) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 4000, 1, 2).selectExpr("id", "repeat('x', 100) text")
    with pytest.raises(Exception, match="told to fail"):
        write(frame.mapInArrow(fail_first(99), "id long, text string"), ipc, delivery="live", **SMALL)
    with pytest.raises(lwmq.AbortedError):
        consumer.table()
    assert consumer.rows > 0


# promise: two attempts of a task commit / task, job, live
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_of_two_attempts_that_commit_the_first_counts(ipc: str, delivery: str) -> None:
    schema = pa.schema([("attempt", pa.int64())])
    with kept(ipc):
        consumer = Consumer(ipc, role="client")
        job: dict[str, Any] = {"role": "client", "job": "j", "job_tasks": 2, "delivery": delivery}
        attempts = [lwmq.open_writer(ipc, schema, task=0, attempt=n, linger=0, **job) for n in range(2)]
        for n, attempt in enumerate(attempts):
            attempt.write(pa.record_batch({"attempt": [n] * 10}, schema=schema))
        won = [attempt.commit(LIMIT_S).won for attempt in attempts]
        with lwmq.open_writer(ipc, schema, task=1, linger=0, **job) as last:
            last.commit(LIMIT_S)
        for attempt in attempts:
            attempt.close()
        assert won == [True, False]
        assert consumer.column("attempt") == [0] * 10 + [1] * (10 if delivery == "live" else 0)


def read_some(reader: Iterator[pa.RecordBatch], batches: int) -> list[int]:
    """The column `id` of the next batches; what was read last is not consumed."""
    return [n for batch in itertools.islice(reader, batches) for n in batch["id"].to_pylist()]


# promise: a consumer with a name / task, job, live
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_consumer_with_a_name_is_followed_by_the_next_one(
    spark: SparkSession, ipc: str, delivery: str
) -> None:
    with kept(ipc):
        first = lwmq.open_reader(ipc, role="client", name="trainer", timeout=LIMIT_S)
        write(spark.range(0, 4000, 1, 2), ipc, delivery=delivery, bufferBytes="4KiB")
        seen = read_some(first, 4)
        with contextlib.suppress(ValueError), first:
            raise ValueError("the consumer has failed")
        consumer = Consumer(ipc, role="client", name="trainer")
        rest = consumer.column("id")
    assert len(rest) < 4000  # what the first one was done with does not come again
    assert set(seen) | set(rest) == set(range(4000))


# promise: the same after the commit / task, job, live
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_went_with_a_consumer_after_the_commit_is_told_to_the_next_one(
    spark: SparkSession, ipc: str, delivery: str
) -> None:
    with kept(ipc):
        write(spark.range(0, 4000, 1, 2), ipc, delivery=delivery, bufferBytes="4KiB")
        first = lwmq.open_reader(ipc, role="client", timeout=LIMIT_S)
        with contextlib.suppress(ValueError), first:
            seen = read_some(first, 4)
            raise ValueError("the consumer has failed")
        consumer = Consumer(ipc, role="client")
        with pytest.raises(lwmq.DataLossError, match="which it had read, and nobody else can"):
            consumer.table()
        rest = [n for batch in consumer.batches for n in batch["id"].to_pylist()]
    assert 0 < len(rest) < 4000
    assert {*seen, *rest} == set(range(4000))
