"""The tables of the Spark figures, and the processes beside Spark that serve and consume them.

    python -m tests.bench.spark_tables serve TABLE ROWS     HOW WHERE SHARE, line by line
    python -m tests.bench.spark_tables consume COLUMN       ADDRESS, line by line

HOW is `keep`, a stream that stays, read again and again; `once`, one with the defaults, gone when it was
read; and for the rivals `files`, a folder of Arrow IPC files, or `flight`, a socket file. SHARE: one part in
so many of the table.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lwmq_spark as lwmq
from tests.bench import spark_rivals

BATCH_ROWS = 65_536


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """20 bytes a row: long, double, int."""
    k = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"k": k, "v": k * 0.5, "i": (k % 1000).astype(np.int32)})


def items(start: int, stop: int) -> pa.RecordBatch:
    """Shaped like TPC-H's lineitem: four keys, four amounts, three dates, five strings; some 140 bytes."""
    k = np.arange(start, stop, dtype=np.int64)
    texts = {
        "returnflag": ["A", "N", "R"],
        "linestatus": ["F", "O"],
        "shipinstruct": ["DELIVER IN PERSON", "COLLECT COD", "TAKE BACK RETURN", "NONE"],
        "shipmode": ["AIR", "TRUCK", "MAIL", "SHIP", "RAIL", "FOB", "REG AIR"],
        "comment": [f"furiously regular deposits {n}" for n in range(97)],
    }
    columns: dict[str, object] = {
        name: k // (n + 1) for n, name in enumerate(("k", "part", "supplier", "line"))
    }
    columns |= dict.fromkeys(("quantity", "price", "discount", "tax"), k * 0.25)
    columns |= {
        name: pa.array((k % 2500).astype(np.int32), pa.date32()) for name in ("ship", "commit", "receipt")
    }
    columns |= {name: pa.array(values).take(pa.array(k % len(values))) for name, values in texts.items()}
    return pa.record_batch(columns)


TABLES: dict[str, Callable[[int, int], pa.RecordBatch]] = {"numbers": numbers, "items": items}


def serve(table: str, rows: int) -> None:
    made = [TABLES[table](start, min(start + BATCH_ROWS, rows)) for start in range(0, rows, BATCH_ROWS)]
    kept: list[object] = []
    for line in sys.stdin:
        how, address, share = line.split()
        batches = made[: len(made) // int(share)]
        if how in ("files", "flight"):
            parts = [batches[::2], batches[1::2]]
            if how == "files":
                spark_rivals.write_files(address, parts)
            else:
                kept.append(spark_rivals.serve_flight(address, parts))
            print("written", flush=True)
            continue
        if how == "keep":
            kept.append(lwmq.Endpoint(address))
        window = sum(batch.nbytes for batch in batches) * 2
        role, retain = ("client", "all") if how == "keep" else ("server", "until_acked")
        writer = lwmq.open_writer(
            address, made[0].schema, partitions=2, retain=retain, window_bytes=window, role=role
        )
        for number, batch in enumerate(batches):
            writer.write(batch, partition=number % 2)
        print("written", flush=True)
        with suppress(lwmq.TimeoutError):  # nobody has read what is kept
            writer.close(linger=0 if how == "keep" else None)


def consume(column: str) -> None:
    """Reads one stream after the other, sums a column of every batch, prints rows and sum."""
    for line in sys.stdin:
        rows, total = 0, 0
        with lwmq.open_reader(line.strip(), timeout=60.0) as reader:
            for batch in reader:
                rows += batch.num_rows
                total += pc.sum(batch[column]).as_py() or 0
        print(rows, total, flush=True)


class Helper:
    """A process of this package, told line by line what to do."""

    def __init__(self, *arguments: object, module: str = "spark_tables") -> None:
        command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        consume(sys.argv[2])
