"""Runs the benchmarks: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import machine, rivals
from tests.bench.arrow_peers import KINDS

console = Console(width=120)

Record = dict[str, Any]
Runs = dict[str, Callable[[], Record]]
# Key of a record, its unit, what a unit is.
Column = tuple[str, str, float]

LATENCY: list[Column] = [("p50_ns", "ns", 1), ("p99_ns", "ns", 1), ("p999_ns", "ns", 1)]
RATE: list[Column] = [("per_second", "million/s", 1e6)]
BANDWIDTH: list[Column] = [("bytes_per_second", "GB/s", 1e9)]
LINEAR: list[Column] = [*RATE, ("linear", "of the sum of each core alone", 1)]
BATCHES: list[Column] = [("per_second", "thousand/s", 1e3)]
CALLS: list[Column] = [("calls_per_message", "calls/message", 1)]
MANY: list[Column] = [
    *LATENCY,
    ("count", "channels of a process", 1),
    ("rss_bytes", "MB", 1e6),
    ("descriptors", "open", 1),
]
BESIDE: list[Column] = [
    *LATENCY,
    ("idle_p99_ns", "ns", 1),
    ("p99_to_idle", "times that without data", 1),
    ("data_p50_ns", "ns for each 64 KB", 1),
]

BUFFERS = ["floor", "floor-built", "lwmq", "lwmq-built"]  # copied into place; `-built`: made there
OURS = ["floor", "lwmq", "lwmq-each-lent", "lwmq-many", "lwmq-lent"]
# title, metric, message bytes, what is shown, peers of native_bench
NATIVE = [
    ("one-way latency, 8 B", "latency", 8, LATENCY, ["floor", "lwmq", "lwmq-lent", "zmq", "uds", "mq"]),
    ("one-way latency, 64 B", "latency", 64, LATENCY, ["floor", "lwmq", "lwmq-lent", "zmq", "uds", "mq"]),
    ("messages per second, 8 B", "rate", 8, RATE, [*OURS, "zmq", "uds", "mq"]),
    ("messages per second, 64 B", "rate", 64, RATE, [*OURS, "zmq", "uds", "mq"]),
    ("messages per second, 256 B", "rate", 256, RATE, [*OURS, "zmq", "uds"]),
    ("messages per second, 1 KB", "rate", 1024, RATE, [*OURS, "zmq", "uds"]),
    ("buffers of 64 KB", "rate", 64 << 10, BANDWIDTH, [*BUFFERS, "zmq", "uds"]),
    ("buffers of 640 KB", "rate", 640 << 10, BANDWIDTH, [*BUFFERS, "zmq", "uds"]),
    ("buffers of 1 MB", "rate", 1 << 20, BANDWIDTH, [*BUFFERS, "zmq", "uds"]),
]
# title, message bytes, what is shown
IN_PROCESS = [
    ("messages between threads, 64 B", 64, RATE),
    ("messages between threads, 64 KB", 64 << 10, BANDWIDTH),
]
# title, metric, bytes, what is shown, peers of native_bench; `-pieces`: as a sequence of 64 KB each
WHOLE: list[Column] = [("p50_ns", "us", 1e3)]
LARGE = [
    ("one-way latency, 1 MB", "latency", 1 << 20, WHOLE),
    ("one-way latency, 8 MB", "latency", 8 << 20, WHOLE),
    ("buffers of 8 MB", "rate", 8 << 20, BANDWIDTH),
]
LARGE_PEERS = [*BUFFERS, "floor-pieces", "lwmq-pieces", "zmq", "uds"]
# title, shape, how many
SHARES = [
    ("messages per second, 64 B, 4 workers", "workers", 4),
    ("messages per second, 64 B, 8 sources", "sources", 8),
]
# title, metric, bytes of a buffer, what is shown
HANDED = [
    ("hand-over of 64 KB", "latency", 64 << 10, LATENCY),
    ("hand-over of 1 MB", "latency", 1 << 20, LATENCY),
    ("hand-overs per second, 64 KB", "rate", 64 << 10, RATE),
    ("hand-overs per second, 1 MB", "rate", 1 << 20, RATE),
]
POSTS = ["floor", "lwmq", "lwmq-many", "lwmq-made", "lwmq-alone", "mutex", "zmq"]
CHANNELS = 10_000  # of one process
# title, peers of beside_bench and as what they are shown
BESIDES = [
    (
        "control beside data, 64 KB moved at once",
        {"floor": "floor", "lwmq": "lwmq", "uds": "uds", "zmq": "zmq"},
    ),
    ("control beside data, a look each 4 KB", {"floor-often": "floor", "lwmq-often": "lwmq"}),
]
CORE_PEERS = ["floor", "lwmq", "zmq", "mutex"]
WAKE = ["futex", "lwmq", "uds", "mq", "zmq"]
# title, metric, message bytes, what is shown
PYTHON = [
    ("one-way latency, 8 B, Python", "latency", 8, LATENCY),
    ("one-way latency, 64 B, Python", "latency", 64, LATENCY),
    ("messages per second, 64 B, Python", "rate", 64, RATE),
]
ROUND_TRIP: list[Column] = [("p50_ns", "us", 1e3), ("p99_ns", "us", 1e3)]
DELEGATED: list[Column] = [("task_ns", "us for a task", 1e3), ("overhead", "% more than at home", 1)]
APART: list[Column] = [*RATE, ("to_alone", "of the rate where nothing else is under way", 1)]
NOTICED: list[Column] = [("p50_ns", "us", 1e3), ("longest_ns", "us", 1e3)]
DEATHS = 5  # of a run; each is a process that has to start before
OPENINGS = 200  # of a run
DELEGATES = ["lwmq", "pyzmq", "pipe"]
BATCHES_DELEGATED = (1, 10, 100)
# title, kind of tests.bench.arrow_peers, bytes of a batch, what is shown
ARROW = [
    ("Arrow batches of 1 MB, Python", "copied", 1 << 20, BANDWIDTH),
    ("Arrow batches of 16 MB, Python", "copied", 16 << 20, BANDWIDTH),
    ("Arrow batches of 1 MB built in place, Python", "built", 1 << 20, BATCHES),
    ("Arrow batches of 1 MB handed over, Python", "handed", 1 << 20, BATCHES),
]


def native_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    for title, metric, size, columns, peers in NATIVE:
        runs: Runs = {
            peer: lambda peer=peer, metric=metric, size=size: machine.native(peer, metric, size, seconds)
            for peer in peers
        }
        if size != 640 << 10:
            runs["UCX"] = lambda metric=metric, size=size: rivals.ucx(metric, size, seconds)
        if size >= 65536:
            runs["iceoryx2 (Python)"] = lambda size=size: machine.messages("iceoryx2", "rate", size, seconds)
        yield title, columns, runs


def large_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """Written, then read; and in pieces, of which the reader has one while the next is written."""
    for title, metric, size, columns in LARGE:
        runs: Runs = {
            peer: lambda peer=peer, metric=metric, size=size: machine.native(peer, metric, size, 2 * seconds)
            for peer in LARGE_PEERS
        }
        runs["UCX"] = lambda metric=metric, size=size: rivals.ucx(metric, size, seconds)
        if metric == "rate":
            runs["iceoryx2 (Python)"] = lambda size=size: machine.messages("iceoryx2", "rate", size, seconds)
        yield title, columns, runs


def handed_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """Buffers that were written before the run, and that nobody touches: what a hand-over costs by itself."""
    for title, metric, size, columns in HANDED:
        runs: Runs = {
            peer: lambda peer=peer, metric=metric, size=size: machine.native(
                f"{peer}-handed", metric, size, seconds
            )
            for peer in ("floor", "lwmq")
        }
        runs["iceoryx2 (Python)"] = lambda metric=metric, size=size: machine.messages(
            "iceoryx2-handed", metric, size, seconds
        )
        yield title, columns, runs


def post_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """What a post costs the one who posts while somebody else empties the queue, or nobody does."""
    yield (
        "posts per second, 64 B",
        RATE,
        {peer: lambda peer=peer: machine.posts(peer, 64, seconds) for peer in POSTS},
    )


def channel_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """Many channels, and what they cost the latency of one."""
    floor = {"floor": lambda: machine.native("floor", "latency", 64, seconds)}
    count, each, allowed = machine.channels_that_fit(CHANNELS)
    if count < CHANNELS:
        console.print(
            f"channels between two processes: {count:,} of {CHANNELS:,}, because each has {each:.0f} "
            f"descriptors and a process here may have {allowed:,}",
            highlight=False,
        )
    yield (
        "channels between two processes",
        MANY,
        {
            **floor,
            "lwmq": lambda: machine.channels("lwmq", count, seconds),
            "lwmq, 1 channel": lambda: machine.channels("lwmq", 1, seconds),
            "uds": lambda: machine.channels("uds", count, seconds),
        },
    )
    yield (
        "channels inside one process",
        MANY,
        {
            **floor,
            "lwmq": lambda: machine.channels_in_process(CHANNELS, seconds),
            "lwmq, 1 channel": lambda: machine.channels_in_process(2, seconds),
        },
    )


def beside_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """The latency of a small message beside large ones that leave no pause, by one thread on each side."""
    for title, peers in BESIDES:
        yield (
            title,
            BESIDE,
            {name: lambda peer=peer: machine.beside(peer, seconds) for peer, name in peers.items()},
        )


def wake_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """How soon a receiver that sleeps is awake; and what those that are awake ask of the kernel."""
    # One message in half a millisecond: more time than the others, for as many samples as percentiles need.
    runs: Runs = {
        "floor" if peer == "futex" else peer: lambda peer=peer: machine.native(peer, "wake", 64, 2 * seconds)
        for peer in WAKE
    }
    yield "wake-up of a sleeping receiver, 64 B", LATENCY, runs
    runs = {peer: lambda peer=peer: rivals.system_calls(peer, 64, seconds) for peer in ("lwmq", "uds", "zmq")}
    yield "system calls per message, both awake", CALLS, runs


def in_process_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """From one thread to another; the rivals are a list under a mutex and a pair of local sockets."""
    for title, size, columns in IN_PROCESS:
        yield (
            title,
            columns,
            {
                peer: lambda peer=peer, size=size: machine.in_process(peer, size, seconds)
                for peer in ("lwmq", "mutex", "uds")
            },
        )


def share_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """One conversation from which many threads receive; many from which one thread does."""
    for title, shape, count in SHARES:
        yield (
            title,
            RATE,
            {
                peer: lambda peer=peer, shape=shape, count=count: machine.shares(
                    peer, shape, count, 64, seconds
                )
                for peer in ("lwmq", "zmq")
            },
        )


def core_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """As many threads as there are cores, each with a conversation of its own: do they share anything?"""
    yield (
        "messages per second, 64 B, all cores",
        LINEAR,
        {peer: lambda peer=peer: machine.all_cores(peer, 64, 2 * seconds) for peer in CORE_PEERS},
    )


def python_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    for title, metric, size, columns in PYTHON:
        runs: Runs = {
            "floor": lambda metric=metric, size=size: machine.native("floor", metric, size, seconds)
        }
        for peer in ("lwmq", *(["lwmq-many"] if metric == "rate" else []), "iceoryx2", "pyzmq"):
            runs[peer] = lambda peer=peer, metric=metric, size=size: machine.messages(
                peer, metric, size, seconds
            )
        yield title, columns, runs


def apart_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """The rate of a conversation while another one, or its own way back, stands still and is full."""
    for title, what in (("beside a channel", "channel"), ("beside a way back", "direction")):
        yield (
            f"messages of 64 B {title} that nobody reads, Python",
            APART,
            {
                peer: lambda peer=peer, what=what: machine.apart(peer, what, 2 * seconds)
                for peer in ("lwmq", "pyzmq")
            },
        )


def delegation_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """A request and its reply; and tasks of 100 us that another process does, in batches.

    `pipe` is a connection of multiprocessing.
    """
    yield (
        "requests there and back, 64 B, Python",
        ROUND_TRIP,
        {peer: lambda peer=peer: machine.delegation(peer, 0, seconds) for peer in DELEGATES},
    )
    for batch in BATCHES_DELEGATED:
        yield (
            f"tasks of 100 us delegated, batches of {batch}, Python",
            DELEGATED,
            {
                peer: lambda peer=peer, batch=batch: machine.delegation(peer, batch, 2 * seconds)
                for peer in DELEGATES
            },
        )


def death_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """How soon one who waits for what a process sends knows that it was killed."""
    yield (
        "a killed peer is noticed, Python",
        NOTICED,
        {peer: lambda peer=peer: machine.deaths(peer, DEATHS) for peer in ("floor", "lwmq", "lwmq-stream")},
    )


def stream_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    """How long it takes until a writer and a reader of a new stream are open."""
    yield (
        "a stream is opened at both ends, Python",
        NOTICED,
        {
            peer: lambda peer=peer: machine.openings(peer, OPENINGS)
            for peer in ("floor", "lwmq-door", "lwmq-warm", "lwmq")
        },
    )


def arrow_figures(seconds: float) -> Iterator[tuple[str, list[Column], Runs]]:
    for title, kind, size, columns in ARROW:
        runs: Runs = {}
        if kind == "copied":
            runs["floor"] = lambda size=size: machine.native("floor", "rate", size, seconds)
        for peer in KINDS[kind]:
            runs[peer] = lambda peer=peer, kind=kind, size=size: machine.batches(
                kind, peer, size, 2 * seconds
            )
        yield title, columns, runs


PAIRS = {
    "native": native_figures,
    "large": large_figures,
    "handed": handed_figures,
    "posts": post_figures,
    "channels": channel_figures,
    "beside": beside_figures,
    "wake": wake_figures,
    "threads": in_process_figures,
    "shares": share_figures,
    "cores": core_figures,
    "python": python_figures,
    "apart": apart_figures,
    "delegation": delegation_figures,
    "deaths": death_figures,
    "streams": stream_figures,
    "arrow": arrow_figures,
}
PARTS = [*PAIRS, "spark"]


def interleaved(title: str, rounds: int, runs: Runs) -> list[Record]:
    """All peers in each round, so that whatever the machine does meets all of them.

    A run counts where the looks at the machine before and after it agree, of three attempts the first that
    does; a look after one run is the look before the next. A run that fails is told of, and tried again.
    """
    records = []
    before, ns = machine.state()
    for number in range(rounds):
        for peer, run in runs.items():
            if console.is_terminal:
                console.print(f"[dim]{title}: round {number + 1} of {rounds}, {peer}[/dim]", end="   \r")
            for _ in range(3):
                try:
                    found = run()
                except RuntimeError as exc:  # on a machine that is busy otherwise a short run may see nothing
                    console.print(f"{title}, {peer}: {exc}", highlight=False)
                    before, ns = machine.state()
                    continue
                after, ns_after = machine.state()
                agreed = after == before
                if agreed:
                    records.append({"round": number, "peer": peer, "state": before, "probe_ns": ns, **found})
                before, ns = after, ns_after
                if agreed:
                    break
    return records


def show(title: str, records: list[Record], column: Column) -> None:
    """A table per state of the machine: median of the rounds, and its ratio to the floor's."""
    key, unit, factor = column
    for state in dict.fromkeys(record["state"] for record in records):
        table = Table(title=f"{title} ({state})", header_style="bold", title_justify="left")
        for heading in ("", unit, "to the floor", "runs"):
            table.add_column(heading, justify="left" if not heading else "right")
        found: dict[str, list[float]] = {}
        for record in records:
            if record["state"] == state and key in record:
                found.setdefault(record["peer"], []).append(record[key])
        floor = statistics.median(found["floor"]) if "floor" in found else None
        for peer, values in found.items():
            middle = statistics.median(values)
            ratio = f"{middle / floor:.3g}" if floor else ""
            table.add_row(peer, f"{middle / factor:,.4g}", ratio, str(len(values)))
        console.print(table)


def spark_figures(rows: int, results: Record) -> None:
    before, _ = machine.state()
    command = [sys.executable, "-m", "tests.bench.spark_figures", str(rows)]
    output = subprocess.run(
        command, check=True, env=machine.environment(), cwd=machine.ROOT, text=True, stdout=subprocess.PIPE
    ).stdout
    found = results["spark"] = json.loads(output.splitlines()[-1])
    after, _ = machine.state()
    state = results["spark state"] = before if before == after else f"{before}, then {after}"
    for kind, figures in found.items():
        table = Table(title=f"Spark {kind}, local[2] ({state})", title_justify="left")
        for heading in ("", "s", "million rows/s", "GB/s", "to the floor"):
            table.add_column(heading, justify="left" if not heading else "right")
        floor = next(iter(figures.values()))["seconds"]
        for name, figure in figures.items():
            rates = [figure.get("rows_per_second", 0.0) / 1e6, figure.get("bytes_per_second", 0.0) / 1e9]
            cells = [figure["seconds"], *rates, floor / figure["seconds"]]
            table.add_row(name, *(f"{value:,.3g}" if value else "" for value in cells))
        console.print(table)


def keep(results: Record) -> None:
    """Writes what there is so far."""
    path = machine.ROOT / results["file"]
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts of it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each run")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the Spark figures")
    arguments = parser.parse_args()
    machine.build()
    file = machine.BUILD.relative_to(machine.ROOT) / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    missing = rivals.missing()
    for rival, what in missing.items():
        console.print(f"without {rival}: {what} is not installed here")
    results: Record = {
        "file": str(file),
        "machine": machine.description(),
        "rows": arguments.rows,
        "missing": missing,
    }

    for part, figures in PAIRS.items():
        if part not in arguments.only:
            continue
        for title, columns, runs in figures(arguments.seconds):
            present = {
                peer: run for peer, run in runs.items() if not any(peer.startswith(name) for name in missing)
            }
            if title.startswith("system calls") and "system calls" in missing:
                continue
            records = results[title] = interleaved(title, arguments.rounds, present)
            keep(results)
            for column in columns:
                name = f", {column[0].removesuffix('_ns').replace('_', ' ')}" if len(columns) > 1 else ""
                show(f"{title}{name}", records, column)
    if "spark" in arguments.only:
        spark_figures(arguments.rows, results)
        keep(results)
    console.print(
        f"all of it: {results['file']}; as a table: python -m tests.bench.summary {results['file']}"
    )


if __name__ == "__main__":
    main()
