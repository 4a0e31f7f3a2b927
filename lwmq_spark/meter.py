"""What a long transfer has done so far, in one line that renews itself: in a terminal, or in a notebook.

for batch in lwmq.progress(reader):
    ...
received: 12,345,678 rows, 56.7 M rows/s, 1.13 GB/s, 65,536 rows behind
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from lwmq_spark import errors

if TYPE_CHECKING:
    import pyarrow as pa

    from lwmq_spark.arrow import StreamReader

_SHOWN_EVERY_S = 0.2
_LAG_ASKED_EVERY_S = 1.0


def rate(amount: float, seconds: float) -> float:
    """Per second; 0 where no time has passed."""
    return amount / seconds if seconds > 0 else 0.0


def human(number: float, unit: str = "") -> str:
    """Three digits and a prefix: 1.23 M rows/s, 4.56 GB/s."""
    gap = "" if unit.startswith("B") else " "
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:.3g} {prefix}{gap}{unit}".rstrip()
    return f"{number:.3g} {unit}".rstrip()


def _in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython  # type: ignore[attr-defined,unused-ignore]

    return getattr(get_ipython(), "kernel", None) is not None


class _Terminal:
    """A line of rich on stderr, with a bar and the time left where the end is known; gone at the end."""

    def __init__(self, total_rows: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = (BarColumn(bar_width=10), TimeRemainingColumn(compact=True)) if total_rows else ()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            *bar,
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),  # print() goes above the line
        )
        self._task = self._progress.add_task("", total=total_rows)
        self._progress.start()

    def show(self, text: str, rows: int) -> None:
        self._progress.update(self._task, description=text, completed=rows, refresh=True)

    def end(self) -> None:
        self._progress.stop()


class _Notebook:
    """A line in the cell, replaced by the next; the last one stays."""

    def __init__(self) -> None:
        self._cell: Any = None

    def show(self, text: str, rows: int) -> None:
        from IPython.display import display

        shown = {"text/plain": text}
        if self._cell is None:
            self._cell = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        else:
            self._cell.update(shown, raw=True)

    def end(self) -> None:
        pass


class Meter:
    """Counts rows and bytes of a transfer, and shows them while it runs where somebody watches."""

    def __init__(
        self,
        title: str,
        *,
        quiet: bool = False,
        total_rows: int | None = None,
        lag: Callable[[], int | None] | None = None,
    ) -> None:
        """`lag` answers how many rows the transfer is behind; it is asked once a second."""
        self.rows = 0
        self.bytes = 0
        self.batches = 0
        self.started = time.perf_counter()
        self._title = title
        self._shown = self._asked = 0.0
        self._line: _Terminal | _Notebook | None = None
        if _in_notebook():
            self._line = None if quiet else _Notebook()
        elif not quiet and sys.stderr is not None and sys.stderr.isatty():
            self._line = _Terminal(total_rows)
        self._total = total_rows
        self._lag = lag
        self._behind: int | None = None

    def add(self, rows: int, size: int) -> None:
        """One batch more. The first one starts the clock: waiting for a peer is no part of a rate."""
        if self.batches == 0:
            self.started = time.perf_counter()
        self.batches += 1
        self.rows += rows
        self.bytes += size
        now = time.perf_counter()
        if self._line is None or now - self._shown < _SHOWN_EVERY_S:
            return
        self._shown = now
        if self._lag is not None and now - self._asked >= _LAG_ASKED_EVERY_S:
            self._asked = now
            self._behind = self._lag()
        self._line.show(self.text(), self.rows)

    def text(self) -> str:
        """The line: rows, of how many, rates, and how far behind where that is known."""
        of_total = f" of {self._total:,}" if self._total else ""
        behind = "" if self._behind is None else f", {self._behind:,} rows behind"
        return f"{self._title}: {self.rows:,}{of_total} rows, {self.speed()}{behind}"

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def speed(self) -> str:
        """Rows and bytes per second so far."""
        seconds = self.seconds
        return f"{human(rate(self.rows, seconds), 'rows/s')}, {human(rate(self.bytes, seconds), 'B/s')}"

    def figures(self) -> dict[str, Any]:
        """For programs."""
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
        """Ends the line of progress: a terminal's is cleared."""
        if self._line is not None:
            self._line.show(self.text(), self.rows)
            self._line.end()


def rows_behind(address: str) -> int | None:
    """Rows of the stream at `address` that nobody has acknowledged; None when its endpoint is gone."""
    from lwmq_spark.arrow.endpoint import describe

    try:
        state = describe(address, timeout=0.5, wait_declared=False)
    except errors.LwmqError:
        return None
    return sum(partition.rows for partition in state.partitions)


def progress(
    reader: StreamReader, *, total_rows: int | None = None, title: str = "received"
) -> Iterator[pa.RecordBatch]:
    """The batches of `reader`, with a line of progress: rows, rows/s, GB/s, and rows behind the writers.

    Shows where somebody watches: stderr is a terminal, or this is a notebook. How far behind is asked of the
    endpoint once a second. Ends and fails as the reader does; the line is then gone from a terminal.
    """
    meter = Meter(title, total_rows=total_rows, lag=lambda: rows_behind(reader.address))
    try:
        for batch in reader:
            meter.add(batch.num_rows, batch.nbytes)
            yield batch
    finally:
        meter.done()
