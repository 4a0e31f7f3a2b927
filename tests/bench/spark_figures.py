"""Spark reads and writes: ours beside Parquet on /dev/shm, the `noop` sink and the driver, in one session.

    python -m tests.bench.spark_figures ROWS REPEATS

prints one JSON object. Floors: reading is held against numpy summing the same bytes in two threads, writing
against Spark's `noop` sink. The best of REPEATS is taken: first runs are the JIT compiler's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

import lwmq_spark as lwmq

ROW_BYTES = 20  # long, double, int
BATCH_ROWS = 65_536
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("i", pa.int32())])


def batches(rows: int) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, rows, BATCH_ROWS):
        k = np.arange(start, min(start + BATCH_ROWS, rows), dtype=np.int64)
        columns = [pa.array(k), pa.array(k * 0.5), pa.array((k % 1000).astype(np.int32))]
        made.append(pa.record_batch(columns, schema=SCHEMA))
    return made


def serve(address: str, rows: int) -> None:
    """The other process of the scan: writes the rows as one stream per line of its input."""
    made = batches(rows)
    for line in sys.stdin:
        with lwmq.open_writer(
            f"{address}-{line.strip()}", SCHEMA, partitions=2, window_bytes=rows * ROW_BYTES * 2
        ) as w:
            for number, batch in enumerate(made):
                w.write(batch, partition=number % 2)
            print("written", flush=True)


def consume(address: str) -> None:
    """The other process of the write: reads one stream, sums a column of every batch, prints what it saw."""
    import pyarrow.compute as pc

    for line in sys.stdin:
        rows, total = 0, 0
        with lwmq.open_reader(f"{address}-{line.strip()}", timeout=60.0) as reader:
            for batch in reader:
                rows += batch.num_rows
                total += pc.sum(batch.column(0)).as_py() or 0
        print(rows, total, flush=True)


class Helper:
    """A process of ours that does one thing per line of its input."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.bench.spark_figures", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def best(repeats: int, run: Callable[[int], float | None]) -> float:
    """The least seconds of some runs; a run may time itself and answer the seconds."""
    taken = []
    for number in range(repeats):
        begun = time.perf_counter()
        own = run(number)
        taken.append(own if own is not None else time.perf_counter() - begun)
    return min(taken)


def numpy_floor(rows: int) -> float:
    words = np.ones(rows * ROW_BYTES // 8, dtype=np.int64)
    halves = np.array_split(words, 2)
    with ThreadPoolExecutor(2) as pool:
        return best(5, lambda _: [*pool.map(np.add.reduce, halves)] and None)


def measure(rows: int, repeats: int) -> dict[str, Any]:
    spark = lwmq.session("lwmq bench", master="local[2]", **{
        "spark.driver.memory": "4g",
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647b",
        "spark.sql.parquet.columnarReaderBatchSize": "65536",
    })  # fmt: skip
    spark.sparkContext.setLogLevel("ERROR")
    folder = tempfile.mkdtemp(prefix="lwmq-bench-", dir="/dev/shm")
    address = f"ipc://lwmq-bench-{os.getpid()}"
    producer, consumer = Helper("serve", f"{address}-scan", rows), Helper("consume", f"{address}-write")
    expected = rows * (rows - 1) // 2
    sums = ["sum(k)", "sum(v)", "sum(i)"]
    try:
        source = spark.range(0, rows, 1, 2).selectExpr(
            "id AS k", "id * 0.5D AS v", "CAST(id % 1000 AS INT) AS i"
        )

        def scan(number: int) -> float:
            producer.tell(str(number))
            assert producer.answer() == "written\n"
            df = spark.read.format("lwmq").load(f"{address}-scan-{number}")
            begun = time.perf_counter()
            assert df.selectExpr(*sums).first()[0] == expected
            return time.perf_counter() - begun

        def write(number: int) -> None:
            consumer.tell(str(number))
            source.write.format("lwmq").mode("append").save(f"{address}-write-{number}")
            assert consumer.answer() == f"{rows} {expected}\n"

        def parquet_write(codec: str) -> Callable[[int], None]:
            return lambda _: (
                source.write.mode("overwrite").option("compression", codec).parquet(f"{folder}/{codec}")
            )

        def parquet_read(codec: str) -> Callable[[int], None]:
            def run(_: int) -> None:
                assert spark.read.parquet(f"{folder}/{codec}").selectExpr(*sums).first()[0] == expected

            return run

        seconds = {
            "write": {
                "floor: noop sink": best(
                    repeats, lambda _: source.write.format("noop").mode("overwrite").save()
                ),
                "lwmq to a live process": best(repeats, write),
                "parquet on /dev/shm": best(2, parquet_write("none")),
                "parquet snappy on /dev/shm": best(2, parquet_write("snappy")),
                "toArrow at the driver": best(2, lambda _: source.toArrow() and None),
            },
            "scan": {
                "floor: numpy, two threads": numpy_floor(rows),
                "lwmq from a live process": best(repeats, scan),
                "parquet on /dev/shm": best(3, parquet_read("none")),
                "parquet snappy on /dev/shm": best(3, parquet_read("snappy")),
            },
        }
    finally:
        producer.end()
        consumer.end()
        shutil.rmtree(folder)
        spark.stop()
    return {
        kind: {
            name: {"seconds": s, "rows_per_second": rows / s, "bytes_per_second": rows * ROW_BYTES / s}
            for name, s in found.items()
        }
        for kind, found in seconds.items()
    }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "consume":
        consume(sys.argv[2])
    else:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
