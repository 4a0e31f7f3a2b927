"""Buffers of a raw channel: the transport's own, in the window, without a message around them.

    with channel.get_buffer() as buffer:
        used = fill(buffer.data)
        buffer.send(used)
    with channel.receive_buffer() as buffer:
        read(buffer.data)

Buffers travel in the order in which they are sent.

Nothing that Python can still reach is unmapped, or used for something else. `data` is one memoryview, which
ends with the buffer, not with the channel: whoever touches it then has a ValueError. A slice of it, or an
array on it, cannot be ended by us, so it keeps what it shows, and the buffer goes back when the last of them
has gone; `send` refuses (BufferError) while there is one: the peer would read what an array may still change.

A buffer that is forgotten goes back by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from lwmq_spark import errors
from lwmq_spark._ffi import CallLock, CallLocks, OfOneProcess, check, ffi, lib
from lwmq_spark.options import whole

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel


class Window:
    """The native channel, as far as its buffers care: whether it is there."""

    def __init__(self) -> None:
        self.is_there = True

    def destroy(self, pointer: Any) -> None:
        """When nobody holds it any more. Where garbage is collected, its loans may go behind it."""
        self.is_there = False
        lib.lwmq_channel_destroy(pointer)


class _Loan:
    """A native buffer that goes back when neither its Python buffer nor a view of it is left.

    Made before the buffer is lent, so that there is no moment at which nobody would give it back.
    """

    __slots__ = (
        "__weakref__",
        "_data",
        "_exporters",
        "_give_back",
        "_handle",
        "_pointer",
        "_window",
        "lock",
        "raw",
    )

    def __init__(self, channel: Channel, give_back: Callable[[Any, Any], int]) -> None:
        self.raw: Any = ffi.new("lwmq_buffer *")  # None: it was sent
        self.lock = CallLock()  # to show it, or to send it
        self._handle = channel._handle
        self._pointer = channel._handle.pointer
        self._window = channel._window
        self._give_back = give_back
        self._data: Callable[[], memoryview | None] = lambda: None  # it holds us, and not we it
        self._exporters: list[weakref.ref[Any]] = []  # of what has been shown; alive while an array is

    def show(self, *, readonly: bool) -> memoryview:
        """`data`, until it is hidden the same one. All that is made of it holds its pointer, and that us."""
        if (data := self._data()) is None:
            # The destructor holds us, and is no Python: a signal's handler that raises would end it.
            pointer = ffi.gc(ffi.cast("char *", self.raw.data), (self,).count)
            self._exporters.append(weakref.ref(pointer))
            data = memoryview(ffi.buffer(pointer, self.raw.bytes)).cast("B")
            data = data.toreadonly() if readonly else data
            self._data = weakref.ref(data)
        return data

    def hide(self) -> bool:
        """Ends `data`. False: an array or a slice shows it still."""
        if (data := self._data()) is not None:
            with suppress(BufferError):  # an array on `data` itself
                data.release()
                self._data = lambda: None
            del data
        return all(known() is None for known in self._exporters)

    def __del__(self) -> None:
        try:
            self._go_back()
        except BaseException:  # of a signal's handler, which nobody hears of here; twice is once
            self._go_back()

    def _go_back(self) -> None:
        is_lent = self.raw is not None and self.raw.data != ffi.NULL
        if is_lent and self._window.is_there and not self._handle.forked:
            self._give_back(self._pointer, self.raw)


class _RawBuffer(OfOneProcess):
    """What send and receive buffers share."""

    _readonly: ClassVar[bool]

    def __init__(self, channel: Channel, loan: _Loan) -> None:
        self._channel = channel
        self._loan: _Loan | None = loan
        self._data: memoryview | None = None  # made once

    @property
    def data(self) -> memoryview:
        """In the window itself, also after close; writable if it is to be sent. Ends with it. ClosedError."""
        loan = self._open_loan()
        with loan.lock:
            self._open_loan()  # another thread may have sent it
            if self._data is None:
                self._data = loan.show(readonly=self._readonly)
            return self._data

    @property
    def _raw(self) -> Any:
        """Where the library puts what it lends."""
        return self._open_loan().raw

    def _open_loan(self) -> _Loan:
        loan = self._loan
        if loan is None:
            raise errors.ClosedError(f"the buffer of {self._channel.address} was given back")
        if self._channel._handle.forked:
            self._channel._handle.check_open()  # what it lies in is not mapped here
        return loan

    def _give_back(self) -> None:
        """Now, or when the last array or slice has gone. Twice is once."""
        loan, self._loan, self._data = self._loan, None, None
        if loan is not None:
            loan.hide()

    def __len__(self) -> int:
        loan = self._loan
        raw = None if loan is None else loan.raw
        return 0 if raw is None else int(raw.bytes)

    def __repr__(self) -> str:
        state = "given back" if self._loan is None else f"{len(self)} bytes"
        return f"<{type(self).__name__} of {self._channel.address}, {state}>"


class SendBuffer(_RawBuffer):
    """A free buffer: fill `data`, then `send(used)`. Leaving `with` without sending gives it back unsent."""

    _readonly = False

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, _Loan(channel, lib.lwmq_raw_abandon_buffer))

    def send(self, used_bytes: int | None = None) -> None:
        """Send its first `used_bytes` bytes, all by default. Never waits. Ends `data`.

        ValueError: more than there are. TypeError: no int. BufferError: an array, or a slice of `data`, is
        alive and could change what the peer reads. After these three the buffer is ours still, to be sent
        again or given back, and after ClosedError to be given back. PeerLostError: it is lost.
        """
        used = len(self) if used_bytes is None else whole("used_bytes", used_bytes, 0, (1 << 64) - 1)
        handle = self._channel._handle
        handle.check_open()
        with CallLocks((self._channel._shipping, self._open_loan().lock)):
            handle.check_open()
            loan = self._open_loan()
            if used > len(self):
                raise ValueError(f"cannot send {used} bytes of a buffer of {len(self)}")
            self._data = None
            if not loan.hide():
                raise BufferError(
                    f"this buffer of {self._channel.address} is held by an array, or a slice of `data`: let "
                    "go of it (del, or release()), then send; nothing was sent"
                )
            loan.raw.bytes = used
            status = lib.lwmq_raw_send_buffer(handle.pointer, loan.raw)
            loan.raw = self._loan = None
            check(status)

    def abandon(self) -> None:
        """Give the buffer back unsent: now, or when the last array on it, or slice of `data`, has gone.

        From any thread, also after close; twice is once.
        """
        self._give_back()

    def __enter__(self) -> SendBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abandon()


class ReceiveBuffer(_RawBuffer):
    """A buffer of the peer's: read `data`, then `dispose()`, in any order among buffers. `with` disposes."""

    _readonly = True

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, _Loan(channel, lib.lwmq_raw_dispose_buffer))

    def dispose(self) -> None:
        """Give the buffer back to the peer: now, or when the last array on it, or slice of `data`, has gone.

        From any thread, also after close; twice is once.
        """
        self._give_back()

    def __enter__(self) -> ReceiveBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()
