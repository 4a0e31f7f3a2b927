"""Send queues: where the application posts. A queue has a priority; a message has none of its own."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Handle,
    OfOneProcess,
    Turn,
    address_of,
    check,
    ffi,
    fields_of,
    lib,
    native_messages,
    raise_status,
    sized,
)
from lwmq_spark._waiting import Waiter, span, wait
from lwmq_spark.message import Message, frames_of, parts_of
from lwmq_spark.options import whole


class Priority(enum.IntEnum):
    """Which send queue of a channel is served first.

    TIME_CRITICAL is strict: while such a queue has messages, no other is served. IDLE is served when all
    others are empty. The five between share the channel by weight; see `Channel.set_weights`.
    """

    TIME_CRITICAL = 1
    HIGHEST = 2
    ABOVE_NORMAL = 3
    NORMAL = 4
    BELOW_NORMAL = 5
    LOWEST = 6
    IDLE = 7


def priority_of(priority: Any) -> Priority:
    """`priority` as a Priority. ValueError: there is no such one."""
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
    """Counters since the queue was made, in messages.

    While no thread posts or ships, `posted` is the sum of the others: `collected`, on their way or arrived;
    `discarded`, by the rule of a bounded queue or by a close; `replaced`, by a later post with the same tag;
    `queued`, waiting now.
    """

    posted: int
    collected: int
    discarded: int
    replaced: int
    queued: int


class SendQueue(OfOneProcess):
    """Where the application posts. `Channel.send_queue` makes it; it lives as long as the channel.

    Any number of threads may post. The messages of one thread keep their order.
    """

    def __init__(
        self,
        channel: object,
        handle: Handle,
        where: str,
        pointer: Any,
        kind: Kind,
        priority: Priority,
        capacity: int,
    ) -> None:
        """channel: is kept. handle: the channel's, with which the native queue goes. where: its address."""
        self._channel = channel
        self._handle = handle
        self._where = where
        self._pointer = pointer
        self._turn = Turn()  # held by a thread that posts; a mono queue takes one at a time
        self._address = address_of(self._pointer)
        self._waiting = Turn()  # held by a thread that waits for room, which other posts pass
        self._waiter: Waiter | None = None
        self._last: SendQueueStatistics | None = None  # after the close of the channel
        self._priority = priority
        self.kind = kind
        self.capacity = capacity  # in messages; 0 is unbounded

    @property
    def priority(self) -> Priority:
        """May be set: the queue moves to the new priority with all its messages."""
        return self._priority

    @priority.setter
    def priority(self, priority: Priority) -> None:
        priority = priority_of(priority)
        check(self._in_turn(lib.lwmq_send_queue_set_priority, priority))
        self._priority = priority

    def post(self, frames: Any, *, tag: int = 0, timeout: float | None = 0, may_discard: bool = True) -> None:
        """Post one message.

        frames: bytes or another buffer for one frame, a list of them for several, or a `Message`. A single
            bytes object is copied, whatever its size, and so are frames up to 64 KiB. Larger frames are not:
            their owner is kept until they were shipped or, inside one process, until the receiver is done
            with them. A program that changes such a buffer before changes the message.
        tag: of a tagged queue: first removes the unsent message of the same tag; this one goes to the end of
            the queue. 0 is no tag. Tags do not travel.
        timeout: of a bounded queue: seconds to wait for room (None: without limit) before the rule of the
            queue discards a message. Otherwise a post never waits. Not on a channel of several transports.
        may_discard: if False, TimeoutError instead of a discarded message; then nothing was posted.
        MessageTooBigError: the message does not fit a transport buffer; nothing was posted. ClosedError.
        TypeError: a str. ValueError: a tag for an untagged queue, a timeout for an unbounded one.
        """
        if tag == 0 and timeout == 0 and may_discard and type(frames) in (bytes, list, tuple):
            status = native_messages.post_now(self._handle, self._turn, self._address, frames)
            if status is None and type(frames) is bytes:
                status = self._in_turn(lib.lwmq_send_queue_post_bytes, frames, len(frames))
            if status is not None:
                if status != lib.LWMQ_OK:
                    raise_status(status)
                return
        self._handle.check_open()
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
                self._handle,
                lambda _, ms: lib.lwmq_send_queue_post_wait(self._pointer, tag, ms, 0, reference),
                timeout,
                turn=self._waiting,
            )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            if not may_discard:
                raise self._no_room(timeout)
            status = self._in_turn(lib.lwmq_send_queue_post_tagged, tag, reference)  # now the rule applies
        check(status)

    def wait_room(self, timeout: float | None = None) -> None:
        """Wait until a bounded queue has room; another thread may take it first. TimeoutError, ClosedError.

        ValueError: an unbounded queue, which always has room. LwmqError: a channel of several transports.
        """
        self._check_bounded(timeout)
        status = wait(
            self._handle,
            lambda _, ms: lib.lwmq_send_queue_wait_room(self._pointer, ms),
            timeout,
            turn=self._waiting,
        )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            raise self._no_room(timeout)
        check(status)

    @property
    def waiter(self) -> Waiter:
        """Waits for room on its thread while an event loop goes on."""
        if self._waiter is None:
            self._waiter = Waiter(f"lwmq room {self._where}")
        return self._waiter

    def _check_bounded(self, timeout: float | None) -> None:
        if timeout != 0 and not self.capacity:
            asked = "for ever" if timeout is None else span(timeout)
            raise errors.ArgumentError(
                f"an unbounded queue has room at once: no timeout, here {asked}, is needed ({self._where})",
                status=lib.LWMQ_E_INVALID,
            )

    def _no_room(self, timeout: float | None) -> errors.TimeoutError:
        return errors.TimeoutError(
            f"no room within {span(timeout)} in a send queue of {self.capacity} messages;"
            f" nothing was posted or discarded ({self._where})",
            status=lib.LWMQ_E_TIMED_OUT,
        )

    def post_many(self, messages: Iterable[Any]) -> None:
        """Post many messages in their order, each as `post` takes it; messages of one frame are copied.

        Costs less than a call for each. MessageTooBigError: nothing was posted. TypeError: a message is
        neither a buffer, nor a list of buffers, nor a `Message`.
        """
        if isinstance(messages, bytes | bytearray | memoryview | str | Message):
            raise TypeError(f"post_many() takes a list of messages, not one {type(messages).__name__}")
        messages = messages if type(messages) is tuple else list(messages)
        status = native_messages.post_many_now(self._handle, self._turn, self._address, messages)
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
        """Counters of this queue; after the close of the channel the last. ClosedError while it closes."""
        return self._last or self._query(self._in_turn)

    def _query(self, call: Callable[..., int]) -> SendQueueStatistics:
        raw = sized("lwmq_send_queue_statistics")
        check(call(lib.lwmq_send_queue_query, raw))
        figures = fields_of(raw)
        return SendQueueStatistics(**{f.name: figures[f.name] for f in fields(SendQueueStatistics)})

    def _keep_last(self) -> None:
        """After the close of the channel, whose native object lives still."""
        self._last = self._query(lambda query, raw: query(self._pointer, raw))

    def _in_turn(self, call: Callable[..., int], *arguments: Any) -> int:
        """The status of a native call for this queue."""
        channel = self._handle.lend()
        with self._turn:
            self._handle.check_open()
            status = call(self._pointer, *arguments)
        del channel  # the queue lives as long
        return status

    def __repr__(self) -> str:
        bound = f", at most {self.capacity}" if self.capacity else ""
        return f"<SendQueue {self.kind} {self.priority.name} of {self._where}{bound}>"


def _one_frame(frame: Any) -> memoryview:
    views = frames_of(frame, "post_many")
    if len(views) != 1:
        kind = type(frame).__name__
        raise TypeError(f"post_many() takes several frames of a message as a list, not {kind}")
    return views[0]
