"""Send queues: where the application posts. Each has a priority; messages have none of their own."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from lwmq_spark._ffi import Turn, lib, raise_status
from lwmq_spark.message import Message, frames_of

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


KINDS: dict[str, int] = {"mono_unbounded": lib.LWMQ_QUEUE_MONO_UNBOUNDED}


class SendQueue:
    """Where the application posts. Made by `Channel.send_queue`; lives as long as the channel."""

    def __init__(self, channel: Channel, pointer: Any, kind: str, priority: Priority) -> None:
        self._channel = channel
        self._pointer = pointer
        self._turn = Turn()
        self.kind = kind
        self.priority = priority

    def post(self, frames: Any) -> None:
        """Post one message: bytes or a buffer for one frame, a list of them for several, or a `Message`.

        Never waits. Small frames are copied; of frames over 64 KiB the owner is kept until they were shipped.
        MessageTooBigError: it does not fit a transport buffer; nothing was sent. ClosedError.
        TypeError: a str.
        """
        handle = self._channel._handle
        handle.check_open()
        if type(frames) is bytes:
            with self._turn:
                handle.check_open()
                status = lib.lwmq_send_queue_post_bytes(self._pointer, frames, len(frames))
            if status != lib.LWMQ_OK:
                raise_status(status)
            return
        message = frames if isinstance(frames, Message) else Message(frames_of(frames, "post"))
        reference = message.reference()
        with self._turn:
            try:
                handle.check_open()
                status = lib.lwmq_send_queue_post(self._pointer, reference)
                if status != lib.LWMQ_OK:
                    raise_status(status)
            finally:
                lib.lwmq_message_destroy(reference[0])  # NULL when it was taken

    def __repr__(self) -> str:
        return f"<SendQueue {self.kind} {self.priority.name} of {self._channel.address}>"
