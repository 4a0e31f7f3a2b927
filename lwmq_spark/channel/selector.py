"""Receiving from many channels by one thread, in turns.

    selector = Selector()
    for channel in channels:
        selector.add(channel)
    while True:
        channel, message = selector.receive()

Each channel that has something gives one message before any gives its next, however unequally they send
(fair queueing, RFC 970); one that was silent joins them after 64 messages, or some 64 KiB of them. Where a
`Listener` was added, its clients join by themselves. Event loops poll its `fileno`; in asyncio
`await selector.receive_async()`.
"""

from __future__ import annotations

import inspect
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from lwmq_spark import errors
from lwmq_spark._ffi import (
    CallCount,
    CallLock,
    CallLocks,
    Handle,
    OfOneProcess,
    address_of,
    check,
    check_timeout,
    exception_of,
    ffi,
    lib,
    native_messages,
    raise_status,
    span,
    text_of,
    wait,
)
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.listener import Listener
from lwmq_spark.channel.readiness import Readiness
from lwmq_spark.message import Message

GREETING_S = 0.001  # beside a thread that accepts clients
_ASK_AGAIN = int(lib.LWMQ_E_INTERRUPTED)
_NOTHING = (None, lib.LWMQ_E_EMPTY, _ASK_AGAIN)
OnClient = Callable[[Channel], object]
Known = tuple["weakref.ref[Selector]", ...]


class Selector(OfOneProcess):
    """Channels by whose turn it is. One thread receives at a time; any thread adds and removes."""

    def __init__(self) -> None:
        out = ffi.new("lwmq_selector **")
        check(lib.lwmq_selector_create(out))
        self._handle = Handle(out[0], lib.lwmq_selector_destroy, "selector")
        self.readiness = Readiness(self)
        self._selecting = CallLock()
        self._members: dict[int, tuple[Handle, CallLock | CallCount, Channel]] = {}  # by address
        self._listeners: dict[Listener, OnClient | None] = {}  # replaced, not changed: others walk over it
        self._newcomer: tuple[Channel, OnClient | None] | None = None  # accepted, not yet added
        self._greeting = threading.RLock()  # of the thread that accepts; on_client may receive

    def add(self, channel: Channel | Listener, on_client: OnClient | None = None) -> None:
        """A channel; or a listener, whose clients are accepted and added as they come, by who receives.

        on_client: called with the channel of each client of the listener, by the thread that receives, before
        anything of it is; what it raises comes out there. Without it a client shows with its first message.
        ValueError: it was added before. LwmqError: a `Requests` has what comes over it. ClosedError.
        """
        if isinstance(channel, Listener):
            return self._add_listener(channel, on_client)
        if on_client is not None:
            raise TypeError("on_client goes with a listener, not with a channel")
        if not isinstance(channel, Channel):
            raise TypeError(f"a selector takes channels and listeners, not {type(channel).__name__}")
        handle = channel._handle
        handle.check_open()
        self._handle.check_open()
        with CallLocks((handle.lock, self._handle.lock)):
            handle.check_open()
            self._handle.check_open()
            channel._check_not_lent()
            if handle.address in self._members:
                raise ValueError(f"{channel.address} was added to this selector before")
            try:
                self._members[handle.address] = (handle, channel._receiving, channel)
                check(lib.lwmq_selector_add(self._handle.pointer, handle.pointer))
                channel._selectors = (*_alive(channel._selectors), weakref.ref(self))
            except BaseException:  # a signal's handler, too
                lib.lwmq_selector_remove(self._handle.pointer, handle.pointer)
                self._members.pop(handle.address, None)
                raise

    def _add_listener(self, listener: Listener, on_client: OnClient | None) -> None:
        if on_client is not None and (not callable(on_client) or inspect.iscoroutinefunction(on_client)):
            raise TypeError(f"on_client is a function of one channel, not {on_client!r}")
        listener._handle.check_open()
        self._handle.check_open()
        with listener._accepting, self._handle.lock:
            listener._handle.check_open()
            self._handle.check_open()
            if listener in self._listeners:
                raise ValueError(f"the listener on {listener.address} was added to this selector before")
            self._listeners = {**self._listeners, listener: on_client}
            try:
                check(lib.lwmq_selector_add_listener(self._handle.pointer, listener._handle.pointer))
                listener._selectors = (*_alive(listener._selectors), weakref.ref(self))
            except BaseException:  # a signal's handler, too
                lib.lwmq_selector_remove_listener(self._handle.pointer, listener._handle.pointer)
                self._drop_listener(listener)
                raise

    def _forget_listener(self, listener: Listener) -> None:
        with self._handle.lock:
            if listener not in self._listeners:
                return
            if _lives(self):
                lib.lwmq_selector_remove_listener(self._handle.pointer, listener._handle.pointer)
            self._drop_listener(listener)

    def _drop_listener(self, listener: Listener) -> None:
        self._listeners = {known: call for known, call in self._listeners.items() if known is not listener}

    def _accept(self) -> None:
        """Those who wait at the listeners, one thread at a time: the others go on with what there is."""
        if not self._greeting.acquire(blocking=False):
            time.sleep(GREETING_S)
            return
        try:
            self._accept_all()
        finally:
            self._greeting.release()

    def _accept_all(self) -> None:
        """What ends this halfway leaves the client for the next time."""
        self._greet()
        for listener, on_client in self._listeners.items():
            while (came := self._next_of(listener)) is not None:
                self._newcomer = came, on_client
                self._greet()

    @staticmethod
    def _next_of(listener: Listener) -> Channel | None:
        try:
            return listener.try_accept()
        except errors.ClosedError:  # just now, and leaves us
            return None

    def _greet(self) -> None:
        """Once, whatever it raises, and before it is added: others would have its messages from then on."""
        newcomer = self._newcomer
        if newcomer is None:
            return
        channel, on_client = newcomer
        if on_client is not None:
            self._newcomer = channel, None
            on_client(channel)  # may receive, and so add it; or close it
        if not channel.closed and channel not in self:
            self.add(channel)
        if self._newcomer is not None and self._newcomer[0] is channel:
            self._newcomer = None

    def remove(self, channel: Channel | Listener) -> None:
        """Removing what is not there, or is closed, does nothing: what closes goes by itself.

        The channels that came of a listener stay.
        """
        if isinstance(channel, Listener):
            if channel._handle.usable:
                self._forget_listener(channel)
            return
        if not isinstance(channel, Channel):
            raise TypeError(f"a selector has channels and listeners, not {type(channel).__name__}")
        if channel._handle.usable:  # a close may linger
            with channel._handle.lock:
                if channel._handle.usable:
                    self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        """With the lock of the channel, before it is destroyed."""
        with self._handle.lock:
            if _lives(self):
                lib.lwmq_selector_remove(self._handle.pointer, channel._handle.pointer)
            self._members.pop(channel._handle.address, None)
        channel._selectors = tuple(known for known in _alive(channel._selectors) if known() is not self)

    def select(self, timeout: float | None = None) -> Channel | None:
        """The channel whose turn it is; None when the time is over. It may have nothing all the same."""
        if self._newcomer is not None:
            self._accept()
        check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        out = ffi.new("lwmq_channel **")
        while True:
            status = wait(
                self._handle,
                lambda ms: lib.lwmq_selector_wait(self._handle.pointer, ms, out),
                None if end is None else max(0.0, end - time.monotonic()),
                lock=self._selecting,
            )
            if status in (lib.LWMQ_E_EMPTY, lib.LWMQ_E_TIMED_OUT):
                return None
            check(status)
            if out[0] == ffi.NULL:
                self._accept()
            elif (channel := self._channel_at(out[0])) is not None:
                return channel

    def _select_asleep(self) -> Channel | None:
        """The same in one sleep, for a thread that hears no signals, of a selector that nobody closes.

        None: it was removed just now.
        """
        out = ffi.new("lwmq_channel **")
        status = lib.LWMQ_E_INTERRUPTED
        while status == lib.LWMQ_E_INTERRUPTED:
            status = lib.lwmq_selector_wait(self._handle.pointer, lib.LWMQ_FOREVER, out)
        check(status)
        return self._channel_at(out[0])

    def _channel_at(self, pointer: Any) -> Channel | None:
        member = self._members.get(address_of(pointer))
        return None if member is None else member[2]

    def receive(self, timeout: float | None = None) -> tuple[Channel, Message]:
        """The next message and the channel that it came over.

        TimeoutError. What ends a peer's conversation is raised as by `Channel.receive`, with that one as the
        exception's `channel`; the others go on. A listener's channel whose client has gone leaves by itself
        when a receive has said so; it is still to be closed where it is not forgotten.
        """
        if self._newcomer is not None:
            self._accept()
        end: float | None = None
        late = 0
        while True:
            got = self._receive_now()
            if isinstance(got, tuple):
                return got
            if end is None and timeout is not None:
                end = time.monotonic() + timeout
            left = None if end is None else max(0.0, end - time.monotonic())
            late += left == 0
            if got != _ASK_AGAIN and self.select(left) is None:
                late = len(self) + 2
            if late > len(self) + 1:  # each has had a last look
                raise errors.TimeoutError(f"no message within {span(timeout)} on {len(self)} channels")

    def _receive_now(self) -> tuple[Channel, Message] | int | None:
        """A message and its channel. LWMQ_E_EMPTY: nobody has one, and the descriptor tells who comes next;
        _ASK_AGAIN: somebody may; None: another thread is at it.
        """
        got = native_messages.select_now(self._handle, self._selecting, self._members, Message)
        if isinstance(got, tuple):
            return got
        if isinstance(got, Channel):
            message = None if got.closed else self._receive_from(got)
            return _ASK_AGAIN if message is None else (got, message)
        if isinstance(got, list):
            self._raise_end(got[0], exception_of(got[1], text_of()))
            return _ASK_AGAIN
        if got is True:
            self._accept()
            return _ASK_AGAIN
        if got not in _NOTHING:
            raise_status(got)
        return got

    def try_receive(self) -> tuple[Channel, Message] | None:
        """The next message and its channel if one is there, else None; raises as `receive` does."""
        if self._newcomer is not None:
            self._accept()
        while True:
            got = self._receive_now()
            if isinstance(got, tuple):
                return got
            if got == lib.LWMQ_E_EMPTY or (got is None and self.select(0) is None):
                return None

    async def receive_async(self) -> tuple[Channel, Message]:
        """Await the next message and its channel, on the event loop itself: as `receive`, without a time-out.

        When a task is cancelled, the next call gets the message. One task at a time.
        """
        return await self.readiness.first(self.try_receive)

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops: readable while a channel may have something.

        Poll it, then `try_receive` until None, and poll again; what is not received stays readable. Lent
        until the close; not to be read from.
        """
        out = ffi.new("int32_t *")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_selector_descriptor(self._handle.pointer, out))
        return int(out[0])

    def _receive_from(self, channel: Channel) -> Message | None:
        try:
            return channel.try_receive()
        except errors.LwmqError as exc:
            self._raise_end(channel, exc)
            return None

    def _raise_end(self, channel: Channel, exc: errors.LwmqError) -> None:
        """The last word is said once: another thread may have taken the channel as well."""
        exc.channel = channel
        is_told = False
        if channel._is_over_with(exc):
            try:
                is_told = self._members.pop(channel._handle.address, None) is None  # one step, for any thread
            finally:
                channel._note_end(exc)
        if not is_told:
            raise exc from None

    def close(self) -> None:
        """The channels live on. Twice is once."""
        if not self._handle.begin_close():
            return
        try:
            with CallLocks((self._handle.lock, self._selecting)):
                self._handle.destroy()
                self._members.clear()
                self._listeners = {}
                self._newcomer = None
            self.readiness.close()
        finally:
            if self._handle.pointer is not None:
                self._handle.take_close_back()

    def __enter__(self) -> Selector:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Channel]:
        """Its channels, those of now."""
        return iter([channel for _, _, channel in self._members.copy().values()])

    def __contains__(self, channel: object) -> bool:
        return isinstance(channel, Channel) and channel._handle.address in self._members

    def __repr__(self) -> str:
        return f"<Selector of {len(self)} channels>"


def _lives(selector: Selector | None) -> bool:
    """Also while it is being closed: that may be taken back."""
    return selector is not None and selector._handle.pointer is not None and not selector._handle.forked


def _alive(known: Known) -> Known:
    return tuple(one for one in known if _lives(one()))
