"""Reports of long waits on the logger `lwmq_spark`, so that no call waits in silence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

FIRST_AFTER_S = 5.0
PAUSE_S = 60.0

_log = logging.getLogger("lwmq_spark")


class Notices:
    """Reports the waits of one kind of one object, such as the writes of a writer. Any thread.

    The first warning comes when a wait has lasted 5 s, the next one a minute later, and each pause is twice
    as long as the one before. The pauses run over all these waits, so that the reader of a slow stream does
    not warn of every batch.
    """

    __slots__ = ("_advice", "_news", "_next_at", "_pause_s", "_what")

    def __init__(self, what: str, advice: str, news: Callable[[], str | None] = lambda: None) -> None:
        """what: who waits, such as `a writer of ipc://flights`. advice: how the wait can be bounded.

        news: returns what has happened since its last call to those that are waited for, or None.
        """
        self._what = what
        self._advice = advice
        self._news = news
        self._next_at = 0.0  # of time.monotonic()
        self._pause_s = PAUSE_S

    def hear(self) -> None:
        """Report the news, if there are any. To be called in every slice of a wait."""
        if (news := self._news()) is not None:
            _log.warning("%s: %s", self._what, news)

    def tell(self, waited_s: float, why: str) -> None:
        """Report a wait that has lasted `waited_s` seconds, if it is time to; `why` says what it waits for.

        To be called in every slice of a wait.
        """
        now = time.monotonic()
        if waited_s < FIRST_AFTER_S or now < self._next_at:
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
