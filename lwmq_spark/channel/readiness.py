"""Awaiting a channel's descriptor: thousands of channels on one event loop, and no thread of their own.

The loop watches a duplicate that is ours, only while a task waits: so closing the channel in the middle
leaves no number behind that somebody else's file may get.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from lwmq_spark import errors

T = TypeVar("T")
TURNS = 16  # messages that one task takes before the loop has a turn


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Readiness:
    """Who waits for one channel, on any loops."""

    def __init__(self, channel: HasDescriptor) -> None:
        self._channel = weakref.ref(channel)  # which has us, and closes with the last reference to it
        # Held for no call that may wait; a signal's handler may come in, and close, on its thread.
        self._lock = threading.RLock()
        self._fd = -1
        self._closed = False
        self._waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        self._taken = 0
        self._to_tell: list[Callable[[], None]] = []

    async def first(self, take: Callable[[], T | None]) -> T:
        """What `take` finds, as soon as it finds something. Cancelled: the next one has it."""
        await self.breathe()
        while (found := take()) is None:
            await self.wait()
        return found

    async def breathe(self) -> None:
        """Lets others have the loop now and then, while messages keep coming."""
        self._taken += 1
        if self._taken >= TURNS:
            self._taken = 0
            await asyncio.sleep(0)

    async def wait(self) -> None:
        """Until the channel has something to say, or is closed. The next call makes sure: look again."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._open_descriptor()
        with self._lock:
            for gone in [known for known in self._waiting if known.is_closed()]:
                self._leave(gone)
            waiting = self._waiting.setdefault(loop, [])  # from now on a close leaves the descriptor to us
            waiting.append(future)
            if len(waiting) == 1 and not self._closed:
                loop.add_reader(self._fd, self._wake, loop)
            if self._closed:
                self._wake(loop)
        self._taken = 0
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                if future in (left := self._waiting.get(loop, [])):
                    left.remove(future)
                    if not left:
                        self._leave(loop)
            raise

    def _open_descriptor(self) -> None:
        """Asks the channel without the lock: it may be about to close, which wants that."""
        if self._fd >= 0 or self._closed:
            return
        try:
            made = self._duplicate()
        except OSError:  # closed in between: the second look says so
            made = self._duplicate()
        with self._lock:
            if self._fd < 0 and not self._closed:
                self._fd, made = made, -1
        if made >= 0:
            os.close(made)

    def _duplicate(self) -> int:
        channel = self._channel()
        if channel is None:
            raise errors.ClosedError("nobody holds the channel any more")
        return os.dup(channel.fileno())

    def tell_when_closed(self, call: Callable[[], None]) -> None:
        """Calls it once, on the thread that closes the channel; at once when it is closed."""
        with self._lock:
            if not self._closed:
                self._to_tell.append(call)
                return
        call()

    def tell_no_more(self, call: Callable[[], None]) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._to_tell.remove(call)

    def close(self) -> None:
        """Wakes everybody who waits, on their loops. Any thread."""
        with self._lock:
            self._closed = True
            loops = list(self._waiting)
            to_tell, self._to_tell = self._to_tell, []
            self._close_if_unused()
        for call in to_tell:
            call()
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
                loop.call_soon_threadsafe(self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            futures = self._waiting.get(loop, [])
            self._leave(loop)
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """With the lock: nobody waits on `loop` any more."""
        if self._waiting.pop(loop, None) is not None and not loop.is_closed() and self._fd >= 0:
            loop.remove_reader(self._fd)
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closed and not self._waiting and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
