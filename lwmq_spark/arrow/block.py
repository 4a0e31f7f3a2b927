"""A block as pyarrow reads it: metadata from a private copy, bodies where they lie.

A block lies in memory that its writer can still write to. pyarrow checks metadata once and then follows it,
so what it follows must not change in between: every prefix and every flatbuffer is copied before pyarrow sees
it. Bodies are not copied; how long they are is in the copies, and every body lies within the block.

pyarrow reads messages from files. Ours is a list of pieces, copies and bodies by turns, and each read is
answered out of one of them; a read that would reach beyond its piece is cut short, which pyarrow reports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import ffi

_PREFIX = struct.Struct("<Ii")
_CONTINUATION = 0xFFFFFFFF
_END = b""
_NOTHING: Iterator[Any] = iter(())


class BlockReader:
    """Reads blocks, inside its reader's lock."""

    head = b""  # prefix and metadata of the last message, as they were checked

    def __init__(self) -> None:
        self._source = _Source()
        self._file = pa.PythonFile(self._source, mode="r")

    def message(self, data: Any, buffer: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """The batch in a block of one message. `data` and `buffer` are the same memory.

        ValueError, EOFError, pa.ArrowException: it is none.
        """
        self.head = head = _head(data, 0, buffer.size)
        self._source.open(iter((head, buffer.slice(len(head)))))
        try:
            return pa.ipc.read_record_batch(pa.ipc.read_message(self._file), schema)
        finally:
            self._source.open(_NOTHING)  # what keeps the buffer is the batch alone

    def stream(self, data: Any, buffer: pa.Buffer) -> pa.RecordBatch:
        """The batch in a block that is a whole IPC stream."""
        self._source.open(_pieces(data, buffer))
        try:
            return pa.ipc.open_stream(self._file).read_next_batch()
        finally:
            self._source.open(_NOTHING)


class _Source:
    """What pyarrow takes for a file: pieces one after the other, each read at most to its end."""

    closed = False

    def __init__(self) -> None:
        self.open(_NOTHING)

    def open(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self._piece: Any = _END
        self._at = 0

    def read(self, size: int) -> Any:
        piece, at = self._piece, self._at
        if at == len(piece):
            piece, at = next(self._pieces, _END), 0
            self._piece = piece
        self._at = end = min(at + size, len(piece))
        return piece if end - at == len(piece) else piece[at:end]

    read_buffer = read

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        pass


def _head(data: Any, at: int, end: int) -> bytes:
    """A copy of the prefix and the metadata of the message at `at`."""
    if end - at < _PREFIX.size:
        raise ValueError(f"a message begins {end - at} bytes before the end of the block")
    mark, size = _PREFIX.unpack(ffi.buffer(data + at, _PREFIX.size))
    if mark != _CONTINUATION or size < 0 or size > end - at - _PREFIX.size:
        raise ValueError(
            f"a message begins with {mark:#x}, {size} bytes of metadata, of {end - at} to the end"
        )
    # The size is that of the copy: whoever changes it now changes nothing.
    return _PREFIX.pack(mark, size) + bytes(ffi.buffer(data + at + _PREFIX.size, size))


def _pieces(data: Any, buffer: pa.Buffer) -> Iterator[Any]:
    """Heads and bodies of the messages of a stream, up to its end mark."""
    at, end = 0, buffer.size
    while at < end:
        head = _head(data, at, end)
        yield head
        at += len(head)
        if len(head) == _PREFIX.size:
            return
        body = _body_bytes(head)
        if not 0 <= body <= end - at:
            raise ValueError(f"a message has a body of {body} bytes, of {end - at} to the end of the block")
        if body:
            yield buffer.slice(at, body)
        at += body


def _body_bytes(head: bytes) -> int:
    """`bodyLength` of a message (field 3 of its flatbuffer); struct.error where it lies outside of `head`."""
    base = _PREFIX.size
    root = base + struct.unpack_from("<I", head, base)[0]
    vtable = root - struct.unpack_from("<i", head, root)[0]
    if vtable < base:
        raise ValueError("the flatbuffer of a message points outside of it")
    size = struct.unpack_from("<H", head, vtable)[0]
    offset = struct.unpack_from("<H", head, vtable + 10)[0] if size > 10 else 0
    return int(struct.unpack_from("<q", head, root + offset)[0]) if offset else 0
