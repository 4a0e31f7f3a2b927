"""Messages by call-back: one thread for all channels that have one, asleep while nothing comes.

The library's own thread for call-backs is none of Python's. One that is, over a selector, hands messages over
without entering the interpreter from outside, and ends with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import Condition, Handle, address_of, check, ffi, lib
from lwmq_spark._waiting import background_thread
from lwmq_spark.message import Message

T = TypeVar("T")

_log = logging.getLogger("lwmq_spark")
# A channel has its turn for so many messages, or for so long.
TURN = 16
TURN_S = 0.001


class Called(Protocol):
    """A channel, as far as this file knows it."""

    _handle: Handle

    @property
    def address(self) -> str: ...
    def try_receive(self) -> Message | None: ...
    def _is_over_with(self, exc: BaseException) -> bool: ...


class CallBacks(NamedTuple):
    """The call-backs of one channel. Without `on_end` the end of a conversation is logged."""

    on_message: Callable[[Message], object]
    on_end: Callable[[errors.LwmqError], object] | None


class Calls:
    """Which call-backs run for which channel. Any thread; a call-back may change its own channel's."""

    def __init__(self) -> None:
        self._selector: Any = None  # made with the first call-back: a program may fork before
        self._changed = Condition()
        self._called: dict[int, tuple[Called, CallBacks]] = {}  # by the address of the native channel
        self._running: Called | None = None
        self._thread: threading.Thread | None = None

    def put(self, channel: Called, callbacks: CallBacks) -> None:
        """From now on `callbacks` run for `channel`, instead of those before."""
        pointer = channel._handle.lend()
        with self._changed:
            if self._selector is None:
                out = ffi.new("lwmq_selector **")
                check(lib.lwmq_selector_create(out))
                self._selector = ffi.gc(out[0], lib.lwmq_selector_destroy)
            if channel._handle.address not in self._called:
                check(lib.lwmq_selector_add(self._selector, pointer))
            self._called[channel._handle.address] = channel, callbacks
            if self._thread is None:
                self._thread = background_thread(self._run, "lwmq calls")
                self._thread.start()

    def drop(self, channel: Called) -> None:
        """Afterwards no call-back of `channel` runs, except one that makes this call."""
        pointer = channel._handle.pointer
        with self._changed:
            if self._called.pop(channel._handle.address, None) is not None and pointer is not None:
                lib.lwmq_selector_remove(self._selector, pointer)
            if self._thread is not threading.current_thread():
                while self._running is channel:
                    self._changed.wait()

    def _run(self) -> None:
        out = ffi.new("lwmq_channel **")
        while True:
            status = lib.lwmq_selector_wait(self._selector, lib.LWMQ_FOREVER, out)
            if status != lib.LWMQ_E_INTERRUPTED:
                check(status)
                self._call_in_turn(address_of(out[0]))

    def _call_in_turn(self, address: int) -> None:
        with self._changed:
            called = self._called.get(address)
            if called is None:  # dropped meanwhile
                return
            channel, callbacks = called
            self._running = channel
        try:
            end = time.monotonic() + TURN_S
            for _ in range(TURN):
                if not self._call(channel, callbacks) or self._called.get(address) is not called:
                    break
                if time.monotonic() > end:
                    break
        finally:
            with self._changed:
                self._running = None
                self._changed.notify_all()

    def _call(self, channel: Called, callbacks: CallBacks) -> bool:
        """False: there is no message. What a call-back raises does not end the thread, which serves all."""
        try:
            message = channel.try_receive()
        except Exception as error:  # also for want of memory for a message
            is_last = channel._is_over_with(error)
            if is_last:
                self.drop(channel)  # no further peer comes
            if callbacks.on_end is not None and isinstance(error, errors.LwmqError):
                self._guarded(channel, callbacks.on_end, error)
            else:
                went = is_last and isinstance(error, errors.ClosedError)  # as every client does
                _log.log(logging.INFO if went else logging.WARNING, "%s: %s", channel.address, error)
            return False
        if message is None:
            return False
        self._guarded(channel, callbacks.on_message, message)
        return True

    @staticmethod
    def _guarded(channel: Called, callback: Callable[[T], object], what: T) -> None:
        try:
            callback(what)
        except BaseException:
            of = "messages" if isinstance(what, Message) else "the end"
            _log.exception("the call-back for %s of %s has failed", of, channel.address)


calls = Calls()
