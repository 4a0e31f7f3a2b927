"""Our exchange beside Spark's sort shuffle: the same queries, in turn, in one session.

    python -m tests.bench.exchanges [--rows ROWS [--python] | --tpch SCALE] [--master MASTER]
                                    [--rounds ROUNDS] [--only QUERY ...]

Prints for each query the seconds and the CPU seconds of driver and executors of the better half of the
rounds, and how often ours is as fast; writes build/bench/exchanges-<time>.json. Spark's local directories
are on tmpfs, so that its files cost it no disk. Without --tpch AQE and broadcasts are off: `numbers` has
four narrow columns; `mixed` five strings; `filtered` is `numbers` under a filter and a projection, so its
exchange gets rows and not columns. With --tpch the session has its defaults, and the queries are the 22 of
TPC-H. With --python:

    reduce    `repartition(2, k)` and a sum for each key in Python, with our exchange and with Spark's
    barrier   `map_exchanged`, without a JVM between the tasks, beside Spark's `repartition` and `mapInArrow`
    jobs      a job that reads what another one still writes (delivery=live), beside Parquet on tmpfs

and prints how many milliseconds after it was made in the first job a row is in the second one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

import lwmq_spark as lwmq
from tests.bench.machine import state
from tests.spark import tpch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Ways = tuple[Callable[[], object], Callable[[], object]]  # ours and Spark's

ROOT = Path(__file__).resolve().parents[2]
ENABLED = "spark.lwmq.exchange.enabled"
ONE_TASK = {"spark.sql.files.minPartitionNum": 1, "spark.sql.files.maxPartitionBytes": 1 << 40}
PARTITIONS = 8


def write_tables(spark: SparkSession, folder: Path, rows: int) -> None:
    """As Parquet files, whose scan gives columns."""
    numbers = spark.range(0, rows, 1, 8).selectExpr(
        "cast(id % 100000 as int) as k", "id", "id * 0.5D as x", "cast(id % 7 as int) as n"
    )
    strings = [f"concat('{name} ', id % {1000 + i}) as s{i}" for i, name in enumerate("abcde")]
    mixed = spark.range(0, rows // 2, 1, 8).selectExpr("cast(id % 100000 as int) as k", "id", *strings)
    for name, frame in (("numbers", numbers), ("mixed", mixed)):
        frame.write.option("compression", "none").parquet(str(folder / name))


def queries(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """Each ends in sums, so that all columns are read."""
    numbers, mixed = (spark.read.parquet(str(folder / name)) for name in ("numbers", "mixed"))
    filtered = numbers.where("n < 6").selectExpr("k", "id + 1 as id", "x", "n")
    thirds = numbers.where("n % 3 = 0").selectExpr("id", "x as y")
    sums = ("sum(id)", "sum(x)", "sum(n)")
    lengths = [f"sum(length(s{i}))" for i in range(5)]
    return {
        "numbers": numbers.repartition(PARTITIONS, "k").selectExpr(*sums),
        "filtered": filtered.repartition(PARTITIONS, "k").selectExpr(*sums),
        "mixed": mixed.repartition(PARTITIONS, "k").selectExpr("sum(id)", *lengths),
        "join": numbers.join(thirds, "id").selectExpr("sum(x + y)"),
        "group": numbers.groupBy("id").agg({"x": "sum"}).selectExpr("sum(`sum(x)`)"),
    }


def cpu_seconds() -> float:
    """Of this process and all below it, so far."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        times = process.cpu_times()
        total += times.user + times.system
    return total


def once(way: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds."""
    cpu, start = cpu_seconds(), time.perf_counter()
    way()
    return time.perf_counter() - start, cpu_seconds() - cpu


def best_half(values: list[float]) -> float:
    return statistics.mean(sorted(values)[: max(1, len(values) // 2)])


def compare(ways: Ways, rounds: int) -> dict[str, float]:
    """Ours and Spark's in turn, after two rounds to warm up."""
    found: tuple[list[tuple[float, float]], ...] = ([], [])
    for number in range(rounds + 2):
        for way in (0, 1) if number % 2 == 0 else (1, 0):  # whoever is second finds the machine warmer
            figures = once(ways[way])
            if number >= 2:
                found[way].append(figures)
    seconds, spark_seconds = (best_half([one[0] for one in taken]) for taken in found)
    cpu, spark_cpu = (best_half([one[1] for one in taken]) for taken in found)
    return {
        "seconds": seconds,
        "spark seconds": spark_seconds,
        "times as fast": spark_seconds / seconds,
        "cpu": cpu,
        "spark cpu": spark_cpu,
        "times less cpu": spark_cpu / cpu,
    }


def by_both(spark: SparkSession, frame: Callable[[], DataFrame]) -> Ways:
    """The same query with our exchange and with Spark's."""

    def by(enabled: str) -> None:
        spark.conf.set(ENABLED, enabled)
        frame().collect()

    return lambda: by("true"), lambda: by("false")


def sums_by_key(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def summed(parts: list[pa.RecordBatch]) -> pa.Table:
        found = pa.Table.from_batches(parts).group_by("k").aggregate([("x", "sum")])
        return found.rename_columns(["k", "x"])

    so_far: list[pa.RecordBatch] = []
    for batch in batches:
        so_far += summed([batch.select(["k", "x"])]).to_batches()
        if len(so_far) > 100:
            so_far = summed(so_far).combine_chunks().to_batches()
    yield from summed(so_far).to_batches() if so_far else ()


def python_works(spark: SparkSession, folder: Path) -> dict[str, Ways]:
    numbers = spark.read.parquet(str(folder / "numbers"))
    schema, total = "k int, x double", "sum(x)"

    def repartitioned() -> DataFrame:
        return numbers.repartition(2, "k").mapInArrow(sums_by_key, schema).selectExpr(total)

    def in_barrier() -> None:
        lwmq.map_exchanged(numbers.coalesce(2), "k", sums_by_key, schema).selectExpr(total).collect()

    streams = itertools.count()

    def read_while_written() -> None:
        """Each job has one slot. The files make one task: `coalesce` would make rows of columns."""
        for key, value in ONE_TASK.items():
            spark.conf.set(key, value)
        at = f"ipc://bench-jobs-{os.getpid()}-{next(streams)}"
        whole = spark.read.parquet(str(folder / "numbers"))
        write = whole.write.format("lwmq").option("delivery", "live").mode("append")
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(write.save, at)
            spark.read.format("lwmq").load(at).selectExpr("sum(id)", "sum(x)", "sum(n)").collect()
            written.result()

    def by_parquet() -> None:
        """Each job has both slots, one after the other."""
        for key in ONE_TASK:
            spark.conf.unset(key)
        at = str(folder / "between")
        numbers.write.mode("overwrite").option("compression", "none").parquet(at)
        spark.read.parquet(at).selectExpr("sum(id)", "sum(x)", "sum(n)").collect()

    return {
        "reduce": by_both(spark, repartitioned),
        "barrier": (in_barrier, by_both(spark, repartitioned)[1]),
        "jobs": (read_while_written, by_parquet),
    }


def milliseconds_late(spark: SparkSession) -> list[int]:
    """Of rows that one job makes one by one, when another one that runs has them."""

    def slowly(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filling = ["x" * 200_000]  # more than the buffer between Python and Spark
        for _ in range(50):
            time.sleep(0.1)
            yield pa.record_batch({"made": [time.time_ns() // 1_000_000], "filling": filling})

    at = f"ipc://bench-late-{os.getpid()}"
    made = spark.range(0, 1, 1, 1).mapInArrow(slowly, "made long, filling string").select("made")
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(made.write.format("lwmq").option("delivery", "live").mode("append").save, at)
        now = "cast(reflect('java.lang.System', 'currentTimeMillis') as long)"
        rows = spark.read.format("lwmq").load(at).selectExpr(f"{now} - made").collect()
        written.result()
    return [row[0] for row in rows]


def works(spark: SparkSession, folder: Path, options: argparse.Namespace) -> dict[str, Ways]:
    if options.tpch is not None:
        tpch.generate(folder, options.tpch)
        for table in tpch.TABLES:
            spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
        return {
            f"Q{n}": by_both(spark, lambda query=query: spark.sql(query)) for n, query in tpch.QUERIES.items()
        }
    write_tables(spark, folder, options.rows)
    if options.python:
        return python_works(spark, folder)
    return {
        name: by_both(spark, lambda name=name: queries(spark, folder)[name])
        for name in queries(spark, folder)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.exchanges")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tpch", type=float, metavar="SCALE")
    parser.add_argument("--python", action="store_true")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", nargs="+", metavar="QUERY", help="of those that are measured, such as Q6")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "scratch")
    conf = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.memory": "3g",
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": PARTITIONS,
    }
    if options.tpch is None:
        conf |= {"spark.sql.adaptive.enabled": False, "spark.sql.autoBroadcastJoinThreshold": -1}
    results: dict[str, dict[str, float]] = {}
    try:
        spark = lwmq.session("exchanges", master=options.master, exchange=True, **conf)
        spark.sparkContext.setLogLevel("ERROR")
        for name, ways in works(spark, folder, options).items():
            if options.only is not None and name not in options.only:
                continue
            results[name] = compare(ways, options.rounds)
            print(name, {key: round(value, 2) for key, value in results[name].items()}, flush=True)
        if options.python and options.only is None:
            late = milliseconds_late(spark)
            print(f"a row is in the second job after {statistics.median(late)} ms, at most {max(late)}")
        spark.stop()
    finally:
        shutil.rmtree(folder)
    gains = [one["times as fast"] for one in results.values()]
    print(f"geometric mean {math.prod(gains) ** (1 / len(gains)):.2f}, least {min(gains):.2f}")
    report = {**vars(options), "cores": state(), "results": results}
    path = ROOT / "build" / "bench" / f"exchanges-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1))
    print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
