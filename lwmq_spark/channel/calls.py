"""Messages by call-back: one thread for all channels that have one, asleep while nothing comes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import Condition, background_thread
from lwmq_spark.channel.selector import Selector
from lwmq_spark.message import Message

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel

T = TypeVar("T")

_log = logging.getLogger("lwmq_spark")
# Of one channel before another has its turn: so many messages, or as many as take so long.
TURN = 16
TURN_S = 0.001


class CallBacks(NamedTuple):
    """Of one channel; without `on_end` what it would get is logged."""

    on_message: Callable[[Message], object]
    on_end: Callable[[errors.LwmqError], object] | None


class Calls:
    """Who is called for which channel. Any thread; a call-back may change its own."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._selector = Selector()
        self._callbacks: dict[Channel, CallBacks] = {}
        self._running: Channel | None = None
        self._thread: threading.Thread | None = None

    def put(self, channel: Channel, callbacks: CallBacks) -> None:
        with self._changed:
            if channel not in self._callbacks:
                self._selector.add(channel)
            self._callbacks[channel] = callbacks
            if self._thread is None:
                self._thread = background_thread(self._run, "lwmq calls")
                self._thread.start()

    def drop(self, channel: Channel) -> None:
        """Afterwards the call-back is not called, and does not run, unless it asks itself."""
        with self._changed:
            if self._callbacks.pop(channel, None) is not None:
                self._selector.remove(channel)
            if self._thread is not threading.current_thread():
                while self._running is channel:
                    self._changed.wait()

    def _run(self) -> None:
        while True:
            channel = self._selector._select_asleep()
            if channel is not None:
                self._call_in_turn(channel)
            del channel  # asleep we keep nobody's

    def _call_in_turn(self, channel: Channel) -> None:
        with self._changed:
            callbacks = self._callbacks.get(channel)
            if callbacks is None:
                return
            self._running = channel
        try:
            end = time.monotonic() + TURN_S
            for _ in range(TURN):
                if not self._call(channel, callbacks) or self._callbacks.get(channel) is not callbacks:
                    break
                if time.monotonic() > end:
                    break
        finally:
            with self._changed:
                self._running = None
                self._changed.notify_all()

    def _call(self, channel: Channel, callbacks: CallBacks) -> bool:
        """False: there is no message. Nothing that a call-back raises ends the thread of all the others."""
        try:
            message = channel.try_receive()
        except Exception as error:  # also no memory for a message
            is_last = channel._is_over_with(error)
            if is_last:
                self.drop(channel)  # nobody follows
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
    def _guarded(channel: Channel, callback: Callable[[T], object], what: T) -> None:
        try:
            callback(what)
        except BaseException:
            of = "messages" if isinstance(what, Message) else "the end"
            _log.exception("the call-back for %s of %s has failed", of, channel.address)


calls = Calls()
