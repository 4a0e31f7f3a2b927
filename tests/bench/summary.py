"""The table of README.md beside this from the JSON of one run: `python -m tests.bench.summary RUN.json`."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

# title in the JSON -> (row of the table, key, factor, unit)
ROWS = {
    "one-way latency, 8 B": [
        ("one-way latency of 8 B, p50", "p50_ns", 1.0, "ns"),
        ("the same, p99.9", "p999_ns", 1.0, "ns"),
    ],
    "one-way latency, 64 B": [
        ("one-way latency of 64 B, p50", "p50_ns", 1.0, "ns"),
        ("the same, p99.9", "p999_ns", 1.0, "ns"),
    ],
    "wake-up of a sleeping receiver, 64 B": [
        ("one-way latency of 64 B to a receiver that sleeps, p50", "p50_ns", 1.0, "ns"),
        ("the same, p99", "p99_ns", 1.0, "ns"),
    ],
    "system calls per message, both awake": [
        ("system calls per message, both awake, set-up included", "calls_per_message", 1.0, "calls"),
    ],
    "messages per second, 8 B": [("messages of 8 B, one call for each", "per_second", 1e6, "M/s")],
    "messages per second, 64 B": [("messages of 64 B, one call for each", "per_second", 1e6, "M/s")],
    "messages per second, 256 B": [("messages of 256 B, one call for each", "per_second", 1e6, "M/s")],
    "messages per second, 1 KB": [("messages of 1 KB, one call for each", "per_second", 1e6, "M/s")],
    "buffers of 64 KB": [("buffers of 64 KB, filled and read in place", "bytes_per_second", 1e9, "GB/s")],
    "buffers of 640 KB": [("buffers of 640 KB, filled and read in place", "bytes_per_second", 1e9, "GB/s")],
    "buffers of 1 MB": [("buffers of 1 MB, filled and read in place", "bytes_per_second", 1e9, "GB/s")],
    "one-way latency, 1 MB": [("one-way latency of 1 MB, p50", "p50_ns", 1e3, "µs")],
    "one-way latency, 8 MB": [("one-way latency of 8 MB, p50", "p50_ns", 1e3, "µs")],
    "buffers of 8 MB": [("buffers of 8 MB, filled and read in place", "bytes_per_second", 1e9, "GB/s")],
    "hand-over of 64 KB": [
        ("hand-over of a finished buffer of 64 KB, untouched, one way, p50", "p50_ns", 1.0, "ns")
    ],
    "hand-over of 1 MB": [("the same, 1 MB", "p50_ns", 1.0, "ns")],
    "hand-overs per second, 64 KB": [("hand-overs of buffers of 64 KB", "per_second", 1e6, "M/s")],
    "hand-overs per second, 1 MB": [("the same, 1 MB", "per_second", 1e6, "M/s")],
    "posts per second, 64 B": [
        ("posts of 64 B into a queue that somebody else empties", "per_second", 1e6, "M/s")
    ],
    "channels between two processes": [
        ("channels of a process with another one", "count", 1.0, "open"),
        ("its memory, with what it shares", "rss_bytes", 1e6, "MB"),
        ("its descriptors", "descriptors", 1.0, "open"),
        ("one-way latency of 64 B over one of them, p50", "p50_ns", 1.0, "ns"),
    ],
    "channels inside one process": [
        ("channels inside one process", "count", 1.0, "open"),
        ("its memory", "rss_bytes", 1e6, "MB"),
        ("its descriptors", "descriptors", 1.0, "open"),
        ("one-way latency of 64 B over one of them, p50", "p50_ns", 1.0, "ns"),
    ],
    "control beside data, 64 KB moved at once": [
        ("64 B beside 64 KB without a pause, one thread for both on each side, p99", "p99_ns", 1.0, "ns"),
        ("the same without the 64 KB", "idle_p99_ns", 1.0, "ns"),
        ("from one of the 64 KB to the next", "data_p50_ns", 1.0, "ns"),
    ],
    "control beside data, a look each 4 KB": [
        ("64 B beside 64 KB, looked for while those are filled and read, p99", "p99_ns", 1.0, "ns"),
        ("the same without the 64 KB", "idle_p99_ns", 1.0, "ns"),
        ("from one of the 64 KB to the next", "data_p50_ns", 1.0, "ns"),
    ],
    "messages between threads, 64 B": [("messages of 64 B between two threads", "per_second", 1e6, "M/s")],
    "messages per second, 64 B, 4 workers": [
        ("messages of 64 B that four threads share, each for one of them", "per_second", 1e6, "M/s")
    ],
    "messages per second, 64 B, 8 sources": [
        ("messages of 64 B from eight conversations, received by one thread", "per_second", 1e6, "M/s")
    ],
    "messages per second, 64 B, all cores": [
        ("messages of 64 B on all cores, each thread with itself", "per_second", 1e6, "M/s"),
        ("as a share of what each core does alone", "linear", 1.0, ""),
    ],
    "one-way latency, 8 B, Python": [("one-way latency of 8 B, Python to Python, p50", "p50_ns", 1.0, "ns")],
    "one-way latency, 64 B, Python": [
        ("one-way latency of 64 B, Python to Python, p50", "p50_ns", 1.0, "ns")
    ],
    "messages per second, 64 B, Python": [
        ("messages of 64 B, Python to Python", "per_second", 1e6, "M/s"),
    ],
    "requests there and back, 64 B, Python": [
        ("a request of 64 B and its reply, Python to Python, p50", "p50_ns", 1e3, "µs")
    ],
    "tasks of 100 us delegated, batches of 100, Python": [
        ("tasks of 100 µs done elsewhere, batches of 100, Python: more than at home", "overhead", 1.0, "%")
    ],
    "Arrow batches of 1 MB, Python": [
        ("Arrow batches of 1 MB, Python to Python", "bytes_per_second", 1e9, "GB/s")
    ],
    "Arrow batches of 16 MB, Python": [("Arrow batches of 16 MB", "bytes_per_second", 1e9, "GB/s")],
    "Arrow batches of 1 MB built in place, Python": [
        ("Arrow batches of 1 MB, filled and read in place by NumPy", "per_second", 1e3, "k/s")
    ],
    "Arrow batches of 1 MB handed over, Python": [
        ("the same, one value of each column", "per_second", 1e3, "k/s")
    ],
}


def number(value: float) -> str:
    """Three digits, without an exponent."""
    if value < 1e-3:
        return f"{value:.5f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def pair_rows(results: dict[str, Any]) -> list[list[str]]:
    """One line per figure, of the state of the machine in which most of its runs were."""
    lines = []
    for title, rows in ROWS.items():
        records = results.get(title, [])
        states = [record["state"] for record in records if record["peer"] == "lwmq"]
        if not states:
            continue
        state = statistics.mode(states)
        for name, key, factor, unit in rows:
            values: dict[str, list[float]] = {}
            for record in records:
                if record["state"] == state and key in record:
                    values.setdefault(record["peer"], []).append(record[key] / factor)
            middle = {peer: statistics.median(found) for peer, found in values.items()}
            rivals = ", ".join(
                f"{peer} {number(value)}" for peer, value in middle.items() if peer not in ("floor", "lwmq")
            )
            floor = number(middle["floor"]) if "floor" in middle else "–"
            lines.append([name, unit, f"**{number(middle['lwmq'])}**", floor, rivals, state])
    return lines


def spark_rows(results: dict[str, Any]) -> list[list[str]]:
    """One line per figure: GB/s of Arrow bytes, or seconds where nothing is moved."""
    lines = []
    for kind, figures in results.get("spark", {}).items():
        moved = all("bytes_per_second" in figure for figure in figures.values())
        rates = {
            name: figure["bytes_per_second"] / 1e9 if moved else figure["seconds"]
            for name, figure in figures.items()
        }
        floor = next(name for name in rates if name.startswith("floor"))
        rivals = ", ".join(f"{name} {number(r)}" for name, r in rates.items() if name not in (floor, "lwmq"))
        rows = next(iter(figures.values())).get("rows")
        name = f"Spark {kind}" + (f", {rows / 1e6:.0f} M rows" if rows else "")
        limit = f"{number(rates[floor])} ({floor.removeprefix('floor: ')})"
        unit = "GB/s" if moved else "s"
        lines.append([name, unit, f"**{number(rates['lwmq'])}**", limit, rivals, results["spark state"]])
    return lines


def main(path: Path) -> None:
    results = json.loads(path.read_text(encoding="utf-8"))
    machine = results["machine"]
    hardware = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    print(f"{hardware}, Linux {machine['kernel']}, Python {machine['python']}, load {machine['load']:.1f}.\n")
    for rival, what in results.get("missing", {}).items():
        print(f"Without {rival}: {what} was not installed.\n")
    print("| figure | unit | lwmq | floor | rivals | cores |\n|---|---|---:|---:|---|---|")
    for line in pair_rows(results) + spark_rows(results):
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
