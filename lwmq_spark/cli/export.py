"""`lwmq export`: what `lwmq top` knows, in the text format of Prometheus."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from threading import Lock
from typing import Annotated, Any

import typer

from lwmq_spark.cli._output import JsonOption, emit, problems
from lwmq_spark.observer import GROWING, LATENCY_BOUNDS_S, Observer, Process

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Counters beside those that make rates in `lwmq top`.
_COUNTERS = {
    *GROWING, "messages_lost", "messages_discarded", "messages_replaced", "duplicates_dropped",
    "readers_expelled", "clients_refused", "batches_written", "batches_read", "bytes_written", "bytes_read",
    "bytes_copied", "batches_copied", "peers_lost",
}  # fmt: skip
_NO_FIGURES = {"peer_pid", "stalled_pid", "priority"}  # labels of what they tell, or nothing to add up
_LATENCY = "lwmq_latency_seconds"
_HELP = {
    "info": "A process that uses lwmq: its program, user and library; always 1.",
    "unlisted": "Streams and channels of the process that found no place on its page.",
    "state": "What it does, as a label; always 1.",
    "state_seconds": "For how long it has been in that state.",
    "partitions": "Partitions of the stream.",
    "batches": "Batches written, read or served.",
    "rows": "Rows of those batches.",
    "bytes": "Bytes of those batches.",
    "window_bytes": "Shared memory for batches that are not yet released.",
    "window_used_bytes": "Shared memory that such batches take now.",
    "mapped_bytes": "Shared memory of others that the process has mapped.",
    "unread_batches": "Batches that some reader has still to read.",
    "kept_batches": "Batches that the endpoint keeps.",
    "kept_bytes": "Bytes of the batches that the endpoint keeps.",
    "leased_batches": "Batches that the reader holds.",
    "leased_bytes": "Bytes of the batches that the reader holds.",
    "readers": "Readers at the endpoint.",
    "writers": "Writers at the endpoint.",
    "readers_stalled": "Readers that others wait for.",
    "readers_expelled": "Readers that were shut out.",
    "messages_posted": "Messages that the application posted.",
    "messages_sent": "Messages shipped to the peer.",
    "messages_received": "Messages that came from the peer.",
    "messages_queued": "Messages that wait to be shipped.",
    "receive_queued": "Messages that wait to be received.",
    "messages_lost": "Messages shipped and not seen read when a peer was lost.",
    "messages_discarded": "Messages discarded by the rule of a bounded queue.",
    "messages_replaced": "Messages replaced by a later one with the same tag.",
    "duplicates_dropped": "Messages that had come before over another of redundant transports.",
    "clients_accepted": "Clients that were given a channel.",
    "clients_waiting": "Clients that wait to be accepted.",
    "clients_refused": "Clients that were refused.",
    "bytes_sent": "Bytes shipped to the peer.",
    "bytes_received": "Bytes that came from the peer.",
    "batches_written": "Batches that the process has written.",
    "batches_read": "Batches that the process has read.",
    "bytes_written": "Bytes of the batches that the process has written.",
    "bytes_read": "Bytes of the batches that the process has read.",
    "bytes_copied": "Bytes of batches that had to be copied.",
    "batches_copied": "Batches that had to be copied.",
    "peers_lost": "Peers that died, vanished or did not answer.",
}

Sample = tuple[str, dict[str, str], float]


def run(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: any. Default: print once.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on, with --port.")] = "127.0.0.1",
    json: JsonOption = False,
) -> None:
    """Print the figures of every stream, channel and queue of this host for Prometheus, or serve them.

    Nobody is asked: each scrape reads the counters that every process keeps anyway. It shows your own
    processes, as root everybody's. Latencies are there of channels and streams that measure them: with the
    filter `latency` at both ends, such as latency+ipc://orders, or latency=100+ipc://orders for each 100th.
    Arguments of programs are no part of it: lwmq_process_info has the program's name. What has one address
    and name in one process has a label `number` from the second on, which no other one gets. With --json the
    processes are printed as `lwmq top --json` prints them, without rates.

    \b
    Examples:
      lwmq export
      lwmq export --port 9464
      lwmq export --json
    """
    if json and port is not None:
        raise typer.BadParameter("--port serves the text format of Prometheus: leave out --json")
    observer = Observer()
    if json:
        emit(time=datetime.now(UTC).isoformat(), processes=[process.as_json() for process in observer.look()])
    elif port is None:
        sys.stdout.write(exposition(observer.look()))
    else:
        try:
            server = _Server((host, port), _handler(observer))
        except OSError as problem:
            raise OSError(f"cannot listen on {host}, port {port}: {problem.strerror or problem}") from None
        with server:
            problems.print(f"metrics at http://{host}:{server.server_address[1]}/metrics")
            server.serve_forever()


def exposition(processes: list[Process]) -> str:
    """All figures: one block for each name, with its type, as the format wants them."""
    families: dict[str, list[Sample]] = {}
    for name, labels, value in _samples(processes):
        families.setdefault(name, []).append((name, labels, value))
    lines: list[str] = []
    for name, samples in sorted(families.items()):
        lines.append(f"# HELP {name} {_help_of(name)}")
        lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines += [f"{name}{{{_labels(labels)}}} {value:.17g}" for _, labels, value in samples]
    lines += _latency_lines(processes)
    return "\n".join(lines) + "\n" if lines else ""


def _latency_lines(processes: list[Process]) -> Iterator[str]:
    """One histogram for each filter that has timed something, its buckets in the order of their ends."""
    if any(process.latencies for process in processes):
        yield f"# HELP {_LATENCY} From show to landing, of extents that a filter has timed where they landed."
        yield f"# TYPE {_LATENCY} histogram"
    for process in processes:
        for times in process.latencies:
            labels = _labels(_who(process) | _what(times.address, times.filter, times.number))
            ends = [*map(repr, LATENCY_BOUNDS_S), "+Inf"]
            for end, count in zip(ends, accumulate(times.counts), strict=True):
                yield f'{_LATENCY}_bucket{{{labels},le="{end}"}} {count}'
            yield f"{_LATENCY}_sum{{{labels}}} {times.seconds:.17g}"
            yield f"{_LATENCY}_count{{{labels}}} {sum(times.counts)}"


def _samples(processes: list[Process]) -> Iterator[Sample]:
    for process in processes:
        who = _who(process)
        about = {"program": process.program, "uid": str(process.uid), "library": process.library}
        yield "lwmq_process_info", who | about, 1.0
        if not process.known:
            continue
        yield "lwmq_process_unlisted", who, float(process.unlisted)
        for name, value in process.figures.items():
            yield _metric("process", name), who, float(value)
        for entry in process.entries:
            labels = who | _what(entry.address, entry.name, entry.number)
            if entry.role == "queue":
                labels["priority"] = str(entry.figures["priority"])
            yield f"lwmq_{entry.role}_state", {**labels, "state": entry.state}, 1.0
            if entry.state_seconds is not None:
                yield f"lwmq_{entry.role}_state_seconds", labels, entry.state_seconds
            for name, value in entry.figures.items():
                if name not in _NO_FIGURES:
                    yield _metric(entry.role, name), labels, float(value)


def _who(process: Process) -> dict[str, str]:
    return {"pid": str(process.pid)}


def _what(address: str, name: str, number: int) -> dict[str, str]:
    labels = {"address": address, "name": name}
    return labels if number == 1 else labels | {"number": str(number)}


def _help_of(metric: str) -> str:
    """The text of a metric, by what is behind `lwmq_` and the role."""
    figure = metric.removesuffix("_total").split("_", 2)[2]
    return _HELP.get(figure, f"{figure.replace('_', ' ')}.")


def _metric(role: str, name: str) -> str:
    return f"lwmq_{role}_{name}{'_total' if name in _COUNTERS else ''}"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that hangs up is no news either."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


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
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Scrapes are no news."""

    return Handler
