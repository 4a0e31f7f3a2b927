"""Text, binary and lists are taken in any layout, at any depth; runs are written inside of anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow.layouts import near_enough, recast, same_buffers, same_meaning
from lwmq_spark.arrow.nulls import NullRules
from lwmq_spark.arrow.plain import retyped
from tests.patience import HANG_S

TEXTS = ["a", None, "b" * 40, "", "ccc"] * 3
FLAT = [pa.string(), pa.large_string(), pa.string_view()]
FLAT_BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
OFFSETS = pa.array([0, 2, 2, 5, 9, 15], pa.int32())
SECOND_OF_5 = pa.array([False, True, False, False, False])
SECOND_OF_3 = pa.array([False, True, False])
STARTS, SIZES = pa.array([3, 0, 5]), pa.array([4, 0, 9])

LISTS: dict[str, Callable[[Any], Any]] = {
    "list": lambda a: pa.ListArray.from_arrays(OFFSETS, a, mask=SECOND_OF_5),
    "large list": lambda a: pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), a, mask=SECOND_OF_5),
    "list view": lambda a: pa.ListViewArray.from_arrays(
        STARTS.cast(pa.int32()), SIZES.cast(pa.int32()), a, mask=SECOND_OF_3
    ),
    "large list view": lambda a: pa.LargeListViewArray.from_arrays(STARTS, SIZES, a),
}
NUMBERS = pa.array(range(15))
ODD = pa.array([0, 1] * 7 + [0], pa.int8())
SHAPES: dict[str, Callable[[Any], Any]] = {
    "flat": lambda a: a,
    **LISTS,
    "struct": lambda a: pa.StructArray.from_arrays(
        [a, NUMBERS], ["x", "y"], mask=pa.array([n % 4 == 1 for n in range(15)])
    ),
    "fixed size list": lambda a: pa.FixedSizeListArray.from_arrays(a, 3, mask=SECOND_OF_5),
    "dictionary": lambda a: pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 14]), a),
    "runs": lambda a: pa.RunEndEncodedArray.from_arrays(pa.array(range(3, 33, 2), pa.int32()), a),
    "map": lambda a: pa.MapArray.from_arrays(OFFSETS, NUMBERS.cast(pa.string()).cast(a.type), a),
    "sparse union": lambda a: pa.UnionArray.from_sparse(ODD, [a, NUMBERS], ["u", "v"]),
    "dense union": lambda a: pa.UnionArray.from_dense(
        ODD[:3], pa.array([2, 3, 4], pa.int32()), [a, NUMBERS], ["u", "v"]
    ),
    "deep": lambda a: pa.ListArray.from_arrays(
        pa.array([0, 5, 15], pa.int32()),
        pa.StructArray.from_arrays([pa.DictionaryArray.from_arrays(NUMBERS, a)], ["d"]),
    ),
}
SLICES = [slice(None), slice(1, None), slice(1, 3), slice(0, 0)]


@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_the_same_in_every_layout_at_any_depth(shape: str) -> None:
    for family, values in ((FLAT, TEXTS), (FLAT_BYTES, [t and t.encode() for t in TEXTS])):
        made = [SHAPES[shape](pa.array(values, kind)) for kind in family]
        for array in made:
            for kind in [other.type for other in made]:
                assert same_meaning(array.type, kind)
                for rows in SLICES:
                    check_recast(array[rows], kind)


@pytest.mark.parametrize("mine", LISTS)
@pytest.mark.parametrize("theirs", LISTS)
def test_lists_are_the_same_in_every_layout(mine: str, theirs: str) -> None:
    array = LISTS[mine](pa.array(TEXTS, pa.string_view()))
    kind = LISTS[theirs](pa.array(TEXTS)).type
    for rows in SLICES:
        check_recast(array[rows], kind)


def check_recast(array: Any, kind: pa.DataType) -> None:
    got = recast(array, kind)
    got.validate(full=True)
    assert got.to_pylist() == array.to_pylist()
    assert same_buffers(got.type, kind)


def test_what_means_something_else_is_refused() -> None:
    text, number = pa.string(), pa.int64()
    assert not same_meaning(text, pa.binary())
    assert not same_meaning(pa.list_(text), pa.list_(text, 3))
    assert not same_meaning(pa.list_(text), pa.large_list(number))
    assert not same_meaning(pa.dictionary(pa.int8(), text), pa.dictionary(pa.int16(), pa.large_string()))
    assert not same_meaning(pa.struct([("a", text)]), pa.struct([("b", pa.large_string())]))
    assert not same_meaning(pa.null(), text)
    assert not same_meaning(pa.dictionary(pa.int8(), text), text)
    assert near_enough(pa.list_(pa.null()), pa.large_list(text))
    assert near_enough(pa.struct([("a", pa.dictionary(pa.int8(), text))]), pa.struct([("a", text)]))
    assert not near_enough(pa.dictionary(pa.int8(), number), text)


def through(address: str, schema: pa.Schema, *data: Any) -> pa.Table:
    """What a reader gets of `data`, written to a stream of `schema`."""
    got: list[pa.Table] = []
    reading = threading.Thread(
        target=lambda: got.append(lwmq.open_reader(address, timeout=HANG_S).read_all()), daemon=True
    )
    reading.start()
    with lwmq.open_writer(address, schema, timeout=HANG_S) as writer:
        for each in data:
            writer.write(each)
    reading.join(HANG_S)
    return got[0]


@pytest.mark.parametrize("theirs", FLAT, ids=str)
def test_a_table_of_another_layout_is_written(theirs: pa.DataType, ipc: str) -> None:
    shapes = [name for name in SHAPES if len(SHAPES[name](NUMBERS)) == 15]
    table = pa.table({name: SHAPES[name](pa.array(TEXTS, pa.large_string())) for name in shapes})
    schema = pa.schema([(name, SHAPES[name](pa.array(TEXTS, theirs)).type) for name in shapes])
    got = through(ipc, schema, table, *table.to_batches(max_chunksize=4))
    assert got.schema.equals(schema)
    assert got.to_pylist() == 2 * table.to_pylist()


def test_a_second_writer_may_declare_another_layout(ipc: str) -> None:
    first, second = (pa.schema([("s", pa.struct([("t", kind)]))]) for kind in (pa.string(), pa.string_view()))
    rows = [{"s": {"t": "one"}}, {"s": None}]
    with (
        lwmq.open_writer(ipc, first, role="server", linger=HANG_S) as one,
        lwmq.open_reader(ipc, timeout=HANG_S, writers=2) as reader,
    ):
        other = lwmq.open_writer(ipc, second, timeout=HANG_S)
        assert other.schema.equals(first)
        other.write(pa.Table.from_pylist(rows, second))
        assert next(reader).to_pylist() == rows
        one.write(pa.Table.from_pylist(rows, first))
        assert next(reader).to_pylist() == rows
        other.close(linger=HANG_S)
        reader.consume()


RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["x", None]))
NESTED_RUNS = {
    "list": pa.ListArray.from_arrays(pa.array([0, 2, 5], pa.int32()), RUNS),
    "fixed size list": pa.FixedSizeListArray.from_arrays(RUNS[:4], 2),
    "struct": pa.StructArray.from_arrays([RUNS, RUNS], ["a", "b"]),
    "map": pa.MapArray.from_arrays(pa.array([0, 2, 5], pa.int32()), pa.array(list("abcde")), RUNS),
    "list view": pa.ListViewArray.from_arrays(
        pa.array([3, 0], pa.int32()), pa.array([2, 3], pa.int32()), RUNS
    ),
    "runs of lists": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 4], pa.int16()), pa.ListArray.from_arrays(pa.array([0, 2, 5], pa.int32()), RUNS)
    ),
}


@pytest.mark.parametrize("shape", NESTED_RUNS)
def test_runs_are_written_inside_of_anything(shape: str, ipc: str) -> None:
    table = pa.table({"c": NESTED_RUNS[shape], "n": range(len(NESTED_RUNS[shape]))})
    got = through(ipc, table.schema, table)
    assert got.schema.equals(table.schema)
    assert got.to_pylist() == table.to_pylist()


def test_frames_of_polars_are_written_in_the_schema_that_polars_gives(ipc: str) -> None:
    polars = pytest.importorskip("polars")
    words = polars.Series([["z"], None], dtype=polars.List(polars.String))
    frame = polars.DataFrame({"s": [{"a": "x", "b": ["y"]}, {"a": None, "b": []}], "c": words})
    wanted = frame.to_arrow()
    assert through(ipc, wanted.schema, frame).to_pylist() == wanted.to_pylist()


def test_nulls_are_found_in_a_slice_of_a_union() -> None:
    text, number = pa.field("t", pa.string(), nullable=False), pa.field("v", pa.int64())
    schema = pa.schema([("u", pa.sparse_union([text, number]))])
    made = SHAPES["sparse union"](pa.array(TEXTS))
    batch = pa.RecordBatch.from_arrays([made], names=["u"])
    NullRules(schema).check(retyped(batch.slice(1, 1), schema), "here")  # its row shows a number
    with pytest.raises(lwmq.SchemaError, match=r"1 null in u\.t"):
        NullRules(schema).check(retyped(batch.slice(6, 1), schema), "here")
