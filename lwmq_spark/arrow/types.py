"""What may be written to a stream: schemas are compared by field, and Arrow data becomes batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lwmq_spark.arrow.depth import LEVELS_MAX, deepest_field, too_deep
from lwmq_spark.arrow.plain import retyped
from lwmq_spark.errors import CorruptError, SchemaError


def read_schema(data: bytes, where: str) -> pa.Schema:
    """The schema in `data`, an Arrow IPC stream of a schema message alone. `where` names the stream.

    CorruptError: the bytes are no schema. SchemaError: a field nests too deep for pyarrow.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, EOFError) as exc:
        name, levels = deepest_field(data)
        if levels > LEVELS_MAX:
            raise too_deep(name, levels, where) from exc
        raise CorruptError(f"the schema of the stream {where}, {len(data)} bytes, is none: {exc}") from exc


def write_schema(schema: pa.Schema) -> bytes:
    """`schema` as the bytes that `read_schema` reads."""
    return bytes(schema.serialize())


def as_schema(schema: Any) -> pa.Schema:
    """`schema`, a pyarrow.Schema or anything with __arrow_c_schema__, as a pyarrow.Schema. TypeError."""
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    raise TypeError(f"a schema is a pyarrow.Schema or has __arrow_c_schema__, not {type(schema).__name__}")


def compare(ours: pa.Schema, stream: pa.Schema, where: str) -> None:
    """Compare a schema with that of the stream, by names, order and types.

    Metadata does not count, and nullability is checked when values are written. SchemaError names the first
    field of `ours` that differs, and both types.
    """
    if ours.equals(stream):
        return
    for index, (mine, theirs) in enumerate(zip(ours, stream, strict=False)):
        if mine.name != theirs.name:
            raise SchemaError(f"field {index} is {mine.name!r}, but {theirs.name!r} in the stream {where}")
        if not _same_field(mine, theirs):
            raise SchemaError(f"field {mine.name!r} is {mine.type}, but {theirs.type} in the stream {where}")
    if len(ours) != len(stream):
        longer, whose = (
            (ours, "no field of") if len(ours) > len(stream) else (stream, "missing, but a field of")
        )
        name = longer.field(min(len(ours), len(stream))).name
        raise SchemaError(
            f"field {name!r} is {whose} the stream {where}: {len(ours)} fields against {len(stream)}"
        )


def same_type(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether two types are equal, apart from nullability, metadata and names that mean nothing."""
    if mine.equals(theirs):
        return True
    if isinstance(mine, pa.BaseExtensionType) and isinstance(theirs, pa.BaseExtensionType):
        return mine.extension_name == theirs.extension_name and same_type(
            mine.storage_type, theirs.storage_type
        )
    if mine.id != theirs.id or not mine.num_fields or mine.num_fields != theirs.num_fields:
        return False
    for name in ("list_size", "keys_sorted", "mode", "type_codes"):
        if getattr(mine, name, None) != getattr(theirs, name, None):
            return False
    named = pa.types.is_struct(mine) or pa.types.is_union(mine)
    pairs = [(mine.field(i), theirs.field(i)) for i in range(mine.num_fields)]
    return all((not named or a.name == b.name) and _same_field(a, b) for a, b in pairs)


def _same_field(mine: pa.Field, theirs: pa.Field) -> bool:
    """Whether the types of two fields are equal.

    An extension type that is not registered here comes back from the stream as its storage type.
    """
    if isinstance(mine.type, pa.BaseExtensionType) and not isinstance(theirs.type, pa.BaseExtensionType):
        named = (theirs.metadata or {}).get(b"ARROW:extension:name", b"").decode()
        return named == mine.type.extension_name and same_type(mine.type.storage_type, theirs.type)
    return same_type(mine.type, theirs.type)


def batches_of(data: Any, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """`data` as batches of `schema`, without a copy if the types are equal. `where` names the stream.

    A RecordBatch, Table, RecordBatchReader or list of batches must have the stream's types. Data of other
    libraries, by __arrow_c_stream__ or __arrow_c_array__, may store text, binary and lists in another width
    (polars has string views) and is converted. SchemaError. TypeError: no Arrow data.
    """
    if isinstance(data, pa.RecordBatch):
        yield conform(data, schema, where)
    elif isinstance(data, pa.Table):
        compare(data.schema, schema, where)
        for batch in data.to_batches():
            yield conform(batch, schema, where)
    elif isinstance(data, pa.RecordBatchReader):
        compare(data.schema, schema, where)
        for batch in data:
            yield conform(batch, schema, where)
    elif isinstance(data, (list, tuple)):
        for item in data:
            yield from batches_of(item, schema, where)
    elif hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        for batch in reader:
            yield conform(_widen(_unindexed(batch, schema), schema), schema, where)
    elif hasattr(data, "__arrow_c_array__"):
        yield conform(_widen(pa.record_batch(data), schema), schema, where)
    else:
        raise TypeError(
            "write() takes a RecordBatch, a Table or an object with __arrow_c_stream__ or "
            f"__arrow_c_array__, not {type(data).__name__}"
        )


def conform(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """`batch` with exactly the stream's schema, over the same buffers. SchemaError: other types.

    Only names and nullability of inner fields may differ, which buffers do not show. A cast would refuse
    nulls below a null parent, which do not count; `NullRules` checks those that do.
    """
    if batch.schema.equals(schema):
        return batch
    compare(batch.schema, schema, where)
    return retyped(batch, schema)  # type: ignore[no-any-return]


_WIDTHS = (
    {pa.string(), pa.large_string(), pa.string_view()},
    {pa.binary(), pa.large_binary(), pa.binary_view()},
)


def _widen(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with columns cast whose type is the stream's in another width."""
    if batch.schema.names != schema.names:
        return batch
    kinds = [_widened(column.type, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    if kinds == batch.schema.types:
        return batch
    arrays = [
        column if column.type.equals(kind) else column.cast(kind)
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _widened(mine: pa.DataType, theirs: pa.DataType) -> pa.DataType:
    """`mine` with offsets of the width in `theirs`, and without a dictionary if `theirs` has none."""
    if mine.equals(theirs):
        return mine
    if pa.types.is_null(mine):
        return theirs  # pandas has no type for a column whose values are all missing
    if any(mine in family and theirs in family for family in _WIDTHS):
        return theirs
    if pa.types.is_dictionary(mine) and not pa.types.is_dictionary(theirs):
        return _widened(mine.value_type, theirs)
    if _is_list(mine) and _is_list(theirs):
        value = _widened(mine.value_type, theirs.value_type)
        return pa.large_list(value) if pa.types.is_large_list(theirs) else pa.list_(value)
    return mine


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _unindexed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` without the index column that pandas adds at its end, unless the stream has one."""
    names = batch.schema.names
    if (
        len(names) == len(schema) + 1
        and names[-1].startswith("__index_level_")
        and names[-1] not in schema.names
    ):
        return batch.select(list(range(len(schema))))
    return batch
