"""What every test has: slow tests only on request, and nothing left behind at the end of the session.

The session is made the reaper of its orphans, so that at its end every process that a test started, however
indirectly, is either gone or a child of ours. A child, a shared-memory file or a socket `lwmq/...` of ours
that is still there fails the session with a line `LEFT BEHIND: ...`. With pytest-xdist each worker reaps its
own orphans and reports what is left of them to the session that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import class_archive

ROOT = Path(__file__).resolve().parent.parent
LITTER = ("spark-warehouse", "metastore_db", "derby.log", "artifacts")
_PR_SET_CHILD_SUBREAPER = 36
_before: dict[str, set[str]] = {}
_left_by_workers: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)  # of pytest-xdist: our commands would print for a narrow terminal
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.update(class_archive.options())
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # whoever imports numpy starts no threads for it
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    hypothesis.settings.register_profile("suite", deadline=None, derandomize=not _is_slow(config))
    hypothesis.settings.load_profile("suite")
    _before["shm"] = _shared_memory()
    _before["litter"] = _litter()


def _is_slow(config: pytest.Config) -> bool:
    return os.environ.get("LWMQ_SLOW") == "1" or "slow" in (config.option.markexpr or "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _is_slow(config):
        return
    skip = pytest.mark.skip(reason="slow: runs with LWMQ_SLOW=1")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    _left_by_workers.extend(getattr(node, "workeroutput", {}).get("left_behind", []))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    _stop_helpers()
    worker_output = getattr(session.config, "workeroutput", None)
    look = _left_behind if worker_output is None else _left_running
    left = look()
    deadline = time.monotonic() + 60  # a JVM that was told to stop takes a moment
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = look()
    if worker_output is not None:
        worker_output["left_behind"] = left
        return
    left = list(dict.fromkeys(left + _left_by_workers))
    session.config.left_behind = left  # for tests/suite.py
    for what in left:
        print(f"\nLEFT BEHIND: {what}", file=sys.stderr)
    if left and exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _stop_helpers() -> None:
    """Ends what Python and pyspark keep for the life of the interpreter: gateway JVM, resource tracker."""
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        with contextlib.suppress(Exception):
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.shutdown()
            process = getattr(gateway, "proc", None)
            if process is not None:
                with contextlib.suppress(Exception):
                    process.stdin.close()
                with contextlib.suppress(Exception):
                    process.wait(60)
            SparkContext._gateway = None
    if "multiprocessing.resource_tracker" in sys.modules:
        from multiprocessing import resource_tracker

        with contextlib.suppress(Exception):
            resource_tracker._resource_tracker._stop()
    gc.collect()


def _left_running() -> list[str]:
    children = _descendants(os.getpid())
    sockets = _sockets_of([os.getpid(), *children])
    return [f"process {pid}: {_command(pid)}" for pid in children] + [
        f"abstract socket {name}" for name in sorted(sockets)
    ]


def _left_behind() -> list[str]:
    return (
        _left_running()
        + [f"shared memory /dev/shm/{name}" for name in sorted(_shared_memory() - _before["shm"])]
        + [f"{name} in the checkout" for name in sorted(_litter() - _before["litter"])]
    )


def _shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("*lwmq*")}


def _litter() -> set[str]:
    return {name for name in LITTER if (ROOT / name).exists()}


def _descendants(pid: int) -> list[int]:
    """Living processes below `pid`; the zombies among them are reaped on the way."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] in "ZX":
                if int(fields[1]) == pid:
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(int(entry.name), os.WNOHANG)
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return sorted(found)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:160]
    return "gone meanwhile"


def _sockets_of(pids: list[int]) -> set[str]:
    """Abstract sockets of ours that one of the processes holds."""
    names = {
        fields[6]: fields[7]
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]
        if len(fields := line.split()) > 7 and fields[7].startswith("@lwmq/")
    }
    held: set[str] = set()
    if not names:
        return held
    for pid in pids:
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if match := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())):
                        held.update({names[match[1]]} if match[1] in names else set())
    return held
