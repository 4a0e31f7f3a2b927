"""Children that are stopped (SIGSTOP): they live, hold what they hold, and answer nobody."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


def stop(pid: int) -> None:
    """Stops a child of ours. Its threads run on for a moment after `kill` has returned, on another core."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)  # reported when the last thread has stopped


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a child of ours for the block."""
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
