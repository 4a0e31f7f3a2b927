"""Calls that are made at the same time, each on a thread of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from tests.patience import HANG_S

_OFTEN_S = 1e-6  # Python changes threads as often as it can: what two of them do together, they do soon


def together(*calls: Callable[[], object]) -> None:
    """Makes all of `calls`, each on a thread of its own; the first exception of one is raised here."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait(HANG_S)
        try:
            call()
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_OFTEN_S)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_S)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads), "a call hangs"
    if failures:
        raise failures[0]
