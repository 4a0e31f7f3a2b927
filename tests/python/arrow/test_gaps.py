"""A reader that has no name ends before it has read everything: no later reader gets a normal end behind what
went with it, and the producer hears of it."""

from __future__ import annotations

import gc
import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 100


def batch_of(value: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.full(ROWS, value)}, schema=SCHEMA)


def values_of(reader: lwmq.StreamReader) -> list[int]:
    return [batch["n"][0].as_py() for batch in reader]


# Reads so many batches and moves past all but the last of them; then it waits for what it is told.
READER = """
    reader = lwmq.open_reader(sys.argv[1], role="client", name=sys.argv[3] or None, timeout=60)
    with reader:
        for _ in range(int(sys.argv[2])):
            next(reader)
        print("has read", flush=True)
        if sys.stdin.readline().strip() == "raise":
            raise ValueError("the consumer has failed")
"""

ENDPOINT = """
    from lwmq_spark.arrow import Endpoint, describe
    endpoint = Endpoint(sys.argv[1], linger=0)
    print("serves", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(params=["here", "elsewhere"])
def served(request: pytest.FixtureRequest, ipc: str, spawn: Callable[..., Any]) -> tuple[str, str]:
    """An address, and the role of its writer: which serves it, or another process does."""
    if request.param == "here":
        return ipc, "server"
    assert spawn(ENDPOINT, ipc).line() == "serves"
    return ipc, "client"


def await_no_reader(address: str) -> None:
    """Until the endpoint has seen that the last one has left."""
    end = time.monotonic() + HANG_S
    while describe(address).readers_open > 0:
        assert time.monotonic() < end
        time.sleep(0.01)


def fail(reader: Any, how: str) -> None:
    if how == "killed":
        reader.kill()
    else:
        reader.tell("raise")
        assert reader.wait() == 1


@pytest.mark.parametrize("how", ["killed", "raise"])
def test_what_went_with_a_reader_is_told_to_the_writer_and_to_the_next_reader(
    served: tuple[str, str], how: str, spawn: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    address, role = served
    writer = lwmq.open_writer(address, SCHEMA, role=role, timeout=HANG_S)
    for value in range(10):
        writer.write(batch_of(value))
    first = spawn(READER, address, "4", "")
    assert first.line() == "has read"
    with caplog.at_level(logging.WARNING, "lwmq_spark"):
        fail(first, how)
        while not caplog.records:  # there is room: it hears of it all the same
            writer.write(batch_of(10))
            time.sleep(0.001)
    told = caplog.records[0].getMessage()
    end = "was killed by SIGKILL|died" if how == "killed" else "left before it had finished"
    assert re.search(end, told)
    for part in (f"process {first.pid}", "on host ", "3 batches (300 rows)", 'retain="all"', "a name"):
        assert part in told
    assert writer.statistics.readers_lost == 1

    with lwmq.open_reader(address, timeout=HANG_S) as second:
        got = [next(second)["n"][0].as_py() for _ in range(7)]
        assert got == [3, 4, 5, 6, 7, 8, 9]

        closed: list[BaseException] = []

        def close() -> None:
            try:
                writer.close(linger=HANG_S)
            except lwmq.LwmqError as exc:
                closed.append(exc)

        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(lwmq.DataLossError, match=r"3 batches \(300 rows\) .*Ways out"):
            while True:
                assert next(second)["n"][0].as_py() == 10
    closing.join(HANG_S)
    assert [type(exc) for exc in closed] == [lwmq.DataLossError]
    assert "3 batches (300 rows)" in str(closed[0])


def test_a_reader_with_a_name_goes_on_where_it_was(ipc: str, spawn: Callable[..., Any]) -> None:
    with lwmq.open_writer(ipc, SCHEMA, role="server", timeout=HANG_S, linger=HANG_S) as writer:
        for value in range(10):
            writer.write(batch_of(value))
        first = spawn(READER, ipc, "4", "trainer")
        assert first.line() == "has read"
        first.kill()
        second = spawn(
            """
            with lwmq.open_reader(sys.argv[1], role="client", name="trainer", timeout=60) as reader:
                print([batch["n"][0].as_py() for batch in reader], flush=True)
            """,
            ipc,
        )
    assert second.line() == str(list(range(3, 10)))
    assert second.wait() == 0


def test_a_reader_that_closes_in_order_has_read_what_it_took(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, role="server", linger=HANG_S)
    for value in range(4):
        writer.write(batch_of(value))
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert [next(reader)["n"][0].as_py() for _ in range(2)] == [0, 1]
    closing = threading.Thread(target=writer.close)
    closing.start()
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert values_of(reader) == [2, 3]
    closing.join(HANG_S)
    assert writer.closed


def test_a_reader_that_was_dropped_is_one_that_has_not_finished(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, role="server", linger=HANG_S)
    for value in range(3):
        writer.write(batch_of(value))
    reader = lwmq.open_reader(address, timeout=HANG_S)
    next(reader), next(reader)
    del reader
    gc.collect()
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert [next(reader)["n"][0].as_py() for _ in range(2)] == [1, 2]
        reader.consume()
        with pytest.raises(lwmq.DataLossError, match=r"1 batches \(100 rows\)"):
            writer.close()


def test_where_everything_was_read_nothing_is_lost_with_the_reader(address: str) -> None:
    """Of a producer that has ended; a reader that follows dies while the next one writes."""
    follower = lwmq.open_reader(address, follow=True, timeout=HANG_S, role="server")
    with lwmq.open_writer(address, SCHEMA, role="client", linger=HANG_S) as writer:
        writer.write(batch_of(0))
        assert next(follower)["n"][0].as_py() == 0
        follower.consume()
    second = lwmq.open_writer(address, SCHEMA, role="client", linger=HANG_S)
    second.write(batch_of(1))
    assert next(follower)["n"][0].as_py() == 1
    with pytest.raises(ZeroDivisionError), follower:
        raise ZeroDivisionError
    del follower
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert next(reader)["n"][0].as_py() == 1
        reader.consume()
        second.close()


def test_the_next_reader_hears_of_it_also_where_nothing_is_left(address: str) -> None:
    with Endpoint(address, linger=0) as _:
        writer = lwmq.open_writer(address, SCHEMA, role="client")
        writer.write(batch_of(0))
        with pytest.raises(ZeroDivisionError), lwmq.open_reader(address, timeout=HANG_S) as reader:
            next(reader)
            reader.consume()
            raise ZeroDivisionError
        await_no_reader(address)
        with pytest.raises(lwmq.DataLossError, match="left before it had finished"):
            writer.close(linger=HANG_S)
        with (
            lwmq.open_reader(address, timeout=HANG_S) as reader,
            pytest.raises(lwmq.DataLossError, match="Ways out"),
        ):
            next(reader)


def test_where_everything_is_kept_the_next_reader_gets_it(address: str) -> None:
    writer = lwmq.open_writer(address, SCHEMA, role="server", retain="all", linger=HANG_S)
    for value in range(3):
        writer.write(batch_of(value))
    with pytest.raises(ZeroDivisionError), lwmq.open_reader(address, timeout=HANG_S) as reader:
        next(reader), next(reader)
        raise ZeroDivisionError
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert [next(reader)["n"][0].as_py() for _ in range(3)] == [0, 1, 2]
        reader.consume()
        writer.close()


def test_of_two_readers_that_are_asked_for_the_next_one_takes_the_place_of_the_lost_one(address: str) -> None:
    """What the other one has not read is still kept."""
    writer = lwmq.open_writer(address, SCHEMA, role="server", readers=2, linger=HANG_S)
    for value in range(3):
        writer.write(batch_of(value))
    slow = lwmq.open_reader(address, timeout=HANG_S)
    with pytest.raises(ZeroDivisionError), lwmq.open_reader(address, timeout=HANG_S) as lost:
        next(lost), next(lost), next(lost)
        raise ZeroDivisionError
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        for one in (slow, reader):
            assert [next(one)["n"][0].as_py() for _ in range(3)] == [0, 1, 2]
            one.consume()
        writer.close()
    slow.close()


def test_a_task_of_a_job_without_a_driver_hears_of_it_when_it_commits(address: str) -> None:
    with Endpoint(address, linger=0):
        options: dict[str, Any] = {"role": "client", "job": "j", "job_tasks": 3, "delivery": "task"}
        with lwmq.open_writer(address, SCHEMA, task=0, **options) as writer:
            writer.write(batch_of(0))
        with pytest.raises(ZeroDivisionError), lwmq.open_reader(address, timeout=HANG_S) as reader:
            next(reader)
            reader.consume()
            raise ZeroDivisionError
        await_no_reader(address)
        for task in (1, 2):
            writer = lwmq.open_writer(address, SCHEMA, task=task, **options)
            writer.write(batch_of(task))
            with pytest.raises(lwmq.DataLossError, match=r"1 batches \(100 rows\) of j"):
                writer.commit()
            writer.abort()
        with (
            lwmq.open_reader(address, timeout=HANG_S) as reader,
            pytest.raises(lwmq.DataLossError, match="of j"),
        ):
            next(reader)


def test_a_reader_that_fails_has_not_finished_although_it_has_heard_of_the_end(address: str) -> None:
    """All of a small stream is handed to its reader at once, and the end with it."""
    with Endpoint(address, linger=0):
        writer = lwmq.open_writer(address, SCHEMA, role="client", job="j", job_tasks=1, delivery="task")
        for value in range(6):
            writer.write(batch_of(value))
        writer.commit(HANG_S)
        writer.close()
        first = lwmq.open_reader(address, timeout=HANG_S)
        with pytest.raises(ValueError, match="has failed"), first:
            for _ in range(4):
                next(first)
            raise ValueError("the consumer has failed")
        with lwmq.open_reader(address, timeout=HANG_S) as second:
            assert [next(second)["n"][0].as_py() for _ in range(3)] == [3, 4, 5]
            with pytest.raises(lwmq.DataLossError, match=r"3 batches \(300 rows\) .*Ways out"):
                next(second)


def test_whoever_served_is_named_by_what_it_was(ipc: str, spawn: Callable[..., Any]) -> None:
    """Of two readers that wait for a producer, the one that serves dies."""
    code = """
        with lwmq.open_reader(sys.argv[1], role=sys.argv[2], timeout=60) as reader:
            print("waits", flush=True)
            try:
                next(reader)
            except lwmq.PeerLostError as exc:
                print(exc, flush=True)
    """
    first, second = spawn(code, ipc, "server"), spawn(code, ipc, "client")
    assert (first.line(), second.line()) == ("waits", "waits")
    first.kill()
    assert re.search(
        rf"the reader, process {first.pid} .*on host .*, which served the address too, was killed by SIGKILL",
        second.line(),
    )
    assert second.wait() == 0


def test_a_producer_hears_in_full_of_a_reader_that_served_and_was_killed(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    code = """
        with lwmq.open_reader(sys.argv[1], role="server", timeout=60) as reader:
            next(reader)
            print("has one", flush=True)
            sys.stdin.readline()
    """
    reader = spawn(code, ipc)
    with lwmq.open_writer(ipc, SCHEMA, role="client", timeout=HANG_S) as writer:
        writer.write(batch_of(0))
        assert reader.line() == "has one"
        writer.write(batch_of(1))
        reader.kill()
        with pytest.raises(lwmq.PeerLostError) as lost:
            writer.close()
    assert re.search(
        rf"the reader, process {reader.pid} .*on host .*, which served the address too, "
        r"(was killed by SIGKILL|died) before the stream had ended\. "
        r"Of 2 batches \(200 rows\) that this writer has written, [12] were not yet read and let go; "
        r"what it had read went with it\. Way out",
        str(lost.value),
    ), lost.value
