"""What Spark reads twice, and what it stops reading early: the right answer or DataLossError, never less.

The oracle: rows have numbers, and an answer is computed from the numbers alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import lwmq_spark as lwmq
from tests.spark.producers import Producer, drain, kept, plan, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2000
SLOW = os.environ.get("LWMQ_SLOW") == "1"
SEEDS = range(50) if SLOW else range(1)

Query = Callable[["SparkSession", "DataFrame"], "DataFrame"]


def table(rows: int = ROWS) -> pa.Table:
    return pa.table({"k": pa.array(range(rows), pa.int64()), "g": pa.array([k % 7 for k in range(rows)])})


def cte(spark: SparkSession, frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("flights")
    return spark.sql(
        "with f as (select k, g from flights) "
        "select a.k, b.n from f a join (select g, count(*) n from f group by g) b on a.g = b.g"
    )


def bloom(spark: SparkSession, frame: DataFrame) -> DataFrame:
    few = frame.filter("k % 100 = 3").selectExpr("k as few", "g as h")
    return frame.join(few.hint("shuffle_merge"), frame.k == few.few)


def cached(_: SparkSession, frame: DataFrame) -> DataFrame:
    kept = frame.groupBy("k", "g").count().drop("count").persist()
    return kept.alias("a").join(kept.alias("b"), "k").selectExpr("k", "a.g").union(kept)


def pivot(_: SparkSession, frame: DataFrame) -> DataFrame:
    return frame.groupBy("g").pivot("g").count()  # without values: a job of its own finds them


PER_GROUP = {g: len(range(g, ROWS, 7)) for g in range(7)}
# name -> (query, its rows)
QUERIES: dict[str, tuple[Query, list[tuple[Any, ...]]]] = {
    "orderBy": (lambda _, f: f.orderBy("g", "k"), [(k, k % 7) for k in range(ROWS)]),
    "self-join": (
        lambda _, f: f.alias("a").join(f.alias("b"), "k").selectExpr("k", "a.g", "b.g as h"),
        [(k, k % 7, k % 7) for k in range(ROWS)],
    ),
    "CTE": (cte, [(k, PER_GROUP[k % 7]) for k in range(ROWS)]),
    "cartesian": (
        lambda _, f: f.filter("k < 40").crossJoin(f.filter("k < 50").select("g")).selectExpr("count(*)"),
        [(40 * 50,)],
    ),
    "union": (lambda _, f: f.union(f), [(k, k % 7) for k in range(ROWS)] * 2),
    "bloom filter": (bloom, [(k, k % 7, k, k % 7) for k in range(3, ROWS, 100)]),
    "cached plan": (cached, [(k, k % 7) for k in range(ROWS)] * 2),
    "pivot": (pivot, [(g, *(PER_GROUP[g] if c == g else None for c in range(7))) for g in range(7)]),
    "sample": (lambda _, f: f.repartitionByRange(3, "k"), [(k, k % 7) for k in range(ROWS)]),
    "scalar subquery": (
        lambda spark, f: (
            f.createOrReplaceTempView("s"),
            spark.sql("select k from s where k = (select max(k) from s)"),
        )[1],
        [(ROWS - 1,)],
    ),
}
# What these need to be planned as they are called.
SETTINGS = {
    "bloom filter": {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
    "cartesian": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
}


def by_number(rows: list[Any]) -> list[tuple[Any, ...]]:
    """As a multiset: in some order."""
    return sorted((tuple(row) for row in rows), key=repr)


def right_or_lost(spark: SparkSession, name: str, frame: DataFrame) -> str:
    query, expected = QUERIES[name]
    try:
        rows = query(spark, frame).collect()
    except Exception as failure:
        found = lwmq.error_of(failure)
        assert isinstance(found, lwmq.DataLossError), failure
        assert "twice" in str(found) or "retain" in str(found), "the text names a way out"
        return "lost"
    finally:
        spark.catalog.clearCache()
    assert by_number(rows) == by_number(expected)
    return "right"


@pytest.fixture
def settings(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """Sets what a query needs, and takes it back."""
    before: dict[str, str | None] = {}

    def put(values: dict[str, str]) -> None:
        for key, value in values.items():
            before.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield put
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_that_reads_twice_is_right_where_somebody_keeps_the_stream(
    spark: SparkSession, ipc: str, settings: Any, name: str
) -> None:
    """Adaptive execution on, as by default; `retain="all"`."""
    settings(SETTINGS.get(name, {}))
    with kept(ipc):
        producer = Producer(ipc, table(), rows=100, partitions=3, retain="all")
        producer.written.wait(300)
        assert right_or_lost(spark, name, read(spark, ipc)) == "right"
        producer.finish()


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_that_reads_twice_is_right_or_a_data_loss(
    spark: SparkSession, ipc: str, settings: Any, name: str, seed: int
) -> None:
    """With the default retention, live, adaptive or not, the window as large as the stream or far smaller."""
    chance = random.Random(f"{name} {seed}")
    settings({"spark.sql.adaptive.enabled": chance.choice(["true", "false"]), **SETTINGS.get(name, {})})
    options: dict[str, Any] = {"partitions": chance.choice([1, 2, 5])}
    if chance.random() < 0.5:
        options |= {"window_bytes": 8192, "buffer_bytes": 2048}
    if chance.random() < 0.7:
        with kept(ipc):
            producer = Producer(ipc, table(), rows=chance.choice([50, 300]), **options)
            right_or_lost(spark, name, read(spark, ipc))
            drain(ipc, producer)
            producer.finish()
    else:
        producer = Producer(ipc, table(), rows=100, **options)
        right_or_lost(spark, name, read(spark, ipc))
        drain(ipc, producer)
        producer.finish()


@pytest.mark.parametrize("serves", ["kept", "producer"])
@pytest.mark.parametrize("retain", ["all", "until_acked"])
def test_a_stream_joined_with_a_stream_of_ours_is_right_in_each_micro_batch_or_a_data_loss(
    spark: SparkSession, ipc: str, tmp_path: Path, retain: str, serves: str
) -> None:
    """A stream-static join: the static side is read anew by each micro-batch, and means the same batches."""
    with kept(ipc) if serves == "kept" else contextlib.nullcontext():
        producer = Producer(ipc, table(), rows=100, partitions=3, retain=retain)
        producer.written.wait(300)
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        joined = rate.join(read(spark, ipc), rate.value == F.col("k")).select("value", "g")
        name = f"joined_{retain}_{serves}"
        query = joined.writeStream.format("memory").queryName(name)
        running = query.option("checkpointLocation", str(tmp_path)).start()
        deadline = time.monotonic() + 300
        try:
            while (running.lastProgress is None or running.lastProgress["batchId"] < 3) and running.isActive:
                assert time.monotonic() < deadline, "four micro-batches take too long"
                time.sleep(0.05)
        finally:
            running.stop()
        failure = running.exception()
        rows = by_number(spark.table(name).collect())
        assert rows == by_number([(k, k % 7) for k in range(len(rows))]), "wrong, or a part of a micro-batch"
        assert len(rows) % 10 == 0
        if retain == "all" and serves == "kept":
            assert failure is None and len(rows) >= 40
        elif failure is not None:
            assert isinstance(lwmq.error_of(failure), lwmq.DataLossError), failure
        else:
            assert len(rows) >= 40
        drain(ipc, producer)
        producer.finish()


def test_the_plans_are_what_they_are_called(spark: SparkSession, ipc: str, settings: Any) -> None:
    with kept(ipc):
        producer = Producer(ipc, table(), retain="all")
        producer.written.wait(300)
        frame = read(spark, ipc)
        for name, operator in (("bloom filter", "might_contain"), ("cartesian", "CartesianProduct")):
            assert operator not in plan(QUERIES["union"][0](spark, frame))
            settings(SETTINGS[name])
            assert operator in plan(QUERIES[name][0](spark, frame))
        assert frame.count() == ROWS
        producer.finish()


@pytest.mark.parametrize("action", ["limit", "show", "tail", "head", "isEmpty", "takeAsArrow"])
def test_rows_on_the_last_partition_only_are_found(
    spark: SparkSession, ipc: str, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    """Spark looks at one partition first, then at four times as many: each time it reads anew."""
    with kept(ipc):
        writer = lwmq.open_writer(ipc, table().schema, partitions=6, linger=0, retain="all")
        writer.write(table(5), partition=5)
        with contextlib.suppress(lwmq.TimeoutError):
            writer.close()
        frame = read(spark, ipc)
        if action == "limit":
            assert by_number(frame.limit(3).collect()) == [(0, 0), (1, 1), (2, 2)]
        elif action == "show":
            frame.show(2)
            assert "|  0|  0|" in capsys.readouterr().out
        elif action == "tail":
            assert by_number(frame.tail(2)) == [(3, 3), (4, 4)]
        elif action == "head":
            assert frame.head() == (0, 0)
        elif action == "isEmpty":
            assert not frame.isEmpty()
        else:
            assert frame.limit(4).toArrow().num_rows == 4


@pytest.mark.parametrize("action", ["limit", "tail"])
def test_a_limit_over_an_unfinished_stream_takes_what_comes_first(
    spark: SparkSession, ipc: str, action: str
) -> None:
    producer = Producer(ipc, table(), rows=100, partitions=4)
    frame = read(spark, ipc)
    rows = frame.limit(30).collect() if action == "limit" else frame.tail(30)
    assert len(set(rows)) == 30
    drain(ipc, producer)
    producer.finish()
