"""native/src/python/messages.c: messages as Python objects, for the calls that are made once per message."""

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
    def _take(self, address: int) -> None:
        """Takes the native message at this address. ValueError, and it is destroyed: there is one already."""
    def _make(self, frames: object) -> bool:
        """Makes the native message of a list or tuple of short buffers, which are copied.

        False, and nothing was done: they are something else, too long, or there is a message already.
        """
    @property
    def _address(self) -> int:
        """Of the native message, which stays ours."""

class Turn:
    """A lock that threads pass in the order they came: one that waits in slices lets the others in.

    `with` leaves it open whatever a signal's handler raises, and when; so it is for those below. A thread
    that is inside and enters again: RuntimeError.
    """

    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...
    def within(self, seconds: float | None) -> Attempt:
        """For one `with`, which says whether we are inside: False where others were for that long."""
    def held_here(self) -> bool:
        """Whether the thread that asks is inside."""

class Attempt:
    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...

class Condition:
    """As threading.Condition, as far as a Future needs it; for signals see Turn."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc: object) -> None: ...
    def acquire(self) -> bool: ...
    def release(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """False where nobody has notified within `timeout` seconds."""
    def notify_all(self) -> None: ...

M = TypeVar("M", bound=Message)
C = TypeVar("C")
R = TypeVar("R")

def receive(channel: int, timeout_ms: int, type: type[M]) -> M | int:
    """lwmq_channel_receive: a message, or the status."""

def receive_now(handle: Handle, turn: Turn, type: type[M]) -> M | int | None:
    """receive without a wait, the GIL in hand. None: the handle is not usable, or `turn` is taken."""

def select_now(
    handle: Handle, turn: Turn, members: dict[int, tuple[Handle, Turn, C]], type: type[M]
) -> tuple[C, M] | C | list[Any] | bool | int | None:
    """lwmq_selector_wait and lwmq_selector_take, the GIL in hand; members: by the address of the channel.

    A channel alone: it may have something, and another thread is inside of its turn, or it is being closed.
    A list: the channel whose receive has failed, and the status. True: a client waits at a listener. The
    selector's own status: LWMQ_E_EMPTY; LWMQ_E_INTERRUPTED after many looks in vain. None: as above.
    """

def post_now(handle: Handle, turn: Turn, queue: int, frames: object) -> int | None:
    """A post of bytes, or of a list or tuple of buffers, the GIL in hand: the status. None as above; for what
    is too long, or something else, too.
    """

def post_many_now(handle: Handle, turn: Turn, queue: int, frames: object) -> int | None:
    """lwmq_send_queue_post_many, the GIL in hand: the status. None as above; for something else than bytes,
    nothing, or more than a MiB, too.
    """

def receive_many(channel: int, limit: int, timeout_ms: int, type: type[M]) -> list[M] | int:
    """lwmq_channel_receive_many: messages, or the status."""

def receive_bytes(channel: int, limit: int, timeout_ms: int) -> list[bytes] | int:
    """lwmq_channel_receive_loan: of each message all frames, one after the other; or the status."""

def requests_submit(
    requests: int,
    timeout_ms: int,
    will_wait: bool,
    frames: object,
    replies: dict[int, R],
    reply: R,
) -> int | None:
    """lwmq_requests_submit, or lwmq_requests_begin for a caller that will wait; the GIL in hand: the status.

    `frames`: bytes, a list or tuple of short buffers, or a message that begins with the head of a request.
    None: something else, or too long. On LWMQ_OK the reply has its number as `_number`, and is in `replies`.
    """

def requests_wait(
    requests: int, number: int, timeout_ms: int, type: type[M], came: list[M | tuple[int, str, M | None]]
) -> None:
    """lwmq_requests_wait. What is told is appended to `came`, in a step that no signal's handler divides.

    That is the reply; or the status, the text, and the message of a handler that has failed, else None.
    """

def requests_next(
    requests: int, timeout_ms: int, type: type[M], came: list[tuple[int, M | tuple[int, str, M | None]]]
) -> None:
    """lwmq_requests_next, for up to 256 outcomes: each is appended to `came` behind its number.

    A failure that concerns no request has the number 0; an answer that concerns none is left out.
    """

def reply_head(message: Message) -> bytes | None:
    """The first frame of a reply to `message`, as lwmq_reply_make makes it; None where it is no request."""
