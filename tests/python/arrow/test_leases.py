"""A lease lasts as long as anything refers to the batch's memory, on whatever thread, also after close."""

from __future__ import annotations

import gc
import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import StreamReader, StreamWriter

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 8192  # 64 KiB a batch


def batch_of(value: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.full(ROWS, value)}, schema=SCHEMA)


def mapped(address: int) -> bool:
    """Whether the memory at `address` is mapped in this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in re.match(r"(\w+)-(\w+)", line).groups())  # type: ignore[union-attr]
        if start <= address < end:
            return True
    return False


def open_pair(address: str, window: str = "1MiB") -> tuple[StreamWriter, StreamReader]:
    writer = lwmq.open_writer(address, SCHEMA, buffer_bytes="128KiB", window_bytes=window)
    return writer, lwmq.open_reader(address, timeout=60)


@pytest.mark.row("L01")
def test_a_lease_ends_with_the_last_reference_whatever_it_is(address: str) -> None:
    writer, reader = open_pair(address)
    writer.write(batch_of(1))
    batch = next(reader)
    assert reader.statistics.leased_batches == 1
    column = batch["n"]
    del batch
    values = column.to_numpy()
    del column
    part = values[7:9]
    del values
    gc.collect()
    assert reader.statistics.leased_batches == 1
    assert part.tolist() == [1, 1]
    del part
    gc.collect()
    assert reader.statistics.leased_batches == 0
    writer.abort()
    reader.close()


@pytest.mark.row("L01")
def test_leased_memory_is_never_rewritten_whatever_the_pressure(address: str) -> None:
    writer, reader = open_pair(address)
    writer.write(batch_of(-1))
    kept = next(reader)
    for value in range(100):  # a hundred batches through a window that holds sixteen
        writer.write(batch_of(value))
        got = next(reader)
        assert got["n"][0].as_py() == got["n"][ROWS - 1].as_py() == value
        del got
    assert kept["n"].to_pylist() == [-1] * ROWS
    assert reader.statistics.bytes_copied == 0
    writer.abort()
    reader.close()


def test_who_holds_half_of_the_window_gets_counted_copies_and_the_writer_goes_on(address: str) -> None:
    writer, reader = open_pair(address)
    kept, infos = [], []
    for value in range(40):
        writer.write(batch_of(value))
        kept.append(next(reader))
        infos.append(reader.last)
    assert [batch["n"][ROWS - 1].as_py() for batch in kept] == list(range(40))
    copies = [info for info in infos if info is not None and info.copied]
    assert copies
    statistics = reader.statistics
    assert statistics.batches_copied == len(copies)
    assert statistics.bytes_copied == sum(info.bytes for info in copies)
    writer.abort()
    reader.close()


def test_batches_outlive_reader_and_writer_and_the_mapping_goes_with_the_last_view(ipc: str) -> None:
    writer, reader = open_pair(ipc)
    writer.write(batch_of(5))
    batch = next(reader)
    assert reader.last is not None
    address = reader.last.address
    reader.close(linger=0)
    writer.abort()
    del reader, writer
    gc.collect()
    assert mapped(address)
    assert batch["n"].to_pylist() == [5] * ROWS
    del batch
    gc.collect()
    deadline = threading.Event()
    for _ in range(100):
        if not mapped(address):
            break
        deadline.wait(0.05)
    assert not mapped(address)


def test_leases_may_end_on_any_thread(address: str) -> None:
    writer, reader = open_pair(address, window="8MiB")
    batches = []
    for value in range(32):
        writer.write(batch_of(value))
        batches.append(next(reader))

    def drop(mine: list[pa.RecordBatch]) -> None:
        while mine:
            assert mine.pop()["n"][0].as_py() >= 0

    threads = [threading.Thread(target=drop, args=(batches[i::4],)) for i in range(4)]
    batches.clear()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    del threads
    gc.collect()
    assert reader.statistics.leased_batches == 0
    writer.abort()
    reader.close()
