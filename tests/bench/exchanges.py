"""Our exchange beside Spark's sort shuffle: the same queries, in turn, in one session.

    python -m tests.bench.exchanges [--tpch SCALE] [--rows ROWS] [--master MASTER] [--uncompressed]
                                    [--no-adaptive] [--rounds ROUNDS] [--only QUERY ...]

Prints for each query the seconds and the CPU seconds of driver and executors in the best round of each side,
and how often ours is as fast; writes build/bench/exchanges-<time>.json. Spark's local directories are on
tmpfs, so that its files cost it no disk. --uncompressed turns off its compression and lets its executors read
each other's files. Without --tpch AQE and broadcasts are off, and there is a limit: the seconds of the same
query over rows that stay where they are, in as many tasks as its last stage has. The queries are:

    numbers   ROWS rows of a long, a double and an int; `repartition(8, "k")` and sums
    filtered  the same behind a filter and a projection
    many      the same with 200 partitions
    strings   ROWS / 5 rows with three strings; `repartition(8, "k")` and the sums of their lengths
    python    `repartition(2, "k")` and a sum for each key in `mapInArrow`
    columns   the rows of `numbers` from Parquet files, which the map tasks get as column batches

With --tpch the session has its defaults, but for what --no-adaptive turns off, and the queries are the 22 of
TPC-H.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

import lwmq_spark as lwmq
from tests.bench.machine import build, state
from tests.spark import tpch
from tests.spark.exchanges import ENABLED, exchanges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    Make = Callable[[], DataFrame]

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 8
WARM_UP = 14  # rounds: until then HotSpot's compilers take up to half of the processor


def sums_by_key(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def summed(parts: list[pa.RecordBatch]) -> pa.Table:
        found = pa.Table.from_batches(parts).group_by("k").aggregate([("v", "sum")])
        return found.rename_columns(["k", "v"])

    so_far: list[pa.RecordBatch] = []
    for batch in batches:
        so_far += summed([batch.select(["k", "v"])]).to_batches()
        if len(so_far) > 100:
            so_far = summed(so_far).combine_chunks().to_batches()
    yield from summed(so_far).to_batches() if so_far else ()


def queries(spark: SparkSession, folder: Path, rows: int, exchange: bool = True) -> dict[str, Make]:
    """Each ends in sums, so that all columns are read. Without `exchange` no row moves: call that second."""

    def numbers(tasks: int = PARTITIONS) -> DataFrame:
        return spark.range(0, rows, 1, PARTITIONS if exchange else tasks).selectExpr(
            "id % 1000003 as k", "id * 0.5D as v", "cast(id % 1000 as int) as i"
        )

    def moved(frame: DataFrame, partitions: int = PARTITIONS) -> DataFrame:
        return frame.repartition(partitions, "k") if exchange else frame

    strings = spark.range(0, rows // 5, 1, PARTITIONS).selectExpr(
        "id % 1000003 as k", *(f"concat('text {n} ', id % {1000 + n}) as s{n}" for n in range(3))
    )
    sums = ("sum(k)", "sum(v)", "sum(i)")
    if exchange:
        numbers().write.parquet(f"{folder}/numbers")
    columns = spark.read.parquet(f"{folder}/numbers")
    filtered = numbers().where("i < 900").selectExpr("k", "v + 1 as v", "i")
    return {
        "numbers": lambda: moved(numbers()).selectExpr(*sums),
        "filtered": lambda: moved(filtered).selectExpr(*sums),
        "many": lambda: moved(numbers(200), 200).selectExpr(*sums),
        "strings": lambda: moved(strings).selectExpr(*(f"sum(length(s{n}))" for n in range(3))),
        "python": lambda: (
            moved(numbers(2), 2).mapInArrow(sums_by_key, "k long, v double").selectExpr("sum(k)", "sum(v)")
        ),
        "columns": lambda: moved(columns).selectExpr(*sums),
    }


def tpch_queries(spark: SparkSession, folder: Path, scale: float) -> dict[str, Make]:
    tpch.generate(folder, scale)
    for table in tpch.TABLES:
        spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
    return {f"Q{n}": lambda query=query: spark.sql(query) for n, query in tpch.QUERIES.items()}


def cpu_seconds() -> float:
    """Of this process and all below it, so far."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        times = process.cpu_times()
        total += times.user + times.system
    return total


def compare(spark: SparkSession, make: Make, limit: Make | None, rounds: int) -> dict[str, float]:
    """Ours, Spark's and the limit in turn."""
    sides = {"": ("true", make), "spark ": ("false", make)} | ({"limit ": ("true", limit)} if limit else {})
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    cpus: dict[str, list[float]] = {side: [] for side in sides}
    found = {"exchanges": 0, "of them ours": 0}
    for number in range(WARM_UP + rounds):
        for side, (enabled, query) in list(sides.items())[:: 1 if number % 2 == 0 else -1]:
            spark.conf.set(ENABLED, enabled)
            cpu, start = cpu_seconds(), time.perf_counter()
            frame = query()
            frame.collect()
            if number >= WARM_UP:
                seconds[side].append(time.perf_counter() - start)
                cpus[side].append(cpu_seconds() - cpu)
            if not side:
                ours, theirs = exchanges_of(frame)
                found = {"exchanges": ours + theirs, "of them ours": ours}
    best = {f"{side}seconds": min(values) for side, values in seconds.items()}
    best |= {f"{side}cpu": min(values) for side, values in cpus.items()}
    return {
        **best,
        "times as fast": best["spark seconds"] / best["seconds"],
        "times less cpu": best["spark cpu"] / best["cpu"],
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.exchanges")
    parser.add_argument("--rows", type=int, default=25_000_000)
    parser.add_argument("--tpch", type=float, metavar="SCALE")
    parser.add_argument("--master", default="local-cluster[2,1,2048]")
    parser.add_argument("--uncompressed", action="store_true")
    parser.add_argument("--no-adaptive", action="store_true", help="with --tpch: AQE off")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="QUERY", help="of those that are measured, such as Q6")
    options = parser.parse_args()
    build()  # what tells the state of the cores
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
        conf["spark.sql.autoBroadcastJoinThreshold"] = -1
        # Python's batches: with a bound of bytes Spark measures every row.
        conf["spark.sql.execution.arrow.maxBytesPerBatch"] = "2147483647b"
    if options.tpch is None or options.no_adaptive:
        conf["spark.sql.adaptive.enabled"] = False
    if options.uncompressed:
        conf |= {"spark.shuffle.compress": False, "spark.shuffle.readHostLocalDisk": True}
    results: dict[str, dict[str, float]] = {}
    try:
        spark = lwmq.session("exchanges", master=options.master, exchange=True, **conf)
        spark.sparkContext.setLogLevel("ERROR")
        limits: dict[str, Make] = {}
        if options.tpch is None:
            works = queries(spark, folder, options.rows)
            limits = queries(spark, folder, options.rows, exchange=False)
        else:
            works = tpch_queries(spark, folder, options.tpch)
        for name, make in works.items():
            if options.only is None or name in options.only:
                results[name] = compare(spark, make, limits.get(name), options.rounds)
                shown = {key: round(value, 2) for key, value in results[name].items()}
                print(name, shown, flush=True)
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
