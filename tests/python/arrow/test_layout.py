"""A batch in a block: encoded once, every buffer at a multiple of 64, read back where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lwmq_spark.arrow.layout import ALIGNMENT, Encoded, Encoder, empty_batch


class Block:
    """Memory as a writer lends it: aligned, of the size asked for, with something between it and its end."""

    def __init__(self, size: int) -> None:
        raw = np.full(size + 3 * ALIGNMENT, 0xA5, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self.memory = raw[start : start + size]
        self.after = raw[start + size : start + size + ALIGNMENT]
        self.address = int(self.memory.ctypes.data)

    def read(self, encoded: Encoded, schema: pa.Schema) -> pa.RecordBatch:
        encoded.place(self.address)
        assert (self.after == 0xA5).all(), "wrote past the end of the block"
        buffer = pa.py_buffer(self.memory)
        if encoded.is_stream:
            return pa.ipc.open_stream(buffer).read_next_batch()
        return pa.ipc.read_record_batch(buffer, schema)


def round_trip(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Block]:
    encoded = Encoder(batch.schema).encode(batch)
    block = Block(encoded.bytes)
    found = block.read(encoded, batch.schema)
    found.validate(full=True)
    return found, block


BATCH = pa.record_batch(
    {
        "int": pa.array([1, None, 3, 4], pa.int64()),
        "text": ["x", None, "zzz", ""],
        "bool": [True, False, None, True],
        "list": [[1, 2], [], None, [3]],
        "struct": [{"a": 1, "b": "p"}, None, {"a": None, "b": "q"}, {"a": 4, "b": None}],
    }
)


def test_every_buffer_lies_at_a_multiple_of_64_and_the_values_are_the_same() -> None:
    found, block = round_trip(BATCH)
    assert found.equals(BATCH)
    addresses = [buffer.address for column in found.columns for buffer in column.buffers() if buffer]
    assert addresses
    for address in addresses:
        assert address % ALIGNMENT == 0
        assert block.address <= address < block.address + block.memory.size


@pytest.mark.parametrize(("offset", "length"), [(1, 3), (1, 2), (3, 1), (2, 0), (0, 4), (4, 0)])
def test_slices_carry_only_what_they_show(offset: int, length: int) -> None:
    piece = BATCH.slice(offset, length)
    found, _ = round_trip(piece)
    assert found.equals(piece)


def test_a_slice_of_a_large_batch_takes_little_room() -> None:
    large = pa.record_batch({"n": np.arange(100_000), "s": [str(n) for n in range(100_000)]})
    encoded = Encoder(large.schema).encode(large.slice(50_000, 10))
    assert encoded.bytes < 2048


def test_dictionaries_travel_with_their_batch() -> None:
    inner = pa.array([["p"], ["q", "p"], None]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string())))
    batch = pa.record_batch({"d": pa.array(["x", "y", "x"]).dictionary_encode(), "inner": inner})
    encoder = Encoder(batch.schema)
    for piece in (batch, batch.slice(1, 1), batch.slice(0, 0)):
        encoded = encoder.encode(piece)
        assert encoded.is_stream
        found = Block(encoded.bytes).read(encoded, batch.schema)
        found.validate(full=True)
        assert found.to_pylist() == piece.to_pylist()
        assert found.schema == batch.schema
        for column in found.columns:
            assert all(b is None or b.address % ALIGNMENT == 0 for b in column.buffers())


def test_one_encoder_serves_batches_of_every_shape_in_any_order() -> None:
    encoder = Encoder(BATCH.schema)
    nulls = pa.RecordBatch.from_arrays([pa.nulls(5, f.type) for f in BATCH.schema], schema=BATCH.schema)
    for batch in (BATCH, nulls, empty_batch(BATCH.schema), BATCH.slice(2), nulls.slice(1, 1), BATCH):
        encoded = encoder.encode(batch)
        found = Block(encoded.bytes).read(encoded, BATCH.schema)
        found.validate(full=True)
        assert found.equals(batch)


def test_columns_without_a_body_are_a_batch_too() -> None:
    batch = pa.record_batch({"nothing": pa.nulls(7)})
    found, _ = round_trip(batch)
    assert found.num_rows == 7
    none, _ = round_trip(pa.record_batch({"a": pa.array([], pa.int32())}))
    assert none.num_rows == 0


def test_a_failed_encode_leaves_the_encoder_as_it_was() -> None:
    encoder = Encoder(BATCH.schema)
    other: Any = pa.record_batch({"int": ["text"]})
    with pytest.raises(pa.ArrowInvalid):
        encoder.encode(other)
    encoded = encoder.encode(BATCH)
    assert Block(encoded.bytes).read(encoded, BATCH.schema).equals(BATCH)
