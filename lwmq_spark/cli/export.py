"""`lwmq export`: what `lwmq top` knows, in the text format of Prometheus."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Annotated

import typer

from lwmq_spark.cli._observer import GROWING, Observer, Process
from lwmq_spark.cli._output import problems

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Counters beside those that make rates in `lwmq top`.
_COUNTERS = {
    *GROWING, "messages_lost", "messages_discarded", "readers_expelled", "batches_written", "batches_read",
    "bytes_written", "bytes_read", "bytes_copied", "batches_copied", "peers_lost",
}  # fmt: skip
_NO_FIGURES = {"peer_pid", "stalled_pid", "priority"}  # labels of what they tell, or nothing to add up

Sample = tuple[str, dict[str, str], float]


def run(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: any. Default: print once.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on, with --port.")] = "127.0.0.1",
) -> None:
    """Print the figures of every stream, channel and queue of this host for Prometheus, or serve them.

    Nobody is asked: each scrape reads the counters that every process keeps anyway. It shows your own
    processes, as root everybody's.

    \b
    Examples:
      lwmq export
      lwmq export --port 9464
    """
    observer = Observer()
    if port is None:
        sys.stdout.write(exposition(observer.look()))
        return
    with ThreadingHTTPServer((host, port), _handler(observer)) as server:
        problems.print(f"metrics at http://{host}:{server.server_address[1]}/metrics", markup=False)
        server.serve_forever()


def exposition(processes: list[Process]) -> str:
    """All figures: one block for each name, with its type, as the format wants them."""
    families: dict[str, list[Sample]] = {}
    for name, labels, value in _samples(processes):
        families.setdefault(name, []).append((name, labels, value))
    lines: list[str] = []
    for name, samples in sorted(families.items()):
        lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines += [f"{name}{{{_labels(labels)}}} {value:.17g}" for _, labels, value in samples]
    return "\n".join(lines) + "\n" if lines else ""


def _samples(processes: list[Process]) -> Iterator[Sample]:
    for process in processes:
        who = {"pid": str(process.pid), "command": process.command}
        yield "lwmq_process_info", {**who, "uid": str(process.uid), "library": process.library}, 1.0
        if not process.known:
            continue
        yield "lwmq_process_unlisted", who, float(process.unlisted)
        for name, value in process.figures.items():
            yield _metric("process", name), who, float(value)
        for entry in process.entries:
            labels = {**who, "address": entry.address, "name": entry.name, "opened_ns": str(entry.opened_ns)}
            if entry.role == "queue":
                labels["priority"] = str(entry.figures["priority"])
            yield f"lwmq_{entry.role}_state", {**labels, "state": entry.state}, 1.0
            if entry.state_seconds is not None:
                yield f"lwmq_{entry.role}_state_seconds", labels, entry.state_seconds
            for name, value in entry.figures.items():
                if name not in _NO_FIGURES:
                    yield _metric(entry.role, name), labels, float(value)


def _metric(role: str, name: str) -> str:
    return f"lwmq_{role}_{name}{'_total' if name in _COUNTERS else ''}"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _handler(observer: Observer) -> type[BaseHTTPRequestHandler]:
    looking = Lock()  # an observer is one thread's at a time

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self.send_error(404, "metrics are at /metrics")
                return
            with looking:
                body = exposition(observer.look()).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Scrapes are no news."""

    return Handler
