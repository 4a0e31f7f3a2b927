"""What the verbs share: numbers as people read them, JSON lines, progress, and failures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from lwmq_spark import errors
from lwmq_spark.meter import Meter, rows_behind

console = Console(highlight=False)
problems = Console(stderr=True, highlight=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line, for programs.")]
TimeoutOption = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Give up when nobody is there for that long.")
]


def emit(**figures: Any) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.write(json.dumps(figures, default=str) + "\n")
    sys.stdout.flush()


def exit_code_of(failure: BaseException) -> int:
    """The exit code that a failure stands for."""
    if isinstance(failure, errors.TimeoutError):
        return 3
    if isinstance(failure, errors.DataLossError | errors.AbortedError | errors.PeerLostError):
        return 4
    return 1


def report_failure(failure: BaseException, *, as_json: bool) -> None:
    """Tells what went wrong: on stdout as JSON, else on stderr in one line."""
    if as_json:
        emit(error=type(failure).__name__, text=str(failure))
    else:
        problems.print(f"lwmq: {type(failure).__name__}: {failure}", style="red", markup=False)


@contextmanager
def metered(title: str, *, quiet: bool, address: str, total_rows: int | None = None) -> Iterator[Meter]:
    """A meter of the stream at `address`, whose line of progress is gone afterwards."""
    meter = Meter(title, quiet=quiet, total_rows=total_rows, lag=lambda: rows_behind(address))
    try:
        yield meter
    finally:
        meter.done()
