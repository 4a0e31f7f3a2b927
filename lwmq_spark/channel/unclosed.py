"""Channels that a program forgets to close: what they had not sent leaves all the same, or is told of."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import warnings
import weakref
from typing import TYPE_CHECKING

from lwmq_spark import errors

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel

_posting: weakref.WeakValueDictionary[int, Channel] = weakref.WeakValueDictionary()
_ends = False  # the program: what is dropped from then on has been told of


def flush_at_exit(channel: Channel) -> None:
    """It posts: what has not left when the program ends, and nobody closed it, leaves then. Any thread."""
    _posting[id(channel)] = channel


def tell_of_unsent(channel: Channel) -> None:
    """Of a channel that nobody holds any more; RuntimeWarning where what was posted goes with it."""
    if _ends:
        return
    with contextlib.suppress(errors.LwmqError):
        if unsent := sum(queue.statistics.queued for queue in channel._queues):
            _warn(f"{unsent} messages had not left {channel!r} when it was dropped: close it, or use `with`")


@atexit.register
def _flush_all() -> None:
    """Waits for each as long as its linger, for all together no longer than the longest of them.

    Not closed: threads of the program may still receive. A program that ends with an exception does not wait.
    """
    global _ends
    _ends = True
    if hasattr(sys, "last_value") and not hasattr(sys, "ps1"):
        return
    began = time.monotonic()
    for known in _posting.valuerefs():  # at once, whatever other threads still open
        if (channel := known()) is None:
            continue
        linger = channel._linger
        left = None if linger is None else max(0.0, round(linger - (time.monotonic() - began), 1))
        try:
            channel.flush(left)
        except errors.TimeoutError as unsent:
            _warn(f"the program ends without close(): {unsent}")
        except errors.LwmqError:
            pass  # closed, or a forked child has another's
        except KeyboardInterrupt:
            return


def _warn(text: str) -> None:
    # No line of code of ours or of the program says more than the text.
    warnings.warn_explicit(text, RuntimeWarning, "lwmq_spark", 0)
