"""The exception tree, and the way back to it from Spark's exceptions."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

import lwmq_spark as lwmq
from lwmq_spark import errors


def test_every_error_is_an_lwmq_error_and_a_timeout_also_the_builtin_one() -> None:
    assert all(issubclass(cls, lwmq.LwmqError) for cls in errors.TREE)
    assert issubclass(lwmq.TimeoutError, builtins.TimeoutError)
    assert {cls.__name__ for cls in errors.TREE} == {
        "AddressError",
        "TimeoutError",
        "ClosedError",
        "PeerLostError",
        "MessageTooBigError",
        "SchemaError",
        "AbortedError",
        "DataLossError",
        "CorruptError",
        "VersionError",
        "HandlerError",
    }
    assert all(getattr(lwmq, cls.__name__) is cls for cls in errors.TREE)


def test_a_wrong_argument_is_a_value_error_whoever_finds_it(address: str) -> None:
    channel = lwmq.Channel(address, "server", linger=0)
    with channel:
        for wrong in (
            lambda: lwmq.Channel(address, buffers="many"),  # Python
            lambda: lwmq.Channel(address, buffers=(3999, 3999)),  # the library
            lambda: channel.set_weights([1]),
        ):
            with pytest.raises(ValueError):
                wrong()
        with pytest.raises(lwmq.ArgumentError, match="1 weights; there are 5"):
            channel.set_weights([1])
    assert issubclass(lwmq.ArgumentError, lwmq.LwmqError)
    assert type(lwmq.error_of("SparkException: LWMQ_INVALID: option buffers: '0'")) is lwmq.ArgumentError
    trace = "Traceback\nlwmq_spark.errors.ArgumentError: 7 of ipc://x\n"
    assert type(lwmq.error_of(trace)) is lwmq.ArgumentError


@pytest.mark.parametrize("cls", [lwmq.LwmqError, *errors.TREE])
def test_the_page_of_errors_has_the_cause_of_each_error_and_the_way_out(cls: type[lwmq.LwmqError]) -> None:
    page = (Path(__file__).resolve().parents[2] / "conf" / "ERRORS.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith(f"| `{cls.__name__}`")]
    assert len(rows) == 1
    assert all(len(cell.strip()) > 10 for cell in rows[0][2:4])


@pytest.mark.parametrize("cls", errors.TREE)
def test_error_of_finds_each_class_by_its_token(cls: type[lwmq.LwmqError]) -> None:
    snake = "".join("_" + c if c.isupper() else c.upper() for c in cls.__name__.removesuffix("Error"))
    assert cls.token == "LWMQ" + snake
    text = f"Job aborted due to stage failure: SparkException: {cls.token}: 7 of ipc://x\n\tat a.B"
    found = lwmq.error_of(RuntimeError(text))
    assert type(found) is cls
    assert str(found) == "7 of ipc://x"
    assert isinstance(found.__cause__, RuntimeError)


def test_error_of_reads_captured_exceptions_causes_and_java_throwables() -> None:
    class Captured(Exception):
        def getMessage(self) -> str:
            return "[LWMQ_DATA_LOSS] batches 3 to 9 were released"

    found = lwmq.error_of(Captured("task failed"))
    assert type(found) is lwmq.DataLossError
    assert str(found) == "batches 3 to 9 were released"

    class Throwable:
        def __init__(self, text: str, cause: Throwable | None) -> None:
            self.text, self.cause = text, cause

        def toString(self) -> str:
            return self.text

        def getCause(self) -> Throwable | None:
            return self.cause

    class Py4J(Exception):
        java_exception = Throwable("SparkException: Job aborted", Throwable("LWMQ_TIMEOUT: no stream", None))

    assert type(lwmq.error_of(Py4J("An error occurred"))) is lwmq.TimeoutError

    try:
        try:
            raise RuntimeError("LWMQ_ABORTED: feed handler: ValueError")
        except RuntimeError as inner:
            raise ValueError("query failed") from inner
    except ValueError as outer:
        assert type(lwmq.error_of(outer)) is lwmq.AbortedError


def test_error_of_leaves_out_what_spark_adds_to_the_text() -> None:
    found = lwmq.error_of("LWMQ_TIMEOUT: no stream at ipc://x SQLSTATE: P0001\n\tat a.B")
    assert str(found) == "no stream at ipc://x"


def test_error_of_reads_the_traceback_of_a_python_worker() -> None:
    text = "PythonException: Traceback\n  File \"x.py\"\nlwmq_spark.errors.SchemaError: field 'a' is int32\n"
    found = lwmq.error_of(RuntimeError(text))
    assert type(found) is lwmq.SchemaError
    assert str(found) == "field 'a' is int32"


def test_error_of_reads_the_names_of_statuses() -> None:
    assert type(lwmq.error_of("LWMQ_E_TOO_BIG: 7")) is lwmq.MessageTooBigError
    assert type(lwmq.error_of("LWMQ_E_TIMED_OUT")) is lwmq.TimeoutError
    assert type(lwmq.error_of("LWMQ_NO_MEMORY: cgroup")) is lwmq.LwmqError


def test_error_of_answers_none_for_what_is_not_ours() -> None:
    assert lwmq.error_of(ValueError("division by zero")) is None
    assert lwmq.error_of("set LWMQ_LIBRARY, or LWMQ_ADDRESSES") is None


def test_error_of_gives_our_own_errors_back_as_they_are() -> None:
    ours = lwmq.ClosedError("forked")
    assert lwmq.error_of(ours) is ours
