"""A block as pyarrow reads it: metadata from a private copy, bodies where they lie.

A block lies in memory that its writer can still change. pyarrow checks metadata once and then follows it, so
the metadata must not change in between: every prefix and every flatbuffer is copied before pyarrow sees it.
Bodies are not copied. Their lengths are in the copies, and every body lies within the block.

pyarrow reads messages from files. The file here is a list of pieces, in turns a copy and a body, and each
read is served from one piece. A read beyond the end of its piece is cut short, which pyarrow reports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import ffi
from lwmq_spark.errors import SchemaError

_PREFIX = struct.Struct("<Ii")
_CONTINUATION = 0xFFFFFFFF
_END = b""
_NOTHING: Iterator[Any] = iter(())


class Selection:
    """Some columns of a stream. Nothing looks at the bytes of the others, which need not be there."""

    def __init__(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """schema: of the stream. SchemaError: it does not have exactly one column of each name."""
        self._names = list(names)
        places = [schema.get_field_index(name) for name in names]
        if min(places) < 0:
            raise SchemaError(f"the stream does not have each of the columns {self._names}: {schema.names}")
        self.schema = pa.schema([schema.field(place) for place in places], schema.metadata)
        self.schema_message = bytes(schema.serialize())
        self.options = pa.ipc.IpcReadOptions(included_fields=sorted(places))
        self._is_sorted = places == sorted(places)

    def in_order(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of `batch` in the order in which they were asked for."""
        return batch if self._is_sorted else batch.select(self._names)


class BlockReader:
    """Reads blocks. One thread at a time."""

    head = b""  # prefix and metadata of the last message, which were checked
    selection: Selection | None = None  # the columns to read; None: all

    def __init__(self) -> None:
        self._source = _Source()
        self._file = pa.PythonFile(self._source, mode="r")

    def message(self, data: Any, buffer: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """The batch in a block of one message. `data` and `buffer` are the same memory.

        ValueError, EOFError, pa.ArrowException: there is no batch.
        """
        self.head = head = _head(data, 0, buffer.size)
        if self.selection is not None:  # only the reader of a stream leaves columns out
            return self._read_stream(iter((self.selection.schema_message, head, buffer.slice(len(head)))))
        self._source.open(iter((head, buffer.slice(len(head)))))
        try:
            return pa.ipc.read_record_batch(pa.ipc.read_message(self._file), schema)
        finally:
            self._source.open(_NOTHING)  # so that the batch alone keeps the buffer

    def stream(self, data: Any, buffer: pa.Buffer) -> pa.RecordBatch:
        """The batch in a block that is a whole IPC stream."""
        return self._read_stream(_pieces(data, buffer))

    def _read_stream(self, pieces: Iterator[Any]) -> pa.RecordBatch:
        selection = self.selection
        self._source.open(pieces)
        try:
            if selection is None:
                return pa.ipc.open_stream(self._file).read_next_batch()
            return selection.in_order(
                pa.ipc.open_stream(self._file, options=selection.options).read_next_batch()
            )
        finally:
            self._source.open(_NOTHING)


class _Source:
    """A file for pyarrow: pieces one after the other; a read ends at the end of its piece."""

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
    # A writer that changes the size now changes nothing: this copy has the size that was checked.
    return _PREFIX.pack(mark, size) + bytes(ffi.buffer(data + at + _PREFIX.size, size))


def _pieces(data: Any, buffer: pa.Buffer) -> Iterator[Any]:
    """The heads and the bodies of the messages of a stream, up to its end mark."""
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
    """`bodyLength` of a message: field 3 of its flatbuffer. struct.error: it lies outside of `head`."""
    base = _PREFIX.size
    root = base + struct.unpack_from("<I", head, base)[0]
    vtable = root - struct.unpack_from("<i", head, root)[0]
    if vtable < base:
        raise ValueError("the flatbuffer of a message points outside of it")
    size = struct.unpack_from("<H", head, vtable)[0]
    offset = struct.unpack_from("<H", head, vtable + 10)[0] if size > 10 else 0
    return int(struct.unpack_from("<q", head, root + offset)[0]) if offset else 0
