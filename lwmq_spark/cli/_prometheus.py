"""The figures of all processes in the text format of Prometheus.

This is a module of its own because prometheus_client takes long to load and `lwmq --help` does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from threading import Lock

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from lwmq_spark.cli._output import problems
from lwmq_spark.observer import COUNTERS, LATENCY_BOUNDS_S, CounterKind, Observer, Process

_LATENCY = "lwmq_latency_seconds"
_ENDS = {"counter": "_total", "info": "_info", "gauge": ""}
_HELP = {
    "info": "A process that uses lwmq: its program, user and library; always 1.",
    "unlisted": "Streams and channels of the process that found no place on its page.",
    "state": "What it does, as a label; always 1.",
    "state_seconds": "For how long it has been in that state.",
}

Figure = tuple[str, str, str, dict[str, str], float]  # kind, family, help, labels, value


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
        for kind, name, help, labels, value in _figures(processes):
            if name not in families:
                families[name] = Metric(name, help, kind)
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
        yield "info", "lwmq_process", _HELP["info"], who | about, 1
        if not process.known:
            continue
        yield "gauge", "lwmq_process_unlisted", _HELP["unlisted"], who, process.unlisted
        yield from _counted("process", process.figures, who)
        for entry in process.entries:
            family = f"lwmq_{entry.role}_"
            labels = who | _what(entry.address, entry.name, entry.number)
            if entry.role == "queue":
                labels["priority"] = str(entry.figures["priority"])
            yield "gauge", f"{family}state", _HELP["state"], {**labels, "state": entry.state}, 1
            if entry.state_seconds is not None:
                yield "gauge", f"{family}state_seconds", _HELP["state_seconds"], labels, entry.state_seconds
            yield from _counted(entry.role, entry.figures, labels)


def _counted(owner: str, figures: dict[str, int], labels: dict[str, str]) -> Iterator[Figure]:
    """Numbers that identify something are left out: they are labels, or make no sense in a sum."""
    for name, value in figures.items():
        counter = COUNTERS[owner, name]
        if counter.kind is not CounterKind.NUMBER:
            kind = "gauge" if counter.kind is CounterKind.LEVEL else "counter"
            yield kind, f"lwmq_{owner}_{name}", counter.help, labels, value


def _who(process: Process) -> dict[str, str]:
    return {"pid": str(process.pid)}


def _what(address: str, name: str, number: int) -> dict[str, str]:
    labels = {"address": address, "name": name}
    return labels if number == 1 else labels | {"number": str(number)}
