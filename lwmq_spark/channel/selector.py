"""Receiving from many channels by one thread, in turns.

    selector = Selector()
    for channel in channels:
        selector.add(channel)
    while True:
        channel, message = selector.receive()

Each channel that has something gives one message before any gives its next, however unequally their peers
send (fair queueing, RFC 970). A channel that was silent joins the turns after 64 messages, or some 64 KiB of
them. Clients of a `Listener` that was added join by themselves. Event loops poll `fileno`; in asyncio there
is `await selector.receive_async()`.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Handle,
    OfOneProcess,
    Turn,
    address_of,
    check,
    exception_of,
    ffi,
    lib,
    native_messages,
    raise_status,
    text_of,
)
from lwmq_spark._waiting import Readiness, check_timeout, span, wait
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.listener import Listener
from lwmq_spark.message import Message

ACCEPTING_S = 0.001  # a thread that finds another one accepting clients leaves it this time
_ASK_AGAIN = int(lib.LWMQ_E_INTERRUPTED)
_NOTHING = (None, lib.LWMQ_E_EMPTY, _ASK_AGAIN)
OnClient = Callable[[Channel], object]


class Selector(OfOneProcess):
    """Receives from many channels in turns. One thread at a time receives; any thread adds and removes."""

    def __init__(self) -> None:
        out = ffi.new("lwmq_selector **")
        check(lib.lwmq_selector_create(out))
        self._handle = Handle(ffi.gc(out[0], lib.lwmq_selector_destroy), "selector")
        self.readiness = Readiness(self.fileno)
        self._selecting = Turn()
        self._channels: dict[int, tuple[Handle, Turn, Channel]] = {}  # by address, for native_messages
        self._listeners: dict[Listener, OnClient | None] = {}  # replaced, not changed: others walk over it
        self._newcomer: tuple[Channel, OnClient | None] | None = None  # accepted, and not yet added
        self._accepting = threading.RLock()  # of the thread that accepts; on_client may receive

    def add(self, channel: Channel | Listener, on_client: OnClient | None = None) -> None:
        """Add a channel; or a listener, whose clients are then accepted and added as they come.

        on_client: called with the channel of each client of the listener, by the thread that receives, before
            anything is received from it. What it raises comes out of that receive. Without it a client shows
            with its first message.
        ValueError: it was added before. LwmqError: a `Requests` receives from the channel. ClosedError.
        """
        if isinstance(channel, Listener):
            return self._add_listener(channel, on_client)
        if on_client is not None:
            raise TypeError("on_client goes with a listener, not with a channel")
        if not isinstance(channel, Channel):
            raise TypeError(f"a selector takes channels and listeners, not {type(channel).__name__}")
        handle = channel._handle
        pointer, selector = handle.lend(), self._handle.lend()
        with handle.turn:
            channel._check_not_lent()
            if handle.address in self._channels:
                raise ValueError(f"{channel.address} was added to this selector before")
            try:
                self._channels[handle.address] = (handle, channel._receiving, channel)
                check(lib.lwmq_selector_add(selector, pointer))
                channel._join(self)
                handle.check_open()  # else its close may have missed us
            except BaseException:  # a signal's handler, too
                lib.lwmq_selector_remove(selector, pointer)
                self._channels.pop(handle.address, None)
                channel._leave(self)
                raise

    def _add_listener(self, listener: Listener, on_client: OnClient | None) -> None:
        if on_client is not None and (not callable(on_client) or inspect.iscoroutinefunction(on_client)):
            raise TypeError(f"on_client is a function of one channel, not {on_client!r}")
        pointer, selector = listener._handle.lend(), self._handle.lend()
        with self._handle.turn:
            if listener in self._listeners:
                raise ValueError(f"the listener on {listener.address} was added to this selector before")
            try:
                self._listeners = {**self._listeners, listener: on_client}
                check(lib.lwmq_selector_add_listener(selector, pointer))
                listener._join(self)
                listener._handle.check_open()  # else its close may have missed us
            except BaseException:  # a signal's handler, too
                lib.lwmq_selector_remove_listener(selector, pointer)
                self._drop_listener(listener)
                raise

    def forget_listener(self, listener: Listener) -> None:
        """For the listener, which closes."""
        selector, pointer = self._handle.pointer, listener._handle.pointer
        with self._handle.turn:
            if listener in self._listeners and self.lives() and pointer is not None:
                lib.lwmq_selector_remove_listener(selector, pointer)
            self._drop_listener(listener)

    def _drop_listener(self, listener: Listener) -> None:
        self._listeners = {known: call for known, call in self._listeners.items() if known is not listener}

    def _accept(self) -> None:
        """Accept the clients that wait. Another thread goes on with the channels that there are."""
        if not self._accepting.acquire(blocking=False):
            time.sleep(ACCEPTING_S)
            return
        try:
            self._add_newcomer()  # whom an exception has left
            for listener, on_client in self._listeners.items():
                while (came := self._next_of(listener)) is not None:
                    self._newcomer = came, on_client
                    self._add_newcomer()
        finally:
            self._accepting.release()

    @staticmethod
    def _next_of(listener: Listener) -> Channel | None:
        try:
            return listener.try_accept()
        except errors.ClosedError:  # just now; it leaves by itself
            return None

    def _add_newcomer(self) -> None:
        """Call its on_client once, whatever that raises, and add it, from when on others may receive."""
        if self._newcomer is None:
            return
        channel, on_client = self._newcomer
        if on_client is not None:
            self._newcomer = channel, None
            on_client(channel)  # may receive, and so add it; or close it
        if not channel.closed and channel not in self:
            self.add(channel)
        if self._newcomer is not None and self._newcomer[0] is channel:
            self._newcomer = None

    def remove(self, channel: Channel | Listener) -> None:
        """Remove a channel or a listener. Does nothing if it is not there; a closed one goes by itself.

        The channels that came from a listener stay.
        """
        if isinstance(channel, Listener):
            if channel._handle.usable:
                self.forget_listener(channel)
        elif not isinstance(channel, Channel):
            raise TypeError(f"a selector has channels and listeners, not {type(channel).__name__}")
        elif channel._handle.usable:
            self.forget(channel)

    def lives(self) -> bool:
        """Whether the selector is neither closed nor a parent process's."""
        return self._handle.usable

    def forget(self, channel: Channel) -> None:
        """For the channel, which closes or has no peer any more."""
        selector, pointer = self._handle.pointer, channel._handle.pointer
        if self.lives() and pointer is not None:
            lib.lwmq_selector_remove(selector, pointer)
        self._channels.pop(channel._handle.address, None)
        channel._leave(self)

    def select(self, timeout: float | None = None) -> Channel | None:
        """Wait for the channel whose turn it is; None: the time is over. It may have nothing after all."""
        if self._newcomer is not None:
            self._accept()
        check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        out = ffi.new("lwmq_channel **")
        while True:
            status = wait(
                self._handle,
                lambda selector, ms: lib.lwmq_selector_wait(selector, ms, out),
                None if end is None else max(0.0, end - time.monotonic()),
                turn=self._selecting,
            )
            if status in (lib.LWMQ_E_EMPTY, lib.LWMQ_E_TIMED_OUT):
                return None
            check(status)
            if out[0] == ffi.NULL:
                self._accept()
            elif (known := self._channels.get(address_of(out[0]))) is not None:
                return known[2]

    def receive(self, timeout: float | None = None) -> tuple[Channel, Message]:
        """Wait for the next message, at most `timeout` seconds; return it behind its channel.

        TimeoutError. The end of a conversation is raised as by `Channel.receive`, with the channel as the
        exception's `channel`; the others go on. A listener's channel whose client has gone leaves the
        selector when a receive has said so. It remains to be closed, unless the program drops it.
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
        """A message behind its channel. LWMQ_E_EMPTY: there is none, and the descriptor tells of the next.
        _ASK_AGAIN: there may be one. None: another thread receives.
        """
        got = native_messages.select_now(self._handle, self._selecting, self._channels, Message)
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
        """The next message behind its channel if there is one, else None. Raises what `receive` does."""
        if self._newcomer is not None:
            self._accept()
        while True:
            got = self._receive_now()
            if isinstance(got, tuple):
                return got
            if got == lib.LWMQ_E_EMPTY or (got is None and self.select(0) is None):
                return None

    async def receive_async(self) -> tuple[Channel, Message]:
        """Await the next message behind its channel, on the event loop itself; raises what `receive` does.

        If the task is cancelled, the next call gets the message. One task at a time.
        """
        return await self.readiness.first(self.try_receive)

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops: readable while a channel may have something.

        Poll it; call `try_receive` until that returns None; poll again. It belongs to the selector and ends
        with it. Do not read from it.
        """
        out = ffi.new("int32_t *")
        with self._handle.turn:
            check(lib.lwmq_selector_descriptor(self._handle.lend(), out))
        return int(out[0])

    def _receive_from(self, channel: Channel) -> Message | None:
        try:
            return channel.try_receive()
        except errors.LwmqError as exc:
            self._raise_end(channel, exc)
            return None

    def _raise_end(self, channel: Channel, exc: errors.LwmqError) -> None:
        """Raise `exc`; the last word of a channel once, which another thread may have got as well."""
        exc.channel = channel
        is_told = False
        if channel._is_over_with(exc):
            try:
                is_told = self._channels.pop(channel._handle.address, None) is None  # in one step
            finally:
                channel._note_end(exc)
        if not is_told:
            raise exc from None

    def close(self) -> None:
        """Close the selector. Its channels live on. A second call does nothing."""
        if self._handle.begin_close():
            self._handle.destroy()
            self._channels.clear()
            self._listeners = {}
            self._newcomer = None
            self.readiness.close()

    def __enter__(self) -> Selector:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Channel]:
        """The channels that it has now."""
        return iter([channel for _, _, channel in self._channels.copy().values()])

    def __contains__(self, channel: object) -> bool:
        return isinstance(channel, Channel) and channel._handle.address in self._channels

    def __repr__(self) -> str:
        return f"<Selector of {len(self)} channels>"
