"""Runs the benchmarks: `python -m tests.bench --help`."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import machine
from tests.bench.arrow_peers import PEERS as ARROW_PEERS

console = Console(width=120)

# (title, metric of native_bench, message bytes, peers): the first one is the floor, the second ours.
NATIVE = [
    ("one-way latency, 64 B", "latency", 64, ["floor", "lwmq", "zmq", "uds", "mq"]),
    ("messages per second, 64 B", "rate", 64, ["floor", "lwmq", "zmq", "uds", "mq"]),
    ("buffers of 1 MB", "rate", 1 << 20, ["floor", "lwmq", "zmq", "uds"]),
]
ARROW = [("Arrow batches of 1 MB, Python", 1 << 20), ("Arrow batches of 16 MB, Python", 16 << 20)]

Record = dict[str, Any]


def measured(peer: str, run: Any) -> Record | None:
    """One run between two looks at the machine; None where they do not agree."""
    before, ns = machine.state()
    found = run()
    after, _ = machine.state()
    return {"peer": peer, "state": before, "probe_ns": ns, **found} if before == after else None


def interleaved(title: str, rounds: int, runs: dict[str, Any]) -> list[Record]:
    """All peers in each round, so that whatever the machine does meets all of them."""
    records = []
    for number in range(rounds):
        for peer, run in runs.items():
            if console.is_terminal:
                console.print(f"[dim]{title}: round {number + 1} of {rounds}, {peer}[/dim]", end="   \r")
            for _ in range(3):
                if (record := measured(peer, run)) is not None:
                    records.append({"round": number, **record})
                    break
    return records


def arrow_run(peer: str, size: int, seconds: float) -> Record:
    """A pair of Python processes; the receiver's figures."""
    cores, address = machine.two_cores(), f"lwmq-bench-{os.getpid()}-{time.monotonic_ns()}"

    def start(role: str, core: int) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "tests.bench.arrow_peers",
            peer,
            role,
            str(size),
            str(seconds),
            address,
            str(core),
        ]
        return subprocess.Popen(
            command, env=machine.environment(), cwd=machine.ROOT, text=True, stdout=subprocess.PIPE
        )

    receiving, sending = start("receive", cores.serving), start("send", cores.asking)
    try:
        output, _ = receiving.communicate(timeout=machine.PATIENCE_S)
        sending.wait(machine.PATIENCE_S)
    finally:
        for process in (receiving, sending):
            process.kill()
            process.communicate()
    if receiving.returncode != 0 or sending.returncode != 0:
        raise RuntimeError(f"{peer}: ended with {receiving.returncode} and {sending.returncode}")
    found: Record = json.loads(output)
    return found


def show(title: str, records: list[Record], key: str, unit: str, factor: float, best: Any) -> None:
    """A table per state of the machine: median of the rounds, and its ratio to the floor's."""
    for state in dict.fromkeys(record["state"] for record in records):
        table = Table(title=f"{title} ({state})", header_style="bold", title_justify="left")
        for column in ("", unit, "to the floor", "runs"):
            table.add_column(column, justify="left" if not column else "right")
        found: dict[str, list[float]] = {}
        for record in records:
            if record["state"] == state:
                found.setdefault(record["peer"], []).append(record[key])
        floor = statistics.median(found["floor"]) if "floor" in found else None
        for peer, values in found.items():
            middle = statistics.median(values)
            ratio = f"{middle / floor:.3g}" if floor else ""
            table.add_row(peer, f"{middle / factor:,.4g}", ratio, str(len(values)))
        console.print(table)


def keep(results: Record) -> None:
    """Writes what there is so far."""
    path = machine.ROOT / results["file"]
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--only", choices=["native", "arrow", "spark"], help="a part of it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each run")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the Spark figures")
    arguments = parser.parse_args()
    machine.build()
    file = machine.BUILD.relative_to(machine.ROOT) / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    results: Record = {"file": str(file), "machine": machine.description(), "rows": arguments.rows}

    if arguments.only in (None, "native"):
        for title, metric, size, peers in NATIVE:
            runs = {
                peer: lambda peer=peer, metric=metric, size=size: machine.native(
                    peer, metric, size, arguments.seconds
                )
                for peer in peers
            }
            records = results[title] = interleaved(title, arguments.rounds, runs)
            keep(results)
            if metric == "latency":
                for key in ("p50_ns", "p99_ns", "p999_ns"):
                    show(f"{title}, {key[:-3]}", records, key, "ns", 1, min)
            elif size < 4096:
                show(title, records, "per_second", "million/s", 1e6, max)
            else:
                show(title, records, "bytes_per_second", "GB/s", 1e9, max)

    if arguments.only in (None, "arrow"):
        for title, size in ARROW:
            runs = {"floor": lambda size=size: machine.native("floor", "rate", size, arguments.seconds)}
            for peer in ARROW_PEERS:
                runs[peer] = lambda peer=peer, size=size: arrow_run(peer, size, 2 * arguments.seconds)
            records = results[title] = interleaved(title, arguments.rounds, runs)
            keep(results)
            show(title, records, "bytes_per_second", "GB/s", 1e9, max)

    if arguments.only in (None, "spark"):
        before, _ = machine.state()
        command = [sys.executable, "-m", "tests.bench.spark_figures", str(arguments.rows)]
        output = subprocess.run(
            command,
            check=True,
            env=machine.environment(),
            cwd=machine.ROOT,
            text=True,
            stdout=subprocess.PIPE,
        ).stdout
        found = results["spark"] = json.loads(output.splitlines()[-1])
        after, _ = machine.state()
        state = results["spark state"] = before if before == after else f"{before}, then {after}"
        for kind, figures in found.items():
            table = Table(title=f"Spark {kind}, local[2] ({state})", title_justify="left")
            for column in ("", "s", "million rows/s", "GB/s", "to the floor"):
                table.add_column(column, justify="left" if not column else "right")
            floor = next(iter(figures.values()))["seconds"]
            for name, figure in figures.items():
                rates = [figure.get("rows_per_second", 0.0) / 1e6, figure.get("bytes_per_second", 0.0) / 1e9]
                cells = [figure["seconds"], *rates, floor / figure["seconds"]]
                table.add_row(name, *(f"{value:,.3g}" if value else "" for value in cells))
            console.print(table)

        keep(results)
    console.print(
        f"all of it: {results['file']}; as a table: python -m tests.bench.summary {results['file']}"
    )


if __name__ == "__main__":
    main()
