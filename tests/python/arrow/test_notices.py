"""Nothing waits in silence: what a call that waits for long says, to whoever has configured no logging."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Callable
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


def test_without_any_logging_configured_a_long_wait_is_seen_on_stderr(
    ipc: str, spawn: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    child = spawn(
        f"""
        from lwmq_spark import _notices
        _notices.FIRST_AFTER_S = {AFTER_S}
        try:
            lwmq.open_reader(sys.argv[1], timeout={WAIT_S}).read_next_batch()
        except lwmq.TimeoutError:
            print("over")
        """,
        ipc,
    )
    assert child.line() == "over"
    said = capfd.readouterr().err
    assert said.count("\n") == 1, said
    assert f"a reader of {ipc} has waited for " in said, said


def test_a_reader_without_a_producer_says_so_once_per_wait(near_address: str, said: Said) -> None:
    with (
        lwmq.open_reader(near_address, timeout=2 * WAIT_S, linger=0) as reader,
        pytest.raises(lwmq.TimeoutError),
    ):
        reader.read_next_batch()
    assert re.fullmatch(
        rf"a reader of {near_address} has waited for \d+ s and waits on: {near_address}: "
        r"no writer has come to the endpoint in this process\. `timeout` bounds this wait; "
        r"`lwmq top` shows who waits for whom",
        said.one(),
    ), said.lines


def test_a_reader_that_waits_for_a_schema_says_so(near_address: str, said: Said) -> None:
    with lwmq.open_reader(near_address, timeout=WAIT_S, linger=0) as reader, pytest.raises(lwmq.TimeoutError):
        _ = reader.schema
    assert "no writer has come with a schema to the endpoint in this process" in said.one()


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
    with lwmq.open_reader(ipc, timeout=WAIT_S) as reader:
        next(reader)
        with pytest.raises(lwmq.TimeoutError):
            next(reader)
    who = rf"process {writer.pid} \("
    assert re.search(
        rf"no further batch has come to the endpoint in {who}.*; the last one was of {who}", said.one()
    )
    writer.tell()


def test_a_client_without_an_endpoint_says_so(near_address: str, said: Said) -> None:
    for wait in (
        lambda: lwmq.open_reader(near_address, role="client", timeout=WAIT_S),
        lambda: lwmq.open_writer(near_address, SCHEMA, role="client", timeout=WAIT_S),
        lambda: describe(near_address, timeout=WAIT_S),
    ):
        with pytest.raises(lwmq.TimeoutError, match=rf"nobody serves .*\(waited {WAIT_S} s\)"):
            wait()
        assert re.match(
            rf"a client of {near_address} has waited for \d+ s and waits on: .*nobody serves", said.one()
        )
        said.lines.clear()


def test_a_writer_with_a_full_window_says_whether_a_reader_is_there(near_address: str, said: Said) -> None:
    writer = lwmq.open_writer(
        near_address, SCHEMA, window_bytes="64KiB", buffer_bytes="16KiB", timeout=WAIT_S
    )
    with pytest.raises(lwmq.TimeoutError):
        while True:
            writer.write(BATCH)
    assert re.search(
        r"a writer of .*: the window of 65536 bytes is full: \d+ batches not yet read .*; "
        r"no reader is there: start one, .*`timeout` bounds this wait, `expel_after` the patience",
        said.one(),
    ), said.lines
    said.lines.clear()
    reader = lwmq.open_reader(near_address, timeout=HANG_S)
    held = next(reader)
    with pytest.raises(lwmq.TimeoutError, match=rf"a reader must go on, {US}"):
        while True:
            writer.write(BATCH)
    del held
    reader.close()
    writer.abort()


def test_a_writer_that_closes_says_what_it_waits_for(near_address: str, said: Said) -> None:
    writer = lwmq.open_writer(near_address, SCHEMA)
    writer.write(BATCH)
    with pytest.raises(lwmq.TimeoutError):
        writer.close(linger=WAIT_S)
    assert re.search(
        rf"close of a writer of {near_address} has waited for .*1 of 1 batches were not consumed, with 0 "
        r"readers\. `linger` bounds this wait",
        said.one(),
    ), said.lines


def test_an_endpoint_that_closes_says_what_it_waits_for(near_address: str, said: Said) -> None:
    endpoint = Endpoint(near_address)
    writer = lwmq.open_writer(near_address, SCHEMA)
    writer.write(BATCH)
    with pytest.raises(lwmq.TimeoutError, match="1 batches unread"):
        endpoint.close(linger=WAIT_S)
    assert re.search(
        rf"close of the endpoint of {near_address} has waited .*: "
        r"1 batches unread, 1 producers open .*`linger` ",
        said.one(),
    ), said.lines
    assert endpoint.closed
    writer.abort()


def test_what_is_awaited_says_so_too(near_address: str, said: Said) -> None:
    async def wait() -> None:
        with lwmq.open_reader(near_address, linger=0) as reader:
            with pytest.raises(lwmq.TimeoutError):
                await aio.read(reader, WAIT_S)
            assert "a reader of " in said.one() and "no writer has come" in said.one()
            said.lines.clear()
        writer = lwmq.open_writer(
            near_address, SCHEMA, window_bytes="64KiB", buffer_bytes="16KiB", timeout=WAIT_S
        )
        with pytest.raises(lwmq.TimeoutError):
            while True:
                await aio.write(writer, BATCH)
        assert "a writer of " in said.one() and "no reader is there" in said.one()
        said.lines.clear()
        with pytest.raises(lwmq.TimeoutError):
            await aio.close(writer, WAIT_S)
        assert "close of a writer of " in said.one()

    asyncio.run(asyncio.wait_for(wait(), HANG_S))


def test_a_reader_of_a_slow_stream_does_not_warn_of_every_batch(
    near_address: str, said: Said, monkeypatch: pytest.MonkeyPatch
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
