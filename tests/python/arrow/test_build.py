"""Batches built in the block: `writer.allocate`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq

SCHEMA = pa.schema(
    [
        ("price", pa.float64()),
        ("size", pa.int32()),
        ("up", pa.bool_()),
        ("time", pa.timestamp("us")),
        ("day", pa.date32()),
        ("paid", pa.decimal128(20, 2)),
        ("key", pa.binary(3)),
        ("vector", pa.list_(pa.float32(), 2)),
        ("half", pa.float16()),
        ("wait", pa.duration("ns")),
    ]
)


def fill(batch: lwmq.arrow.BatchBuilder) -> None:
    rows = batch.rows
    batch["price"][:] = np.arange(rows) / 2
    batch["size"][:] = np.arange(rows)
    batch["up"][:] = np.packbits(np.arange(rows) % 3 == 0, bitorder="little")
    batch["time"][:] = np.datetime64("2026-11-20", "us") + np.arange(rows)
    batch["day"][:] = np.arange(rows)
    batch["paid"][:, 0] = 100 * np.arange(rows) + 25
    batch["paid"][:, 1] = 0
    batch["key"][:] = np.frombuffer(b"abc", np.uint8)
    batch["vector"][:] = np.arange(2 * rows).reshape(rows, 2)
    batch["half"][:] = 0.5
    batch["wait"][:] = np.timedelta64(7, "ns")


def expected(rows: int) -> list[dict[str, object]]:
    day, moment = dt.date(1970, 1, 1), dt.datetime(2026, 11, 20)
    return [
        {
            "price": n / 2,
            "size": n,
            "up": n % 3 == 0,
            "time": moment + dt.timedelta(microseconds=n),
            "day": day + dt.timedelta(days=n),
            "paid": Decimal(n) + Decimal("0.25"),
            "key": b"abc",
            "vector": [2.0 * n, 2.0 * n + 1],
            "half": 0.5,
        }
        for n in range(rows)
    ]


def read_one(address: str) -> pa.RecordBatch:
    with lwmq.open_reader(address, timeout=60) as reader:
        batch = next(reader)
    batch.validate(full=True)
    return batch


@pytest.mark.row("L14", "L01")
def test_a_batch_built_in_the_window_is_read_there(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with writer.allocate(100) as batch:
        assert batch["vector"].shape == (100, 2)
        assert batch["key"].shape == (100, 3)
        fill(batch)
        assert repr(batch).startswith("<BatchBuilder of 100 rows, 10 columns")
    found = read_one(address)
    assert found.drop_columns(["wait"]).to_pylist() == expected(100)
    assert found["wait"].cast(pa.int64()).to_pylist() == [7] * 100
    for column in found.columns:
        assert all(buffer is None or buffer.address % 64 == 0 for buffer in column.buffers())
    assert writer.statistics.batches == 1
    writer.abort()


def test_fewer_rows_than_allocated_may_be_committed(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with writer.allocate(1000) as batch:
        fill(batch)
        batch.commit(3)
    assert read_one(address).drop_columns(["wait"]).to_pylist() == expected(3)
    writer.abort()


def test_columns_with_nulls_have_a_bitmap_all_valid_at_first(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with writer.allocate(10, nulls=["size", "vector"]) as batch:
        fill(batch)
        batch.validity("size")[0] = 0b1111_1110
        with pytest.raises(KeyError, match="'price' was allocated without nulls"):
            batch.validity("price")
        with pytest.raises(KeyError, match="no column 'prize'; there are price, size"):
            batch["prize"]
    found = read_one(address)
    assert found["size"].to_pylist() == [None, *range(1, 10)]
    assert found["size"].null_count == 1
    assert found["vector"].null_count == 0
    writer.abort()


def test_what_is_left_by_an_exception_is_given_back(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with pytest.raises(ZeroDivisionError), writer.allocate(10) as batch:
        raise ZeroDivisionError
    with pytest.raises(lwmq.ClosedError, match="published or given back"):
        batch["size"]
    assert writer.statistics.batches == 0
    writer.abort()


def test_no_rows_are_a_batch_too(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with writer.allocate(0):
        pass
    assert read_one(address).num_rows == 0
    writer.abort()


def test_columns_of_no_fixed_width_are_a_schema_error_that_names_the_field(address: str) -> None:
    writer = lwmq.open_writer(address, pa.schema([("n", pa.int32()), ("text", pa.string())]))
    with pytest.raises(lwmq.SchemaError, match="field 'text': string has no fixed width"):
        writer.allocate(10)
    writer.abort()
    kinds = (pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.list_(pa.string(), 2), pa.null())
    for number, kind in enumerate(kinds):
        writer = lwmq.open_writer(f"{address}-{number}", pa.schema([("x", kind)]))
        with pytest.raises(lwmq.SchemaError, match="field 'x'"):
            writer.allocate(10)
        writer.abort()


def test_more_rows_than_a_window_holds_are_an_error_with_both_numbers(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, buffer_bytes="64KiB", window_bytes="1MiB")
    with pytest.raises(
        lwmq.MessageTooBigError, match=r"1000000 rows of \d+ bytes .* window of 1048576 bytes"
    ):
        writer.allocate(1_000_000)
    writer.abort()


def test_a_field_that_is_not_nullable_takes_no_nulls(address: str) -> None:
    writer = lwmq.open_writer(address, pa.schema([pa.field("n", pa.int32(), nullable=False)]))
    with pytest.raises(lwmq.SchemaError, match="'n' is not nullable"):
        writer.allocate(10, nulls=["n"])
    writer.abort()


# ---- What becomes of the arrays

NUMBERS = pa.schema([("n", pa.int64()), ("up", pa.bool_())])


def test_arrays_can_only_be_read_behind_the_commit(address: str) -> None:
    writer = lwmq.open_writer(address, NUMBERS)
    batch = writer.allocate(8, nulls=["n"])
    numbers, bits, validity = batch["n"], batch["up"], batch.validity("n")
    numbers[:], bits[:] = range(8), 0
    batch.commit()
    for array in (numbers, bits, validity):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1
    assert numbers.tolist() == list(range(8))
    assert writer.statistics.bytes_copied == 0
    assert read_one(address)["n"].to_pylist() == list(range(8))
    writer.abort()
    assert numbers.tolist() == list(range(8))


def test_a_slice_that_outlives_the_commit_does_not_change_the_batch(address: str) -> None:
    writer = lwmq.open_writer(address, NUMBERS)
    batch = writer.allocate(8)
    batch["n"][:], batch["up"][:] = range(8), 0
    part = batch["n"][2:4]
    batch.commit()
    part[:] = -1
    assert writer.statistics.bytes_copied > 0
    assert writer.statistics.batches == 1
    assert read_one(address)["n"].to_pylist() == list(range(8))
    writer.abort()
    assert part.tolist() == [-1, -1]


@pytest.mark.parametrize("end", ["abort", "close", "discard", "forget", "commit"])
def test_an_array_keeps_its_memory_whatever_ends(address: str, end: str) -> None:
    """Of the writer and the builder; and nobody else gets that memory meanwhile."""
    writer = lwmq.open_writer(address, NUMBERS, window_bytes="1MiB", timeout=60)
    batch = writer.allocate(30_000)
    numbers = batch["n"]
    part = numbers[:]
    numbers[:] = 7
    if end == "abort":
        writer.abort()
    elif end == "close":
        with pytest.raises(lwmq.TimeoutError):  # nobody has seen this empty stream
            writer.close(linger=0)
    elif end == "discard":
        batch.discard()
    elif end == "commit":
        batch.commit()
    else:
        del batch, writer
    others = pa.table({"n": range(30_000), "up": [True] * 30_000}, schema=NUMBERS)
    for number in range(2):
        other = lwmq.open_writer(f"{address}-{number}", NUMBERS, window_bytes="1MiB", timeout=60)
        other.write(others)
        other.abort()
    if end in ("discard", "commit"):
        for _ in range(2):
            writer.write(others)
        writer.abort()
    assert (numbers == 7).all()
    part[:] = 8
    assert (numbers == 8).all()
    assert numbers.flags.writeable == (end not in ("discard", "commit"))


def test_a_committed_block_is_not_used_again_while_its_arrays_live(address: str) -> None:
    writer = lwmq.open_writer(address, NUMBERS, window_bytes="1MiB", buffer_bytes="256KiB", timeout=2)
    kept = []
    with lwmq.open_reader(address, timeout=60) as reader:
        for number in range(2):
            batch = writer.allocate(20_000)
            numbers = batch["n"]
            numbers[:] = number
            kept.append(numbers)
            batch.commit()
            next(reader)
        reader.consume()
        for _ in range(50):  # the rest of the window goes round
            with writer.allocate(20_000) as batch:
                batch["n"][:] = -1
            next(reader)
            reader.consume()
        assert [(array == number).all() for number, array in enumerate(kept)] == [True, True]
        more = [writer.allocate(20_000)["n"] for _ in range(2)]
        told = "no room .* 4 lent to this process and not let go; views of blocks must be let go"
        with pytest.raises(lwmq.TimeoutError, match=told):
            writer.allocate(20_000)
        kept.clear()
        del numbers
        more += [writer.allocate(20_000)["n"] for _ in range(2)]
    writer.abort()


def test_what_was_lent_and_forgotten_is_given_back(address: str) -> None:
    writer = lwmq.open_writer(address, NUMBERS, window_bytes="1MiB", buffer_bytes="256KiB", timeout=60)
    for _ in range(50):
        writer.allocate(20_000)
    for _ in range(50):
        array = writer.allocate(20_000)["n"]
        array[:] = 1
    del array
    with writer.allocate(20_000) as batch:
        batch["n"][:] = 3
    assert set(read_one(address)["n"].to_pylist()) == {3}
    writer.abort()


def test_a_copy_for_which_there_is_no_room_leaves_the_builder_as_it_was(address: str) -> None:
    writer = lwmq.open_writer(address, NUMBERS, window_bytes="1MiB", buffer_bytes="256KiB", timeout=2)
    held = []
    with pytest.raises(lwmq.TimeoutError):
        while True:
            held.append(writer.allocate(20_000))
    batch = held.pop()
    batch["n"][:] = 5
    part = batch["n"][:3]
    with pytest.raises(lwmq.TimeoutError, match="no room"):
        batch.commit()
    part[0] = 6
    del part
    batch.commit()
    assert read_one(address)["n"].to_pylist()[:2] == [6, 5]
    writer.abort()
