"""`lwmq top`: who on this host streams what to whom, how fast, and who waits for whom."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lwmq_spark.cli._output import JsonOption, console, duration, emit
from lwmq_spark.meter import human
from lwmq_spark.observer import Entry, Observer, Process

_COMMAND_WIDTH = 32
_TITLES = ("PID", "COMMAND", "ADDRESS", "ROLE", "IN/S", "OUT/S", "BYTES/S", "TOTAL", "HELD", "STATE")
_FIGURES = ("IN/S", "OUT/S", "BYTES/S", "TOTAL", "HELD")
_FOLDED = ("COMMAND", "ADDRESS", "STATE")
# In this order, until a row fits: a column is folded at so many characters; 0: it goes.
_NARROWER = (
    ("TOTAL", 0), ("STATE", 20), ("COMMAND", 16), ("ADDRESS", 20), ("HELD", 0), ("OUT/S", 0), ("IN/S", 0),
    ("ADDRESS", 14), ("STATE", 16), ("COMMAND", 10), ("BYTES/S", 0), ("COMMAND", 0), ("ADDRESS", 8),
    ("STATE", 8),
)  # fmt: skip


def run(
    interval: Annotated[
        float,
        typer.Option(
            "--interval", "-i", metavar="TIME", parser=duration(0.05, 86_400), help="Between two looks."
        ),
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after that many looks.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Only this process.")] = None,
    queues: Annotated[
        bool, typer.Option("--queues", help="Also each send queue: IN/S posted, OUT/S shipped.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the streams and channels of this host: rates, windows, leases, and who waits for whom.

    `q` ends it, another key looks at once. Where the terminal is narrow, columns of figures go first.

    Reads counters that every process keeps anyway; nobody is stopped, asked or slowed. Shows your own
    processes, as root everybody's. With --json, or where stdout is no terminal, it looks once and
    ends, unless --count says more.

    \b
    Examples:
      lwmq top
      lwmq top --interval 0.2 --pid 4711
      lwmq top --queues
      lwmq top --json
      lwmq top --json --count 60 > minute.jsonl
    """
    observer = Observer()
    observer.look()  # rates need a look before
    if json or not console.is_terminal:
        for _ in range(count or 1):
            time.sleep(interval)
            processes = _look(observer, pid)
            if json:
                emit(time=datetime.now(UTC).isoformat(), interval=interval,
                     processes=[process.as_json() for process in processes])  # fmt: skip
            else:
                console.print(_table(processes, queues, pid))
        return
    with _keys() as ends_within:
        if count is not None and ends_within(interval):  # only who stays sees a first table without rates
            return
        table = _table(_look(observer, pid), queues, pid)
        live = Live(table, console=console, auto_refresh=False, screen=count is None)
        try:  # as `with live`, but for a Ctrl-C while it draws its first table
            live.start(refresh=True)
            looks = 1
            while (count is None or looks < count) and not ends_within(interval):
                live.update(_table(_look(observer, pid), queues, pid), refresh=True)
                looks += 1
        finally:
            live.stop()


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Lends a function that waits for so many seconds, or for a key, and tells whether the key was `q`.

    Where nobody has a keyboard it waits, and says no.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield lambda seconds: bool(time.sleep(seconds))  # type: ignore[func-returns-value]
        return
    keyboard = sys.stdin.fileno()

    def ends_within(seconds: float) -> bool:
        if not select.select([keyboard], [], [], seconds)[0]:
            return False
        keys = os.read(keyboard, 64)
        return b"q" in keys or not keys  # none: the terminal is gone

    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard, termios.TCSANOW)  # each key by itself; Ctrl-C stays a signal
    try:
        yield ends_within
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def _look(observer: Observer, pid: int | None) -> list[Process]:
    return [process for process in observer.look() if pid is None or process.pid == pid]


def _table(processes: list[Process], queues: bool, pid: int | None = None, room: int | None = None) -> Table:
    """`room`: columns of the screen; by default those there are."""
    rows = list(_rows(processes, queues))
    gap, widths = _fitting(rows, room or console.width, queues)
    table = Table(box=None, header_style="bold", padding=(0, gap, 0, 0), pad_edge=False, expand=False)
    for title, width in widths.items():
        table.add_column(
            title,
            justify="right" if title in _FIGURES else "left",
            no_wrap=title not in _FOLDED,
            overflow="fold" if title in _FOLDED else "ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(cell for title, cell in zip(_TITLES, row, strict=True) if title in widths))
    if not processes:
        table.title = (
            "nobody uses lwmq on this host, or you may not look at those who do"
            if pid is None
            else f"process {pid} does not use lwmq, has ended, or you may not look at it"
        )
    return table


def _fitting(rows: list[list[Text | str]], room: int, queues: bool) -> tuple[int, dict[str, int]]:
    """What is between columns, and their widths. Who waits for whom is the last to give room, but for rates
    where queues are shown.
    """
    cells: list[list[Text | str]] = [*rows, [*_TITLES]]
    widths = {title: max(len(row[place]) for row in cells) for place, title in enumerate(_TITLES)}

    def excess(gap: int) -> int:
        return sum(widths.values()) + gap * (len(widths) - 1) - room

    if excess(2) <= 0:
        return 2, widths
    for title, least in sorted(_NARROWER, key=lambda step: queues and step[0] in ("IN/S", "OUT/S")):
        if excess(1) <= 0:
            break
        if least:
            widths[title] = max(min(least, widths[title]), widths[title] - excess(1))
        else:
            del widths[title]
    return 1, widths


def _rows(processes: list[Process], queues: bool) -> Iterator[list[Text | str]]:
    for process in processes:
        who = (str(process.pid), _short(process.command))
        if not process.known:
            yield [*who, "", "", "", "", "", "", "", f"speaks version {process.page_version}"]
        for entry in process.entries:
            if entry.role == "queue" and not queues:
                continue
            yield [*who, *_row(entry)]
            who = ("", "")
        if process.unlisted:
            yield [*who, "", "", "", "", "", "", "", f"and {process.unlisted} more: no place on its page"]


def _row(entry: Entry) -> list[Text | str]:
    figures, rates = entry.figures, entry.rates
    per_second = {name: human(rate) for name, rate in rates.items()}
    if entry.role == "queue":
        flow = [per_second.get("messages_posted", ""), per_second.get("messages_sent", "")]
        moved, total = 0.0, human(figures["messages_posted"])
        held = _counted(
            figures, messages_queued="queued", messages_discarded="discarded", messages_replaced="replaced"
        )
    elif entry.role == "channel":
        flow = [per_second.get("messages_received", ""), per_second.get("messages_sent", "")]
        moved = rates.get("bytes_received", 0.0) + rates.get("bytes_sent", 0.0)
        total = human(figures["bytes_received"] + figures["bytes_sent"], "B")
        held = _counted(
            figures, messages_queued="queued", receive_queued="to receive", messages_discarded="discarded",
            messages_lost="lost", duplicates_dropped="twice", clients_refused="refused",
        )  # fmt: skip
    elif entry.role == "listener":
        flow = [per_second.get("clients_accepted", ""), ""]
        moved, total = 0.0, human(figures["clients_accepted"])
        held = _counted(figures, clients_waiting="waiting", clients_refused="refused")
    else:
        batches = per_second.get("batches", "")
        flow = [batches, ""] if entry.role == "reader" else ["", batches]
        moved = rates.get("bytes", 0.0)
        total = human(figures["bytes"], "B")
        held = _held(entry)
    return [
        entry.address,
        _role(entry),
        *flow,
        human(moved, "B/s") if rates and entry.role not in ("queue", "listener") else "",
        total,
        held,
        _state(entry),
    ]


def _role(entry: Entry) -> str:
    if entry.role == "channel" and entry.name:
        return f"client {entry.name}"
    return f"queue {entry.name}" if entry.role == "queue" else entry.role


def _counted(figures: dict[str, int], **words: str) -> str:
    """What is not zero of these, with its word."""
    return ", ".join(f"{human(figures[name])} {word}" for name, word in words.items() if figures.get(name))


def _held(entry: Entry) -> str:
    """What it keeps: a writer its window, a reader leases, an endpoint the log."""
    figures = entry.figures
    if entry.role == "writer":
        return f"{human(figures['window_used_bytes'], 'B')} of {human(figures['window_bytes'], 'B')}"
    if entry.role == "reader":
        return f"{figures['leased_batches']} leased, {human(figures['leased_bytes'], 'B')}"
    gone = _counted(figures, readers_expelled="readers expelled", readers_lost="readers lost")
    return ", ".join(
        filter(None, (f"{figures['kept_batches']} kept", f"{figures['unread_batches']} unread", gone))
    )


def _state(entry: Entry) -> Text:
    text = entry.state
    if entry.state_seconds is not None and (entry.state != "reading" or entry.state_seconds >= 1.0):
        text += f" {entry.state_seconds:.1f} s"
    if entry.role == "endpoint":
        text += f", {entry.figures['writers']} writing, {entry.figures['readers']} reading"
    peer = entry.figures.get("peer_pid", 0)
    awaited = ", ".join(map(str, entry.waits_for))
    if entry.state == "waiting for room" and peer:
        text += f", held by {peer}"
    elif entry.state == "waiting for batches" and peer:
        text += f", last from {peer}"
    elif awaited:
        text += f", by {awaited}" if entry.role == "writer" else f", of {awaited}"
    elif entry.role == "channel" and peer:
        text += f" to {peer}"
    return Text(text, style="red" if entry.state == "stalled" else "")


def _short(command: str) -> str:
    """The last part of the program's path, then its arguments, as far as there is room."""
    program, _, rest = command.partition(" ")
    text = f"{program.rpartition('/')[2]} {rest}".strip()
    return text if len(text) <= _COMMAND_WIDTH else text[: _COMMAND_WIDTH - 1] + "…"
