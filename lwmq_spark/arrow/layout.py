"""How a record batch lies in a block.

    +------------+-----------------+----------------------+-----+---------+-----+---------+
    | 0xFFFFFFFF | metadata_bytes  | metadata, zero pad   | gap | buffer  | gap | buffer  | ...
    +------------+-----------------+----------------------+-----+---------+-----+---------+
    0            4                 8                      body: every buffer at a multiple of 64

That is one encapsulated Arrow IPC message (LWMQ_BATCH_IPC_MESSAGE). A schema with dictionary-encoded fields
takes a whole small IPC stream instead (LWMQ_BATCH_IPC_STREAM): schema, dictionaries and batch laid out alike,
one after the other, and an end mark.

pyarrow decides what is written: its stream writer truncates slices, rebases offsets and makes the metadata.
We only say where: the writer writes into a `_Catch`, which keeps the buffers instead of copying them, and
`encode` moves each to a multiple of 64 by rewriting its offset in the metadata (pyarrow itself aligns to 8,
and a copy to an address that is not a multiple of 64 runs at half the speed). So the size is known before a
block is asked for, and the bytes are copied once, into the block.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import CallLock
from lwmq_spark.errors import SchemaError

ALIGNMENT = 64
_CONTINUATION = b"\xff\xff\xff\xff"
_END_OF_STREAM = _CONTINUATION + b"\0\0\0\0"
_DICTIONARY, _BATCH = 2, 3  # Message.fbs: MessageHeader


@dataclass(slots=True)
class Encoded:
    """A batch ready to be placed: `parts` are (offset in the block, bytes), `bytes` the whole."""

    parts: list[tuple[int, Any]]
    bytes: int
    rows: int
    is_stream: bool

    @property
    def payload(self) -> int:
        """Bytes of the buffers, without metadata and gaps."""
        return sum(part.size for _, part in self.parts if isinstance(part, pa.Buffer))

    def place(self, address: int) -> None:
        """Copy everything to the block at `address`, which has room for `bytes`. Releases the GIL."""
        for offset, part in self.parts:
            if isinstance(part, pa.Buffer):
                ctypes.memmove(address + offset, part.address, part.size)
            else:
                ctypes.memmove(address + offset, bytes(part), len(part))


class Encoder:
    """Encodes batches of one schema. Threads take turns."""

    def __init__(self, schema: pa.Schema) -> None:
        """SchemaError names the field that Arrow IPC cannot carry."""
        self.schema = schema
        self.is_stream = any(_has_dictionary(field.type) for field in schema)
        self.shares = any(shares(field.type) for field in schema)
        self._places: dict[tuple[int, bool, bool], _Places] = {}
        self._lock = CallLock()  # of those who use what follows
        self._catch = _Catch()
        self._sink = pa.PythonFile(self._catch, mode="w")
        try:
            self._writer = pa.ipc.new_stream(self._sink, schema)
            if not self.is_stream:
                self._writer.write_batch(empty_batch(schema))  # the schema message goes out before the first
        except (pa.ArrowException, NotImplementedError, TypeError) as exc:
            raise _cannot_carry(schema, exc) from exc

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """Where the bytes of `batch`, which has our schema, will lie. Copies nothing but metadata."""
        parts: list[tuple[int, Any]] = []
        if not self.is_stream:
            written = self._catch.written
            with self._lock:
                written.clear()
                try:
                    self._writer.write_batch(batch)
                    end = self._message(written, batch.num_rows).lay(parts, 0)
                finally:
                    written.clear()
            return Encoded(parts, end, batch.num_rows, False)
        catch = _Catch()
        with pa.ipc.new_stream(pa.PythonFile(catch, mode="w"), self.schema) as writer:
            writer.write_batch(batch)
        end = 0
        for message in catch.messages():
            end = message.lay(parts, end)
        parts.append((end, _END_OF_STREAM))
        return Encoded(parts, end + len(_END_OF_STREAM), batch.num_rows, True)

    def _message(self, written: list[Any], rows: int) -> _Message:
        """The one message that was written.

        Its metadata is laid out as the last one's of the same length with the same fields at their defaults,
        so the flatbuffer is walked once per schema, not once per batch.
        """
        metadata = bytearray(written[2])
        body = [data for data in written[3:] if type(data) is pa.Buffer and data.size]
        key = (len(metadata), rows > 0, bool(body))
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = _find_places(metadata)
        return _Message(metadata, body, places)


class Template:
    """The metadata of a batch of fixed-width columns, lacking only the number of rows and of nulls."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        """From any encoded batch of the schema that has at least one row."""
        catch = _Catch()
        writer = pa.ipc.new_stream(pa.PythonFile(catch, mode="w"), batch.schema)
        writer.write_batch(batch)
        (message,) = [m for m in catch.messages() if m.places.kind == _BATCH]
        self._metadata = bytes(message.metadata)
        self._places = message.places
        self.head_bytes = _aligned(8 + len(self._metadata))

    @property
    def places(self) -> tuple[int, int, int, int]:
        """Where rows, bytes of the body, nodes and buffers lie in the head."""
        at = self._places
        return tuple(8 + place for place in (at.rows, at.body_length, at.nodes, at.buffers))  # type: ignore[return-value]

    def head(
        self, rows: int, nodes: list[tuple[int, int]], buffers: list[tuple[int, int]], end: int
    ) -> bytes:
        """Prefix and metadata for `rows` rows.

        `nodes`: (length, nulls); `buffers`: (offset in the block, bytes).
        """
        message = _Message(bytearray(self._metadata), [], self._places)
        message.rewrite(
            rows, nodes, [(max(0, o - self.head_bytes), n) for o, n in buffers], end - self.head_bytes
        )
        return message.head()


def template_of(schema: pa.Schema) -> Template:
    """The metadata of batches of `schema` that have at least one row."""
    relaxed = pa.schema(
        [field.with_nullable(True) for field in schema]
    )  # the batch that it is taken from holds nulls
    return Template(pa.RecordBatch.from_arrays([_one_null(field.type) for field in schema], schema=relaxed))


def _one_null(kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(1, kind.storage_type))
    return pa.nulls(1, kind)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([_empty(field.type) for field in schema], schema=schema)


def _empty(kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _empty(kind.storage_type))
    if not _has_runs(kind):
        return pa.nulls(0, kind)
    # pyarrow gives runs inside of something else a validity bitmap, which they cannot have.
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array([], kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, _empty(kind.value_type), kind)
    parts = [_empty(kind.field(index).type) for index in range(kind.num_fields)]
    offsets = [pa.py_buffer(bytes(8))] * (kind.num_buffers - 1)
    return pa.Array.from_buffers(kind, 0, [None, *offsets], children=parts)


def _has_runs(kind: pa.DataType) -> bool:
    return pa.types.is_run_end_encoded(kind) or any(map(_has_runs, children_of(kind)))


def shares(kind: pa.DataType) -> bool:
    """Whether a slice of the type keeps bytes that none of its rows shows: of dictionaries and views."""
    return any(is_kind(kind) for is_kind in _SHARING) or any(map(shares, children_of(kind)))


_SHARING = (
    pa.types.is_dictionary,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _has_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, children_of(kind)))


def children_of(kind: pa.DataType) -> list[pa.DataType]:
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if pa.types.is_run_end_encoded(kind):
        return [kind.value_type]
    return [kind.field(index).type for index in range(kind.num_fields)]


def _cannot_carry(schema: pa.Schema, exc: Exception) -> SchemaError:
    for field in schema:
        try:
            single = pa.schema([field])
            pa.ipc.new_stream(pa.BufferOutputStream(), single).write_batch(empty_batch(single))
        except (pa.ArrowException, NotImplementedError, TypeError) as cause:
            return SchemaError(
                f"field {field.name!r}: Arrow IPC of pyarrow cannot carry {field.type}: {cause}"
            )
    return SchemaError(f"Arrow IPC of pyarrow cannot carry the schema: {exc}")


def _aligned(number: int) -> int:
    return (number + ALIGNMENT - 1) & -ALIGNMENT


class _Catch:
    """A file for pyarrow that keeps what is written: bytes are framing and pads, Buffers are bodies."""

    closed = False

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.write = self.written.append  # pyarrow does not look at what write returns

    def messages(self) -> list[_Message]:
        """What was written, as messages.

        Each is: continuation, length, metadata, its pad, buffers and their pads.
        """
        found: list[_Message] = []
        writes = iter(self.written)
        for data in writes:
            if isinstance(data, pa.Buffer):
                if data.size:
                    found[-1].body.append(data)
            elif data == _CONTINUATION:
                (length,) = struct.unpack("<i", next(writes))
                if length == 0:
                    break  # the end mark
                metadata = bytearray(next(writes))
                while len(metadata) < length:
                    metadata += next(writes)
                found.append(_Message(metadata, []))
        return found

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the numbers of a message lie in its metadata; 0 where there is none."""

    kind: int
    body_length: int
    rows: int
    nodes: int
    node_count: int
    buffers: int
    buffer_count: int
    numbers: struct.Struct  # of the buffers: offset, length, offset, length ...


class _Message:
    """One IPC message:

    its metadata, a flatbuffer of fixed-size fields that we rewrite in place, and its buffers.
    """

    __slots__ = ("body", "metadata", "places")

    def __init__(self, metadata: bytearray, body: list[Any], places: _Places | None = None) -> None:
        self.metadata = metadata
        self.body = body
        self.places = places or _find_places(metadata)

    def lay(self, parts: list[tuple[int, Any]], start: int) -> int:
        """Append where this message lies if it starts at `start` (a multiple of 64); the end of it."""
        places = self.places
        at = body = start + _aligned(8 + len(self.metadata))
        numbers = list(places.numbers.unpack_from(self.metadata, places.buffers))
        head_index = len(parts)
        parts.append((start, b""))
        waiting = iter(self.body)
        for index in range(0, len(numbers), 2):
            numbers[index] = at - body
            # pyarrow gives the texts of an imported slice of no rows a negative length
            length = numbers[index + 1] = max(0, numbers[index + 1])
            if length:
                parts.append((at, next(waiting)))
                at = (at + length + ALIGNMENT - 1) & -ALIGNMENT
        places.numbers.pack_into(self.metadata, places.buffers, *numbers)
        if places.body_length:
            _INT64.pack_into(self.metadata, places.body_length, at - body)
        parts[head_index] = (start, self.head())
        return at

    def head(self) -> bytes:
        """Prefix, metadata and the pad up to the body."""
        size = _aligned(8 + len(self.metadata))
        return _PREFIX.pack(-1, size - 8) + self.metadata.ljust(size - 8, b"\0")

    def rewrite(
        self, rows: int, nodes: list[tuple[int, int]], buffers: list[tuple[int, int]], body_bytes: int
    ) -> None:
        """Set all numbers of a batch message."""
        _INT64.pack_into(self.metadata, self.places.rows, rows)
        _INT64.pack_into(self.metadata, self.places.body_length, body_bytes)
        for at, pairs in ((self.places.nodes, nodes), (self.places.buffers, buffers)):
            struct.pack_into(f"<{2 * len(pairs)}q", self.metadata, at, *(n for pair in pairs for n in pair))


_INT64 = struct.Struct("<q")
_PREFIX = struct.Struct("<ii")


def _find_places(metadata: bytearray) -> _Places:
    """Walk the flatbuffer. pyarrow made it in this process, so nothing is checked here."""
    root = u32_at(metadata, 0)
    kind_at = field_at(metadata, root, 1)
    kind = metadata[kind_at] if kind_at else 0
    body_length = field_at(metadata, root, 3)
    rows = nodes = node_count = buffers = buffer_count = 0
    if kind in (_DICTIONARY, _BATCH):
        table = table_at(metadata, field_at(metadata, root, 2))
        if kind == _DICTIONARY:
            table = table_at(metadata, field_at(metadata, table, 1))
        rows = field_at(metadata, table, 0)
        if nodes := field_at(metadata, table, 1):
            nodes = table_at(metadata, nodes)
            node_count, nodes = u32_at(metadata, nodes), nodes + 4
        if buffers := field_at(metadata, table, 2):
            buffers = table_at(metadata, buffers)
            buffer_count, buffers = u32_at(metadata, buffers), buffers + 4
    numbers = struct.Struct(f"<{2 * buffer_count}q")
    return _Places(kind, body_length, rows, nodes, node_count, buffers, buffer_count, numbers)


def u32_at(data: bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def table_at(data: bytearray, at: int) -> int:
    """Follow the offset stored at `at`."""
    return at + u32_at(data, at)


def field_at(data: bytearray, table: int, index: int) -> int:
    """Where field `index` of the table lies; 0 where it is left at its default."""
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    entry = 4 + 2 * index
    if entry >= int.from_bytes(data[vtable : vtable + 2], "little"):
        return 0
    offset = int.from_bytes(data[vtable + entry : vtable + entry + 2], "little")
    return table + offset if offset else 0
