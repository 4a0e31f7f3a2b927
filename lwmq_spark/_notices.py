"""What a call that waits for long says on the logger `lwmq_spark`, so that nothing waits in silence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

FIRST_AFTER_S = 5.0
PAUSE_S = 60.0

_log = logging.getLogger("lwmq_spark")


class Notices:
    """Of one sort of waits of one object, such as the writes of a writer. Any thread.

    The first warning comes when a wait has lasted 5 s, the next one a minute later, and each pause is twice
    as long as the one before. That counts over all the waits: a reader of a stream that is slow by nature
    does not warn of every batch.
    """

    __slots__ = ("_advice", "_news", "_next_at", "_pause_s", "_what")

    def __init__(self, what: str, advice: str, news: Callable[[], str | None] = lambda: None) -> None:
        """what: `a writer of ipc://flights`. advice: how the wait can be bounded. news: what has happened to
        those whom it waits for, since it was asked last; asked in every slice of a wait.
        """
        self._what = what
        self._advice = advice
        self._news = news
        self._next_at = 0.0  # of time.monotonic()
        self._pause_s = PAUSE_S

    def hear(self) -> None:
        """Passes the news on, where there are some."""
        if (news := self._news()) is not None:
            _log.warning("%s: %s", self._what, news)

    def tell(self, waited_s: float, why: str) -> None:
        """Of a wait that has lasted `waited_s` so far, in every slice of it; `why` says what for."""
        now = time.monotonic()
        if waited_s < FIRST_AFTER_S or now < self._next_at:
            return
        self._next_at = now + self._pause_s
        self._pause_s *= 2
        _log.warning("%s has waited for %.0f s and waits on%s", self._what, waited_s, self.explain(why))

    def explain(self, why: str) -> str:
        """The end of a text about such a wait, of a notice or of a time-out: what for, and what bounds it."""
        reason = f": {why}" if why else ""
        return f"{reason}. {self._advice}; `lwmq top` shows who waits for whom"
