"""native/src/python/messages.c: messages as Python objects, for the calls that are made once per message."""

from collections import deque
from typing import Any, TypeVar

from lwmq_spark._ffi import Handle

class Message:
    """Owns one native message."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def tobytes(self) -> bytes:
        """A copy of all frames, one after the other."""
    def _frames(self, first: int) -> list[memoryview]: ...
    def _set_timestamp(self, index: int, source: int, ticks: int) -> int:
        """The status. OverflowError: no such number in C."""
    def _ticks(self, place: int) -> int:
        """Of the frame at this place, which is there; 0: it has none."""
    def _reference(self) -> int:
        """The address of a second native message on the same frames, for who takes one. MemoryError."""
    def _take(self, address: int) -> None:
        """Takes the native message at this address. ValueError, and it is destroyed: there is one already."""
    def _make(self, frames: object) -> bool:
        """Makes the native message of a list or tuple of short buffers, which are copied.

        False, and nothing was done: they are something else, too long, or there is a message already.
        """
    @property
    def _address(self) -> int:
        """Of the native message, which stays ours."""

class CallLock:
    """A lock that threads pass in the order they came: one that waits in slices lets the others in.

    `with` leaves it open whatever a signal's handler raises, and when; so it is for those below. A thread
    that is inside and enters again: RuntimeError.
    """

    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...
    def within(self, seconds: float | None) -> Attempt:
        """For one `with`, which says whether we are inside: False where others were for that long."""

class Attempt:
    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...

class CallLocks:
    """All of them, taken one after the other."""

    def __init__(self, locks: tuple[CallLock, ...]) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...

class CallCount:
    """In place of a CallLock, where any number of threads call at once."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...
    def within(self, seconds: float | None) -> CallCount:
        """As of a CallLock: itself, for it is entered at once."""
    def empty(self) -> None:
        """Until nobody is inside; for who sends newcomers away: they come in, find it closed, and leave.

        RuntimeError: the caller is inside, in a signal's handler.
        """
    def has_caller(self) -> bool:
        """Whether the thread that asks is inside."""

class Condition:
    """As threading.Condition, as far as a Future needs it; for signals see CallLock."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...
    def acquire(self) -> bool: ...
    def release(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """False where nobody has notified within `timeout` seconds."""
    def notify_all(self) -> None: ...

M = TypeVar("M", bound=Message)
C = TypeVar("C")

def receive(channel: int, timeout_ms: int, type: type[M]) -> M | int:
    """lwmq_channel_receive: a message, or the status."""

def receive_now(handle: Handle, lock: CallLock | CallCount, type: type[M]) -> M | int | None:
    """receive without a wait, the GIL in hand. None: the handle is not usable, `lock` is taken or counts."""

def select_now(
    handle: Handle, lock: CallLock, members: dict[int, tuple[Handle, CallLock | CallCount, C]], type: type[M]
) -> tuple[C, M] | C | list[Any] | bool | int | None:
    """lwmq_selector_wait and lwmq_selector_take, the GIL in hand; members: by the address of the channel.

    A channel alone: it may have something, and another thread is inside of its lock, it is a CallCount, or it
    is being closed. A list: the channel whose receive has failed, and the status. True: a client waits at a
    listener. The selector's own status: LWMQ_E_EMPTY; LWMQ_E_INTERRUPTED after many looks in vain. None: as
    above.
    """

def post_now(handle: Handle, lock: CallLock, queue: int, frames: object) -> int | None:
    """A post of bytes, or of a list or tuple of buffers, the GIL in hand: the status. None as above; for what
    is too long, or something else, too.
    """

def post_many_now(handle: Handle, lock: CallLock, queue: int, frames: object) -> int | None:
    """lwmq_send_queue_post_many, the GIL in hand: the status. None as above; for something else than bytes,
    nothing, or more than a MiB, too.
    """

def receive_many(channel: int, limit: int, timeout_ms: int, type: type[M]) -> list[M] | int:
    """lwmq_channel_receive_many: messages, or the status."""

def receive_into(channel: int, timeout_ms: int, type: type[M], came: deque[M | tuple[int, str]]) -> int:
    """As receive_many of 256, but appended to `came`; as is what ended a receive, its status and its text."""

def receive_bytes(channel: int, limit: int, timeout_ms: int) -> list[bytes] | int:
    """lwmq_channel_receive_loan: of each message all frames, one after the other; or the status."""
