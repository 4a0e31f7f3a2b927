"""kill -9 in mid-stream, at moments that a seed chooses: no batch is ever half there, and none is missing."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 20_000  # 160 KB: long enough to be killed within
SEEDS = [int(seed) for seed in os.environ.get("LWMQ_SEEDS", "1").split()]

ENDLESS_WRITER = """
    import pyarrow as pa, numpy as np
    schema = pa.schema([("n", pa.int64())])
    with lwmq.open_writer(sys.argv[1], schema, role=sys.argv[2], window_bytes="8MiB") as writer:
        for value in range(10**9):
            writer.write(pa.record_batch({"n": np.full(20_000, value)}, schema=schema))
"""

ENDLESS_READER = """
    with lwmq.open_reader(sys.argv[1], role=sys.argv[2]) as reader:
        print("open")
        for batch in reader:
            pass
"""


def whole(batch: pa.RecordBatch) -> int:
    """The value of a batch all of whose rows are the same."""
    values = batch["n"].to_numpy()
    assert values.size == ROWS
    assert (values == values[0]).all(), f"half of a batch: {values[0]} and {values[-1]}"
    return int(values[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("role", ["server", "client"])
def test_a_writer_killed_while_it_writes_leaves_whole_batches_and_no_gap(
    ipc: str, spawn: Callable[..., Any], role: str, seed: int
) -> None:
    random.seed(seed)
    writer = spawn(ENDLESS_WRITER, ipc, role)
    reader = lwmq.open_reader(ipc, role="client" if role == "server" else "server", timeout=60)
    seen = [whole(next(reader))]
    end = time.monotonic() + random.uniform(0.01, 0.3)
    with pytest.raises(lwmq.PeerLostError):
        while True:
            if writer.process.returncode is None and time.monotonic() > end:
                writer.kill()
            seen.append(whole(next(reader)))
    assert seen == list(range(len(seen))), f"seed {seed}"
    reader.close(linger=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_killed_while_it_reads_leaves_no_gap_for_the_next_one(
    ipc: str, spawn: Callable[..., Any], seed: int
) -> None:
    random.seed(seed)
    writer = lwmq.open_writer(ipc, SCHEMA, role="server", window_bytes="8MiB", timeout=60)
    reader = spawn(ENDLESS_READER, ipc, "client")
    assert reader.line() == "open"
    value = 0
    end = time.monotonic() + random.uniform(0.05, 0.4)
    while time.monotonic() < end:
        writer.write(pa.record_batch({"n": np.full(ROWS, value)}, schema=SCHEMA))
        value += 1
    reader.kill()
    last = value + 9

    def go_on() -> None:  # the window may be full: this waits for the second reader
        for n in range(value, last + 1):
            writer.write(pa.record_batch({"n": np.full(ROWS, n)}, schema=SCHEMA))

    thread = threading.Thread(target=go_on)
    thread.start()
    with lwmq.open_reader(ipc, timeout=60, linger=0) as second:
        seen = [whole(next(second))]
        while seen[-1] < last:
            seen.append(whole(next(second)))
        assert seen == list(range(seen[0], last + 1)), f"seed {seed}"
    thread.join(60)
    writer.abort()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_endpoint_killed_between_a_writer_and_a_reader_ends_both_with_an_error(
    ipc: str, spawn: Callable[..., Any], seed: int
) -> None:
    random.seed(seed)
    endpoint = spawn(
        """
        from lwmq_spark.arrow import Endpoint
        endpoint = Endpoint(sys.argv[1])
        print("serves")
        sys.stdin.readline()
        """,
        ipc,
    )
    assert endpoint.line() == "serves"
    spawn(ENDLESS_WRITER, ipc, "client")
    reader = lwmq.open_reader(ipc, role="client", timeout=60)
    seen = [whole(next(reader))]
    end = time.monotonic() + random.uniform(0.01, 0.3)
    with pytest.raises(lwmq.PeerLostError):
        while True:
            if endpoint.process.returncode is None and time.monotonic() > end:
                endpoint.kill()
            seen.append(whole(next(reader)))
    assert seen == list(range(len(seen))), f"seed {seed}"
    reader.close(linger=0)
