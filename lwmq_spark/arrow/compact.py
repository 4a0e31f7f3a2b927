"""Batches that hold no more than their rows show.

A slice of most columns is written as its own rows alone. Dictionaries and the bytes behind views are shared:
every slice has all of them, whichever of them it uses. Here each is replaced by one with what is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwmq_spark.arrow.layout import shares
from lwmq_spark.arrow.layouts import mask_of
from lwmq_spark.arrow.plain import retyped


def compacted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with dictionaries and views, at any depth, limited to what its rows show.

    Unions stay as they are, and columns that share nothing are not copied.
    """
    return pa.RecordBatch.from_arrays([_compacted(column) for column in batch.columns], schema=batch.schema)


def _compacted(array: Any) -> Any:
    kind = array.type
    if not shares(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _compacted(array.storage))
    if kind in _WIDE:
        return _views(array)
    if pa.types.is_dictionary(kind):
        return _dictionary(array)
    if pa.types.is_struct(kind):
        parts = [_compacted(array.field(index)) for index in range(kind.num_fields)]
        return retyped(pa.StructArray.from_arrays(parts, kind.names, mask=mask_of(array)), kind)
    if pa.types.is_map(kind):
        return retyped(_compacted(retyped(array, pa.list_(kind.field(0)))), kind)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        sizes = pc.if_else(array.is_valid(), array.sizes, 0).cast(array.sizes.type)
        starts = pc.subtract(pc.cumulative_sum(sizes), sizes)
        values = _compacted(array.flatten())  # one row's after the other's, none for nulls
        return type(array).from_arrays(starts, sizes, values, type=kind, mask=mask_of(array))
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        values = _compacted(array.values.slice(array.offset * size, len(array) * size))
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask_of(array))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        values, offsets = array.values.slice(first, end - first), pc.subtract(array.offsets, first)
        return type(array).from_arrays(offsets, _compacted(values), type=kind, mask=mask_of(array))
    if pa.types.is_run_end_encoded(kind):
        first, count = array.find_physical_offset(), array.find_physical_length()
        ends = pc.subtract(array.run_ends.slice(first, count), array.offset)
        ends = pc.min_element_wise(ends, len(array)).cast(kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, _compacted(array.values.slice(first, count)), kind)
    return array


_WIDE = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_INLINE = 12  # bytes of a value that lie in its view


def _views(array: Any) -> Any:
    """With the bytes of its own rows; as it is where rows share so many that it would grow by that."""
    if not len(array):
        return pa.array([], array.type)
    _, views, *data = array.buffers()
    ours = np.frombuffer(views, np.int32)[4 * array.offset : 4 * (array.offset + len(array)) : 4]
    if ours.sum(where=ours > _INLINE, dtype=np.int64) > sum(buffer.size for buffer in data):
        return array
    return array.cast(_WIDE[array.type]).cast(array.type)


def _dictionary(array: Any) -> Any:
    """With the values that are used, in their order, which counts where the type is `ordered`."""
    indices, values = array.indices, array.dictionary
    used = pc.unique(indices.drop_null()).sort()
    if len(used) == len(values):
        return array
    kind = values.type
    try:
        values = values.cast(_WIDE.get(kind, kind)).take(used).cast(kind)
    except pa.ArrowNotImplementedError:  # views in something that is a value itself
        return array
    indices = pc.index_in(indices, value_set=used).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, _compacted(values), ordered=array.type.ordered)
