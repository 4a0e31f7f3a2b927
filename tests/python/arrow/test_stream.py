"""The public contract of Arrow streams, sentence by sentence, within one process."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def batch_of(start: int, rows: int = 3) -> pa.RecordBatch:
    numbers = list(range(start, start + rows))
    return pa.record_batch({"n": numbers, "s": [f"row {n}" for n in numbers]}, schema=SCHEMA)


class Reading:
    """A reader on a thread of its own, so that a writer in this one may wait for it."""

    def __init__(self, address: str, **options: Any) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.infos: list[Any] = []
        self.failure: BaseException | None = None
        self._address, self._options = address, options
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with lwmq.open_reader(self._address, **self._options) as reader:
                for batch in reader:
                    self.batches.append(batch)
                    self.infos.append(reader.last)
        except BaseException as exc:
            self.failure = exc

    def join(self) -> Reading:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self

    @property
    def table(self) -> pa.Table:
        self.join()
        if self.failure is not None:
            raise self.failure
        return pa.Table.from_batches(self.batches, schema=SCHEMA)


@pytest.mark.row("L01", "M02")
def test_what_is_written_is_read_in_order_and_without_a_copy(address: str) -> None:
    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA) as writer:
        for start in range(0, 30, 3):
            writer.write(batch_of(start))
    assert reading.table.column("n").to_pylist() == list(range(30))
    for seq, (batch, info) in enumerate(zip(reading.batches, reading.infos, strict=True)):
        assert (info.partition, info.seq, info.rows, info.copied) == (0, seq, 3, False)
        values = batch.column(0).buffers()[1]
        assert info.window_address <= info.address <= values.address
        assert values.address + values.size <= info.address + info.bytes
        assert info.address + info.bytes <= info.window_address + info.window_bytes
        assert not values.is_mutable


@pytest.mark.row("S08")
def test_the_writer_may_come_first(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    writer.write(batch_of(0))
    reading = Reading(address)
    writer.close()
    assert reading.table.num_rows == 3


@pytest.mark.row("S08")
def test_the_reader_may_come_first_and_waits_for_the_schema(address: str) -> None:
    reading = Reading(address)
    time.sleep(0.05)
    with lwmq.open_writer(address, SCHEMA) as writer:
        writer.write(batch_of(0))
    assert reading.table.num_rows == 3


def test_an_empty_stream_has_its_schema(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with lwmq.open_reader(address) as reader:
        writer.close()
        table = reader.read_all()
    assert table.schema == SCHEMA
    assert table.num_rows == 0


def test_write_takes_whatever_speaks_arrow(address: str) -> None:
    import duckdb
    import polars as pl

    table = pa.Table.from_batches([batch_of(0), batch_of(3)])
    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA) as writer:
        assert writer.write(table) == 6
        assert writer.write(table.to_reader()) == 6
        assert writer.write([batch_of(0), batch_of(3)]) == 6
        assert writer.write(pl.from_arrow(table)) == 6  # brings string views
        assert writer.write(table.to_pandas().set_axis(list("abcdef"))) == 6  # brings an index
        assert writer.write(duckdb.from_arrow(table)) == 6
        assert writer.write(batch_of(0)) == 3
    expected = list(range(6)) * 6 + [0, 1, 2]
    assert reading.table.column("n").to_pylist() == expected
    assert reading.table.column("s").to_pylist() == [f"row {n}" for n in expected]


def test_write_refuses_what_does_not_speak_arrow(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with pytest.raises(TypeError, match="not dict"):
        writer.write({"n": [1]})
    writer.abort()


def test_a_batch_of_another_type_is_a_schema_error_that_names_the_field_and_both_types(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    with pytest.raises(lwmq.SchemaError, match=r"'n' is int32, but int64"):
        writer.write(pa.record_batch({"n": pa.array([1], pa.int32()), "s": ["x"]}))
    with pytest.raises(lwmq.SchemaError, match=r"field 0 is 'm', but 'n'"):
        writer.write(pa.record_batch({"m": [1], "s": ["x"]}))
    with pytest.raises(lwmq.SchemaError, match="'s' is missing"):
        writer.write(pa.record_batch({"n": [1]}))
    with pytest.raises(lwmq.SchemaError, match="'t' is no field of"):
        writer.write(pa.record_batch({"n": [1], "s": ["x"], "t": [1]}))
    writer.abort()


def test_a_slice_of_no_rows_that_was_imported_is_a_batch_of_no_rows(address: str) -> None:
    class Imported:
        def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
            return batch_of(0).slice(2, 0).__arrow_c_array__(requested_schema)

    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA) as writer:
        assert writer.write(Imported()) == 0
    assert [batch.num_rows for batch in reading.join().batches] == [0]
    for batch in reading.batches:
        batch.validate(full=True)


def test_a_second_producer_must_bring_the_declared_schema(address: str) -> None:
    first = lwmq.open_writer(address, SCHEMA)
    with pytest.raises(lwmq.SchemaError, match=r"'n' is double, but int64 in the stream"):
        lwmq.open_writer(address, pa.schema([("n", pa.float64()), ("s", pa.string())]))
    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA.with_metadata({"who": "cares"})) as second:
        second.write(batch_of(0))
        first.close()
    assert reading.table.num_rows == 3


@pytest.mark.row("L53")
def test_batches_that_do_not_fit_a_buffer_are_split_by_rows(address: str) -> None:
    rows = 10_000
    large = pa.record_batch({"n": np.arange(rows), "s": [str(n) for n in range(rows)]}, schema=SCHEMA)
    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA, buffer_bytes="16KiB", window_bytes="4MiB") as writer:
        assert writer.write(large) == rows
    assert reading.table.combine_chunks() == pa.Table.from_batches([large])
    assert len(reading.batches) >= 10
    assert all(info.bytes <= 16384 for info in reading.infos)


@pytest.mark.row("L53")
def test_a_row_larger_than_a_buffer_passes_and_one_larger_than_the_window_is_an_error_with_both_numbers(
    address: str,
) -> None:
    schema = pa.schema([("s", pa.string())])
    reading = Reading(address)
    with lwmq.open_writer(address, schema, buffer_bytes=4096, window_bytes="1MiB") as writer:
        writer.write(pa.record_batch({"s": ["x" * 100_000]}))
        with pytest.raises(
            lwmq.MessageTooBigError, match=r"one row of 2000\d\d\d bytes .* window of 1048576 bytes"
        ):
            writer.write(pa.record_batch({"s": ["y" * 2_000_000]}))
        writer.write(pa.record_batch({"s": ["z"]}))
    reading.join()
    assert [len(batch.column(0)[0].as_py()) for batch in reading.batches] == [100_000, 1]


def test_string_views_are_split_although_slices_of_them_keep_all_bytes(address: str) -> None:
    schema = pa.schema([("v", pa.string_view())])
    values = [f"a text too long to lie in the view itself: {n}" for n in range(2000)]
    reading = Reading(address)
    with lwmq.open_writer(address, schema, buffer_bytes="16KiB", window_bytes="1MiB") as writer:
        writer.write(pa.record_batch({"v": pa.array(values, pa.string_view())}))
    reading.join()
    assert [v for batch in reading.batches for v in batch.column(0).to_pylist()] == values
    assert all(info.bytes <= 16384 for info in reading.infos)


def test_partitions_are_filled_one_after_the_other_or_as_asked(address: str) -> None:
    reading = Reading(address)
    with lwmq.open_writer(address, SCHEMA, partitions=3) as writer:
        assert writer.partitions == 3
        for start in range(5):
            writer.write(batch_of(start))
        writer.write(batch_of(5), partition=0)
        with pytest.raises(ValueError, match="partition 3: 0 to 2 are possible"):
            writer.write(batch_of(6), partition=3)
        with pytest.raises(TypeError, match="partition 'a': an int is wanted, not str"):
            writer.write(batch_of(6), partition="a")  # type: ignore[arg-type]
    reading.join()
    found: dict[int, list[int]] = {}
    for batch, info in zip(reading.batches, reading.infos, strict=True):
        found.setdefault(info.partition, []).append(batch.column(0)[0].as_py())
    assert found == {0: [0, 3, 5], 1: [1, 4], 2: [2]}


def test_a_reader_may_take_single_partitions_from_single_places(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, partitions=2, retain="all", linger=0)
    for start in range(6):
        writer.write(batch_of(start))
    with lwmq.open_reader(address, partitions=[1], start=1, timeout=60) as reader:
        assert [next(reader).column(0)[0].as_py() for _ in range(2)] == [3, 5]
    with lwmq.open_reader(address, start={0: 2, 1: "latest"}, timeout=60) as reader:
        assert next(reader).column(0)[0].as_py() == 4
        writer.write(batch_of(7), partition=1)
        assert next(reader).column(0)[0].as_py() == 7
    with lwmq.open_reader(address, start="latest", timeout=60) as reader:
        writer.write(batch_of(8), partition=1)
        assert next(reader).column(0)[0].as_py() == 8
    writer.abort()
    with pytest.raises(ValueError, match="needs partitions"):
        lwmq.open_reader(address, start=3)
    with pytest.raises(ValueError, match="name different ones"):
        lwmq.open_reader(address, partitions=[0], start={1: 0})
    with pytest.raises(ValueError, match="neither 'earliest'"):
        lwmq.open_reader(address, partitions=[0], start=-1)


def test_the_stream_ends_with_its_last_open_producer(address: str) -> None:
    first = lwmq.open_writer(address, SCHEMA)
    second = lwmq.open_writer(address, SCHEMA)
    first.write(batch_of(0))
    reading = Reading(address)
    first.close()
    second.write(batch_of(3))
    second.close()
    assert sorted(reading.table.column("n").to_pylist()) == [0, 1, 2, 3, 4, 5]


def test_writers_makes_a_reader_wait_for_that_many(address: str) -> None:
    with Endpoint(address):
        reading = Reading(address, writers=2)
        for start in (0, 3):
            with lwmq.open_writer(address, SCHEMA) as writer:
                writer.write(batch_of(start))
        assert reading.table.column("n").to_pylist() == [0, 1, 2, 3, 4, 5]


def test_a_following_reader_stays_for_the_next_producer(address: str) -> None:
    with Endpoint(address), lwmq.open_reader(address, follow=True, timeout=60) as reader:
        for start in (0, 3):
            thread = threading.Thread(target=_write_one, args=(address, start))
            thread.start()
            assert next(reader).column(0)[0].as_py() == start
            reader.consume()
            thread.join(60)
        with pytest.raises(lwmq.TimeoutError):
            reader.read_next_batch(timeout=0.05)


def _write_one(address: str, start: int) -> None:
    with lwmq.open_writer(address, SCHEMA) as writer:
        writer.write(batch_of(start))


@pytest.mark.row("S04")
def test_close_of_a_writer_waits_until_everything_was_consumed(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    for start in range(3):
        writer.write(batch_of(start))
    with pytest.raises(lwmq.TimeoutError, match=r"\b3\b.*batch"):
        writer.close(linger=0.2)
    assert writer.closed
    writer.close()


@pytest.mark.row("S04")
def test_linger_bounds_the_close_at_the_end_of_with(address: str) -> None:
    started = time.monotonic()
    with pytest.raises(lwmq.TimeoutError), lwmq.open_writer(address, SCHEMA, linger=0.2) as writer:
        writer.write(batch_of(0))
    assert 0.15 < time.monotonic() - started < HANG_S


def test_an_exception_inside_with_aborts_the_stream_after_what_was_visible(address: str) -> None:
    reading = Reading(address)
    with pytest.raises(ZeroDivisionError), lwmq.open_writer(address, SCHEMA) as writer:
        writer.write(batch_of(0))
        raise ZeroDivisionError("feed broke")
    assert "aborted" in repr(writer)
    reading.join()
    assert isinstance(reading.failure, lwmq.AbortedError)
    assert "feed broke" in str(reading.failure)
    assert len(reading.batches) == 1


def test_a_task_delivery_shows_nothing_before_its_commit(address: str) -> None:
    with Endpoint(address):
        writer = lwmq.open_writer(
            address, SCHEMA, job="query-1", task=1, attempt=7, job_tasks=1, delivery="task"
        )
        writer.write(batch_of(0))
        with lwmq.open_reader(address, timeout=60) as reader:
            with pytest.raises(lwmq.TimeoutError, match=r"no batch within 0\.1 s"):
                reader.read_next_batch(timeout=0.1)
            result = writer.commit()
            assert (result.won, result.attempt, result.batches, result.rows) == (True, 7, 1, 3)
            writer.close()
            assert reader.read_all().num_rows == 3


def test_the_first_attempt_of_a_task_wins_and_the_others_are_told_so(address: str) -> None:
    with Endpoint(address):
        options: dict[str, Any] = {"job": "query-2", "task": 0, "job_tasks": 1, "delivery": "task"}
        first = lwmq.open_writer(address, SCHEMA, attempt=1, **options)
        second = lwmq.open_writer(address, SCHEMA, attempt=2, **options)
        first.write(batch_of(0))
        second.write(batch_of(100))
        assert second.commit().won
        lost = first.commit()
        assert (lost.won, lost.attempt) == (False, 2)
        first.close()
        second.close()
        with lwmq.open_reader(address, timeout=60) as reader:
            assert reader.read_all().column("n").to_pylist() == [100, 101, 102]


def test_two_names_read_everything_once_each(address: str) -> None:
    one, two = Reading(address, name="one"), Reading(address, name="two")
    with lwmq.open_writer(address, SCHEMA, readers=2) as writer:
        for start in range(0, 9, 3):
            writer.write(batch_of(start))
    assert one.table.column("n").to_pylist() == two.table.column("n").to_pylist() == list(range(9))


def test_a_batch_not_moved_past_stays_for_others(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    writer.write(batch_of(0))
    writer.write(batch_of(3))
    with pytest.raises(RuntimeError), lwmq.open_reader(address, timeout=60) as reader:
        assert next(reader).column(0)[0].as_py() == 0
        raise RuntimeError("consumer broke")
    with lwmq.open_reader(address, timeout=60) as reader:
        assert next(reader).column(0)[0].as_py() == 0
    with lwmq.open_reader(address, timeout=60) as reader:
        assert next(reader).column(0)[0].as_py() == 3
        closing = threading.Thread(target=writer.close)
        closing.start()
        assert reader.read_all().num_rows == 0
    closing.join(60)
    assert writer.closed


def test_a_wait_without_a_batch_is_a_timeout_that_says_for_what(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, linger=0)
    with lwmq.open_reader(address, timeout=60) as reader:
        started = time.monotonic()
        with pytest.raises(lwmq.TimeoutError, match=f"no batch within 0.1 s on {address}, after 0 batches"):
            reader.read_next_batch(timeout=0.1)
        assert 0.05 < time.monotonic() - started < HANG_S
        writer.write(batch_of(0))
        assert next(reader).num_rows == 3
    writer.abort()


def test_a_schema_that_nobody_declares_is_a_timeout(address: str) -> None:
    reader = lwmq.open_reader(address, timeout=1)
    with pytest.raises(lwmq.TimeoutError, match="no producer declared the stream"):
        _ = reader.schema
    reader.close(linger=0)


@pytest.mark.row("L17")
def test_a_full_window_is_a_wait_and_then_a_timeout_that_says_who_holds_the_room(address: str) -> None:
    # short: the window is to be full
    with lwmq.open_writer(
        address, SCHEMA, buffer_bytes="64KiB", window_bytes="256KiB", timeout=0.2, linger=0
    ) as writer:
        large = pa.record_batch({"n": np.arange(4000), "s": [""] * 4000}, schema=SCHEMA)
        with pytest.raises(lwmq.TimeoutError, match="no room for"):
            for _ in range(20):
                writer.write(large)
        with lwmq.open_reader(address, timeout=60, linger=0) as reader:
            assert next(reader).num_rows == 4000
            next(reader)
            end = time.monotonic() + HANG_S
            while True:  # there is room by now, or soon
                try:
                    assert writer.write(large) == 4000
                    break
                except lwmq.TimeoutError:
                    assert time.monotonic() < end, "no room"
            writer.abort("enough")


@pytest.mark.row("L16", "L19")
def test_no_wait_is_counted_while_there_is_room(address: str) -> None:
    with lwmq.open_writer(address, SCHEMA, linger=0) as writer:
        for start in range(20):
            writer.write(batch_of(start))
        assert writer.statistics.wait_ns == 0
        writer.abort()


def test_a_time_out_says_how_long_was_waited_in_all(address: str) -> None:
    """It named the last of the slices that the wait was cut into."""
    with pytest.raises(lwmq.TimeoutError, match=r"nobody serves this address; .*\(waited 0\.5 s\)"):
        describe(address, timeout=0.5)
    with (
        Endpoint(address, linger=0),
        pytest.raises(lwmq.TimeoutError, match=r"no writer has come with a schema to .* \(waited 0\.7 s\)"),
    ):
        describe(address, timeout=0.7)


def test_describe_tells_the_state_and_consumes_nothing(address: str) -> None:
    with pytest.raises(lwmq.TimeoutError):
        describe(address, timeout=0.1)
    writer = lwmq.open_writer(address, SCHEMA, partitions=2, retain="all", readers=2, linger=0)
    writer.write(batch_of(0))
    for _ in range(2):
        state = describe(address, timeout=60)
        assert (state.state, state.retain, state.readers, state.producers_open) == ("open", "all", 2, 1)
        assert state.schema == SCHEMA
        assert [p.next_seq for p in state.partitions] == [1, 0]
        assert state.partitions[0].rows == 3
        assert len(state.generation) == 32
    writer.abort()


def test_reprs_tell_the_state(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    assert repr(writer) == f"<StreamWriter {address} open, 1 partitions, 2 fields, 0 batches written>"
    writer.write(batch_of(0))
    reader = lwmq.open_reader(address, name="me")
    assert repr(reader) == f"<StreamReader {address} as 'me' open, 0 batches read>"
    assert next(reader).num_rows == 3
    reader.close()
    assert repr(reader) == f"<StreamReader {address} as 'me' closed, 1 batches read>"
    writer.abort()
    assert "aborted" in repr(writer)
    endpoint = Endpoint(address)
    assert repr(endpoint) == f"<Endpoint {address} open>"
    endpoint.close()
    endpoint.close()
    assert repr(endpoint) == f"<Endpoint {address} closed>"


def test_what_was_closed_is_a_closed_error_and_closing_twice_is_once(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA)
    reader = lwmq.open_reader(address)
    writer.close()
    writer.close()
    writer.abort()
    reader.close()
    reader.close()
    for call in (
        lambda: writer.write(batch_of(0)),
        lambda: writer.statistics,
        lambda: next(reader),
        lambda: reader.statistics,
        reader.consume,
    ):
        with pytest.raises(lwmq.ClosedError, match=f"{address} is closed"):
            call()


def test_a_close_from_another_thread_ends_a_wait(address: str) -> None:
    reader = lwmq.open_reader(address)
    caught: list[BaseException] = []

    def waiting() -> None:
        try:
            next(reader)
        except BaseException as exc:
            caught.append(exc)

    thread = threading.Thread(target=waiting)
    thread.start()
    time.sleep(0.1)
    reader.close(linger=0)
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(caught[0], lwmq.ClosedError)


def test_the_options_of_the_address_count(address: str) -> None:
    writer = lwmq.open_writer(f"{address}?partitions=2&linger=100ms&buffer_bytes=64KiB&buffers=4", SCHEMA)
    assert writer.address == address
    assert writer.partitions == 2
    assert writer._window_bytes == 4 * 65536
    with pytest.raises(lwmq.TimeoutError, match=r"waited \d+(\.\d+)? s"):
        writer.close()


def test_an_unknown_scheme_and_an_address_in_use_are_address_errors(address: str) -> None:
    with pytest.raises(lwmq.AddressError, match="carrier"):
        lwmq.open_writer("carrier://pigeon", SCHEMA)
    with Endpoint(address), pytest.raises(lwmq.AddressError):
        lwmq.open_writer(address, SCHEMA, role="server")


def test_a_client_for_which_nobody_serves_times_out(address: str) -> None:
    with pytest.raises(lwmq.TimeoutError):
        lwmq.open_reader(address, role="client", timeout=0.2)
    with pytest.raises(lwmq.TimeoutError):
        lwmq.open_writer(address, SCHEMA, role="client", timeout=0.2)


@pytest.mark.parametrize("delivery", ["task", "job"])
def test_what_a_task_has_written_to_several_partitions_is_committed_together(
    address: str, delivery: str
) -> None:
    options: dict[str, Any] = {"role": "client", "job": "j", "job_tasks": 1, "delivery": delivery}
    with Endpoint(address, linger=0):
        slow = lwmq.open_writer(address, SCHEMA, partitions=3, task=0, attempt=1, **options)
        fast = lwmq.open_writer(address, SCHEMA, partitions=3, task=0, attempt=2, **options)
        for number, partition in enumerate((2, 1, 2, None)):  # None: the task's own
            for writer in (slow, fast):
                writer.write(batch_of(10 * number), partition)
        assert describe(address).partitions[2].next_seq == 0, "nothing is visible before"
        won = fast.commit()
        assert (won.won, won.batches, won.rows) == (True, 4, 12)
        assert [(r.partition, r.batches, r.rows) for r in won.ranges] == [(0, 1, 3), (1, 1, 3), (2, 2, 6)]
        lost = slow.commit()
        assert (lost.won, lost.attempt, lost.ranges) == (False, 2, won.ranges)
        with lwmq.open_reader(address, timeout=HANG_S) as reader:
            table = reader.read_all()
        assert sorted(table["n"].to_pylist()) == [10 * a + b for a in range(4) for b in range(3)]
        fast.close()
        slow.close()
