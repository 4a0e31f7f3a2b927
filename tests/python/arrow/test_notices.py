"""Nothing waits in silence: what a call that waits for long says, to whoever has configured no logging."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark import _notices, aio
from lwmq_spark.arrow import Endpoint, describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": list(range(1000))}, schema=SCHEMA)
AFTER_S, WAIT_S = 0.3, 0.8
US = rf"process {os.getpid()} \("


class Said(logging.Handler):
    """What the logger `lwmq_spark` is told."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert record.levelno == logging.WARNING
        self.lines.append(record.getMessage())
        self.came.set()

    def one(self) -> str:
        """The only one."""
        assert len(self.lines) == 1, self.lines
        return self.lines[0]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With a wait that is taken to be long after a moment."""
    monkeypatch.setattr(_notices, "FIRST_AFTER_S", AFTER_S)
    handler = Said()
    logger = logging.getLogger("lwmq_spark")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def told(said: Said, wait: Callable[[float], object]) -> str:
    """The only notice of a wait that may last so long, which ends with a TimeoutError.

    A machine that stands still meanwhile may hear none: then it waits anew, and for longer.
    """
    may_last = WAIT_S
    while True:
        with pytest.raises(lwmq.TimeoutError):
            wait(may_last)
        if said.lines or may_last > HANG_S:
            break
        may_last *= 4
    line = said.one()
    said.lines.clear()
    return line


def test_without_any_logging_configured_a_long_wait_is_seen_on_stderr(
    ipc: str, spawn: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    child = spawn(
        f"""
        from lwmq_spark import _notices
        _notices.FIRST_AFTER_S = {AFTER_S}
        try:
            lwmq.open_reader(sys.argv[1], timeout={5 * WAIT_S}).read_next_batch()
        except lwmq.TimeoutError:
            print("over")
        """,
        ipc,
    )
    assert child.line() == "over"
    said = capfd.readouterr().err
    assert said.count("\n") == 1, said
    assert f"a reader of {ipc} has waited for " in said, said


def test_a_reader_without_a_producer_says_so_once_per_wait(address: str, said: Said) -> None:
    with lwmq.open_reader(address, linger=0) as reader:
        line = told(said, lambda may_last: reader.read_next_batch(timeout=2 * may_last))
    assert re.fullmatch(
        rf"a reader of {address} has waited for \d+ s and waits on: {address}: no writer has come to the "
        r"endpoint in this process\. `timeout` bounds this wait; `lwmq top` shows who waits for whom",
        line,
    ), line


def test_a_reader_that_waits_for_a_schema_says_so(address: str, said: Said) -> None:
    def wait(may_last: float) -> None:
        with lwmq.open_reader(address, timeout=may_last, linger=0) as reader:
            _ = reader.schema

    assert "no writer has come with a schema to the endpoint in this process" in told(said, wait)


def test_a_reader_that_waits_for_a_further_batch_names_who_wrote_the_last_one(
    ipc: str, said: Said, spawn: Callable[..., Any]
) -> None:
    writer = spawn(
        """
        import pyarrow as pa
        writer = lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]))
        writer.write(pa.record_batch({"n": [1]}))
        print("written")
        sys.stdin.readline()
        writer.abort()
        """,
        ipc,
    )
    assert writer.line() == "written"
    with lwmq.open_reader(ipc, timeout=HANG_S) as reader:
        next(reader)
        said.lines.clear()  # of a machine that was slow to bring the first one
        line = told(said, lambda may_last: reader.read_next_batch(timeout=may_last))
    who = rf"process {writer.pid} \("
    assert re.search(
        rf"no further batch has come to the endpoint in {who}.*; the last one was of {who}", line
    )
    writer.tell()


def test_a_client_without_an_endpoint_says_so(address: str, said: Said) -> None:
    calls: list[Callable[[float], object]] = [
        lambda may_last: lwmq.open_reader(address, role="client", timeout=may_last),
        lambda may_last: lwmq.open_writer(address, SCHEMA, role="client", timeout=may_last),
        lambda may_last: describe(address, timeout=may_last),
    ]
    for call in calls:

        def wait(may_last: float, call: Callable[[float], object] = call) -> None:
            try:
                call(may_last)
            except lwmq.TimeoutError as exc:
                assert re.search(r"nobody serves .*\(waited [\d.]+ s\)", str(exc)), exc
                raise

        line = told(said, wait)
        assert re.match(rf"a client of {address} has waited for \d+ s and waits on: .*nobody serves", line)


def test_a_writer_with_a_full_window_says_whether_a_reader_is_there(address: str, said: Said) -> None:
    small: dict[str, Any] = {"window_bytes": "64KiB", "buffer_bytes": "16KiB"}

    def wait(may_last: float) -> None:
        writer = lwmq.open_writer(address, SCHEMA, timeout=may_last, **small)
        try:
            while True:
                writer.write(BATCH)
        finally:
            writer.abort()

    line = told(said, wait)
    assert re.search(
        r"a writer of .*: the window of 65536 bytes is full: \d+ batches not yet read .*; "
        r"no reader is there: start one, .*`timeout` bounds this wait, `expel_after` the patience",
        line,
    ), line
    writer = lwmq.open_writer(address, SCHEMA, timeout=WAIT_S, **small)
    with pytest.raises(lwmq.TimeoutError):
        while True:
            writer.write(BATCH)
    reader = lwmq.open_reader(address, timeout=HANG_S)
    held = next(reader)
    with pytest.raises(lwmq.TimeoutError, match=rf"a reader must go on, {US}"):
        while True:
            writer.write(BATCH)
    del held
    reader.close()
    writer.abort()


def test_a_writer_that_closes_says_what_it_waits_for(address: str, said: Said) -> None:
    def wait(may_last: float) -> None:
        writer = lwmq.open_writer(address, SCHEMA)
        writer.write(BATCH)
        writer.close(linger=may_last)

    line = told(said, wait)
    assert re.search(
        rf"close of a writer of {address} has waited for .*1 of 1 batches were not consumed, with 0 "
        r"readers\. `linger` bounds this wait",
        line,
    ), line


def test_an_endpoint_that_closes_says_what_it_waits_for(address: str, said: Said) -> None:
    def wait(may_last: float) -> None:
        endpoint = Endpoint(address)
        writer = lwmq.open_writer(address, SCHEMA)
        writer.write(BATCH)
        try:
            endpoint.close(linger=may_last)
        except lwmq.TimeoutError as exc:
            assert "1 batches unread" in str(exc)
            raise
        finally:
            assert endpoint.closed
            writer.abort()

    line = told(said, wait)
    assert re.search(
        rf"close of the endpoint of {address} has waited .*: 1 batches unread, 1 producers open .*`linger` ",
        line,
    ), line


def test_what_is_awaited_says_so_too(address: str, said: Said) -> None:
    async def reads(may_last: float) -> None:
        with lwmq.open_reader(address, linger=0) as reader:
            await aio.read(reader, may_last)

    async def writes(may_last: float) -> None:
        small: dict[str, Any] = {"window_bytes": "64KiB", "buffer_bytes": "16KiB"}
        writer = lwmq.open_writer(address, SCHEMA, timeout=may_last, **small)
        try:
            while True:
                await aio.write(writer, BATCH)
        finally:
            writer.abort()

    async def closes(may_last: float) -> None:
        writer = lwmq.open_writer(address, SCHEMA)
        await aio.write(writer, BATCH)
        await aio.close(writer, may_last)

    def run(wait: Callable[[float], Coroutine[Any, Any, None]]) -> str:
        return told(said, lambda may_last: asyncio.run(asyncio.wait_for(wait(may_last), may_last + HANG_S)))

    line = run(reads)
    assert "a reader of " in line and "no writer has come" in line
    line = run(writes)
    assert "a writer of " in line and "no reader is there" in line
    assert "close of a writer of " in run(closes)


def test_a_reader_of_a_slow_stream_does_not_warn_of_every_batch(
    address: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(_notices.time, "monotonic", lambda: clock[0])
    notices = _notices.Notices("a reader", "`timeout` bounds this wait")
    heard = []
    for second in range(600):
        clock[0] = 1000.0 + second
        before = len(said.lines)
        notices.tell(6.0, "no batch has come")
        if len(said.lines) > before:
            heard.append(second)
    assert heard == [0, 60, 180, 420]


def test_control_c_ends_the_close_of_an_endpoint(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        import logging
        from lwmq_spark import _notices
        from lwmq_spark.arrow import Endpoint
        logging.basicConfig(stream=sys.stdout, format="%(message)s")
        _notices.FIRST_AFTER_S = 0
        endpoint = Endpoint(sys.argv[1])
        reader = lwmq.open_reader(sys.argv[1])
        try:
            endpoint.close(linger="forever")
        except KeyboardInterrupt:
            print("interrupted", endpoint.closed)
        reader.close(linger=0)
        """,
        ipc,
    )
    assert child.line().startswith("close of the endpoint")
    os.kill(child.pid, signal.SIGINT)
    assert child.line() == "interrupted True"
    assert child.process.wait(HANG_S) == 0
