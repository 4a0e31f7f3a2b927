"""Every Arrow type passes through a stream, or fails at once with a SchemaError that names the field."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq

_numbers = itertools.count()


class Point(pa.ExtensionType):
    """An extension type of Python's own, known in this process alone."""

    def __init__(self) -> None:
        super().__init__(pa.list_(pa.float64(), 2), "lwmq.test.point")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Point:
        return cls()


class Tagged(pa.ExtensionType):
    """An extension type that nobody registers, over text."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "lwmq.test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"tag"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Tagged:
        return cls()


@pytest.fixture(scope="module", autouse=True)
def point_is_registered() -> Any:
    pa.register_extension_type(Point())
    yield
    pa.unregister_extension_type("lwmq.test.point")


def transfer(batch: pa.RecordBatch, **options: Any) -> pa.Table:
    """What a reader gets of `batch`."""
    address = f"loop://types-{os.getpid()}-{next(_numbers)}"
    writer = lwmq.open_writer(address, batch.schema, linger=0, retain="all", **options)
    writer.write(batch)
    with lwmq.open_reader(address, timeout=60, partitions=[0], start=0) as reader:
        found = [next(reader) for _ in range(int(writer.statistics.batches))]
    writer.abort()
    table = pa.Table.from_batches(found, schema=reader.schema)
    table.validate(full=True)
    return table


MOMENT = dt.datetime(2026, 11, 20, 21, 12, 34, 567891)
LISTS = [[1, 2], [], None, [3, None, 4]]

COLUMNS: dict[str, pa.Array] = {
    "null": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    **{
        str(t): pa.array([0, None, 100, 7], t)
        for t in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    "half": pa.array([0.5, None, -1.0, 65504.0]).cast(pa.float16()),
    "float": pa.array([0.1, None, float("inf"), -0.0], pa.float32()),
    "double": pa.array([0.1, None, float("-inf"), 1e300]),
    **{
        str(t): pa.array([Decimal("1.25"), None, Decimal("-7.50"), Decimal("0")], t)
        for t in (pa.decimal32(7, 2), pa.decimal64(15, 2), pa.decimal128(38, 2), pa.decimal256(76, 2))
    },
    "date32": pa.array([MOMENT.date(), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64": pa.array([MOMENT.date(), None, dt.date(1970, 1, 1), None], pa.date64()),
    **{f"time32[{u}]": pa.array([0, None, 1, 86_399], pa.time32(u)) for u in ("s", "ms")},
    **{f"time64[{u}]": pa.array([0, None, 1, 86_399], pa.time64(u)) for u in ("us", "ns")},
    **{f"timestamp[{u}]": pa.array([0, None, -1, 10**9], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp with zone": pa.array([MOMENT, None, MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
    **{f"duration[{u}]": pa.array([0, None, -1, 10**9], pa.duration(u)) for u in ("s", "ms", "us", "ns")},
    "month_day_nano": pa.array(
        [(1, 15, -30), None, (0, 0, 0), (-12, 3, 10**12)], pa.month_day_nano_interval()
    ),
    "string": pa.array(["", None, "a", "grüße, 世界"]),
    "large_string": pa.array(["", None, "a", "b" * 300], pa.large_string()),
    "string_view": pa.array(["", None, "short", "too long to lie in the view"], pa.string_view()),
    "binary": pa.array([b"", None, b"\0", b"\xff" * 99]),
    "large_binary": pa.array([b"", None, b"\0", b"\xff" * 99], pa.large_binary()),
    "binary_view": pa.array([b"", None, b"\0" * 5, b"\xff" * 99], pa.binary_view()),
    "fixed_size_binary": pa.array([b"abc", None, b"\0\0\0", b"xyz"], pa.binary(3)),
    "list": pa.array(LISTS),
    "large_list": pa.array(LISTS, pa.large_list(pa.int16())),
    "list_view": pa.array(LISTS, pa.list_view(pa.int64())),
    "large_list_view": pa.array(LISTS, pa.large_list_view(pa.int64())),
    "fixed_size_list": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 4, "b": None}]),
    "map": pa.array([[("k", 1)], None, [], [("a", None), ("b", 2)]], pa.map_(pa.string(), pa.int32())),
    "list of struct of list": pa.array([[{"p": [1.5]}], None, [], [{"p": None}, None]]),
    "dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode(),
    "dictionary of int": pa.array([5, None, 7, 5]).dictionary_encode(),
    "list of dictionary": pa.array([["x"], None, [], ["y", "x"]], pa.list_(pa.string())).cast(
        pa.list_(pa.dictionary(pa.int8(), pa.string()))
    ),
    "struct of dictionary": pa.StructArray.from_arrays(
        [pa.array(["x", None, "y", "x"]).dictionary_encode()], names=["d"]
    ),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["a", None])),
    "sparse_union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 0, 3, 0]), pa.array(["", "b", "", None])], ["i", "s"]
    ),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([1, 3]), pa.array(["b", None])],
        ["i", "s"],
    ),
    "extension": pa.ExtensionArray.from_storage(
        Point(), pa.array([[0.0, 1.0], None, [2.0, 3.0], [4.0, 5.0]], pa.list_(pa.float64(), 2))
    ),
    "unregistered extension": pa.ExtensionArray.from_storage(Tagged(), pa.array(["a", None, "b", ""])),
    "uuid": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=n).bytes for n in range(4)], pa.binary(16))
    ),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0, 1], pa.int8())),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[1]", '"x"'])),
}


def same(found: pa.ChunkedArray, expected: pa.Array) -> bool:
    if found.type.equals(expected.type):
        return bool(pa.chunked_array([expected]).equals(found)) or found.to_pylist() == expected.to_pylist()
    # an extension type that the reader does not know: its storage, with its name in the metadata
    assert isinstance(expected, pa.ExtensionArray)
    return bool(found.to_pylist() == expected.storage.to_pylist())


@pytest.mark.row("P31", "L40")
@pytest.mark.parametrize("name", COLUMNS)
def test_the_type_passes_whole_sliced_and_empty(name: str) -> None:
    column = COLUMNS[name]
    for start, rows in ((0, 4), (1, 3), (2, 1), (1, 0)):
        piece = column.slice(start, rows)
        table = transfer(pa.record_batch({"value": piece, "n": list(range(rows))}))
        assert table.column("n").to_pylist() == list(range(rows))
        assert same(table.column("value"), piece), f"{table.column('value')} is not {piece}"


@pytest.mark.row("P31")
def test_all_types_pass_side_by_side_and_in_small_pieces() -> None:
    batch = pa.record_batch(COLUMNS)
    table = transfer(batch, buffer_bytes="8KiB", window_bytes="4MiB")
    assert table.num_rows == 4
    assert table.column(0).num_chunks > 1
    for name in COLUMNS:
        assert same(table.column(name), batch.column(name)), name


def test_the_metadata_of_schema_and_fields_is_the_streams() -> None:
    field = pa.field("a", pa.int32(), nullable=False, metadata={"unit": "m"})
    batch = pa.record_batch([pa.array([1], pa.int32())], schema=pa.schema([field], metadata={"k": "v"}))
    found = transfer(batch).schema
    assert found.equals(batch.schema, check_metadata=True)
    assert not found.field("a").nullable


def test_two_columns_of_one_name_pass() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert [column.to_pylist() for column in transfer(batch).columns] == [[1], ["x"]]


def test_what_arrow_ipc_cannot_carry_is_a_schema_error_that_names_the_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lwmq_spark.arrow import layout

    real = pa.ipc.new_stream

    def refuse_half(sink: Any, schema: pa.Schema, **options: Any) -> Any:
        if any(pa.types.is_float16(field.type) for field in schema):
            raise pa.ArrowNotImplementedError("no half floats in this release")
        return real(sink, schema, **options)

    monkeypatch.setattr(layout.pa.ipc, "new_stream", refuse_half)
    schema = pa.schema([("fine", pa.int32()), ("small", pa.float16())])
    with pytest.raises(lwmq.SchemaError, match=r"field 'small': .* cannot carry halffloat: no half floats"):
        lwmq.open_writer("loop://cannot-carry", schema)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, width=kind.bit_width)
    if pa.types.is_list(kind):
        return st.lists(st.none() | _values(kind.value_type), max_size=4)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: st.none() | _values(f.type) for f in kind})
    if pa.types.is_string(kind) or pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return st.text(max_size=20)
    if pa.types.is_dictionary(kind):
        return st.sampled_from(["red", "green", "blue"])
    return st.binary(max_size=20)


_leaves = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
    ]
)
_types = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
        ),
    ),
    max_leaves=4,
)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    kinds = draw(st.lists(_types | st.just(pa.dictionary(pa.int8(), pa.string())), min_size=1, max_size=4))
    rows = draw(st.integers(0, 12))
    columns = [
        pa.array(draw(st.lists(st.none() | _values(k), min_size=rows, max_size=rows)), k) for k in kinds
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(kinds))])
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start)))


@pytest.mark.row("L40", "P31")
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(batches(), st.sampled_from([512, 4096, 1 << 20]))
def test_whatever_is_written_is_read(batch: pa.RecordBatch, buffer_bytes: int) -> None:
    table = transfer(batch, buffer_bytes=buffer_bytes, window_bytes="2MiB")
    assert table.to_pylist() == batch.to_pylist()
    assert table.schema == batch.schema
