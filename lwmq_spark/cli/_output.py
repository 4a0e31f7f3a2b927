"""What the verbs share: numbers as people read them, JSON lines, progress, and failures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from lwmq_spark import errors

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


def rate(amount: float, seconds: float) -> float:
    """Per second; 0 where no time has passed."""
    return amount / seconds if seconds > 0 else 0.0


def human(number: float, unit: str = "") -> str:
    """Three digits and a prefix: 1.23 M rows/s, 4.56 GB/s."""
    gap = "" if unit.startswith("B") else " "
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:.3g} {prefix}{gap}{unit}".rstrip()
    return f"{number:.3g} {unit}".rstrip()


class Meter:
    """Counts rows and bytes of a transfer, and shows them while it runs where somebody watches."""

    def __init__(self, title: str, *, quiet: bool, total_rows: int | None = None) -> None:
        self.rows = 0
        self.bytes = 0
        self.batches = 0
        self.started = time.perf_counter()
        self._title = title
        self._shown = 0.0
        self._quiet = quiet or not problems.is_terminal
        self._total = total_rows

    def add(self, rows: int, size: int) -> None:
        """One batch more. The first one starts the clock: waiting for a peer is no part of a rate."""
        if self.batches == 0:
            self.started = time.perf_counter()
        self.batches += 1
        self.rows += rows
        self.bytes += size
        now = time.perf_counter()
        if not self._quiet and now - self._shown > 0.1:
            self._shown = now
            of_total = f" of {self._total:,}" if self._total else ""
            problems.print(f"{self._title}: {self.rows:,}{of_total} rows, {self.speed()}   ", end="\r")

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def speed(self) -> str:
        """Rows and bytes per second so far."""
        seconds = self.seconds
        return f"{human(rate(self.rows, seconds), 'rows/s')}, {human(rate(self.bytes, seconds), 'B/s')}"

    def figures(self) -> dict[str, Any]:
        """For --json."""
        seconds = self.seconds
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "batches": self.batches,
            "seconds": round(seconds, 6),
            "rows_per_second": round(rate(self.rows, seconds)),
            "bytes_per_second": round(rate(self.bytes, seconds)),
        }

    def done(self) -> None:
        """Clears the line of progress."""
        if not self._quiet:
            problems.print(" " * 78, end="\r")


@contextmanager
def metered(title: str, *, quiet: bool, total_rows: int | None = None) -> Iterator[Meter]:
    """A meter whose line of progress is gone afterwards."""
    meter = Meter(title, quiet=quiet, total_rows=total_rows)
    try:
        yield meter
    finally:
        meter.done()
