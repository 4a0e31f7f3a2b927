"""Buffers of a raw channel: the transport's own, in the window, without a message around them.

    with channel.get_buffer() as buffer:
        used = fill(buffer.data)
        buffer.send(used)
    with channel.receive_buffer() as buffer:
        read(buffer.data)

Buffers travel in the order in which they are sent. A view of one keeps the window mapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lwmq_spark import errors
from lwmq_spark._ffi import check, ffi, lib

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel


class _RawBuffer:
    """What send and receive buffers share: the native buffer, and views that hold the channel's window."""

    def __init__(self, channel: Channel, raw: Any) -> None:
        self._channel = channel
        self._window = channel._handle.pointer
        self._raw: Any = raw
        self._data: memoryview | None = None

    def _view(self, writable: bool) -> memoryview:
        if self._raw is None:
            raise errors.ClosedError(f"the buffer of {self._channel.address} was given back")
        if self._data is None:
            window = self._window
            pointer = ffi.gc(ffi.cast("char *", self._raw.data), lambda _: window)
            view = memoryview(ffi.buffer(pointer, self._raw.bytes))
            self._data = view.cast("B") if writable else view.cast("B").toreadonly()
        return self._data

    def _take(self) -> Any:
        """The native buffer, for the call that gives it back."""
        if self._raw is None:
            raise errors.ClosedError(f"the buffer of {self._channel.address} was given back already")
        raw, self._raw, self._data = self._raw, None, None
        return raw

    def __len__(self) -> int:
        return 0 if self._raw is None else int(self._raw.bytes)

    def __repr__(self) -> str:
        state = "given back" if self._raw is None else f"{len(self)} bytes"
        return f"<{type(self).__name__} of {self._channel.address}, {state}>"


class SendBuffer(_RawBuffer):
    """A free buffer: fill `data`, then `send(used)`. Leaving `with` without sending gives it back unsent."""

    @property
    def data(self) -> memoryview:
        """Writable; in the window itself. Not to be written to after `send`."""
        return self._view(writable=True)

    def send(self, used_bytes: int | None = None) -> None:
        """Send its first `used_bytes` bytes, all by default. Never waits. ValueError: more than there are."""
        if used_bytes is not None and not 0 <= used_bytes <= len(self):
            raise ValueError(f"cannot send {used_bytes} bytes of a buffer of {len(self)}")
        handle = self._channel._handle
        handle.check_open()
        with self._channel._shipping:
            handle.check_open()
            raw = self._take()
            if used_bytes is not None:
                raw.bytes = used_bytes
            check(lib.lwmq_raw_send_buffer(handle.pointer, raw))

    def abandon(self) -> None:
        """Give the buffer back unsent."""
        handle = self._channel._handle
        if self._raw is None or handle.closed:
            return
        with self._channel._shipping:
            if not handle.closed:
                check(lib.lwmq_raw_abandon_buffer(handle.pointer, self._take()))

    def __enter__(self) -> SendBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abandon()


class ReceiveBuffer(_RawBuffer):
    """A buffer of the peer's: read `data`, then `dispose()`, in any order among buffers. `with` disposes."""

    @property
    def data(self) -> memoryview:
        """Read-only, in the peer's window. Its bytes change after `dispose`."""
        return self._view(writable=False)

    def dispose(self) -> None:
        """Give the buffer back to the peer. From any thread; twice is once."""
        handle = self._channel._handle
        if self._raw is None or handle.closed:
            return
        with handle.turn:
            if not handle.closed:
                check(lib.lwmq_raw_dispose_buffer(handle.pointer, self._take()))

    def __enter__(self) -> ReceiveBuffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()
