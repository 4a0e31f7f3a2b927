"""Batches of fixed-width columns take a short way, written and read: what arrives is what was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark.arrow.layout import Encoder
from lwmq_spark.arrow.plain import Layout, Plan
from lwmq_spark.arrow.reader import StreamReader
from lwmq_spark.arrow.writer import StreamWriter

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "half": pa.float16(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "instant": pa.timestamp("us", tz="UTC"),
    "span": pa.duration("ns"),
    "decimal": pa.decimal128(20, 2),
    "money": pa.decimal32(7, 2),
    "interval": pa.month_day_nano_interval(),
    "bytes": pa.binary(5),
}
SCHEMA = pa.schema(list(TYPES.items()))


def column(kind: pa.DataType, rows: int, seed: int, with_nulls: bool) -> pa.Array:
    """Random bytes as values of a type."""
    chance = np.random.default_rng(seed)
    values = chance.integers(0, 100, (rows * kind.bit_width + 7) // 8, dtype=np.uint8)
    bitmap = np.packbits(chance.random(rows) < 0.7, bitorder="little") if with_nulls else None
    buffers = [None if bitmap is None else pa.py_buffer(bitmap), pa.py_buffer(values)]
    return pa.Array.from_buffers(kind, rows, buffers)


def batch_of(rows: int, seed: int = 0, *, with_nulls: bool = False) -> pa.RecordBatch:
    arrays = [column(kind, rows, seed + i, with_nulls) for i, kind in enumerate(TYPES.values())]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class LongWays:
    """Counts the batches that went the long way, at either end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written = self.read = 0
        encode, learn = Encoder.encode, Layout.learn

        def count_written(encoder: Encoder, batch: pa.RecordBatch) -> Any:
            self.written += 1
            return encode(encoder, batch)

        def count_read(layout: Layout, raw: Any, head: bytes, batch: pa.RecordBatch) -> None:
            self.read += 1
            learn(layout, raw, head, batch)

        monkeypatch.setattr(Encoder, "encode", count_written)
        monkeypatch.setattr(Layout, "learn", count_read)


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> LongWays:
    return LongWays(monkeypatch)


def pair(address: str, schema: pa.Schema = SCHEMA, **options: Any) -> tuple[StreamWriter, StreamReader]:
    return lwmq.open_writer(address, schema, **options), lwmq.open_reader(address, timeout=60)


def test_batches_of_one_size_are_read_the_long_way_twice_and_written_never(
    address: str, long_ways: LongWays
) -> None:
    writer, reader = pair(address)
    with writer, reader:
        for seed in range(10):
            batch = batch_of(100, seed)
            writer.write(batch)
            assert reader.read_next_batch().equals(batch)
    assert long_ways.written == 0
    assert long_ways.read == 2


@settings(max_examples=60)
@given(
    rows=st.integers(1, 200),
    start=st.integers(0, 40),
    seed=st.integers(0, 1000),
    with_nulls=st.booleans(),
)
def test_whatever_is_written_arrives(rows: int, start: int, seed: int, with_nulls: bool) -> None:
    """Slices that begin anywhere, within a byte of a bitmap, too; three times, so that both ways read it."""
    batch = batch_of(rows + start, seed, with_nulls=with_nulls).slice(start)
    writer, reader = pair(f"loop://plain-{rows}-{start}-{seed}-{with_nulls}")
    with writer, reader:
        for _ in range(3):
            writer.write(batch)
            arrived = reader.read_next_batch()
            arrived.validate()
            assert arrived.equals(batch)


def test_nulls_that_nobody_has_counted_are_counted(address: str, long_ways: LongWays) -> None:
    bitmap = np.packbits(np.arange(130) % 3 != 0, bitorder="little")
    values = pa.py_buffer(np.arange(130).tobytes())
    array = pa.Array.from_buffers(pa.int64(), 130, [pa.py_buffer(bitmap.tobytes()), values])  # null_count: -1
    batch = pa.record_batch({"n": array})
    writer, reader = pair(address, batch.schema)
    with writer, reader:
        writer.write(batch)
        arrived = reader.read_next_batch()
        assert arrived["n"].null_count == 44
        assert arrived["n"].to_pylist() == [n if n % 3 else None for n in range(130)]
    assert long_ways.written == 0


@pytest.mark.parametrize("columns", [1, 64, 65, 300])
def test_many_columns(address: str, columns: int, long_ways: LongWays) -> None:
    batch = pa.record_batch({f"c{i}": np.arange(10) + i for i in range(columns)})
    writer, reader = pair(address, batch.schema)
    with writer, reader:
        for _ in range(4):
            writer.write(batch)
            assert reader.read_next_batch().equals(batch)
    assert (long_ways.written, long_ways.read) == (0, 2)


def test_what_the_plan_does_not_cover_goes_the_long_way(address: str, long_ways: LongWays) -> None:
    batch = pa.record_batch({"n": np.arange(1000)})
    writer, reader = pair(address, batch.schema, buffer_bytes=4096)
    with writer, reader:
        writer.write(batch)  # larger than a buffer: split
        rows = 0
        while rows < 1000:
            rows += reader.read_next_batch().num_rows
        assert rows == 1000
        writer.write(batch.slice(0, 0))
        assert reader.read_next_batch().num_rows == 0
        assert long_ways.written > 0
    nested = pa.record_batch({"s": pa.array(["a", "bc"]), "l": pa.array([[1], [2, 3]])})
    writer, reader = pair(address + "-nested", nested.schema)
    with writer, reader:
        for _ in range(4):
            writer.write(nested)
            assert reader.read_next_batch().equals(nested)
    assert long_ways.read >= 4


def test_structs_and_lists_of_fixed_size_are_read_the_short_way(address: str, long_ways: LongWays) -> None:
    points = pa.array([{"x": 1.0, "y": None}, None, {"x": 3.0, "y": 4.0}])
    triples = pa.array([[1, 2, 3], [4, 5, 6], None], type=pa.list_(pa.int16(), 3))
    batch = pa.record_batch({"p": points, "t": triples})
    writer, reader = pair(address, batch.schema)
    with writer, reader:
        for _ in range(5):
            writer.write(batch)
            arrived = reader.read_next_batch()
            arrived.validate(full=True)
            assert arrived.equals(batch)
    assert long_ways.read == 2


def test_a_column_outlives_its_batch_and_the_reader_and_then_its_lease_ends(ipc: str) -> None:
    """Also where it is moved out of the batch: then the arrays are released one by one."""
    batch = pa.record_batch({"a": np.arange(1000), "b": np.arange(1000) * 0.5})
    writer, reader = pair(ipc, batch.schema)
    with writer:
        for _ in range(4):
            writer.write(batch)
            arrived = reader.read_next_batch()
        info = reader.last
        assert info is not None
        address = arrived["b"].buffers()[1].address
        assert info.address <= address < info.address + info.bytes
        kept = arrived["b"]
        del arrived
        assert reader.statistics.leased_batches == 1
        reader.close()
        assert kept.to_pylist() == batch["b"].to_pylist()
        moved = pa.Array._import_from_c(*export(kept))
        del kept
        assert moved.to_pylist() == batch["b"].to_pylist()
        second = lwmq.open_reader(ipc, timeout=60)
        del moved
        writer.write(batch)
        second.read_next_batch()
        assert second.statistics.leased_batches == 0
        second.close()


def export(array: pa.Array) -> tuple[int, pa.DataType]:
    from pyarrow.cffi import ffi

    room = ffi.new("struct ArrowArray *")
    address = int(ffi.cast("uintptr_t", room))
    array._export_to_c(address)
    export.room = room  # type: ignore[attr-defined]
    return address, array.type


def test_a_plan_is_made_of_flat_fixed_widths_alone() -> None:
    assert Plan.of(SCHEMA, 1 << 20) is not None
    for kind in (pa.string(), pa.null(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string())):
        assert Plan.of(pa.schema([("a", pa.int8()), ("b", kind)]), 1 << 20) is None
    assert Plan.of(pa.schema([]), 1 << 20) is None
