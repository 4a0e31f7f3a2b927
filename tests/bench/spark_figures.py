"""Spark reads and writes: ours beside Parquet on /dev/shm, the `noop` sink and the driver, in one session.

    python -m tests.bench.spark_figures ROWS

prints one JSON object: per figure, the floor first, ours, rivals. Reading is held against numpy summing the
same bytes in two threads; writing against Spark's `noop` sink, which takes the rows of the same plan and
drops them. The best of several runs is taken: the first ones are the JIT compiler's. What goes through
Spark's Python workers is tuned as they allow: `maxBytesPerBatch` and `maxRecordsPerBatch` below.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

import lwmq_spark as lwmq
from tests.bench import spark_rivals
from tests.bench.machine import free_port
from tests.bench.spark_tables import BATCH_ROWS, Helper, items, numbers

SCAN_SUMS = ["sum(k)", "sum(v)", "sum(i)"]
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.maxResultSize": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647b",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.parquet.columnarReaderBatchSize": "65536",
}
Seconds = dict[str, float]


def best(repeats: int, run: Callable[[], float | None]) -> float:
    """The least seconds of some runs; a run may time itself and answer the seconds."""
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        own = run()
        taken.append(own if own is not None else time.perf_counter() - begun)
    return min(taken)


def numpy_floor(size: int) -> float:
    words = np.ones(size // 8, dtype=np.int64)
    halves = np.array_split(words, 2)
    with ThreadPoolExecutor(2) as pool:
        return best(5, lambda: [*pool.map(np.add.reduce, halves)] and None)


def sum_of_k(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"k": [sum(pc.sum(batch["k"]).as_py() or 0 for batch in batches)]})


class Figures:
    """The measurements of one session."""

    def __init__(self, rows: int, stack: ExitStack) -> None:
        self.rows = rows
        self.item_rows = rows // 10
        self.quarter_rows = -(-rows // BATCH_ROWS) // 4 * BATCH_ROWS
        self.address = f"ipc://lwmq-bench-{os.getpid()}"
        os.environ["LWMQ_WIRE"] = "1"  # what is at a network address goes through the network
        self.spark = lwmq.session("lwmq bench", master="local[2]", **SETTINGS)
        stack.callback(self.spark.stop)
        self.spark.sparkContext.setLogLevel("ERROR")
        self.folder = tempfile.mkdtemp(prefix="lwmq-bench-", dir="/dev/shm")
        stack.callback(shutil.rmtree, self.folder)
        self.numbers = Helper("serve", "numbers", rows)
        stack.callback(self.numbers.end)
        self.items = Helper("serve", "items", self.item_rows)
        stack.callback(self.items.end)
        self.consumer = Helper("consume", "k")
        stack.callback(self.consumer.end)
        self.rival = Helper("consume", "k", module="spark_rivals")
        stack.callback(self.rival.end)
        self.spark.dataSource.register(spark_rivals.BenchSource)

    def stream(self, helper: Helper, how: str, name: str, share: int = 1) -> DataFrame:
        return self.stream_at(f"{self.address}-{name}", helper, how, share)

    def stream_at(self, address: str, helper: Helper, how: str, share: int = 1) -> DataFrame:
        helper.tell(f"{how} {address} {share}")
        assert helper.answer() == "written"
        return self.spark.read.format("lwmq").load(address)

    def sum(self, df: DataFrame) -> float:
        begun = time.perf_counter()
        assert df.selectExpr(*SCAN_SUMS).first()[0] == self.rows * (self.rows - 1) // 2
        return time.perf_counter() - begun

    def python_source(self, how: str, place: str = "") -> float:
        """A Python data source: over files that are mapped, or over Flight at `place` (a socket file)."""
        where = place or str(Path(self.folder, how))
        if how == "files":
            Path(where).mkdir()
        self.numbers.tell(f"{how} {where} 1")
        assert self.numbers.answer() == "written"
        options = {"folder": where} if how == "files" else {"flight": where, "tasks": "2"}
        taken = best(2, lambda: self.sum(self.spark.read.format("lwmq_bench").options(**options).load()))
        if how == "files":
            shutil.rmtree(where)
        return taken

    def write(self, df: DataFrame, rows: int) -> None:
        """To a process that reads meanwhile; done when that has seen the last batch."""
        address = f"{self.address}-out"
        self.consumer.tell(address)
        df.write.format("lwmq").mode("append").save(address)
        assert self.consumer.answer() == f"{rows} {rows * (rows - 1) // 2}"

    def send(self, df: DataFrame, rows: int, rival: str) -> None:
        """By mapInArrow to a process that reads meanwhile."""
        path = f"{self.folder}/{rival}"
        self.rival.tell(f"{rival} {path} {df.rdd.getNumPartitions()}")
        assert self.rival.answer() == "ready"
        send = {"flight": spark_rivals.to_flight, "zmq": spark_rivals.to_zmq}[rival](path)
        df.mapInArrow(send, spark_rivals.SENT_SCHEMA).collect()
        assert self.rival.answer() == f"{rows} {rows * (rows - 1) // 2}"

    def send_parquet(self, df: DataFrame, rows: int) -> None:
        folder = f"{self.folder}/sent"
        df.write.mode("overwrite").option("compression", "none").parquet(folder)
        self.rival.tell(f"parquet {folder}")
        assert self.rival.answer() == f"{rows} {rows * (rows - 1) // 2}"

    def drop(self, df: DataFrame) -> float:
        return best(8, lambda: df.write.format("noop").mode("overwrite").save())

    def to_a_process(self) -> Seconds:
        """A DataFrame of rows into a Python process that sums a column."""
        rows = self.quarter_rows
        df = self.stream(self.numbers, "keep", "quarter", share=4).where("k >= 0")
        return {
            "floor: noop sink": self.drop(df),
            "lwmq": best(10, lambda: self.write(df, rows)),
            "Flight": best(3, lambda: self.send(df, rows, "flight")),
            "pyzmq": best(3, lambda: self.send(df, rows, "zmq")),
            "parquet": best(2, lambda: self.send_parquet(df, rows)),
            "toArrow, in the driver": best(2, lambda: pc.sum(df.toArrow()["k"]) and None),
        }

    def exchange(self) -> Seconds:
        """Rows to the Python tasks that own their keys, each of which sums a column."""
        rows = self.quarter_rows
        df = self.stream(self.numbers, "keep", "exchange", share=4)

        def add(sums: DataFrame) -> None:
            assert sum(row.k for row in sums.collect()) == rows * (rows - 1) // 2

        return {
            "floor: mapInArrow, no exchange": best(3, lambda: add(df.mapInArrow(sum_of_k, "k long"))),
            "lwmq": best(3, lambda: add(lwmq.map_exchanged(df, "k", sum_of_k, "k long"))),
            "repartition": best(3, lambda: add(df.repartition(2, "k").mapInArrow(sum_of_k, "k long"))),
        }

    def parquet_write(self, df: DataFrame, codec: str, name: str) -> float:
        writer = df.write.mode("overwrite").option("compression", codec)
        return best(1, lambda: writer.parquet(f"{self.folder}/{name}-{codec}"))

    def parquet_sum(self, name: str, codec: str) -> float:
        return best(3, lambda: self.sum(self.spark.read.parquet(f"{self.folder}/{name}-{codec}")))

    def all(self) -> dict[str, tuple[int, int, Seconds]]:
        """Figure -> (rows, bytes of a row, seconds of each way)."""
        once = iter(range(100))
        kept = self.stream(self.numbers, "keep", "numbers")
        items_kept = self.stream(self.items, "keep", "items")
        by_rows, items_by_rows = kept.where("k >= 0"), items_kept.where("k >= 0")
        item_bytes = items(0, 10_000).nbytes // 10_000
        scan = {
            "floor: numpy, two threads": numpy_floor(self.rows * 20),
            "lwmq": best(25, lambda: self.sum(kept)),
            "lwmq, read once": best(
                4, lambda: self.sum(self.stream(self.numbers, "once", f"once-{next(once)}"))
            ),
        }
        rows = {
            "floor: noop sink": self.drop(by_rows),
            "lwmq": best(10, lambda: self.write(by_rows, self.rows)),
            "parquet": self.parquet_write(by_rows, "none", "numbers"),
            "parquet snappy": self.parquet_write(by_rows, "snappy", "numbers"),
            # A tenth, or the driver's heap bursts.
            "toArrow": 10 * best(1, lambda: kept.where(f"k < {self.rows // 10}").toArrow() and None),
            "Python Arrow writer that drops": best(
                2, lambda: by_rows.write.format("lwmq_bench").mode("append").save()
            ),
        }
        scan |= {
            "parquet": self.parquet_sum("numbers", "none"),
            "parquet snappy": self.parquet_sum("numbers", "snappy"),
            "Python source, mapped files": self.python_source("files"),
            "Python source, Flight": self.python_source("flight"),
        }
        over_tcp = self.stream_at(f"tcp://127.0.0.1:{free_port()}/numbers", self.numbers, "keep")
        return {
            "scan": (self.rows, 20, scan),
            "scan over TCP": (self.rows, 20, {
                "lwmq": best(8, lambda: self.sum(over_tcp)),
                "Python source, Flight": self.python_source("flight", f"127.0.0.1:{free_port()}"),
            }),
            "write of rows": (self.rows, 20, rows),
            "write of columns": (self.rows, 20, {
                "floor: noop sink": self.drop(kept),
                "lwmq": best(10, lambda: self.write(kept, self.rows)),
            }),
            "write of rows with strings": (self.item_rows, item_bytes, {
                "floor: noop sink": self.drop(items_by_rows),
                "lwmq": best(10, lambda: self.write(items_by_rows, self.item_rows)),
                "parquet": self.parquet_write(items_by_rows, "none", "items"),
            }),
            "rows to a Python process": (self.quarter_rows, 20, self.to_a_process()),
            "exchange, then a Python reduce": (self.quarter_rows, 20, self.exchange()),
        }  # fmt: skip


def start_up(code: str) -> float:
    """The least seconds, of three runs, of a process that makes a session and asks it for a row."""
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith("spark.driver")}
    command = [sys.executable, "-c", code.replace("SETTINGS", repr(settings))]
    ended = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return best(3, lambda: subprocess.run(command, **ended) and None)  # type: ignore[call-overload]


BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
spark.range(1).first()
spark.stop()
"""
OURS = """
import lwmq_spark as lwmq
spark = lwmq.session("start-up", master="local[2]", **SETTINGS)
spark.range(1).first()
spark.stop()
"""


def measure(rows: int) -> dict[str, Any]:
    assert numbers(0, 10).nbytes == 200
    with ExitStack() as stack:
        found = Figures(rows, stack).all()
    result: dict[str, Any] = {
        kind: {
            name: {"rows": n, "seconds": s, "rows_per_second": n / s, "bytes_per_second": n * width / s}
            for name, s in seconds.items()
        }
        for kind, (n, width, seconds) in found.items()
    }
    result["start-up"] = {
        "floor: a bare SparkSession": {"seconds": start_up(BARE)},
        "lwmq": {"seconds": start_up(OURS)},
    }
    return result


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
