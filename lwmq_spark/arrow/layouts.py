"""One meaning, several layouts: text, binary and lists have offsets of 32 or 64 bits, or views.

Which layout a library takes is its own affair: pandas has large strings and polars has views where a stream
says `string`. Arrays are brought from one layout into another here, at any depth. Only what differs is
copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwmq_spark.arrow.plain import retyped

# Whether an array of the first type can be written as one of the second.
Likeness = Callable[[pa.DataType, pa.DataType], bool]

_FLAT = (
    {pa.string(), pa.large_string(), pa.string_view()},
    {pa.binary(), pa.large_binary(), pa.binary_view()},
)
_PARAMETERS = ("list_size", "keys_sorted", "mode", "type_codes", "index_type", "ordered", "run_end_type")


def same_buffers(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """Equal but for the nullability, metadata and unimportant names of inner fields."""
    return mine.equals(theirs) or _same_but_inside(mine, theirs, same_buffers)


def same_meaning(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """The same but for the layout of text, binary and lists."""
    return _same_in_any_layout(mine, theirs, same_meaning)


def near_enough(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """The same meaning; or nothing but nulls; or a dictionary of such values."""
    if pa.types.is_null(mine):
        return True
    if pa.types.is_dictionary(mine) and not pa.types.is_dictionary(theirs):
        return near_enough(mine.value_type, theirs)
    return _same_in_any_layout(mine, theirs, near_enough)


def same_field(mine: pa.Field, theirs: pa.Field, alike: Likeness) -> bool:
    """Fields of like types, also where one is of an extension type that is not registered, and has come back
    as its storage."""
    if isinstance(mine.type, pa.BaseExtensionType) and not isinstance(theirs.type, pa.BaseExtensionType):
        named = (theirs.metadata or {}).get(b"ARROW:extension:name", b"").decode()
        return named == mine.type.extension_name and alike(mine.type.storage_type, theirs.type)
    return alike(mine.type, theirs.type)


def _same_in_any_layout(mine: pa.DataType, theirs: pa.DataType, alike: Likeness) -> bool:
    if mine.equals(theirs) or any(mine in family and theirs in family for family in _FLAT):
        return True
    if _is_list(mine) and _is_list(theirs):
        return same_field(mine.field(0), theirs.field(0), alike)
    return _same_but_inside(mine, theirs, alike)


def _same_but_inside(mine: pa.DataType, theirs: pa.DataType, alike: Likeness) -> bool:
    """One nested type, whose inner types are alike."""
    if isinstance(mine, pa.BaseExtensionType) and isinstance(theirs, pa.BaseExtensionType):
        return mine.extension_name == theirs.extension_name and alike(mine.storage_type, theirs.storage_type)
    if mine.id != theirs.id or mine.num_fields != theirs.num_fields:
        return False
    if any(getattr(mine, name, None) != getattr(theirs, name, None) for name in _PARAMETERS):
        return False
    if pa.types.is_dictionary(mine):
        return alike(mine.value_type, theirs.value_type)
    named = pa.types.is_struct(mine) or pa.types.is_union(mine)
    pairs = [(mine.field(i), theirs.field(i)) for i in range(mine.num_fields)]
    return bool(pairs) and all((not named or a.name == b.name) and same_field(a, b, alike) for a, b in pairs)


def recast(array: Any, kind: pa.DataType) -> Any:
    """`array`, whose type is `near_enough`, with buffers as `kind` has them.

    Names and nullability inside stay as they are. ArrowException: the values are too many for the offsets of
    `kind`.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    mine = array.type
    if same_buffers(mine, kind):
        return array
    if pa.types.is_null(mine):
        return pa.nulls(len(array), kind)
    if pa.types.is_dictionary(mine):
        if not pa.types.is_dictionary(kind):
            return recast(array.dictionary_decode(), kind)
        values = recast(array.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if not kind.num_fields:
        return array.cast(kind)
    if _is_list(mine):
        return _recast_list(array, kind)
    if pa.types.is_map(mine):
        entries = _recast_list(retyped(array, pa.list_(mine.field(0))), pa.list_(kind.field(0)))
        of_one = entries.type.value_type
        return retyped(entries, pa.map_(of_one.field(0).with_nullable(False), of_one.field(1)))
    if pa.types.is_fixed_size_list(mine):
        size = mine.list_size
        values = recast(array.values.slice(array.offset * size, len(array) * size), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(values, size, mask=mask_of(array))
    if pa.types.is_run_end_encoded(mine):
        values = recast(array.values, kind.value_type)
        like = pa.run_end_encoded(mine.run_end_type, values.type)
        runs = [array.run_ends, values]
        return pa.Array.from_buffers(like, len(array), [None], offset=array.offset, children=runs)
    parts = [recast(array.field(index), kind.field(index).type) for index in range(kind.num_fields)]
    names = [field.name for field in kind]
    if pa.types.is_struct(mine):
        return pa.StructArray.from_arrays(parts, names, mask=mask_of(array))
    if mine.mode == "sparse":
        return pa.UnionArray.from_sparse(type_codes_of(array), parts, names, mine.type_codes)
    return pa.UnionArray.from_dense(type_codes_of(array), offsets_of(array), parts, names, mine.type_codes)


def type_codes_of(union: Any) -> Any:
    """Those of its rows: pyarrow's `type_codes` of a slice are those of its first ones. Copied, because
    pyarrow passes over the offset of what a union is made from, too."""
    return pa.array(np.frombuffer(union.buffers()[1], np.int8, len(union), union.offset).copy())


def offsets_of(union: Any) -> Any:
    """Of a dense union, likewise."""
    return pa.array(np.frombuffer(union.buffers()[2], np.int32, len(union), 4 * union.offset).copy())


def mask_of(array: Any) -> Any:
    """For `from_arrays`: where `array` is null; None where nowhere."""
    return array.is_null() if array.null_count else None


def _recast_list(array: Any, kind: pa.DataType) -> Any:
    """A list or a list of views as the one or the other."""
    if _is_view(array.type):
        sizes = pc.if_else(array.is_valid(), array.sizes, 0).cast(pa.int64())
        values = array.flatten()  # one row's after the other's, none for nulls
        ends = pc.cumulative_sum(sizes)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    else:
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        values, offsets = array.values.slice(first, end - first), pc.subtract(array.offsets, first)
    values = recast(values, kind.value_type)
    is_wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    offsets = offsets.cast(pa.int64() if is_wide else pa.int32())
    if _is_view(kind):
        sizes = pc.subtract(offsets[1:], offsets[:-1])
        view = pa.LargeListViewArray if is_wide else pa.ListViewArray
        return view.from_arrays(offsets[:-1], sizes, values, mask=mask_of(array))
    plain = pa.LargeListArray if is_wide else pa.ListArray
    return plain.from_arrays(offsets, values, mask=mask_of(array))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))
