"""Channels that a program forgets to close: what they had not sent leaves all the same, or is told of."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
import warnings
import weakref
from typing import TYPE_CHECKING

from lwmq_spark import errors
from lwmq_spark.channel.send_queue import SendQueue

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel

_LOOK_S = 0.01  # whether a close that another thread has begun is over

_posting: weakref.WeakValueDictionary[int, Channel] = weakref.WeakValueDictionary()
_told: set[int] = set()  # of which it was said at the end of the program
_child = 0  # the process of multiprocessing that has been asked to flush


def flush_at_exit(channel: Channel) -> None:
    """It posts: what has not left when the program ends, and nobody closed it, leaves then. Any thread."""
    global _child
    _posting[id(channel)] = channel
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None and _child != os.getpid():
        from multiprocessing import util  # children that were forked end without atexit

        util.Finalize(None, _flush_all, exitpriority=0)
        _child = os.getpid()


def tell_of_unsent(channel: Channel) -> None:
    """Of a channel that nobody holds any more; RuntimeWarning where what was posted goes with it."""
    if id(channel) not in _told and (queued := _queued(channel)):
        _warn(_text(queued, channel, "when it was dropped"))


@atexit.register
def _flush_all() -> None:
    """Waits for each as long as its linger, for all together no longer than the longest of them.

    Not closed: threads of the program may still receive. A program that ends with an exception, or that is
    interrupted meanwhile, waits no more.
    """
    waits = not hasattr(sys, "last_value") or hasattr(sys, "ps1")
    began = time.monotonic()
    texts = []
    for known in _posting.valuerefs():  # at once, whatever other threads still open
        if (channel := known()) is None or id(channel) in _told:
            continue
        end = began if not waits else None if channel._linger is None else began + channel._linger
        try:
            has_left = _wait_until_left(channel, end)
        except KeyboardInterrupt:
            waits = has_left = False
        if not has_left:
            texts.append(_text(_queued(channel) or "some", channel, "when the program ended"))
            _told.add(id(channel))
    for text in texts:  # where a warning is an error, everything has left that could
        _warn(text)


def _wait_until_left(channel: Channel, end: float | None) -> bool:
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        try:
            channel.flush(left)
            return True
        except errors.TimeoutError:
            return False
        except errors.LwmqError:
            handle = channel._handle
            if not handle.closed:
                return not _queued(channel)  # its only peer has gone; or a forked child has another's
            if handle.pointer is None or left == 0:
                return True  # its close has told, or tells whoever called it
        time.sleep(_LOOK_S)


def _queued(channel: Channel) -> int:
    with contextlib.suppress(errors.LwmqError):
        return sum(SendQueue(channel, queue).statistics.queued for queue in channel._queues)
    return 0


def _text(unsent: int | str, channel: Channel, when: str) -> str:
    return f"{unsent} messages had not left {channel!r} {when}: close it, or use `with`"


def _warn(text: str) -> None:
    # No line of code of ours or of the program says more than the text.
    warnings.warn_explicit(text, RuntimeWarning, "lwmq_spark", 0)
