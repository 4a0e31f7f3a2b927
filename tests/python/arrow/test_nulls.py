"""Nulls in fields declared not null: refused on every way in, wherever a row shows one, and nowhere else."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow.plain import retyped
from lwmq_spark.options import Trust

_numbers = itertools.count()


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def relaxed(kind: pa.DataType) -> pa.DataType:
    """The same type without a field that takes no nulls (but keys of maps, which never do)."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, relaxed(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(relaxed(kind.key_type), relaxed(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(relaxed(kind.value_type), kind.list_size)
    for is_kind, make in (
        (pa.types.is_list, pa.list_),
        (pa.types.is_large_list, pa.large_list),
        (pa.types.is_list_view, pa.list_view),
    ):
        if is_kind(kind):
            return make(relaxed(kind.value_type))
    return kind


class Wrapped:
    """Other people's Arrow: all that is known of it is the stream."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.Table.from_batches([self._batch]).__arrow_c_stream__(requested_schema)


class WrappedArray:
    """The same, an array at a time."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


WAYS: dict[str, Callable[[pa.RecordBatch], Any]] = {
    "RecordBatch": lambda batch: batch,
    "Table": lambda batch: pa.Table.from_batches([batch]),
    "list": lambda batch: [batch],
    "RecordBatchReader": lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
    "C stream": Wrapped,
    "C array": WrappedArray,
}
FLAT = pa.struct([required("a", pa.int64())])

# type of the field, values with nulls that count, the field that has them and how many
REFUSED: dict[str, tuple[pa.Field, list[Any], str, int]] = {
    "int64": (required("k", pa.int64()), [1, None, 3], "k", 1),
    "bool": (required("k", pa.bool_()), [True, None, None], "k", 2),
    "decimal": (required("k", pa.decimal128(9, 2)), [None, 1], "k", 1),
    "timestamp": (required("k", pa.timestamp("us")), [None, 1], "k", 1),
    "fixed binary": (required("k", pa.binary(2)), [b"ab", None], "k", 1),
    "string": (required("k", pa.string()), ["a", None], "k", 1),
    "string view": (required("k", pa.string_view()), ["a", None], "k", 1),
    "list": (required("k", pa.list_(pa.int64())), [[1], None], "k", 1),
    "struct": (required("k", pa.struct([("a", pa.int64())])), [{"a": 1}, None], "k", 1),
    "map": (required("k", pa.map_(pa.string(), pa.int64())), [[("a", 1)], None], "k", 1),
    "in a struct": (pa.field("s", FLAT), [{"a": 1}, {"a": None}, None], "s.a", 1),
    "in a list": (
        pa.field("l", pa.list_(required("item", pa.int64()))),
        [[1, None], None, [None]],
        "l.item",
        2,
    ),
    "in a list of structs": (
        pa.field("l", pa.large_list(FLAT)),
        [[{"a": 1}, None, {"a": None}], None, []],
        "l.item.a",
        1,
    ),
    "in a list of fixed size": (
        pa.field("l", pa.list_(required("item", pa.int8()), 2)),
        [[1, 2], None, [3, None]],
        "l.item",
        1,
    ),
    "in a list view": (pa.field("l", pa.list_view(FLAT)), [[None], None, [{"a": None}]], "l.item.a", 1),
    "in a map": (
        pa.field("m", pa.map_(pa.string(), required("value", pa.int64()))),
        [[("x", 1), ("y", None)], None],
        "m.entries.value",
        1,
    ),
    "in structs of structs": (
        pa.field("s", pa.struct([required("t", FLAT)])),
        [{"t": {"a": 1}}, None, {"t": {"a": None}}],
        "s.t.a",
        1,
    ),
}
for _name, _list in {
    "list": pa.list_(required("item", pa.int64())),
    "list of fixed size": pa.list_(required("item", pa.int64()), 2),
    "list view": pa.list_view(required("item", pa.int64())),
}.items():
    REFUSED[f"in a {_name} in a struct"] = (
        pa.field("s", pa.struct([pa.field("l", _list), required("n", pa.int8())])),
        [None, {"l": [1, 2], "n": 1}, {"l": [None, 3], "n": 2}, {"l": None, "n": 3}, None],
        "s.l.item",
        1,
    )
REFUSED["in a map in a struct"] = (
    pa.field("s", pa.struct([required("m", pa.map_(pa.string(), FLAT))])),
    [None, {"m": [("x", None), ("y", {"a": None})]}, {"m": []}],
    "s.m.entries.value.a",
    1,
)

# And what shows none, though children have some behind their parents' nulls.
LAX = pa.struct([("a", pa.int64())])
STRUCTS = pa.StructArray.from_arrays(  # null, 1, null, 2
    [pa.array([None, 1, None, 2])], fields=list(LAX), mask=pa.array([True, False, True, False])
)
SECOND = pa.array([True, False])  # a mask: the first is null


def list_views(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pa.ListViewArray.from_arrays(
        pa.array([0, 2], pa.int32()), pa.array([2, 2], pa.int32()), values, mask=mask
    )


TAKEN: dict[str, tuple[pa.Field, pa.Array]] = {
    "null structs": (pa.field("s", FLAT), STRUCTS),
    "null structs in structs": (
        pa.field("s", pa.struct([required("t", FLAT)])),
        pa.StructArray.from_arrays([STRUCTS], ["t"], mask=STRUCTS.is_null()),
    ),
    "null structs over null structs": (
        pa.field("s", pa.struct([pa.field("t", FLAT)])),
        pa.StructArray.from_arrays([STRUCTS], ["t"], mask=pa.array([True, True, False, False])),
    ),
    "null structs in lists": (pa.field("l", pa.list_(FLAT)), pa.ListArray.from_arrays([0, 2, 4], STRUCTS)),
    "null structs in large lists": (
        pa.field("l", pa.large_list(FLAT)),
        pa.LargeListArray.from_arrays([0, 2, 4], STRUCTS),
    ),
    "null structs in lists of fixed size": (
        pa.field("l", pa.list_(FLAT, 2)),
        pa.FixedSizeListArray.from_arrays(STRUCTS, 2),
    ),
    "null structs in list views": (
        pa.field("l", pa.list_view(FLAT)),
        list_views(STRUCTS, pa.array([False, False])),
    ),
    "null structs in maps": (
        pa.field("m", pa.map_(pa.int8(), FLAT)),
        pa.MapArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, 4], pa.int8()), STRUCTS),
    ),
    "null lists": (
        pa.field("l", pa.list_(required("item", pa.int64()))),
        pa.ListArray.from_arrays([0, 2, 4], pa.array([1, None, 3, 4]), mask=SECOND),
    ),
    "null lists of fixed size": (
        pa.field("l", pa.list_(required("item", pa.int64()), 2)),
        pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4]), 2, mask=SECOND),
    ),
    "null list views": (
        pa.field("l", pa.list_view(required("item", pa.int64()))),
        list_views(pa.array([1, None, 3, 4]), SECOND),
    ),
    "null maps": (
        pa.field("m", pa.map_(pa.int64(), required("value", pa.int64()))),
        pa.MapArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, 4]), pa.array([1, None, 3, 4]), mask=SECOND),
    ),
    "null lists in null structs": (
        pa.field("s", pa.struct([required("l", pa.list_(required("item", pa.int64())))])),
        pa.StructArray.from_arrays(
            [pa.ListArray.from_arrays([0, 2, 4], pa.array([1, None, 3, 4]))], ["l"], mask=SECOND
        ),
    ),
}


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """With rows before and behind that are not shown."""
    lax = relaxed(kind)
    bad = {field.name: None for field in lax} if pa.types.is_struct(lax) else None
    return pa.array([bad, *values, bad], lax).slice(1, len(values))


def batch_of(field: pa.Field, array: pa.Array, *, declared: bool) -> pa.RecordBatch:
    """`declared`: under a schema that takes no nulls; else under one that takes them everywhere."""
    batch = pa.record_batch([array], names=[field.name])
    return retyped(batch, pa.schema([field])) if declared else batch


def address() -> str:
    return f"loop://nulls-{os.getpid()}-{next(_numbers)}"


@pytest.mark.parametrize(
    ("case", "way"),
    [(case, list(WAYS)[n % len(WAYS)]) for n, case in enumerate(REFUSED)]
    + [(next(iter(REFUSED)), way) for way in list(WAYS)[1:]],
)
def test_no_way_in_takes_nulls_in_a_field_declared_not_null(case: str, way: str) -> None:
    field, values, path, count = REFUSED[case]
    writer = lwmq.open_writer(where := address(), pa.schema([field]))
    expected = rf"^{count} nulls? in {path}, which the stream {where} declares not null"
    for declared in (True, False):
        batch = batch_of(field, array_of(field.type, values), declared=declared)
        with pytest.raises(lwmq.SchemaError, match=expected):
            writer.write(WAYS[way](batch))
    assert writer.statistics.batches == 0
    writer.abort()


@pytest.mark.parametrize("case", TAKEN)
def test_a_null_struct_or_list_has_no_children_that_could_be_null(case: str) -> None:
    field, array = TAKEN[case]
    trusts: tuple[Trust, ...] = ("user", "verify")
    for trust in trusts:
        writer = lwmq.open_writer(where := address(), pa.schema([field]), linger=0)
        with lwmq.open_reader(where, timeout=20, trust=trust) as reader:
            for way, declared, start in itertools.product(WAYS.values(), (True, False), (0, 1)):
                piece = array.slice(start)
                writer.write(way(batch_of(field, piece, declared=declared)))
                found = reader.read_next_batch()
                found.validate(full=True)
                assert found.column(0).to_pylist() == piece.to_pylist()
                assert found.schema.equals(pa.schema([field]))
        writer.abort()


def test_nulls_that_nobody_has_counted_are_found() -> None:
    bitmap = np.packbits(np.arange(130) % 3 != 0, bitorder="little")
    values = pa.py_buffer(np.arange(130).tobytes())
    array = pa.Array.from_buffers(pa.int64(), 130, [pa.py_buffer(bitmap.tobytes()), values])  # null_count: -1
    schema = pa.schema([required("n", pa.int64())])
    writer = lwmq.open_writer(address(), schema)
    with pytest.raises(lwmq.SchemaError, match="44 nulls in n, "):
        writer.write(pa.record_batch([array], schema=schema))
    writer.abort()


def test_nulls_that_lie_in_a_dictionary_or_a_run_are_found_where_a_row_shows_them() -> None:
    words = pa.array(["x", None])
    shown = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), words)
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), words)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([None, "x"]))
    for array, count in ((shown, 2), (hidden, 0), (runs, 2), (runs.slice(2), 0)):
        schema = pa.schema([required("d", array.type)])
        writer = lwmq.open_writer(address(), schema)
        if count:
            with pytest.raises(lwmq.SchemaError, match=f"{count} nulls in d, "):
                writer.write(pa.record_batch([array], schema=schema))
        else:
            writer.write(pa.record_batch([array], schema=schema))
        writer.abort()


def test_structs_behind_a_dictionary_and_in_unions_are_looked_at_too() -> None:
    structs = pa.array([{"a": 1}, {"a": None}, None], pa.struct([("a", pa.int64())]))
    codes = pa.array([0, 1, 0], pa.int8())
    offsets = pa.array([0, 0, 2], pa.int32())
    texts = pa.array(["x", "y", "z"])
    fields = [pa.field("s", FLAT), pa.field("t", pa.string())]
    cases: list[tuple[pa.Field, pa.Array, str]] = [
        (
            pa.field("u", pa.sparse_union(fields)),
            pa.UnionArray.from_sparse(codes, [structs, texts], ["s", "t"]),
            "",
        ),
        (
            pa.field("u", pa.dense_union(fields)),
            pa.UnionArray.from_dense(codes, offsets, [structs, texts], ["s", "t"]),
            "",
        ),
        (
            pa.field("u", pa.sparse_union(fields)),
            pa.UnionArray.from_sparse(pa.array([1, 0, 0], pa.int8()), [structs, texts], ["s", "t"]),
            "u.s.a",
        ),
        (
            pa.field("u", pa.dense_union(fields)),
            pa.UnionArray.from_dense(codes, pa.array([0, 0, 1], pa.int32()), [structs, texts], ["s", "t"]),
            "u.s.a",
        ),
    ]
    for field, array, path in cases:
        writer = lwmq.open_writer(address(), pa.schema([field]))
        batch = pa.record_batch([array], names=[field.name])
        if path:
            with pytest.raises(lwmq.SchemaError, match=f"1 null in {path}, "):
                writer.write(batch)
        else:
            writer.write(batch)
        writer.abort()


def test_what_polars_brings_is_looked_at_too() -> None:
    schema = pa.schema([required("n", pa.int64()), pa.field("l", pa.list_(FLAT))])
    frame = polars.DataFrame(
        {"n": [1, 2], "l": [[{"a": 1}, None], None]},
        schema={"n": polars.Int64, "l": polars.List(polars.Struct({"a": polars.Int64}))},
    )
    writer = lwmq.open_writer(where := address(), schema, linger=0)
    writer.write(frame)
    with lwmq.open_reader(where, timeout=20) as reader:
        found = reader.read_next_batch()
        assert found.to_pylist() == frame.to_dicts()
        assert polars.DataFrame(found).equals(frame)
    with pytest.raises(lwmq.SchemaError, match=r"1 null in l\.item\.a, "):
        other = polars.Series([[{"a": 1}, {"a": None}], None], dtype=frame.schema["l"])
        writer.write(frame.with_columns(l=other))
    writer.abort()


def test_what_was_refused_leaves_the_stream_as_it_was() -> None:
    schema = pa.schema([required("n", pa.int64())])
    writer = lwmq.open_writer(where := address(), schema, linger=0)
    writer.write(pa.record_batch([pa.array([1, 2])], schema=schema))
    with pytest.raises(lwmq.SchemaError, match="declares not null: filter them out, or declare"):
        writer.write(pa.record_batch([pa.array([3, None])], schema=schema))
    writer.write(pa.record_batch([pa.array([4])], schema=schema))
    with lwmq.open_reader(where, timeout=20) as reader:
        assert [reader.read_next_batch()["n"].to_pylist() for _ in range(2)] == [[1, 2], [4]]
    writer.abort()
