"""What exchanges go through; runs in a driver's process of its own (cluster.py, scenarios.py)."""

from __future__ import annotations

import contextlib
import gc
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import lwmq_spark as lwmq
from tests.spark.tpch import QUERIES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENABLED = "spark.lwmq.exchange.enabled"
CONF = {  # of a driver in which all shuffles are ours
    "spark.master": "local[2,4]",
    "exchange": True,
    "spark.sql.shuffle.partitions": 3,
    "spark.sql.autoBroadcastJoinThreshold": -1,
}


def _plans(frame: DataFrame) -> str:
    """The plan that has run, and under adaptive execution the one before it."""
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def exchanges_of(frame: DataFrame) -> tuple[int, int]:
    """How many exchanges of the plan that has run were ours, and how many Spark's."""
    plan = _plans(frame).partition("== Initial Plan ==")[0]
    return plan.count("LwmqExchange "), plan.replace("LwmqExchange ", "").count(" Exchange ")


def both_ways(spark: SparkSession, make: Callable[[], DataFrame]) -> tuple[list[Any], list[Any]]:
    """The rows of `make()` with our exchanges, which must be in its plan, and with Spark's."""
    spark.conf.set(ENABLED, "true")
    frame = make()
    ours = frame.collect()
    assert "LwmqExchange " in _plans(frame), _plans(frame)
    spark.conf.set(ENABLED, "false")
    try:
        frame = make()
        theirs = frame.collect()
        assert "LwmqExchange " not in _plans(frame), _plans(frame)
    finally:
        spark.conf.set(ENABLED, "true")
    return ours, theirs


def _rows(rows: list[Any]) -> Counter[str]:
    return Counter(repr(row) for row in rows)


def tpch(spark: SparkSession, folder: str, number: int) -> dict[str, Any]:
    """The answer of a query, and how many of its exchanges were ours and Spark's."""
    if number == min(QUERIES):  # the first one; each view costs a job
        for table in TABLES:
            spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
    frame = spark.sql(QUERIES[number])
    rows = [[None if value is None else str(value) for value in row] for row in frame.collect()]
    return {"rows": rows, "exchanges": exchanges_of(frame)}


ODD_NUMBERS = "case k % 7 when 0 then 'NaN' when 1 then '-0.0' when 2 then '0.0' else k / 3 end"
VALUES = {
    "boolean": "k % 3 = 0",
    "tinyint": "cast(k % 128 as tinyint)",
    "smallint": "cast(k as smallint)",
    "int": "cast(k as int)",
    "bigint": "k * 1000000007",
    "float": f"cast({ODD_NUMBERS} as float)",
    "double": f"cast({ODD_NUMBERS} as double)",
    "decimal(9,2)": "cast(k * 0.37 as decimal(9,2))",
    "decimal(38,10)": "cast(-k * 1e12 as decimal(38,10))",
    "string": "case when k % 5 = 0 then '' else concat('text ', k) end",
    "no utf-8": "cast(unhex(concat('ff', lpad(hex(k), 4, '0'))) as string)",
    "binary": "cast(concat('bytes ', k) as binary)",
    "date": "date_add(date '1970-01-01', cast(k as int))",
    "timestamp": "timestamp_micros(k * 1000003)",
    "timestamp_ntz": "cast(timestamp_micros(k * 1000003) as timestamp_ntz)",
    "interval day to second": "make_dt_interval(cast(k as int), 1, 2, 3.5)",
    "interval year to month": "make_ym_interval(cast(k as int), 1)",
    "array": "array(k, null, k + 1)",
    "struct": "named_struct('a', k, 'b', named_struct('a', cast(k as string), 'c', k % 2 = 0))",
    "void": "null",
}


SHOWN = {  # what Python cannot read
    "no utf-8": "hex(cast(v as binary)) as v",
    "interval year to month": "cast(v as string) as v",
}


def each_type(spark: SparkSession) -> list[str]:
    """The types of which rows, or the partitions that they are in, differ from Spark's."""
    wrong = []
    for name, value in VALUES.items():
        shown = SHOWN.get(name, "v")
        rows = (
            spark.range(0, 3000, 1, 3)
            .selectExpr("id as k")
            .selectExpr("k", f"if(k % 11 = 0, null, {value}) as v", "map(k, 'x') as m")
        )

        def make(rows: DataFrame = rows, shown: str = shown) -> DataFrame:
            return rows.repartition(7, "v").selectExpr("spark_partition_id() as p", "k", shown, "m")

        ours, theirs = both_ways(spark, make)
        if _rows(ours) != _rows(theirs):
            wrong.append(name)
    return wrong


def shapes(spark: SparkSession, folder: str) -> dict[str, bool]:
    """Whether queries of many shapes have Spark's answers."""
    base = spark.range(0, 20_000, 1, 5).selectExpr("id", "id % 100 as k", "cast(id as string) as s")
    skewed = base.selectExpr("id", "if(id % 10 = 0, id % 100, 7) as k", "s")
    nulls = base.selectExpr("nullif(k, 3) as k", "id")
    few = base.where("id < 2000").selectExpr("k", "id as j")
    wide = base.where("id < 2000").selectExpr("k", *(f"id + {i} as c{i}" for i in range(1000)))
    huge = spark.range(0, 12, 1, 3).selectExpr("id as k", "repeat(id, 4000000) as s")
    placed = ("spark_partition_id() as p", "*")
    base.write.parquet(folder)
    in_columns = spark.read.parquet(folder)
    odd = "case id % 7 when 0 then null when 1 then '-0.0' when 2 then 'NaN' else string(id % 100) end"
    base.selectExpr(
        "k",
        *(f"cast({odd} as {name}) as {name}_" for name in ("float", "double")),
        *(f"cast(if(id % 5 = 0, null, id % 100) as {name}) as {name}" for name in ("tinyint", "smallint")),
        "cast(id as int) as i",
        "date_add(date '1970-01-01', if(id % 3 = 0, null, cast(id as int))) as d",
        "timestamp_micros(id) as t",
        "cast(timestamp_micros(id) as timestamp_ntz) as n",
        "if(id % 9 = 0, null, id % 2 = 0) as flag",
        "cast(id * 0.37 as decimal(9,2)) as d9",
        "cast(if(id % 4 = 0, null, -k * 1e12) as decimal(38,10)) as d38",
        "if(id % 6 = 0, null, cast(repeat(s, id % 30) as binary)) as b",
        "if(id % 8 = 0, null, repeat(concat('wört ', id), id % 40)) as text",
    ).write.parquet(f"{folder}-flat")
    flat = spark.read.parquet(f"{folder}-flat")
    cached = base.select("id", "k").coalesce(1).persist()
    base.selectExpr("k", "array(id, k) as a").write.parquet(f"{folder}-lists")
    lists = spark.read.parquet(f"{folder}-lists")
    queries: dict[str, Callable[[], DataFrame]] = {
        "one key": lambda: base.selectExpr("1 as one", "*").repartition(8, "one").groupBy("one").count(),
        "one partition": lambda: base.agg({"id": "sum"}),
        "sort": lambda: base.orderBy("s"),
        "sort downwards": lambda: nulls.orderBy("k", "id", ascending=False),
        "ranges": lambda: base.repartitionByRange(6, "k"),
        "limit": lambda: base.repartition(8, "k").orderBy("id").limit(7),
        "distinct": lambda: base.select("k").distinct(),
        "join": lambda: base.join(skewed, "id").groupBy(base.k).count(),
        "self-join": lambda: base.alias("a").join(base.alias("b"), "id").selectExpr("a.k", "b.k", "a.s"),
        "outer join": lambda: base.where("k < 50").join(skewed.where("id % 3 = 0"), "id", "full"),
        "skewed join": lambda: skewed.join(few, "k").groupBy("j").count(),
        "empty": lambda: base.where("id < 0").repartition(8, "k").groupBy("k").count(),
        "few rows": lambda: base.where("id < 3").repartition(16, "id").selectExpr(*placed),
        "2,000 partitions": lambda: base.repartition(2000, "id").selectExpr(*placed),
        "many columns": lambda: wide.repartition(4, "k"),
        "huge rows": lambda: huge.repartition(4, "k").selectExpr("k", "length(s)", "hash(s)"),
        "union": lambda: base.union(skewed).repartition(5, "k").groupBy("k").count(),
        "window": lambda: base.selectExpr("k", "sum(id) over (partition by k order by id) as t"),
        "rebalance": lambda: base.hint("rebalance", "k"),
        "columns": lambda: in_columns.repartition(5, "k").selectExpr(*placed),
        **{
            f"columns by {keys}": lambda keys=keys: flat.repartition(5, *keys.split()).selectExpr(*placed)
            for keys in ("float_ double_", "tinyint smallint", "i d", "t n", "flag d9", "d38", "b", "text k")
        },
        "columns by an expression": lambda: flat.repartition(5, F.expr("k % 7")).selectExpr(*placed),
        "columns with lists": lambda: lists.repartition(5, "k").selectExpr(*placed),
        "columns of a cache": lambda: cached.repartition(50, "k").selectExpr(*placed),
        "columns by ranges": lambda: in_columns.repartitionByRange(5, "s"),
        "overflown sums": lambda: spark.range(0, 20, 1, 8).selectExpr(
            "try_sum(cast(99999999999999999999999999999999999999 as decimal(38,0))) as s", "try_avg(id) as a"
        ),
        "columns to one": lambda: in_columns.coalesce(1).union(in_columns).repartition(1, "k"),
    }
    same = {}
    for name, query in queries.items():
        ours, theirs = both_ways(spark, query)
        same[name] = _rows(ours) == _rows(theirs)
        if name in ("sort", "sort downwards", "limit"):
            same[name] = ours == theirs
    cached.unpersist()
    frame = flat.repartition(5, "k")
    frame.collect()
    same["columns stay columns"] = "ColumnarToRow" not in _plans(frame).partition("LwmqExchange ")[2]
    return same


def adapted(spark: SparkSession) -> dict[str, Any]:
    """What adaptive execution makes of our exchanges: words of the plans, and whether answers are Spark's."""
    skew = "spark.sql.adaptive.skewJoin"
    conf = {
        "spark.sql.shuffle.partitions": 20,
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64KB",
        f"{skew}.skewedPartitionThresholdInBytes": "100KB",
        f"{skew}.skewedPartitionFactor": 2,
    }
    kept = {key: spark.conf.get(key) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    base = spark.range(0, 60_000, 1, 6).selectExpr("id", "id % 100 as k", "repeat(id, 3) as s")
    skewed = base.selectExpr("id as j", "if(id % 50 = 0, id % 100, 7) as k", "s")
    few = spark.range(0, 100).selectExpr("id as k", "id as f")
    both = base.groupBy("k").count()
    queries = {
        "coalesced": lambda: base.repartition("k").groupBy("k").count(),
        "skewed": lambda: skewed.join(few.hint("merge"), "k").selectExpr("count(*)", "sum(f + j)"),
        "skewed on both sides": lambda: (
            skewed.hint("merge")
            .join(skewed.where("j % 20 = 1").selectExpr("k", "j as l"), "k")
            .groupBy("l")
            .count()
        ),
        "reused": lambda: both.alias("a").join(both.alias("b"), "k").selectExpr("a.k", "a.count + b.count"),
        "local": lambda: _local_join(spark),
    }
    found = {}
    for name, query in queries.items():
        ours, theirs = both_ways(spark, query)
        frame = query()
        frame.collect()
        words = ("AQEShuffleRead coalesced", "skewed", "AQEShuffleRead local", "ReusedExchange")
        found[name] = {
            "same": _rows(ours) == _rows(theirs),
            "words": [w for w in words if w in _plans(frame)],
        }
    for key, value in kept.items():
        spark.conf.set(key, str(value))
    return found


def _local_join(spark: SparkSession) -> DataFrame:
    """A join that becomes a broadcast when the size of one side is known."""
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "100KB")
    left = spark.range(0, 50_000, 1, 5).selectExpr("id as k", "repeat(id, 5) as s")
    right = (
        spark.range(0, 50_000, 1, 5).where("id % 5000 = 3").selectExpr("id as k", "id * 2 as d").distinct()
    )
    return left.join(right, "k")


def stages(spark: SparkSession) -> dict[str, bool]:
    """Exchanges in the middle of stages, under tasks that fail, barriers and further jobs."""
    from tests.spark.streams import fail_first

    base = spark.range(0, 30_000, 1, 4).selectExpr("id", "id % 100 as k", "nullif(id % 7, 0) as n")
    spark.conf.set(ENABLED, "true")

    def passed(batches: Any) -> Any:
        yield from batches

    def moved(frame: DataFrame, key: str = "k", partitions: int = 4) -> DataFrame:
        return lwmq.exchange(frame, key, partitions=partitions)

    twice = moved(moved(base).selectExpr("id", "k + 1 as k", "n"), "id")
    barrier = moved(base, partitions=2).mapInArrow(passed, "id long, k long, n long", barrier=True)
    kept = moved(base).persist()
    rdd = moved(base).rdd  # from the cache
    sums = [kept.count(), kept.selectExpr("sum(id)").first()[0], kept.groupBy("k").count().count()]
    kept.unpersist()
    failing = moved(base.selectExpr("id", "k")).mapInArrow(fail_first(1), "id long, k long")
    by_null = moved(base, "n").groupBy("n").count()
    pairs = spark.sparkContext.parallelize([(i % 7, 1) for i in range(1000)], 4)
    combined = pairs.combineByKey(lambda v: [v], lambda c, v: [*c, v], lambda a, b: a + b, 3)
    total = sum(range(30_000))
    again = moved(base)
    rows = [sorted(row.id for row in again.collect()) for _ in range(3)]
    scattered = spark.range(0, 4000, 1, 700).selectExpr("id", "id % 7 as k").repartition(200, "k")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    small = scattered.groupBy("k").count().count()
    spark.conf.unset("spark.sql.adaptive.enabled")
    by_spark = base.repartition(5, "id")
    spark.conf.set(ENABLED, "false")
    by_spark.persist().count()
    spark.conf.set(ENABLED, "true")
    try:
        lwmq.exchange(base, "id", partitions=5)
        refused = "no error"
    except lwmq.LwmqError as error:
        refused = str(error)
    by_spark.unpersist()
    return {
        "rows that Spark's exchange has cached are told": "cached already" in refused,
        "an exchange reads and writes in one stage": twice.selectExpr("sum(id)").first()[0] == total,
        "a barrier stage reads an exchange": barrier.count() == 30_000,
        "the child of a barrier stage is an exchange": moved(barrier).groupBy("k").count().count() == 100,
        "an exchange serves several jobs": sums == [30_000, total, 100],
        "an RDD of an exchange is read twice": (rdd.count(), rdd.map(lambda row: row[0]).sum())
        == (30_000, total),
        "tasks behind an exchange fail and come again": failing.selectExpr("sum(id)").first()[0] == total,
        "a frame is collected again": rows == [list(range(30_000))] * 3,
        "700 tasks write to 200 partitions": small == 7,
        "a null is a key": {row[0] for row in by_null.collect()} == {None, 1, 2, 3, 4, 5, 6},
        "RDDs combine on the map side": sorted(len(v) for _, v in combined.collect()) == [142] + [143] * 6,
        "RDDs group": pairs.groupByKey(3).mapValues(len).values().sum() == 1000,
    }


def counted(spark: SparkSession) -> dict[str, int]:
    """What the stages of an exchange say that they have written and read."""
    frame = spark.range(0, 5000, 1, 4).selectExpr("id as k", "id * 2 as d")
    total = lwmq.exchange(frame, "k", partitions=3).selectExpr("sum(d)")
    row, found = _with_stages(spark, total.first)
    assert row[0] == 5000 * 4999
    return {
        "written": sum(stage.shuffleWriteRecords() for stage in found),
        "read": sum(stage.shuffleReadRecords() for stage in found),
        "bytes written": sum(stage.shuffleWriteBytes() for stage in found),
        "bytes read": sum(stage.shuffleReadBytes() for stage in found),
    }


def cartesian(spark: SparkSession) -> list[int]:
    left = spark.range(0, 300, 1, 3).selectExpr("id as a").repartition(3, "a")
    right = spark.range(0, 200, 1, 2).selectExpr("id as b").repartition(2, "b")
    return [left.crossJoin(right).count(), left.crossJoin(right).where("a = b").count()]


def declined(spark: SparkSession) -> dict[str, Any]:
    """What stays with Spark's shuffle, in the words that users see; and that it works."""
    interval = "make_interval(0, 0, 0, cast(id as int)) as i"
    base = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 10 as k", interval)
    twins = spark.range(10).selectExpr("id as k", "named_struct('a', id, 'a', id) as s")
    texts = {}
    for name, call in {
        "interval": lambda: lwmq.exchange(base, "k", partitions=4),
        "no key": lambda: lwmq.exchange(base, partitions=4),
        "twins": lambda: lwmq.exchange(twins, "k", partitions=4),
        "many": lambda: lwmq.exchange(base.select("k"), "k", partitions=5000),
    }.items():
        try:
            call()
            texts[name] = "no error"
        except lwmq.LwmqError as error:
            texts[name] = str(error)
    spark.conf.set(ENABLED, "false")
    try:
        lwmq.exchange(base.select("k"), "k", partitions=4)
    except lwmq.LwmqError as error:
        texts["off"] = str(error)
    spark.conf.set(ENABLED, "true")
    pairs = spark.sparkContext.parallelize([(i % 7, 1) for i in range(1000)], 4)
    by_key = dict(pairs.reduceByKey(lambda a, b: a + b, 3).collect())
    round_robin = base.select("id").repartition(5).count()
    reasons = _reasons(spark)
    intervals = base.groupBy("k").agg({"i": "first"}).count()
    return {
        "texts": texts,
        "reasons": reasons,
        "rdd": sum(by_key.values()),
        "round robin": round_robin,
        "intervals": intervals,
    }


def _reasons(spark: SparkSession) -> list[str]:
    """What the SQL tab shows of exchanges of the last query that are not ours."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    jvm_session: Any = spark._jsparkSession
    query = jvm_session.sharedState().statusStore().executionsList().last()
    names = [query.metrics().apply(i).name() for i in range(query.metrics().size())]
    return [name for name in names if name.startswith("stays with Spark's shuffle: ")]


def _with_stages(spark: SparkSession, run: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What `run` returns, and what Spark's UI knows about each stage that ran for it."""
    context = spark.sparkContext
    group = f"{time.monotonic_ns()}"
    context.setJobGroup(group, "of which the stages are asked for")
    returned = run()
    context._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    store = spark._jsparkSession.sparkContext().statusStore()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = []
    for number in {stage for job in jobs if job is not None for stage in job.stageIds}:
        with contextlib.suppress(Exception):  # a stage that was skipped is not kept for long
            stages.append(store.lastStageAttempt(number))
    return returned, stages


# ---- Memory --------------------------------------------------------------------------------------------


def _used_bytes(spark: SparkSession) -> int:
    """Of the driver's process, which has the only executor in local mode."""
    return int(spark._jvm.org.lwmq.spark.shuffle.LwmqShuffleManager.usedBytes())  # type: ignore[union-attr]


def _collected(spark: SparkSession) -> int:
    """The bytes that are used once the shuffles whose plans are gone have ended."""
    gc.collect()
    deadline = time.monotonic() + 120
    while True:
        spark._jvm.System.gc()  # type: ignore[union-attr]
        used = _used_bytes(spark)
        if used == 0 or time.monotonic() > deadline:
            return used
        time.sleep(0.2)


def _our_threads(spark: SparkSession) -> list[str]:
    names = [thread.getName() for thread in spark._jvm.Thread.getAllStackTraces()]  # type: ignore[union-attr]
    return sorted(name for name in names if name.startswith("lwmq"))


def repeated(spark: SparkSession, times: int) -> dict[str, Any]:
    """Many shuffles, one after another: what the process has after the first ten, and after all of them."""

    def once() -> int:
        frame = spark.range(0, 50_000, 1, 4).selectExpr("id % 1000 as k", "id", "repeat('x', 20) as s")
        return frame.repartition(4, "k").groupBy("k").count().count()

    process = Path(f"/proc/{spark._jvm.ProcessHandle.current().pid()}")  # type: ignore[union-attr]

    def state() -> dict[str, Any]:
        used = _collected(spark)
        ours = [line for line in (process / "maps").read_text().splitlines() if "lwmq" in line]
        descriptors = len(list((process / "fd").iterdir()))
        made = spark._jvm.org.lwmq.core.Memory.statistics()["window_bytes_made"]  # type: ignore[union-attr]
        return {
            "used": used,
            "threads": _our_threads(spark),
            "descriptors": descriptors,
            "mapped": len(ours),
            "made": made,
        }

    states = []
    for count in (10, times - 10):
        for _ in range(count):
            assert once() == 1000
        states.append(state())
    found = {name: [one[name] for one in states] for name in states[0]}
    return {**found, "used": max(found["used"])}


def spilled(spark: SparkSession) -> dict[str, Any]:
    """A shuffle of 20 MB, the memory that it takes, and what its stages say they have spilled."""
    frame = spark.range(0, 100_000, 1, 4).selectExpr("id % 1000 as k", "id", "repeat(id, 40) as s")

    def grouped() -> DataFrame:
        return frame.repartition(4, "k").groupBy("k").agg({"id": "sum", "s": "max"}).orderBy("k")

    (ours, theirs), stages = _with_stages(spark, lambda: both_ways(spark, grouped))
    bytes_spilled = sum(stage.diskBytesSpilled() for stage in stages)
    return {"same": ours == theirs, "spilled": bytes_spilled, "used": _collected(spark)}


def gauges(spark: SparkSession) -> dict[str, int]:
    """What the driver shows to Prometheus of each executor, after an exchange whose outputs stay."""
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id", "id * 2 as twice")
    kept = lwmq.exchange(rows, "id", partitions=4).rdd  # shuffles end with their query; this has none
    assert kept.count() == 20_000
    base = spark.sparkContext.uiWebUrl
    deadline = time.monotonic() + 120
    while True:
        page = urllib.request.urlopen(f"{base}/metrics/prometheus/", timeout=60).read().decode()
        lines = [line.split() for line in page.splitlines() if "exchange_used_bytes" in line]
        figures = {name.partition("{")[0]: int(float(value)) for name, value in lines}
        if len(figures) == 4 and max(figures.values()) > 0:  # two of each executor, one of which may be idle
            return figures
        assert time.monotonic() < deadline, page
        time.sleep(0.5)


# ---- Executors that die --------------------------------------------------------------------------------


def _sum(frame: DataFrame) -> list[int]:
    row = frame.selectExpr("count(*)", "sum(k)", "sum(hash(pad))").first()
    assert row is not None
    return [int(value) for value in row]


def killed_around_an_exchange(
    spark: SparkSession, folder: str, when: str, partition: int, after_batches: int
) -> list[list[int]]:
    """[count, sum, hashes] of rows behind an exchange that loses an executor; and of the rows before it."""
    from tests.spark.scenarios import arm, is_armed, kill_executor, numbered

    def moved(frame: DataFrame) -> DataFrame:
        return lwmq.exchange(frame, "k", partitions=4)

    schema = "k bigint, pad string"
    rows = numbered(spark, 40_000, 4)
    kill = kill_executor(folder, partition, after_batches)
    if when == "map":
        arm(folder)
        got = _sum(moved(rows.mapInArrow(kill, schema)))
    elif when == "fetch":
        arm(folder)
        got = _sum(moved(rows).mapInArrow(kill, schema))
    else:
        raise ValueError(when)
    assert not is_armed(folder), "nobody was killed"
    return [got, _sum(rows)]


def executors_of_exchange(spark: SparkSession) -> dict[str, Any]:
    """An exchange between two executors: its rows, and the bytes that its stage has fetched from afar."""
    frame = spark.range(0, 100_000, 1, 4).selectExpr("id as k", "repeat(id, 10) as pad")
    total, stages = _with_stages(spark, lambda: _sum(lwmq.exchange(frame, "k", partitions=4)))
    far = sum(stage.shuffleRemoteBytesRead() for stage in stages)
    return {"total": total, "expected": _sum(frame), "far": far}


def outlived(spark: SparkSession, how: str) -> dict[str, Any]:
    """Sums of an exchange before an executor that has its map outputs leaves in order, and behind that."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc.sc()
    frame = spark.range(0, 40_000, 1, 4).selectExpr("id as k", "repeat(id, 5) as pad")
    rows = lwmq.exchange(frame, "k", partitions=4).rdd

    def executors() -> set[str]:
        return set(filter(None, context.getExecutorIds().mkString(",").split(",")))

    def total() -> int:
        return int(rows.map(lambda row: row.k).sum())

    first, before = total(), executors()
    if how == "decommissioned":
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("told to", jvm.scala.Option.empty())
        assert context.schedulerBackend().decommissionExecutor(min(before), info, False, False)
    deadline = time.monotonic() + 120
    while before <= executors():
        assert time.monotonic() < deadline, f"nobody left of {before}"
        time.sleep(0.1)
    return {"before": first, "behind": total(), "expected": sum(range(40_000)), "executors": len(before)}
