"""Bytes that cannot be right are a CorruptError, never a crash and never a batch that is not there."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark._ffi import ffi, lib, sized
from lwmq_spark.arrow.block import BlockReader
from lwmq_spark.arrow.layout import Encoder, _find_places
from lwmq_spark.arrow.lease import batch_over, verified_batch

BATCH = pa.record_batch(
    {"n": np.arange(100), "s": [str(n) for n in range(100)], "b": [n % 2 == 0 for n in range(100)]}
)
BLOCKS = BlockReader()


def block_of(batch: pa.RecordBatch) -> bytearray:
    encoded = Encoder(batch.schema).encode(batch)
    memory = np.zeros(encoded.bytes, np.uint8)
    encoded.place(int(memory.ctypes.data))
    return bytearray(memory.tobytes())


def read(
    block: bytearray,
    rows: int = 100,
    *,
    is_stream: bool = False,
    schema: pa.Schema = BATCH.schema,
    verify: bool = False,
) -> Any:
    """What a reader makes of `block`."""
    memory = np.frombuffer(bytes(block), np.uint8)
    raw = sized("lwmq_batch_info")
    raw.data = ffi.cast("uint8_t *", memory.ctypes.data)
    raw.bytes, raw.rows, raw.seq, raw.partition, raw.writer_pid = len(block), rows, 7, 2, 4711
    raw.flags = lib.LWMQ_BATCH_IPC_STREAM if is_stream else lib.LWMQ_BATCH_IPC_MESSAGE
    if verify:
        return verified_batch(raw, schema, BLOCKS)
    return batch_over(raw, memory, schema, BLOCKS)


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


@settings(max_examples=400)
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


DICTIONARY = pa.record_batch({"d": pa.array(["x", "y"] * 50).dictionary_encode(), "n": np.arange(100)})


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_whatever_a_stream_of_dictionaries_says_it_is_corrupt_or_a_batch(
    changes: list[tuple[int, int]],
) -> None:
    block = block_of(DICTIONARY)
    for at, value in changes:
        block[at % len(block)] = value
    with contextlib.suppress(lwmq.CorruptError):
        assert read(block, is_stream=True, schema=DICTIONARY.schema, verify=True).num_rows == 100


@pytest.mark.parametrize("length", [0, -1, 1 << 30, 7])
@pytest.mark.parametrize("batch", [BATCH, DICTIONARY], ids=["message", "stream"])
def test_metadata_of_an_impossible_length_is_corrupt(length: int, batch: pa.RecordBatch) -> None:
    block = block_of(batch)
    struct.pack_into("<i", block, 4, length)
    with pytest.raises(lwmq.CorruptError):
        read(block, is_stream=batch is DICTIONARY, schema=batch.schema)


class Rewriter:
    """Writes one value after the other to a place of a block, over and over, while somebody reads it."""

    def __init__(self, memory: np.ndarray[Any, Any], at: int, values: list[bytes]) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(memory, at, values))

    def _run(self, memory: np.ndarray[Any, Any], at: int, values: list[bytes]) -> None:
        arrays = [np.frombuffer(value, np.uint8) for value in values]
        while not self._stop.is_set():
            for array in arrays:
                memory[at : at + len(array)] = array

    def __enter__(self) -> Rewriter:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


def raw_over(memory: np.ndarray[Any, Any]) -> Any:
    raw = sized("lwmq_batch_info")
    raw.data = ffi.cast("uint8_t *", memory.ctypes.data)
    raw.bytes, raw.rows, raw.seq, raw.partition, raw.writer_pid = len(memory), 100, 7, 2, 4711
    raw.flags = lib.LWMQ_BATCH_IPC_MESSAGE
    return raw


def outcomes(read_once: Callable[[], None]) -> dict[bool, int]:
    """How often it went well, and how often something was corrupt, within a second or two of trying."""
    seen = {True: 0, False: 0}
    deadline = time.monotonic() + 60
    while (min(seen.values()) < 20 or sum(seen.values()) < 2000) and time.monotonic() < deadline:
        try:
            read_once()
            seen[True] += 1
        except lwmq.CorruptError:
            seen[False] += 1
    return seen


def test_metadata_that_changes_while_it_is_read_is_a_batch_within_the_block_or_corrupt() -> None:
    """pyarrow checks metadata and follows it afterwards: from a copy, so that nothing comes in between."""
    block = block_of(BATCH)
    size = len(block)
    places = _find_places(bytearray(block[8 : 8 + metadata_bytes(block)]))
    memory = np.frombuffer(block, np.uint8)
    begin = int(memory.ctypes.data)
    at = 8 + places.buffers + 16  # where the first column's values lie
    lies = [struct.pack("<qq", 1 << 40, 800), struct.pack("<qq", 0, 1 << 40), struct.pack("<qq", size, 800)]

    def read_once() -> None:
        batch = batch_over(raw_over(memory), memory, BATCH.schema, BLOCKS)
        for part in (part for column in batch.columns for part in column.buffers() if part is not None):
            assert begin <= part.address
            assert part.address + part.size <= begin + size

    with Rewriter(memory, at, [bytes(block[at : at + 16]), *lies]):
        seen = outcomes(read_once)
    assert all(seen.values()), seen


def test_offsets_that_change_while_they_are_verified_are_the_batch_or_corrupt() -> None:
    block = block_of(BATCH)
    memory = np.frombuffer(block, np.uint8)
    at = bytes(block).index(BATCH.column(1).buffers()[1].to_pybytes()) + 200
    good = bytes(block[at : at + 4])

    def read_once() -> None:
        raw = raw_over(memory)
        assert verified_batch(raw, BATCH.schema, BLOCKS).equals(BATCH)
        assert raw.copied == 1

    with Rewriter(memory, at, [good, b"\xff\xff\xff\x7f", b"\0\0\0\x80"]):
        seen = outcomes(read_once)
    assert all(seen.values()), seen


def test_a_reader_that_verifies_gets_copies_and_counts_them(address: str) -> None:
    with (
        lwmq.open_writer(address, BATCH.schema, retain="all", linger=0) as writer,
        lwmq.open_reader(address, trust="verify", timeout=60) as reader,
    ):
        writer.write(BATCH)
        assert reader.read_next_batch().equals(BATCH)
        assert reader.last is not None
        assert reader.last.copied
        statistics = reader.statistics
        assert (statistics.batches_copied, statistics.leased_batches) == (1, 0)
        assert statistics.bytes_copied == statistics.bytes
    with pytest.raises(ValueError, match="'blind' is none of user, verify"):
        lwmq.open_reader(address, trust="blind")  # type: ignore[arg-type]
