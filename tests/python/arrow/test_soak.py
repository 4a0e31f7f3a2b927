"""Writers that come and go for LWMQ_SOAK_MINUTES (30), and a reader that stays: memory, descriptors, mappings
and latency of every process stay what they were after the first minutes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

MINUTES = float(os.environ.get("LWMQ_SOAK_MINUTES", "30"))
SAMPLE_S = 5.0

READER = """
    import statistics, threading
    import lwmq_spark.aio
    endpoint = lwmq.Endpoint(sys.argv[1], linger=0)
    latencies, lock = [], threading.Lock()
    def read():
        with lwmq.open_reader(sys.argv[1], follow=True, name="soak") as reader:
            for batch in reader:
                with lock:
                    latencies.append(time.time_ns() - reader.last.timestamp_ns)
                del batch
    threading.Thread(target=read, daemon=True).start()
    print("serves")
    for line in sys.stdin:
        with lock:
            taken, latencies = latencies, []
        print(len(taken), int(statistics.median(taken)) if taken else 0)
"""
WRITER = """
    import numpy as np, pyarrow as pa, random
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    random.seed(int(sys.argv[2]))
    while True:
        with lwmq.open_writer(sys.argv[1], schema, role="client", window_bytes="16MiB") as writer:
            for _ in range(random.randrange(1, 200)):
                rows = random.choice((1, 100, 3000, 50_000))
                writer.write(pa.record_batch({"n": np.arange(rows), "s": ["x"] * rows}, schema=schema))
                time.sleep(0.004)
"""


@dataclass
class Sample:
    """What one process holds."""

    memory: int
    descriptors: int
    mappings: int


def sample(pid: int) -> Sample:
    process = psutil.Process(pid)
    mappings = Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")
    return Sample(process.memory_info().rss, process.num_fds(), mappings)


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60) + 120)
def test_memory_descriptors_and_latency_stay_flat(ipc: str, spawn: Callable[..., Any]) -> None:
    reader = spawn(READER, ipc)
    assert reader.line() == "serves"
    writers = [spawn(WRITER, ipc, seed) for seed in range(2)]
    samples: dict[int, list[Sample]] = {child.pid: [] for child in (reader, *writers)}
    latencies: list[int] = []
    batches = 0
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        time.sleep(min(SAMPLE_S, MINUTES * 60 / 30))
        reader.tell()
        count, latency = map(int, reader.line().split())
        assert count > 0, f"nothing has come for {SAMPLE_S} s, after {batches} batches"
        batches += count
        latencies.append(latency)
        for pid, taken in samples.items():
            taken.append(sample(pid))
    for writer in writers:
        writer.kill()
    third = len(latencies) // 3
    early, late = latencies[third : 2 * third], latencies[-third:]
    report = [
        f"{batches} batches in {MINUTES:g} min; latency {statistics.median(early) / 1e3:.0f} us, later "
        f"{statistics.median(late) / 1e3:.0f} us"
    ]
    for pid, taken in samples.items():
        before, after = taken[third : 2 * third], taken[-third:]
        for what, slack in (("memory", 24 << 20), ("descriptors", 4), ("mappings", 16)):
            was = max(getattr(s, what) for s in before)
            now = statistics.median(getattr(s, what) for s in after)
            report.append(f"process {pid}: {what} up to {was}, later {now:.0f}")
            assert now <= was + slack, "\n".join(report)
    print("\n".join(report))
    assert statistics.median(late) <= 3 * statistics.median(early) + 200_000, "\n".join(report)
