"""What may be written: schemas compared field by field, and anything of Arrow's turned into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lwmq_spark.arrow.depth import LEVELS_MAX, deepest_field, too_deep
from lwmq_spark.arrow.layouts import Likeness, near_enough, recast, same_field, same_meaning
from lwmq_spark.arrow.plain import retyped
from lwmq_spark.errors import CorruptError, SchemaError


def read_schema(data: bytes, where: str) -> pa.Schema:
    """The schema of an Arrow IPC stream that holds only its schema message.

    CorruptError: it is none. SchemaError: it nests too deep for pyarrow.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, EOFError) as exc:
        name, levels = deepest_field(data)
        if levels > LEVELS_MAX:
            raise too_deep(name, levels, where) from exc
        raise CorruptError(f"the schema of the stream {where}, {len(data)} bytes, is none: {exc}") from exc


def write_schema(schema: pa.Schema) -> bytes:
    """The bytes that `read_schema` reads."""
    return bytes(schema.serialize())


def as_schema(schema: Any) -> pa.Schema:
    """A pyarrow.Schema, or anything with __arrow_c_schema__."""
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    raise TypeError(f"a schema is a pyarrow.Schema or has __arrow_c_schema__, not {type(schema).__name__}")


def compare(ours: pa.Schema, stream: pa.Schema, where: str, alike: Likeness = same_meaning) -> None:
    """SchemaError names the first field of `ours` that is not the stream's, and both types.

    Names, order and types count. Metadata does not; nullability is checked on the values, when they are
    written.
    """
    if ours.equals(stream):
        return
    for index, (mine, theirs) in enumerate(zip(ours, stream, strict=False)):
        if mine.name != theirs.name:
            raise SchemaError(f"field {index} is {mine.name!r}, but {theirs.name!r} in the stream {where}")
        if not same_field(mine, theirs, alike):
            raise SchemaError(f"field {mine.name!r} is {mine.type}, but {theirs.type} in the stream {where}")
    if len(ours) != len(stream):
        longer, whose = (
            (ours, "no field of") if len(ours) > len(stream) else (stream, "missing, but a field of")
        )
        name = longer.field(min(len(ours), len(stream))).name
        raise SchemaError(
            f"field {name!r} is {whose} the stream {where}: {len(ours)} fields against {len(stream)}"
        )


def batches_of(data: Any, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """`data` as batches of `schema`, without a copy where the types are equal.

    Text, binary and lists of another layout (polars has string views) are converted, at any depth. What other
    libraries bring by __arrow_c_stream__ or __arrow_c_array__ may also have values without a type where all
    are missing, and dictionaries where the stream has none, as pandas does. TypeError: nothing of Arrow's.
    """
    if isinstance(data, pa.RecordBatch):
        yield conform(data, schema, where)
    elif isinstance(data, pa.Table):
        compare(data.schema, schema, where)  # of one without rows, too
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
            yield conform(_unindexed(batch, schema), schema, where, near_enough)
    elif hasattr(data, "__arrow_c_array__"):
        yield conform(pa.record_batch(data), schema, where, near_enough)
    else:
        raise TypeError(
            "write() takes a RecordBatch, a Table or an object with __arrow_c_stream__ or "
            f"__arrow_c_array__, not {type(data).__name__}"
        )


def conform(
    batch: pa.RecordBatch, schema: pa.Schema, where: str, alike: Likeness = same_meaning
) -> pa.RecordBatch:
    """`batch` under exactly the stream's schema, over the same buffers where these mean the same.

    SchemaError: other types. What else differs, names and nullability of inner fields, is nothing that a
    buffer shows. Casts would refuse nulls that count for nothing, because their parent is null; those are
    `NullRules`' affair.
    """
    if batch.schema.equals(schema):
        return batch
    compare(batch.schema, schema, where, alike)
    arrays = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            arrays.append(recast(column, field.type))
        except pa.ArrowException as exc:
            raise SchemaError(
                f"field {field.name!r}: {len(column)} values of {column.type} cannot be written as "
                f"{field.type} to {where}: {exc}. Write fewer rows at once, or declare a wider type"
            ) from exc
    return retyped(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)  # type: ignore[no-any-return]


def _unindexed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Without the index column that pandas adds at the end, unless the stream has one."""
    names = batch.schema.names
    if (
        len(names) == len(schema) + 1
        and names[-1].startswith("__index_level_")
        and names[-1] not in schema.names
    ):
        return batch.select(list(range(len(schema))))
    return batch
