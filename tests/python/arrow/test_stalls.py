"""SIGSTOP of each side: who lives and does not answer is named, and waited for or given up as asked."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from lwmq_spark.observer import Observer
from tests.patience import until
from tests.stopping import stop, stopped

STALL = 2.0  # seconds, in place of 5; an endpoint of a busy machine answers within
SHORT_STALL = 0.6  # where the endpoint is stopped all the time
SCHEMA = pa.schema([("number", pa.int64())])
ROWS = 8000  # a batch of 64 kB
ENDPOINT = """
from lwmq_spark.arrow import Endpoint
endpoint = Endpoint(sys.argv[1])
print("serves")
sys.stdin.readline()
endpoint.close(linger=0)
"""
# Reads at each line that it is told: as many batches as the line says; keeps the first.
READER = """
import json
reader = lwmq.open_reader(sys.argv[1] + "?stall=2s", role="client", name="slow", timeout=60)
print("open")
first = None
while line := sys.stdin.readline():
    try:
        for _ in range(int(line)):
            batch = reader.read_next_batch()
            first = first if first is not None else batch
            print(batch.column(0)[0].as_py(), batch.column(0)[-1].as_py())
    except lwmq.LwmqError as exc:
        print(type(exc).__name__, exc)
    except StopIteration:
        print("end")
    if first is not None and len(set(first.column(0).to_pylist())) != 1:
        print("the batch that was kept has changed")
"""


pytestmark = pytest.mark.alone


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number] * ROWS)], schema=SCHEMA)


def number_of(read: pa.RecordBatch) -> int:
    values = set(read.column(0).to_pylist())
    assert len(values) == 1, "torn"
    return int(values.pop())


@pytest.fixture
def served(ipc: str, spawn: Any) -> tuple[str, Any]:
    """An address, and the process that serves it."""
    endpoint = spawn(ENDPOINT, ipc)
    assert endpoint.line() == "serves"
    return ipc, endpoint


# ---- The endpoint ------------------------------------------------------------------------------------


# promise: the endpoint / what the others see
def test_a_reader_beside_a_stopped_endpoint_is_told_and_goes_on_when_it_does(served: tuple[str, Any]) -> None:
    address, endpoint = served
    with (
        lwmq.open_writer(address, SCHEMA, linger=0) as writer,
        lwmq.open_reader(address, stall=STALL) as reader,
    ):
        writer.write(batch(0))
        assert number_of(reader.read_next_batch()) == 0
        with stopped(endpoint.pid):
            writer.write(batch(1))
            for _ in range(2):
                with pytest.raises(lwmq.PeerLostError, match="lives and has not answered") as told:
                    reader.read_next_batch(timeout=60)
            assert f"process {endpoint.pid} (" in str(told.value)
            assert "stopped by a signal" in str(told.value)
        assert number_of(reader.read_next_batch(timeout=60)) == 1
        writer.write(batch(2))
        assert number_of(reader.read_next_batch(timeout=60)) == 2
        with pytest.raises(lwmq.TimeoutError):
            reader.read_next_batch(timeout=0.1)


# promise: the endpoint / what the others see
def test_stall_forever_waits_on(served: tuple[str, Any]) -> None:
    address, endpoint = served
    with (
        lwmq.open_reader(f"{address}?stall=forever") as reader,
        stopped(endpoint.pid),
        pytest.raises(lwmq.TimeoutError),
    ):
        reader.read_next_batch(timeout=1.0)


def test_an_endpoint_that_answers_is_waited_for_without_a_limit(served: tuple[str, Any]) -> None:
    address, _ = served
    with lwmq.open_reader(address, stall=STALL) as reader, pytest.raises(lwmq.TimeoutError):
        reader.read_next_batch(timeout=2 * STALL)


# promise: the endpoint / what the others see, when it goes on
def test_a_writer_beside_a_stopped_endpoint_is_told_and_nothing_is_lost_or_doubled(
    served: tuple[str, Any],
) -> None:
    address, endpoint = served
    writer = lwmq.open_writer(address, SCHEMA, window_bytes="1MiB", stall=STALL)
    written = 0
    with lwmq.open_reader(address) as reader:
        with stopped(endpoint.pid):
            with pytest.raises(lwmq.PeerLostError, match=f"process {endpoint.pid} "):
                while True:
                    writer.write(batch(written))
                    written += 1
            assert 8 <= written <= 20
            with pytest.raises(lwmq.PeerLostError):
                writer.write(batch(written))
        first = written
        for expected in range(3 * first):
            if expected >= first // 2:
                writer.write(batch(written))
                written += 1
            assert number_of(reader.read_next_batch(timeout=60)) == expected
        with stopped(endpoint.pid), pytest.raises(lwmq.PeerLostError):
            writer.close()
        for expected in range(3 * first, written):
            assert number_of(reader.read_next_batch(timeout=60)) == expected
        assert not writer.closed
        with pytest.raises(StopIteration):
            reader.read_next_batch(timeout=60)
        writer.close()


def test_a_commit_that_was_not_answered_is_made_once(served: tuple[str, Any]) -> None:
    address, endpoint = served
    options: dict[str, Any] = {"job": "j", "job_tasks": 1, "delivery": "task"}
    with (
        lwmq.open_reader(address) as reader,
        lwmq.open_writer(address, SCHEMA, stall=STALL, **options) as writer,
    ):
        writer.write(batch(7))
        with stopped(endpoint.pid):
            for _ in range(2):
                with pytest.raises(lwmq.PeerLostError):
                    writer.commit()
        result = writer.commit(timeout=60)
        assert result.won and result.batches == 1
        assert number_of(reader.read_next_batch(timeout=60)) == 7
        with pytest.raises(StopIteration):
            reader.read_next_batch(timeout=60)


def test_whoever_opens_beside_a_stopped_endpoint_is_told(served: tuple[str, Any]) -> None:
    address, endpoint = served
    with stopped(endpoint.pid), pytest.raises(lwmq.PeerLostError, match="has not answered"):
        lwmq.open_reader(address, stall=SHORT_STALL, timeout=60)


# ---- A reader ----------------------------------------------------------------------------------------


# promise: a reader / what the others see, when it goes on
def test_a_stopped_reader_is_named_and_waited_for(served: tuple[str, Any], spawn: Any) -> None:
    address, _ = served
    slow = spawn(READER, address)
    assert slow.line() == "open"
    options = {"window_bytes": "1MiB", "stall": STALL, "timeout": 2 * STALL, "linger": 60}
    with lwmq.open_writer(address, SCHEMA, **options) as writer:
        writer.write(batch(0))
        slow.tell("1")
        assert slow.line() == "0 0"
        written = 1
        with stopped(slow.pid):
            with pytest.raises(
                lwmq.TimeoutError, match=rf"no batch was taken for long by reader slow of process {slow.pid}"
            ):
                while True:
                    writer.write(batch(written))
                    written += 1
            state = describe(address)
            assert (state.readers_stalled, state.stalled_pid, state.readers_expelled) == (1, slow.pid, 0)
            seen = [
                entry for process in Observer().look() if process.pid == slow.pid for entry in process.entries
            ]
            assert [entry.state for entry in seen] == ["stalled"]
        slow.tell(str(written - 1))
        assert [slow.line() for _ in range(1, written)] == [f"{n} {n}" for n in range(1, written)]
        until(lambda: describe(address).readers_stalled == 0)
        writer.write(batch(written))
        slow.tell("1")
        assert slow.line() == f"{written} {written}"
        slow.tell("1")  # the last batch is consumed, and the end is heard


# promise: a reader, and the writer has / what the others see, when it goes on
@pytest.mark.row("C48")
def test_a_stopped_reader_is_expelled_and_others_go_on(served: tuple[str, Any], spawn: Any) -> None:
    address, _ = served
    slow = spawn(READER, address)
    assert slow.line() == "open"
    with (
        lwmq.open_writer(
            f"{address}?expel_after=3s", SCHEMA, window_bytes="1MiB", timeout=60, linger=60
        ) as writer,
        lwmq.open_reader(address, name="quick") as quick,
    ):
        writer.write(batch(0))
        slow.tell("1")
        assert slow.line() == "0 0"
        assert number_of(quick.read_next_batch(timeout=60)) == 0
        with stopped(slow.pid):
            for number in range(1, 100):
                writer.write(batch(number))
                assert number_of(quick.read_next_batch(timeout=60)) == number
            assert writer.statistics.readers_expelled == 1
            assert writer.statistics.window_bytes <= 2.25 * 2**20
            assert describe(address).readers_expelled == 1
        slow.tell("3")
        line = slow.line()
        assert re.match(
            r"DataLossError .*slow.* was expelled at 20.* UTC: it had taken nothing for \d+ ms", line
        ), line
        slow.tell("0")  # looks at the batch that it keeps: nobody has written over it
        for number in range(100, 200):
            writer.write(batch(number))
            assert number_of(quick.read_next_batch(timeout=60)) == number
        slow.tell("0")
        assert slow.rest() == ""
        quick.consume()


# ---- A writer ----------------------------------------------------------------------------------------

WRITER = """
import pyarrow as pa
batch = lambda n: pa.record_batch([pa.array([n] * 8000)], names=["number"])
job = dict(job="j", job_tasks=2, task=1, delivery="task") if len(sys.argv) > 2 else {}
writer = lwmq.open_writer(sys.argv[1], batch(0).schema, role="client", **job)
writer.write(batch(0))
print("written")
sys.stdin.readline()
writer.write(batch(1))
if job: writer.commit()
writer.close()
print("closed")
"""


# promise: a writer, a task of a job / what the others see, when it goes on
def test_readers_wait_for_a_stopped_writer(served: tuple[str, Any], spawn: Any) -> None:
    address, _ = served
    writer = spawn(WRITER, address)
    with lwmq.open_reader(address, stall=STALL) as reader:
        assert writer.line() == "written"
        with stopped(writer.pid):
            writer.tell()
            kept = reader.read_next_batch(timeout=60)  # its windows live
            assert number_of(kept) == 0
            with pytest.raises(lwmq.TimeoutError):  # no end, no abort, no loss
                reader.read_next_batch(timeout=0.5)
        assert number_of(reader.read_next_batch(timeout=60)) == 1
        with pytest.raises(StopIteration):
            reader.read_next_batch(timeout=60)
    assert writer.line() == "closed"


# promise: a writer, a task of a job / what the others see, when it goes on
def test_a_job_waits_for_a_stopped_task(served: tuple[str, Any], spawn: Any) -> None:
    address, _ = served
    task = spawn(WRITER, address, "job")
    assert task.line() == "written"
    with lwmq.open_reader(address) as reader:
        with stopped(task.pid):
            with lwmq.open_writer(address, SCHEMA, job="j", job_tasks=2, task=0, delivery="task") as other:
                other.write(batch(5))
            assert number_of(reader.read_next_batch(timeout=60)) == 5
            with pytest.raises(lwmq.TimeoutError):  # what the task has staged is not visible, nor is the end
                reader.read_next_batch(timeout=0.5)
        task.tell()
        assert [number_of(read) for read in reader] == [0, 1]
    assert task.line() == "closed"


def test_a_task_that_dies_while_it_is_stopped_leaves_nothing(served: tuple[str, Any], spawn: Any) -> None:
    address, _ = served
    task = spawn(WRITER, address, "job")
    assert task.line() == "written"
    with lwmq.open_reader(address) as reader:
        stop(task.pid)
        task.kill()
        for number in (0, 1):
            with lwmq.open_writer(
                address, SCHEMA, job="j", job_tasks=2, task=number, attempt=1, delivery="task"
            ) as w:
                w.write(batch(10 + number))
        assert [number_of(read) for read in reader] == [10, 11]
