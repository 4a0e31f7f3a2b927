"""How deep fields nest: pyarrow reads batches up to a depth, other libraries write deeper ones."""

from __future__ import annotations

import pyarrow as pa

from lwmq_spark.arrow.layout import children_of, field_at, table_at, u32_at
from lwmq_spark.errors import SchemaError

LEVELS_MAX = 64  # of a batch that pyarrow reads; it reads schemas that are a little deeper

_PREFIX_BYTES = 8
_HEADER, _FIELDS = 2, 1  # of Message, of Schema
_NAME, _CHILDREN = 0, 5  # of Field


def check_levels(schema: pa.Schema, where: str) -> None:
    """SchemaError: a field nests deeper than pyarrow reads batches. `where` names the stream."""
    for field in schema:
        if (levels := _levels_of(field.type)) > LEVELS_MAX:
            raise too_deep(field.name, levels, where)


def _levels_of(kind: pa.DataType) -> int:
    return 1 + max(map(_levels_of, children_of(kind)), default=0)


def too_deep(name: str, levels: int, where: str) -> SchemaError:
    return SchemaError(
        f"field {name!r} of the stream {where} nests {levels} levels deep (a list is one more than its "
        f"values, a map two); pyarrow {pa.__version__} reads batches of up to {LEVELS_MAX} levels. Ways "
        "out: flatten the field where it is written, or leave it out there"
    )


def deepest_field(data: bytes) -> tuple[str, int]:
    """The name and the levels of the deepest field of an IPC schema message that pyarrow does not read.

    The bytes are a peer's: nonsense has 0 levels, and no offset is followed twice.
    """
    metadata = bytearray(data[_PREFIX_BYTES:])
    deepest, seen = ("", 0), set()
    schema = table_at(metadata, field_at(metadata, u32_at(metadata, 0), _HEADER))
    left = [(field, "", 1) for field in _tables(metadata, schema, _FIELDS)]
    while left:
        field, name, levels = left.pop()
        if field in seen:
            continue
        seen.add(field)
        name = name or _text(metadata, field, _NAME)
        deepest = max(deepest, (name, levels), key=lambda found: found[1])
        left += [(child, name, levels + 1) for child in _tables(metadata, field, _CHILDREN)]
    return deepest


def _tables(data: bytearray, table: int, index: int) -> list[int]:
    """The places of the tables in the vector that is field `index` of `table`."""
    if not (at := field_at(data, table, index)):
        return []
    vector = table_at(data, at)
    count = min(u32_at(data, vector), max(0, len(data) - vector) // 4)
    found = (table_at(data, vector + 4 + 4 * number) for number in range(count))
    return [table for table in found if table + 4 <= len(data)]


def _text(data: bytearray, table: int, index: int) -> str:
    at = table_at(data, field_at(data, table, index))
    return bytes(data[at + 4 : at + 4 + u32_at(data, at)]).decode("utf-8", "replace")
