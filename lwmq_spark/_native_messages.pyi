"""native/src/python/messages.c: messages as Python objects, for the calls that are made once per message."""

from threading import Lock
from typing import TypeVar

from lwmq_spark._ffi import Handle

class Message:
    """Owns one native message."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def tobytes(self) -> bytes:
        """A copy of all frames, one after the other."""
    def _take(self, address: int) -> None:
        """Takes the native message at this address. ValueError, and it is destroyed: there is one already."""
    def _make(self, frames: object) -> bool:
        """Makes the native message of a list or tuple of short buffers, which are copied.

        False, and nothing was done: they are something else, too long, or there is a message already.
        """
    @property
    def _address(self) -> int:
        """Of the native message, which stays ours."""

M = TypeVar("M", bound=Message)

def receive(channel: int, timeout_ms: int, type: type[M]) -> M | int:
    """lwmq_channel_receive: a message, or the status."""

def receive_now(handle: Handle, lock: Lock | None, type: type[M]) -> M | int | None:
    """receive without a wait, the GIL in hand. None: the handle is not usable, or `lock` is taken or None."""

def post_now(handle: Handle, lock: Lock, queue: int, frame: object) -> int | None:
    """lwmq_send_queue_post_bytes, the GIL in hand: the status. None as above; of no short bytes, too."""

def receive_many(channel: int, limit: int, timeout_ms: int, type: type[M]) -> list[M] | int:
    """lwmq_channel_receive_many: messages, or the status."""

def receive_bytes(channel: int, limit: int, timeout_ms: int) -> list[bytes] | int:
    """lwmq_channel_receive_loan: of each message all frames, one after the other; or the status."""
