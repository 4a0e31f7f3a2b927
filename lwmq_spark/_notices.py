"""What a call that waits for long says on the logger `lwmq_spark`, so that nothing waits in silence."""

from __future__ import annotations

import logging
import time

FIRST_AFTER_S = 5.0
PAUSE_S = 60.0

_log = logging.getLogger("lwmq_spark")


class Notices:
    """Of one sort of waits of one object, such as the reads of a reader. Any thread.

    The first warning comes when a wait has lasted 5 s, the next one a minute later, and each pause is twice
    as long as the one before. That counts over all the waits: a reader of a stream that is slow by nature
    does not warn of every batch.
    """

    __slots__ = ("_advice", "_next_at", "_pause_s", "_what")

    def __init__(self, what: str, advice: str) -> None:
        """what: `read from ipc://flights`. advice: how the wait can be bounded."""
        self._what = what
        self._advice = advice
        self._next_at = 0.0  # of time.monotonic()
        self._pause_s = PAUSE_S

    def tell(self, waited_s: float, why: str) -> None:
        """Of a wait that has lasted `waited_s` so far; `why` says what for."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + self._pause_s
        self._pause_s *= 2
        _log.warning(
            "%s has waited for %.0f s and waits on: %s. %s; `lwmq top` shows who waits for whom",
            self._what,
            waited_s,
            why,
            self._advice,
        )
