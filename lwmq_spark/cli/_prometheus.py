"""The figures of all processes as Prometheus wants them; apart from the verb, which is quick to load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from threading import Lock

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from lwmq_spark.cli._output import problems
from lwmq_spark.observer import GROWING, LATENCY_BOUNDS_S, Observer, Process

# Counters beside those that make rates in `lwmq top`.
_COUNTERS = {
    *GROWING, "messages_lost", "messages_discarded", "messages_replaced", "duplicates_dropped",
    "readers_expelled", "clients_refused", "batches_written", "batches_read", "bytes_written", "bytes_read",
    "bytes_copied", "batches_copied", "peers_lost",
}  # fmt: skip
_NO_FIGURES = {"peer_pid", "stalled_pid", "priority"}  # labels of what they tell, or nothing to add up
_LATENCY = "lwmq_latency_seconds"
_ENDS = {"counter": "_total", "info": "_info", "gauge": ""}
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

Figure = tuple[str, str, str, dict[str, str], float]  # kind, family, what it counts, labels, value


def exposition(observer: Observer) -> str:
    """All figures, after one look."""
    return generate_latest(_Looks(observer)).decode()


def serve(observer: Observer, host: str, port: int) -> None:
    """Until it is interrupted; each scrape is a look. OSError: it cannot listen there."""
    registry = CollectorRegistry()
    registry.register(_Looks(observer))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as problem:
        raise OSError(f"cannot listen on {host}, port {port}: {problem.strerror or problem}") from None
    # A scraper that hangs up is no news. What fails while it is served is told without this.
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    named = f"[{host}]" if ":" in host else host
    problems.print(f"metrics at http://{named}:{server.server_port}/metrics")
    thread.join()


class _Looks(Collector):
    """The figures of all processes, fresh each time. Threads take turns, as the observer wants it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._lock = Lock()

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            processes = self._observer.look()
        families: dict[str, Metric] = {}
        for kind, name, what, labels, value in _figures(processes):
            if name not in families:
                families[name] = Metric(name, _HELP.get(what, f"{what.replace('_', ' ')}."), kind)
            families[name].add_sample(name + _ENDS[kind], labels, value)
        yield from (families[name] for name in sorted(families))
        if any(process.latencies for process in processes):
            yield _latencies(processes)


def _latencies(processes: list[Process]) -> Metric:
    """One histogram for each filter that has timed something."""
    found = Metric(
        _LATENCY, "From show to landing, of extents that a filter timed where they landed.", "histogram"
    )
    for process in processes:
        for times in process.latencies:
            labels = _who(process) | _what(times.address, times.filter, times.number)
            ends = [*map(repr, LATENCY_BOUNDS_S), "+Inf"]
            for end, count in zip(ends, accumulate(times.counts), strict=True):
                found.add_sample(f"{_LATENCY}_bucket", labels | {"le": end}, count)
            found.add_sample(f"{_LATENCY}_sum", labels, times.seconds)
            found.add_sample(f"{_LATENCY}_count", labels, sum(times.counts))
    return found


def _figures(processes: list[Process]) -> Iterator[Figure]:
    for process in processes:
        who = _who(process)
        about = {"program": process.program, "uid": str(process.uid), "library": process.library}
        yield "info", "lwmq_process", "info", who | about, 1
        if not process.known:
            continue
        yield "gauge", "lwmq_process_unlisted", "unlisted", who, process.unlisted
        for name, value in process.figures.items():
            yield _kind(name), f"lwmq_process_{name}", name, who, value
        for entry in process.entries:
            family = f"lwmq_{entry.role}_"
            labels = who | _what(entry.address, entry.name, entry.number)
            if entry.role == "queue":
                labels["priority"] = str(entry.figures["priority"])
            yield "gauge", f"{family}state", "state", {**labels, "state": entry.state}, 1
            if entry.state_seconds is not None:
                yield "gauge", f"{family}state_seconds", "state_seconds", labels, entry.state_seconds
            for name, value in entry.figures.items():
                if name not in _NO_FIGURES:
                    yield _kind(name), family + name, name, labels, value


def _kind(name: str) -> str:
    return "counter" if name in _COUNTERS else "gauge"


def _who(process: Process) -> dict[str, str]:
    return {"pid": str(process.pid)}


def _what(address: str, name: str, number: int) -> dict[str, str]:
    labels = {"address": address, "name": name}
    return labels if number == 1 else labels | {"number": str(number)}
