"""A writer that does nothing for a while, and readers that come and go meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import lwmq_spark as lwmq

SCHEMA = pa.schema([("n", pa.int64())])
MANY_READERS = """
    for _ in range(400):
        with lwmq.open_reader(sys.argv[1], role="client", timeout=60, linger=0) as reader:
            assert next(reader).num_rows == 1000
    last = lwmq.open_reader(sys.argv[1], role="client", timeout=60, linger=0)
    first, second = next(last), next(last)  # held from here on
    print("came and went")
    sys.stdin.readline()
    for n, batch in enumerate((first, second)):
        assert (batch["n"].to_numpy() == n).all(), "written over while it was held"
    print("whole")
    del first, second
    last.close(linger=0)
"""


def test_four_hundred_readers_come_and_go_while_the_writer_sleeps(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    """Each is a page that the writer must know of. A writer that does not look holds up nobody, and when it
    looks again it hears of the readers before it hears of what was dropped."""

    def batch(n: int) -> pa.RecordBatch:
        return pa.record_batch({"n": np.full(1000, n)}, schema=SCHEMA)

    writer = lwmq.open_writer(ipc, SCHEMA, role="server", retain="all", window_bytes="8MiB", timeout=60)
    writer.write(batch(0))
    writer.write(batch(1))
    readers = spawn(MANY_READERS, ipc)
    assert readers.line() == "came and went"
    for n in range(2, 100):
        writer.write(batch(n))
    readers.tell("")
    assert readers.line() == "whole"
    writer.abort()
