"""Send queues: where the application posts. Each has a priority; messages have none of their own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from lwmq_spark import errors
from lwmq_spark._ffi import (
    CallLock,
    OfOneProcess,
    Waiter,
    address_of,
    check,
    ffi,
    fields_of,
    lib,
    native_messages,
    raise_status,
    sized,
    span,
    wait,
)
from lwmq_spark.message import Message, frames_of, parts_of
from lwmq_spark.options import whole

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel


class Priority(enum.IntEnum):
    """Of a send queue, never of a message: which queue is collected from first."""

    TIME_CRITICAL = 1
    HIGHEST = 2
    ABOVE_NORMAL = 3
    NORMAL = 4
    BELOW_NORMAL = 5
    LOWEST = 6
    IDLE = 7


def priority_of(priority: Any) -> Priority:
    """ValueError: none."""
    try:
        return Priority(priority)
    except ValueError:
        texts = ", ".join(f"{one.name} ({one.value})" for one in Priority)
        raise ValueError(f"priority {priority!r} is no Priority: {texts}") from None


Kind = Literal[
    "mono_unbounded",
    "multi_unbounded",
    "multi_unbounded_tagged",
    "bounded_discard_oldest",
    "bounded_discard_newest",
    "bounded_discard_oldest_tagged",
    "bounded_discard_newest_tagged",
]
KINDS: dict[str, int] = {kind: getattr(lib, f"LWMQ_QUEUE_{kind.upper()}") for kind in get_args(Kind)}
TAGS_MAX = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class SendQueueStatistics:
    """Counters since the queue was made. While nobody posts or ships, `posted` is the sum of the others.

    `discarded` by the rule of a bounded queue, or by a close; `replaced` by a later post with the same tag.
    """

    posted: int
    collected: int
    discarded: int
    replaced: int
    queued: int


class NativeQueue:
    """The library's part of a send queue, and its locks. It is the channel's, and knows it not."""

    __slots__ = ("address", "capacity", "kind", "last", "lock", "pointer", "priority", "waiting")

    def __init__(self, pointer: Any, kind: Kind, priority: Priority, capacity: int) -> None:
        self.pointer = pointer
        self.address = address_of(pointer)
        self.kind = kind
        self.priority = priority
        self.capacity = capacity
        self.lock = CallLock()
        self.waiting = CallLock()  # for those who wait for room: the others pass them
        self.last: SendQueueStatistics | None = None  # behind the close of the channel

    def query(self) -> SendQueueStatistics:
        """With its lock in hand, and before the channel is destroyed."""
        raw = sized("lwmq_send_queue_statistics")
        check(lib.lwmq_send_queue_query(self.pointer, raw))
        figures = fields_of(raw)
        return SendQueueStatistics(**{f.name: figures[f.name] for f in fields(SendQueueStatistics)})


class SendQueue(OfOneProcess):
    """Where the application posts. Made by `Channel.send_queue`; holds the channel, which closes with the
    last of them unless it was closed before.

    Any number of threads may post; the messages of each keep their order.
    """

    def __init__(self, channel: Channel, native: NativeQueue) -> None:
        self._channel = channel
        self._native = native
        self._lock = native.lock
        self._address = native.address
        self._waiter: Waiter | None = None
        self.kind = native.kind
        self.capacity = native.capacity  # 0: unbounded

    @property
    def priority(self) -> Priority:
        """May be set: the queue moves with all its messages."""
        return self._native.priority

    @priority.setter
    def priority(self, priority: Priority) -> None:
        priority = priority_of(priority)
        check(self._in_turn(lib.lwmq_send_queue_set_priority, priority))
        self._native.priority = priority

    def post(self, frames: Any, *, tag: int = 0, timeout: float | None = 0, may_discard: bool = True) -> None:
        """Post one message: bytes or a buffer for one frame, a list of them for several, or a `Message`.

        tag: of tagged queues: an unsent message of the same tag is removed first, and this one goes to the
        end; 0 is no tag, and no tag travels.
        timeout: of bounded queues: seconds to wait for room (None: for ever), before the rule of the queue
        discards. Otherwise a post never waits. Not where the channel has several transports.
        may_discard: False: where there is no room by then nothing is discarded, and TimeoutError says so.
        A single bytes is copied, of whatever size, as are frames up to 64 KiB. Of larger ones the owner is
        kept until they were shipped; inside one process, where the receiver gets the very bytes, until it is
        done with them. Who changes them before changes the message.
        MessageTooBigError: it does not fit a transport buffer; nothing was sent. ClosedError.
        TypeError: a str. ValueError: a tag for a queue without tags, a timeout for one without bounds.
        """
        handle = self._channel._handle
        if tag == 0 and timeout == 0 and may_discard and type(frames) in (bytes, list, tuple):
            status = native_messages.post_now(handle, self._lock, self._address, frames)
            if status is None and type(frames) is bytes:
                status = self._in_turn(lib.lwmq_send_queue_post_bytes, frames, len(frames))
            if status is not None:
                if status != lib.LWMQ_OK:
                    raise_status(status)
                return
        handle.check_open()
        tag = whole("tag", tag, 0, TAGS_MAX)
        message = frames if isinstance(frames, Message) else Message(parts_of(frames, "post"))
        reference = message.reference()
        try:
            if timeout == 0 and may_discard:
                check(self._in_turn(lib.lwmq_send_queue_post_tagged, tag, reference))
            else:
                self._post_when_there_is_room(reference, tag, timeout, may_discard)
        finally:
            lib.lwmq_message_destroy(reference[0])  # NULL when it was taken

    def _post_when_there_is_room(
        self, reference: Any, tag: int, timeout: float | None, may_discard: bool
    ) -> None:
        self._check_bounded(timeout)
        if timeout == 0:
            status = self._in_turn(lib.lwmq_send_queue_post_wait, tag, 0, 0, reference)
        else:
            status = wait(
                self._channel._handle,
                lambda ms: lib.lwmq_send_queue_post_wait(self._native.pointer, tag, ms, 0, reference),
                timeout,
                lock=self._native.waiting,
            )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            if not may_discard:
                raise self._no_room(timeout)
            status = self._in_turn(lib.lwmq_send_queue_post_tagged, tag, reference)  # now the rule applies
        check(status)

    def wait_room(self, timeout: float | None = None) -> None:
        """Waits until a bounded queue has room; another thread may post first. TimeoutError, ClosedError.

        ValueError: an unbounded queue, which has always room. LwmqError: a channel with several transports.
        """
        self._check_bounded(timeout)
        status = wait(
            self._channel._handle,
            lambda ms: lib.lwmq_send_queue_wait_room(self._native.pointer, ms),
            timeout,
            lock=self._native.waiting,
        )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            raise self._no_room(timeout)
        check(status)

    @property
    def waiter(self) -> Waiter:
        """Whose thread waits for room while an event loop goes on."""
        if self._waiter is None:
            self._waiter = Waiter(f"lwmq room {self._channel.address}")
        return self._waiter

    def _check_bounded(self, timeout: float | None) -> None:
        if timeout != 0 and not self.capacity:
            asked = "for ever" if timeout is None else span(timeout)
            raise errors.ArgumentError(
                f"an unbounded queue has room at once: no timeout, here {asked}, is needed"
                f" ({self._channel.address})",
                status=lib.LWMQ_E_INVALID,
            )

    def _no_room(self, timeout: float | None) -> errors.TimeoutError:
        return errors.TimeoutError(
            f"no room within {span(timeout)} in a send queue of {self.capacity} messages;"
            f" nothing was posted or discarded ({self._channel.address})",
            status=lib.LWMQ_E_TIMED_OUT,
        )

    def post_many(self, messages: Iterable[Any]) -> None:
        """Post many messages in their order, each as `post` takes it; those of one frame are copied.

        Costs less than a post for each. MessageTooBigError: nothing was posted. TypeError: one of them is
        neither a buffer nor a list of them nor a `Message`.
        """
        if isinstance(messages, bytes | bytearray | memoryview | str | Message):
            raise TypeError(f"post_many() takes a list of messages, not one {type(messages).__name__}")
        messages = messages if type(messages) is tuple else list(messages)
        status = native_messages.post_many_now(self._channel._handle, self._lock, self._address, messages)
        if status is not None:
            check(status)
        elif any(isinstance(message, Message | list | tuple) for message in messages):
            self._post_messages(messages)
        else:
            self._post_frames(messages)

    def _post_frames(self, frames: Iterable[Any]) -> None:
        views = [frame if type(frame) is bytes else _one_frame(frame) for frame in frames]
        kept = [ffi.from_buffer("char[]", view) for view in views]
        array = ffi.new("lwmq_bytes[]", [(data, len(data)) for data in kept])
        posted = ffi.new("uint64_t *")
        check(self._in_turn(lib.lwmq_send_queue_post_many, array, len(kept), posted))

    def _post_messages(self, messages: Sequence[Any]) -> None:
        made = [m if isinstance(m, Message) else Message(parts_of(m, "post_many")) for m in messages]
        array = ffi.new("lwmq_message *[]", len(made))
        posted = ffi.new("uint64_t *")
        try:
            for place, message in enumerate(made):
                array[place] = message.reference()[0]
            check(self._in_turn(lib.lwmq_send_queue_post_messages, array, len(made), posted))
        finally:
            for reference in array:
                lib.lwmq_message_destroy(reference)  # NULL when it was taken

    @property
    def statistics(self) -> SendQueueStatistics:
        """Counters of this queue; after the close of the channel the last. ClosedError while that closes."""
        if self._native.last is not None:
            return self._native.last
        handle = self._channel._handle
        handle.check_open()
        with self._lock:
            handle.check_open()
            return self._native.query()

    def _in_turn(self, call: Callable[..., int], *arguments: Any) -> int:
        """The status of a native call for this queue."""
        handle = self._channel._handle
        handle.check_open()
        with self._lock:
            handle.check_open()
            return call(self._native.pointer, *arguments)

    def __repr__(self) -> str:
        bound = f", at most {self.capacity}" if self.capacity else ""
        return f"<SendQueue {self.kind} {self.priority.name} of {self._channel.address}{bound}>"


def _one_frame(frame: Any) -> memoryview:
    views = frames_of(frame, "post_many")
    if len(views) != 1:
        kind = type(frame).__name__
        raise TypeError(f"post_many() takes several frames of a message as a list, not {kind}")
    return views[0]
