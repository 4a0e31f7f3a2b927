"""Nulls where a stream has none: in fields declared not null, at any depth.

A null counts only under parents that have a value: a null struct holds nothing, whatever its children are
declared as. Arrays know how many nulls they have. So the first look, which takes all of them as counting, is
cheap, and nearly always the only one; where it finds some, the second one leaves out what no row shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwmq_spark.arrow.layouts import offsets_of, type_codes_of
from lwmq_spark.arrow.plain import retyped
from lwmq_spark.errors import SchemaError


class NullRules:
    """Which fields of a schema take no nulls."""

    def __init__(self, schema: pa.Schema) -> None:
        nodes = [(index, _node(field, field.name)) for index, field in enumerate(schema)]
        self._columns = [(index, node) for index, node in nodes if node.matters]

    def check(self, batch: pa.RecordBatch, where: str) -> None:
        """SchemaError names the first field of `batch`, which has our schema, that has nulls and must not."""
        for index, node in self._columns:
            column = batch.column(index)
            if not _may_have_nulls(node, column):
                continue
            for path, count in _nulls(node, column, None):
                raise SchemaError(
                    f"{count} null{'s' * (count != 1)} in {path}, which the stream {where} declares not "
                    "null: filter them out, or declare the field nullable"
                )


@dataclass(frozen=True, slots=True)
class _Node:
    path: str
    required: bool
    children: list[tuple[int, _Node]]  # those that matter, and which of the parts they are

    @property
    def matters(self) -> bool:
        return self.required or bool(self.children)


def _node(field: pa.Field, path: str) -> _Node:
    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        values = _node(pa.field("", kind.value_type), path)
        return _Node(path, not field.nullable, [(0, values)] if values.matters else [])
    parts = [kind.field(index) for index in range(kind.num_fields)]
    nodes = [(index, _node(part, f"{path}.{part.name}")) for index, part in enumerate(parts)]
    return _Node(path, not field.nullable, [(index, node) for index, node in nodes if node.matters])


def _may_have_nulls(node: _Node, array: Any) -> bool:
    """Whether a field that must have none has any, if only where no row shows them."""
    array = _plain(array)
    if node.required and _count(array):
        return True
    if not node.children:
        return False
    kind = array.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return any(_may_have_nulls(child, array.field(index)) for index, child in node.children)
    values = array.dictionary if pa.types.is_dictionary(kind) else array.values
    return _may_have_nulls(node.children[0][1], values)


def _nulls(node: _Node, array: Any, shown: Any) -> Iterator[tuple[str, int]]:
    """(path, nulls) of the fields that must have none and have some in the `shown` rows; None: all rows."""
    array = _plain(array)
    if node.required:
        count = _count(array) if shown is None else pc.sum(pc.and_(shown, array.is_null())).as_py()
        if count:
            yield node.path, count
    for index, child in node.children:
        yield from _nulls(child, *_shown_of(array, index, shown))


def _shown_of(array: Any, index: int, shown: Any) -> tuple[Any, Any]:
    """Child `index` of `array`, and which of its values the `shown` rows show; None: all."""
    kind = array.type
    if pa.types.is_struct(kind):
        return array.field(index), _both(shown, array.is_valid() if array.null_count else None)
    if pa.types.is_union(kind):
        rows = _both(shown, pc.equal(type_codes_of(array), kind.type_codes[index]))
        if kind.mode == "sparse":
            return array.field(index), rows
        return _used(array.field(index), offsets_of(array).filter(rows))
    if pa.types.is_dictionary(kind):
        indices = array.indices if shown is None else array.indices.filter(shown)
        return _used(array.dictionary, indices.drop_null())
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(len(array)) if shown is None else np.flatnonzero(shown)
        return _used(array.values, np.searchsorted(array.run_ends, array.offset + rows, side="right"))
    if shown is not None:  # flattened is what is valid: pyarrow's `filter` does not know all types
        bits = pa.concat_arrays([pa.repeat(False, array.offset), _both(shown, array.is_valid())]).buffers()[1]
        buffers = [bits, *array.buffers()[1 : kind.num_buffers]]
        array = pa.Array.from_buffers(kind, len(array), buffers, offset=array.offset, children=[array.values])
    return array.flatten(), None


def _both(one: Any, other: Any) -> Any:
    """The rows that both show."""
    if one is None or other is None:
        return other if one is None else one
    return pc.and_(one, other)


def _used(values: Any, places: Any) -> tuple[Any, Any]:
    mask = np.zeros(len(values), bool)
    mask[np.asarray(places)] = True
    return values, pa.array(mask)


def _plain(array: Any) -> Any:
    """`array` without its extension, and maps as the lists of entries that they are."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_map(array.type):
        array = retyped(array, pa.list_(array.type.field(0)))
    return array


def _count(array: pa.Array) -> int:
    """Rows that are null, by a bitmap of their own or, where the type has none, by what they stand for."""
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind):
        return int(pc.count(array, mode="only_null").as_py())
    return int(array.null_count)
