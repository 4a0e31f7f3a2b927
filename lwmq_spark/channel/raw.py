"""Buffers of a raw channel: the transport's own, without a message around them.

    with channel.get_buffer() as buffer:
        used = fill(buffer.data)
        buffer.send(used)
    with channel.receive_buffer() as buffer:
        read(buffer.data)

Buffers arrive in the order in which they are sent. A buffer that the program forgets goes back by itself.

Memory that Python can still reach is neither unmapped nor used for something else. `data` is a memoryview
that ends with its buffer, not with the channel; using it afterwards is a ValueError. A slice of `data`, or an
array on it, cannot be ended by the library. It keeps what it shows, and the buffer goes back when the last of
them is gone. `send` refuses with BufferError while there is one, because it could change what the peer reads.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, OfOneProcess, Turn, check, ffi, lib
from lwmq_spark.options import whole


class RawSide:
    """The raw side of a channel, which its buffers hold: the native channel lives as long as they do."""

    def __init__(self) -> None:
        self.exists = True
        self.handle: Handle  # of the channel
        self.address: str
        self.shipping = Turn()  # held by a thread that gets or sends a buffer

    def destroy(self, pointer: Any) -> None:
        """Destroy the native channel. The garbage collector may finalize its buffers after this."""
        self.exists = False
        lib.lwmq_channel_destroy(pointer)


class _Loan:
    """A native buffer that goes back when neither its Python object nor a view of it is left.

    It is made before the library lends the buffer, so that the buffer always has an owner that gives it back.
    """

    __slots__ = ("__weakref__", "_data", "_exporters", "_give_back", "_pointer", "_side", "raw")

    def __init__(self, side: RawSide, give_back: Callable[[Any, Any], int]) -> None:
        self.raw: Any = ffi.new("lwmq_buffer *")  # None: it was sent
        self._side = side
        self._pointer = side.handle.lend()
        self._give_back = give_back
        self._data: Callable[[], memoryview | None] = lambda: None  # the view holds this, not vice versa
        self._exporters: list[weakref.ref[Any]] = []  # of the views so far; alive while an array is

    def show(self, *, readonly: bool) -> memoryview:
        """`data`: the same view until it is hidden. What is made from it holds its pointer, and so this."""
        if (data := self._data()) is None:
            # The destructor holds this loan and is no Python code, which a signal's handler could end.
            pointer = ffi.gc(ffi.cast("char *", self.raw.data), (self,).count)
            self._exporters.append(weakref.ref(pointer))
            data = memoryview(ffi.buffer(pointer, self.raw.bytes)).cast("B")
            data = data.toreadonly() if readonly else data
            self._data = weakref.ref(data)
        return data

    def hide(self) -> bool:
        """End `data`. False: an array or a slice still shows it."""
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
        is_lent = getattr(self, "_pointer", None) is not None and self.raw is not None and self.raw.data
        if is_lent and self._side.exists and not self._side.handle.forked:
            self._give_back(self._pointer, self.raw)


class _RawBuffer(OfOneProcess):
    """What send and receive buffers share."""

    _readonly: ClassVar[bool]

    def __init__(self, side: RawSide, loan: _Loan) -> None:
        self._side = side
        self._loan: _Loan | None = loan
        self._data: memoryview | None = None  # made once

    @property
    def data(self) -> memoryview:
        """The bytes of the buffer where they lie; writable if it is to be sent. It ends with the buffer.

        It stays after the close of the channel. ClosedError: the buffer was given back.
        """
        loan = self._open_loan()
        if self._data is None:
            self._data = loan.show(readonly=self._readonly)
        return self._data

    @property
    def _raw(self) -> Any:
        """The lwmq_buffer into which the library lends."""
        return self._open_loan().raw

    def _open_loan(self) -> _Loan:
        if self._loan is None:
            raise errors.ClosedError(f"the buffer of {self._side.address} was given back")
        return self._loan

    def _give_back(self) -> None:
        """Now, or when the last array or slice is gone. Twice is once."""
        loan, self._loan, self._data = self._loan, None, None
        if loan is not None:
            loan.hide()

    def __len__(self) -> int:
        """Bytes."""
        return 0 if self._loan is None else int(self._loan.raw.bytes)

    def __repr__(self) -> str:
        state = "given back" if self._loan is None else f"{len(self)} bytes"
        return f"<{type(self).__name__} of {self._side.address}, {state}>"


class SendBuffer(_RawBuffer):
    """A free buffer: fill `data`, then `send(used)`. Leaving `with` without a send gives it back unsent."""

    _readonly = False

    def __init__(self, side: RawSide) -> None:
        super().__init__(side, _Loan(side, lib.lwmq_raw_abandon_buffer))

    def send(self, used_bytes: int | None = None) -> None:
        """Send the first `used_bytes` bytes, by default all of them. Never waits. Ends `data`.

        ValueError: the buffer has fewer bytes. TypeError: no int. BufferError: an array on `data` or a slice
        of it is alive. After these three the buffer is still the caller's, to be sent again or given back;
        after ClosedError, to be given back. PeerLostError: the buffer is gone.
        """
        used = len(self) if used_bytes is None else whole("used_bytes", used_bytes, 0, (1 << 64) - 1)
        pointer = self._side.handle.lend()
        with self._side.shipping:
            self._side.handle.check_open()
            loan = self._open_loan()
            if used > len(self):
                raise ValueError(f"cannot send {used} bytes of a buffer of {len(self)}")
            self._data = None
            if not loan.hide():
                raise BufferError(
                    f"this buffer of {self._side.address} is held by an array, or a slice of `data`: let "
                    "go of it (del, or release()), then send; nothing was sent"
                )
            loan.raw.bytes = used
            status = lib.lwmq_raw_send_buffer(pointer, loan.raw)
            loan.raw = self._loan = None
            check(status)

    def abandon(self) -> None:
        """Give the buffer back unsent: now, or when the last array on `data`, or slice of it, is gone.

        Any thread may call this, also after a close. A second call does nothing.
        """
        self._give_back()

    def __enter__(self) -> SendBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abandon()


class ReceiveBuffer(_RawBuffer):
    """A buffer of the peer's: read `data`, then `dispose()`, in any order among buffers. `with` disposes."""

    _readonly = True

    def __init__(self, side: RawSide) -> None:
        super().__init__(side, _Loan(side, lib.lwmq_raw_dispose_buffer))

    def dispose(self) -> None:
        """Give the buffer back to the peer: now, or when the last array on `data`, or slice of it, is gone.

        Any thread may call this, also after a close. A second call does nothing.
        """
        self._give_back()

    def __enter__(self) -> ReceiveBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()
