"""Several threads at one writer or one reader: every batch arrives once and whole, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S
from tests.together import together

THREADS = 4
BATCHES = 60  # of each thread
ROWS = 50


def numbers_of(key: int) -> range:
    """What a batch with this key holds, in every column."""
    return range(key * ROWS, (key + 1) * ROWS)


def flat(key: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"n": pa.array(numbers_of(key), pa.int64()), "m": pa.array(numbers_of(key), pa.int32())}
    )


def with_nulls(key: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([None, *numbers_of(key)[1:]], pa.int64())})


def texts(key: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [f"number {n}" for n in numbers_of(key)]})


def lists(key: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"n": [[n] * (n % 5) for n in numbers_of(key)], "s": [{"a": n} for n in numbers_of(key)]}
    )


def dictionaries(key: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([f"number {n}" for n in numbers_of(key)]).dictionary_encode()})


def views(key: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"n": pa.array([f"a number of some length {n}" for n in numbers_of(key)], pa.string_view())}
    )


KINDS = [flat, with_nulls, texts, lists, dictionaries, views]


def keys(thread: int) -> Iterator[int]:
    return iter(range(thread * BATCHES, (thread + 1) * BATCHES))


def check_all_once(found: list[pa.RecordBatch], kind: Callable[[int], pa.RecordBatch], batches: int) -> None:
    """That `found` are the batches of `kind` with keys below `batches`, each once and whole, in any order."""
    expected = sorted(repr(kind(key).to_pylist()) for key in range(batches))
    assert sorted(repr(batch.to_pylist()) for batch in found) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_a_writer_lose_and_double_nothing(
    address: str, kind: Callable[[int], pa.RecordBatch]
) -> None:
    found: list[pa.RecordBatch] = []
    writer = lwmq.open_writer(
        address, kind(0).schema, partitions=3, role="server", window_bytes="1MiB", buffer_bytes="64KiB"
    )
    reader = lwmq.open_reader(address, role="client", timeout=HANG_S)

    def write(thread: int) -> Callable[[], object]:
        return lambda: [writer.write(kind(key)) for key in keys(thread)]

    def read() -> None:
        for batch in reader:
            found.append(batch)
            if len(found) == THREADS * BATCHES:
                return

    together(read, *(write(thread) for thread in range(THREADS)))
    check_all_once(found, kind, THREADS * BATCHES)
    assert writer.statistics.batches == THREADS * BATCHES
    assert f"{THREADS * BATCHES} batches written" in repr(writer)
    found.clear()
    reader.close()
    writer.close(linger=HANG_S)


def test_threads_share_a_writer_whatever_each_of_them_writes_with(address: str) -> None:
    """Batches that are copied in one call, tables that are cut, and batches built in place, at once."""
    schema = flat(0).schema
    writer = lwmq.open_writer(address, schema, role="server", window_bytes="2MiB", buffer_bytes="4KiB")
    reader = lwmq.open_reader(address, role="client", timeout=HANG_S)
    rows: list[int] = []

    def whole() -> None:
        for key in keys(0):
            writer.write(flat(key))

    def cut() -> None:
        writer.write(pa.Table.from_batches([flat(key) for key in keys(1)]).combine_chunks())

    def built() -> None:
        for key in keys(2):
            with writer.allocate(ROWS) as batch:
                for name in schema.names:
                    batch[name][:] = numbers_of(key)

    def dropped() -> None:
        for _ in keys(3):
            writer.allocate(ROWS).discard()
            writer.allocate(ROWS)

    def read() -> None:
        for batch in reader:
            assert batch["n"].to_pylist() == batch["m"].to_pylist()
            rows.extend(batch["n"].to_pylist())
            if len(rows) >= 3 * BATCHES * ROWS:
                return

    together(read, whole, cut, built, dropped)
    assert sorted(rows) == list(range(3 * BATCHES * ROWS))
    reader.close()
    writer.close(linger=HANG_S)


@pytest.mark.parametrize("trust", ["user", "verify"])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_a_reader_get_each_batch_once(
    address: str, kind: Callable[[int], pa.RecordBatch], trust: Any
) -> None:
    found: list[pa.RecordBatch] = []
    total = THREADS * BATCHES

    def feed() -> None:
        with lwmq.open_writer(address, kind(0).schema, window_bytes="1MiB", buffer_bytes="64KiB") as writer:
            for key in range(total):
                writer.write(kind(key))

    with lwmq.open_reader(address, timeout=HANG_S, trust=trust) as reader:

        def read() -> None:
            for batch in reader:
                batch.validate(full=True)
                found.append(batch)
                assert reader.last is not None and reader.statistics.batches > 0
                assert reader.schema == kind(0).schema

        together(feed, *[read] * THREADS)
        check_all_once(found, kind, total)
        assert f"at the end, {total} batches read" in repr(reader)
        found.clear()


@pytest.mark.parametrize("kind", [flat, texts])
@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_writer_that_ends_beside_its_threads_is_closed_for_them(
    address: str, end: str, kind: Callable[[int], pa.RecordBatch]
) -> None:
    writer = lwmq.open_writer(address, kind(0).schema, role="server", window_bytes="1MiB")
    started = threading.Semaphore(0)

    def write() -> None:
        with pytest.raises(lwmq.LwmqError):
            while True:
                writer.write(kind(0))
                started.release()

    def build() -> None:
        with pytest.raises(lwmq.LwmqError):
            while kind is flat:
                with writer.allocate(ROWS) as batch:
                    batch["n"][:] = 1
                started.release()
            writer.allocate(ROWS)  # refused: texts have no place before they are known

    def finish() -> None:
        for _ in range(5):
            assert started.acquire(timeout=HANG_S)
        if end == "close":
            with pytest.raises(lwmq.TimeoutError):
                writer.close(linger=0)
        else:
            writer.abort("enough")

    together(write, write, build, finish)


@pytest.mark.parametrize("kind", [flat, texts])
def test_a_reader_that_is_closed_beside_its_threads_is_closed_for_them(
    address: str, kind: Callable[[int], pa.RecordBatch]
) -> None:
    writer = lwmq.open_writer(address, kind(0).schema, role="server", window_bytes="1MiB", timeout=HANG_S)
    reader = lwmq.open_reader(address, role="client", timeout=HANG_S)
    seen = threading.Semaphore(0)

    def write() -> None:
        with pytest.raises(lwmq.LwmqError):
            while True:
                writer.write(kind(0))

    def read() -> None:
        with pytest.raises(lwmq.ClosedError):
            while True:
                assert reader.read_next_batch().to_pylist() == kind(0).to_pylist()
                seen.release()

    def finish() -> None:
        for _ in range(20):
            assert seen.acquire(timeout=HANG_S)
        reader.close()
        writer.abort()

    together(write, read, read, finish)


def outcome_of_commit(batch: lwmq.arrow.BatchBuilder) -> str:
    try:
        batch.commit()
    except lwmq.ClosedError:
        return "refused"
    return "committed"


def test_a_builder_that_two_threads_commit_is_one_batch(address: str) -> None:
    writer = lwmq.open_writer(address, pa.schema([("n", pa.int64())]), role="server")
    for number in range(50):
        batch = writer.allocate(ROWS)
        batch["n"][:] = number
        slices = [batch["n"][:1]] if number % 2 else []  # then a copy is published
        outcomes: list[str] = []
        together(*[lambda batch=batch, told=outcomes: told.append(outcome_of_commit(batch))] * 2)  # type: ignore[misc]
        assert sorted(outcomes) == ["committed", "refused"]
        assert all(part == number for part in slices)
    assert writer.statistics.batches == 50
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert [next(reader)["n"].to_pylist() for _ in range(50)] == [[n] * ROWS for n in range(50)]
    writer.abort()
