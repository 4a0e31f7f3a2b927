"""Batches of fixed-width columns: one native call for each, in place of a round through pyarrow's IPC.

What pyarrow decides it decides once: the metadata of a schema when it is written, whether the bytes are a
batch when it is read. Batches that differ in numbers alone are then written and shown by the library itself,
through the Arrow C data interface. Whatever does not fit goes the long way (`layout`, `block`), which knows
every type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import check, ffi, lib, sized
from lwmq_spark.arrow.layout import Template, template_of
from lwmq_spark.errors import SchemaError


class Plan:
    """How batches of a schema of flat fixed-width columns are written. Used inside its writer's lock."""

    def __init__(self, template: Template, schema: pa.Schema, bits: list[int], bytes_max: int) -> None:
        self._head = ffi.from_buffer(template.head(1, [], [], template.head_bytes))
        self._bits = ffi.new("uint32_t[]", bits)
        self._names = [
            ffi.NULL if field.nullable else ffi.new("char[]", field.name.encode()) for field in schema
        ]
        self._not_null = ffi.new("char *[]", self._names)
        self._array = CArray()
        self.plan = plan = sized("lwmq_array_plan")
        plan.head, plan.head_bytes = self._head, template.head_bytes
        plan.rows_at, plan.body_bytes_at, plan.nodes_at, plan.buffers_at = template.places
        plan.bits, plan.column_count = self._bits, len(bits)
        plan.bytes_max = bytes_max
        plan.not_null = self._not_null

    @staticmethod
    def of(schema: pa.Schema, bytes_max: int) -> Plan | None:
        """None where a column is not flat or has no fixed width.

        `bytes_max`: of a block; larger batches go the long way.
        """
        bits = [_bits(field.type) for field in schema]
        if not bits or 0 in bits:
            return None
        try:
            return Plan(template_of(schema), schema, bits, bytes_max)
        except (SchemaError, pa.ArrowException, NotImplementedError, TypeError):
            return None  # the long way says what is wrong

    def show(self, batch: pa.RecordBatch) -> Any:
        """`batch`, which has our schema, as a `struct ArrowArray`: lent until `let_go`."""
        batch._export_to_c(self._array.address)
        return self._array.pointer

    def let_go(self) -> None:
        lib.lwmq_python_release_array(self._array.pointer)


class Layout:
    """How the last batches of a reader were cut into columns, so that others like them need no look. Used
    inside the reader's lock."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._array = CArray()
        self._is_fixed = all(_is_fixed(field.type) for field in schema)
        self._seen = b""
        self._layout: Any = None

    def show(self, batch: Any) -> pa.RecordBatch | None:
        """The native `batch`, which is taken, as a record batch; None where it is not as the one that we have
        learned from."""
        layout = self._layout
        if layout is None or lib.lwmq_batch_export(batch, layout, self._array.pointer) != lib.LWMQ_OK:
            return None
        return pa.RecordBatch._import_from_c(self._array.address, self._schema)

    def learn(self, raw: Any, head: bytes, batch: pa.RecordBatch) -> None:
        """From `batch`, that was made from `head` and lies at `raw.data`, if the one before had that head,
        too."""
        seen, self._seen = self._seen, head
        if not self._is_fixed or seen != head or raw.flags != lib.LWMQ_BATCH_IPC_MESSAGE:
            return
        out = ffi.new("lwmq_array_layout **")
        batch._export_to_c(self._array.address)
        status = lib.lwmq_array_layout_create(self._array.pointer, raw, ffi.from_buffer(head), len(head), out)
        lib.lwmq_python_release_array(self._array.pointer)
        if status == lib.LWMQ_E_UNSUPPORTED:
            self._is_fixed = False  # pyarrow lays something elsewhere
            return
        check(status)
        self._layout = ffi.gc(out[0], lib.lwmq_array_layout_destroy)


class CArray:
    """Room for a `struct ArrowArray`."""

    def __init__(self) -> None:
        self.pointer = ffi.new("int64_t[10]")
        self.address = int(ffi.cast("uintptr_t", self.pointer))


def retyped(data: Any, kind: Any) -> Any:
    """An array under another type, or a batch under another schema, whose buffers mean the same. Nothing is
    copied, and nothing checked."""
    room = CArray()
    data._export_to_c(room.address)
    return type(data)._import_from_c(room.address, kind)


def _bits(kind: pa.DataType) -> int:
    """The width of a value; 0 where it is not fixed, or the column not flat."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
        return 0
    try:
        return int(kind.bit_width)
    except ValueError:
        return 0


def _is_fixed(kind: pa.DataType) -> bool:
    """Whether no value of the column says where another lies."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind):
        return all(_is_fixed(kind.field(index).type) for index in range(kind.num_fields))
    return _bits(kind) > 0
