"""Receiving from many channels by one thread, in turns.

    selector = Selector()
    for channel in channels:
        selector.add(channel)
    while True:
        channel, message = selector.receive()

Each channel that has something gives one message before any gives its next, however unequally they send
(fair queueing, RFC 970).
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections import deque

from lwmq_spark import errors
from lwmq_spark.channel.channel import Channel
from lwmq_spark.message import Message


class Selector:
    """Channels by whose turn it is. One thread receives at a time; any thread adds and removes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}  # by descriptor
        self._turns: deque[Channel] = deque()

    def add(self, channel: Channel) -> None:
        """ValueError: it was added before. ClosedError."""
        fd = channel.fileno()
        with self._lock:
            if channel in self._channels.values():
                raise ValueError(f"{channel.address} was added to this selector before")
            with contextlib.suppress(FileNotFoundError):
                if self._channels.pop(fd, None) is not None:  # of one that was closed and not removed
                    self._epoll.unregister(fd)
            self._epoll.register(fd, select.EPOLLIN)
            self._channels[fd] = channel

    def remove(self, channel: Channel) -> None:
        """Also one that was closed. Removing what is not there does nothing."""
        with self._lock:
            for fd, known in list(self._channels.items()):
                if known is channel:
                    del self._channels[fd]
                    if not channel.closed:
                        with contextlib.suppress(OSError):
                            self._epoll.unregister(fd)
            with contextlib.suppress(ValueError):
                self._turns.remove(channel)

    def select(self, timeout: float | None = None) -> Channel | None:
        """The channel whose turn it is; None when the time is over. It may have nothing all the same."""
        if not self._turns:
            events = self._epoll.poll(timeout)
            with self._lock:
                self._turns.extend(self._channels[fd] for fd, _ in events if fd in self._channels)
        with self._lock:
            return self._turns.popleft() if self._turns else None

    def receive(self, timeout: float | None = None) -> tuple[Channel, Message]:
        """The next message and the channel that it came over.

        TimeoutError. What ends a peer's conversation is raised as by `Channel.receive`; the others go on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            channel = self.select(None if end is None else max(0.0, end - time.monotonic()))
            if channel is None:
                if end is None or time.monotonic() < end:
                    continue
                raise errors.TimeoutError(f"no message within {timeout} s on {len(self._channels)} channels")
            if channel.closed:
                self.remove(channel)
            elif (message := channel.try_receive()) is not None:
                return channel, message

    def close(self) -> None:
        """The channels live on. Twice is once."""
        self._epoll.close()

    def __enter__(self) -> Selector:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._channels)

    def __repr__(self) -> str:
        return f"<Selector of {len(self)} channels>"
