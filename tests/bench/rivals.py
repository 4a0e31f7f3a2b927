"""Rivals that bring programs of their own, and which of the optional ones this machine has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import machine

# (metric, whether the message is large) -> the test of ucx_perftest, and how many messages, of at most 1 MB,
# it does in a second on two cores that share a cache. Its receiver looks at no byte of a message.
UCX_TESTS = {
    ("latency", False): ("tag_lat", 4_000_000),
    ("latency", True): ("tag_lat", 10_000),
    ("rate", False): ("tag_bw", 20_000_000),
    ("rate", True): ("tag_bw", 25_000),
}


def missing() -> dict[str, str]:
    """Rivals that cannot run here, and what would have to be installed."""
    found = {}
    if shutil.which("ucx_perftest") is None:
        found["UCX"] = "ucx_perftest (Debian: ucx-utils)"
    if importlib.util.find_spec("iceoryx2") is None:
        found["iceoryx2"] = "the Python package iceoryx2"
    if shutil.which("strace") is None:
        found["system calls"] = "strace"
    return found


def ucx(metric: str, size: int, seconds: float, over: str = "posix") -> dict[str, Any]:
    """ucx_perftest over POSIX shared memory or `tcp`. Latency takes one run for each percentile, of half the
    time."""
    test, per_second = UCX_TESTS[metric, size > 65536]
    per_second = min(per_second, per_second * (1 << 20) // size)
    if over == "tcp":
        per_second //= 8
    if metric == "latency":
        count = int(per_second * seconds / 2)
        ranks = {"p50_ns": "50", "p999_ns": "99.9"}
        found = {key: _ucx_run(test, size, count, rank, over)[1] * 1000 for key, rank in ranks.items()}
        return {**found, "round_trips": count}
    rate = _ucx_run(test, size, int(per_second * seconds), "50", over)[-1]
    return {"per_second": rate, "bytes_per_second": rate * size}


def _ucx_run(test: str, size: int, count: int, rank: str, over: str) -> list[float]:
    """iterations, percentile and mean latencies in µs, bandwidths, messages per second of the whole run."""
    cores = machine.two_cores()
    port = str(machine.free_port())  # over which the two processes find each other
    serving = ["ucx_perftest", "-p", port, "-c", str(cores.serving)]
    asking = ["ucx_perftest", "127.0.0.1", "-p", port, "-c", str(cores.asking), "-t", test, "-s", str(size),
              "-n", str(count), "-w", str(count // 10), "-R", rank, "-v", "-f"]  # fmt: skip
    _, output = machine.together(serving, asking, {**os.environ, "UCX_TLS": f"{over},self"}, head_start_s=0.3)
    return [float(cell) for cell in output.splitlines()[-1].split(",")]


def system_calls(peer: str, metric: str, size: int, seconds: float) -> dict[str, Any]:
    """System calls of both processes, from their first to their last, for each message of a run."""
    if shutil.which("strace") is None:
        raise RuntimeError("not run, because strace is not installed")
    with tempfile.TemporaryDirectory() as folder:
        # One file for each strace: it puts its own pid in place of a missing name.
        script = f'exec strace -f -c -o {folder}/$$ "$@"'
        found = machine.native(peer, metric, size, seconds, ["sh", "-c", script, "sh"])
        calls = sum(_total(path.read_text()) for path in Path(folder).iterdir())
    return {"calls_per_message": calls / found["messages"], "calls": calls, **found}


def _total(table: str) -> int:
    found = re.search(r"^\s*100[.,]00\s+\S+\s+\S+\s+(\d+)(?:\s+\d+)?\s+total$", table, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"strace told no total: {table[:200]}")
    return int(found[1])
