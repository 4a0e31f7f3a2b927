"""What the verbs share: numbers as people read them, JSON lines, progress, and failures."""

from __future__ import annotations

import json
import math
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lwmq_spark import errors
from lwmq_spark.meter import Meter, rows_behind
from lwmq_spark.options import parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from lwmq_spark.arrow import StreamReader

_NO_LIMIT = 100_000  # columns, for files and pipes


def _console(*, stderr: bool) -> Console:
    """Shows texts as they are: addresses, command lines and data are others', and may look like markup."""
    stream = sys.stderr if stderr else sys.stdout
    bounded = "COLUMNS" in os.environ or (stream is not None and stream.isatty())
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=stderr,
        width=None if bounded else _NO_LIMIT,
    )


console = _console(stderr=False)
problems = _console(stderr=True)


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line, for programs.")]


def duration(least: float = 0, most: float = math.inf) -> Callable[[object], float | None]:
    """Reads an option that is a time, as all of our settings are read: `2`, `2s`, `100ms`, `forever`."""

    def read(value: object) -> float | None:
        try:
            seconds = parse_duration(value)
        except ValueError as problem:
            raise typer.BadParameter(str(problem)) from None
        if not least <= (math.inf if seconds is None else seconds) <= most:
            raise typer.BadParameter(f"{value}: {least:g} s to {most:g} s are possible")
        return seconds

    return read


TimeoutOption = Annotated[
    float | None,
    typer.Option(metavar="TIME", parser=duration(), help="Give up when nobody is there for that long."),
]


def emit(**figures: Any) -> None:
    """One JSON object on a line of its own. Bytes are base64; what is no finite number is null."""
    sys.stdout.write(json.dumps(_plain(figures), default=str) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def printable(text: str, but: str = "\t\n") -> str:
    """Without control characters `but` those: a terminal would obey them."""
    shown = (c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)
    return "".join(shown)


def exit_code_of(failure: BaseException) -> int:
    """The exit code that a failure stands for."""
    if isinstance(failure, errors.TimeoutError):
        return 3
    if isinstance(failure, errors.DataLossError | errors.AbortedError | errors.PeerLostError):
        return 4
    return 1


def report_failure(failure: BaseException, *, as_json: bool) -> None:
    """Tells what went wrong: on stdout as JSON; else, or where that takes nothing, on stderr in one line."""
    try:
        if as_json:
            emit(error=type(failure).__name__, text=str(failure))
        print(end="", flush=True)
    except OSError:
        as_json = False
        sys.stdout = None  # type: ignore[assignment]  # Python would try again at exit, and end with 120
    if not as_json:
        problems.print(printable(f"lwmq: {type(failure).__name__}: {failure}"), style="red")


@contextmanager
def metered(title: str, *, quiet: bool, address: str, total_rows: int | None = None) -> Iterator[Meter]:
    """A meter of the stream at `address`, whose line of progress is gone afterwards."""
    meter = Meter(title, quiet=quiet, total_rows=total_rows, lag=lambda: rows_behind(address))
    try:
        yield meter
    finally:
        meter.done()


def first_rows(reader: StreamReader, rows: int | None) -> Iterator[pa.RecordBatch]:
    """The batches of `reader` until they have so many rows; None: all. Errors are those of the reader.

    A batch that has more rows is cut. It is not acknowledged, since that goes for a whole batch, and the
    reader is closed.
    """
    for batch in reader:
        yield batch.slice(0, rows)
        if rows is None:
            continue
        if rows < batch.num_rows:
            reader.close(consume=False)
        rows -= batch.num_rows
        if rows <= 0:
            return
