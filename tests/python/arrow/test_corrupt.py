"""Bytes that cannot be right are a CorruptError, never a crash and never a batch that is not there."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark._ffi import ffi, lib, sized
from lwmq_spark.arrow.layout import Encoder, _find_places
from lwmq_spark.arrow.lease import batch_over

BATCH = pa.record_batch(
    {"n": np.arange(100), "s": [str(n) for n in range(100)], "b": [n % 2 == 0 for n in range(100)]}
)


def block_of(batch: pa.RecordBatch) -> bytearray:
    encoded = Encoder(batch.schema).encode(batch)
    memory = np.zeros(encoded.bytes, np.uint8)
    encoded.place(int(memory.ctypes.data))
    return bytearray(memory.tobytes())


def read(
    block: bytearray, rows: int = 100, *, is_stream: bool = False, schema: pa.Schema = BATCH.schema
) -> Any:
    """What a reader makes of `block`."""
    memory = np.frombuffer(bytes(block), np.uint8)
    raw = sized("lwmq_batch_info")
    raw.data = ffi.cast("uint8_t *", memory.ctypes.data)
    raw.bytes, raw.rows, raw.seq, raw.partition, raw.writer_pid = len(block), rows, 7, 2, 4711
    raw.flags = lib.LWMQ_BATCH_IPC_STREAM if is_stream else lib.LWMQ_BATCH_IPC_MESSAGE
    return batch_over(raw, memory, schema)


def metadata_bytes(block: bytearray) -> int:
    return int(struct.unpack_from("<i", block, 4)[0])


def test_what_is_right_is_read() -> None:
    assert read(block_of(BATCH)).equals(BATCH)


def test_a_number_of_rows_that_the_bytes_cannot_hold_is_corrupt() -> None:
    block = block_of(BATCH)
    places = _find_places(bytearray(block[8 : 8 + metadata_bytes(block)]))
    struct.pack_into("<q", block, 8 + places.rows, 10**9)
    for node in range(places.node_count):
        struct.pack_into("<q", block, 8 + places.nodes + 16 * node, 10**9)
    with pytest.raises(lwmq.CorruptError, match=r"batch 7 of partition 2 by process 4711.*too small"):
        read(block, 10**9)


def test_other_rows_than_announced_are_corrupt() -> None:
    with pytest.raises(lwmq.CorruptError, match="has 100 rows, announced were 99"):
        read(block_of(BATCH), 99)


def test_a_buffer_outside_of_the_block_is_corrupt() -> None:
    block = block_of(BATCH)
    places = _find_places(bytearray(block[8 : 8 + metadata_bytes(block)]))
    for wrong in (len(block) * 8, -64, 1 << 62):
        forged = bytearray(block)
        struct.pack_into("<q", forged, 8 + places.buffers + 16, wrong)
        with pytest.raises(lwmq.CorruptError):
            read(forged)


@pytest.mark.parametrize("kept", [1, 4, 7, 8, 40, 200])
def test_a_block_that_ends_too_early_is_corrupt(kept: int) -> None:
    with pytest.raises(lwmq.CorruptError):
        read(block_of(BATCH)[:kept])
    with pytest.raises(lwmq.CorruptError):
        read(block_of(BATCH)[:kept], is_stream=True)


def test_a_stream_of_another_schema_is_corrupt() -> None:
    batch = pa.record_batch({"d": pa.array(["x"]).dictionary_encode()})
    assert read(block_of(batch), 1, is_stream=True, schema=batch.schema).equals(batch)
    with pytest.raises(lwmq.CorruptError, match="has the schema d: dictionary"):
        read(block_of(batch), 1, is_stream=True)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_whatever_the_metadata_says_it_is_corrupt_or_a_batch_within_the_block(
    changes: list[tuple[int, int]],
) -> None:
    block = block_of(BATCH)
    size = 8 + metadata_bytes(block)
    for at, value in changes:
        block[at % size] = value
    try:
        batch = read(block)
    except lwmq.CorruptError:
        return
    assert batch.num_rows == 100
    batch.validate()
