"""What the processes of this host do with lwmq: their statistics pages, read without their help."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any

from lwmq_spark._ffi import CallLock, check, ffi, lib, sized

STALL_S = 5.0  # a reader that keeps a writer waiting for so long is stalled
ROLES = {
    lib.LWMQ_ENTRY_WRITER: "writer",
    lib.LWMQ_ENTRY_READER: "reader",
    lib.LWMQ_ENTRY_ENDPOINT: "endpoint",
    lib.LWMQ_ENTRY_CHANNEL: "channel",
    lib.LWMQ_ENTRY_QUEUE: "queue",
    lib.LWMQ_ENTRY_LISTENER: "listener",
}
STREAM_ROLES = ("writer", "reader", "endpoint")
LATENCY_BOUNDS_S = [(64 << step) / 1e9 for step in range(31)]
_HELD, _ENDED = "closed, batches held", "ended, waits to be read"


class CounterKind(Enum):
    """What the number of a counter is."""

    FLOW = lib.LWMQ_COUNTER_FLOW  # a total whose rate is of interest
    TOTAL = lib.LWMQ_COUNTER_TOTAL  # a total that should stay small
    LEVEL = lib.LWMQ_COUNTER_LEVEL  # an amount as of now
    NUMBER = lib.LWMQ_COUNTER_NUMBER  # identifies something; adding it up makes no sense


@dataclass(frozen=True)
class Described:
    """A counter, as lwmq.h describes it. `owners`: "process", or the roles of the entries that have it."""

    name: str
    help: str
    kind: CounterKind
    owners: frozenset[str]


def _described() -> Iterator[Described]:
    raw = sized("lwmq_counter")
    owners = {0: "process", **ROLES}
    for index in count():
        status = lib.lwmq_counter_at(index, raw)
        if status == lib.LWMQ_E_EMPTY:
            return
        check(status)
        yield Described(
            name=_text(raw.name),
            help=_text(raw.help),
            kind=CounterKind(raw.type),
            owners=frozenset(owner for bit, owner in owners.items() if raw.owners >> bit & 1),
        )


def _text(raw: Any) -> str:
    return str(ffi.string(raw).decode("utf-8", "replace"))


# By owner and name, in the order of lwmq.h.
COUNTERS = {(owner, counter.name): counter for counter in _described() for owner in counter.owners}
_NAMES = {role: [name for owner, name in COUNTERS if owner == role] for role in ("process", *ROLES.values())}


@dataclass
class Entry:
    """One writer, reader, endpoint, channel, queue or listener of a process.

    Of a channel that a listener gave, the name is the number of its client; its queues are `client.queue`.
    """

    role: str
    address: str
    name: str
    opened_ns: int
    state: str
    state_seconds: float | None  # for how long; None where nobody can say
    figures: dict[str, int]
    rates: dict[str, float] = field(default_factory=dict)  # per second, since the look before
    unmoved_seconds: float | None = None  # since its last batch
    number: int = 1  # among those of its role, address and name that the process has open
    serves: bool = False  # has bound its address
    waits_for: list[int] = field(default_factory=list)  # processes that can end its wait, where that is known

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.role, self.address, self.name, self.opened_ns

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"role": self.role, "address": self.address, "name": self.name}
        found |= {"number": self.number}
        found |= {"state": self.state, "state_seconds": self.state_seconds}
        if self.role in STREAM_ROLES:
            found |= {"waits_for": self.waits_for}
        return found | self.figures | {f"{name}_per_second": rate for name, rate in self.rates.items()}


@dataclass
class Latencies:
    """How long extents were on their way to a channel or a stream, as one of its filters has timed."""

    address: str
    filter: str
    opened_ns: int
    seconds: float  # all together
    counts: list[int]  # as LATENCY_BOUNDS_S, and the longer ones
    number: int = 1  # as of an entry

    @property
    def key(self) -> tuple[str, str, str, int]:
        return "latency", self.address, self.filter, self.opened_ns


@dataclass
class Process:
    """A process that uses lwmq."""

    pid: int
    uid: int
    command: str
    known: bool
    page_version: int
    library: str
    unlisted: int
    figures: dict[str, int]
    entries: list[Entry]
    latencies: list[Latencies]

    @property
    def program(self) -> str:
        """The last part of its path, without arguments."""
        return self.command.partition(" ")[0].rpartition("/")[2]

    def as_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "uid": self.uid,
            "command": self.command,
            "known": self.known,
            "page_version": self.page_version,
            "library": self.library,
            "unlisted": self.unlisted,
            **self.figures,
            "streams": [e.as_json() for e in self.entries if e.role in STREAM_ROLES],
            "channels": [e.as_json() for e in self.entries if e.role == "channel"],
            "queues": [e.as_json() for e in self.entries if e.role == "queue"],
            "listeners": [e.as_json() for e in self.entries if e.role == "listener"],
        }


class _Numbers:
    """Tells apart what is alike in one process: each keeps its number, a new one gets the lowest free one."""

    def __init__(self) -> None:
        self._open: dict[tuple[tuple[str, str, str, int], int], int] = {}

    def give(self, found: Iterable[Entry | Latencies]) -> None:
        twins: Counter[tuple[str, str, str, int]] = Counter()  # opened in the same nanosecond
        known: list[tuple[tuple[tuple[str, str, str, int], int], Entry | Latencies]] = []
        for one in sorted(found, key=lambda one: one.opened_ns):
            known.append(((one.key, twins[one.key]), one))
            twins[one.key] += 1
        still = {this: self._open[this] for this, _ in known if this in self._open}
        taken = {(this[0][:3], number) for this, number in still.items()}
        for this, one in known:
            if this not in still:
                alike = this[0][:3]
                still[this] = next(n for n in count(1) if (alike, n) not in taken)
                taken.add((alike, still[this]))
            one.number = still[this]
        self._open = still


class Observer:
    """Looks again and again; rates are those between two looks, and numbers are kept from look to look.
    Threads take turns."""

    def __init__(self) -> None:
        made = ffi.new("lwmq_observer **")
        check(lib.lwmq_observer_create(made))
        self._pointer = ffi.gc(made[0], lib.lwmq_observer_destroy)
        self._lock = CallLock()
        self._before: dict[tuple[int, tuple[str, str, str, int]], dict[str, int]] = {}
        self._numbers: dict[int, _Numbers] = {}
        self._looked_at = 0.0

    def look(self) -> list[Process]:
        """Everybody, in the order of pids."""
        with self._lock:
            return self._look()

    def _look(self) -> list[Process]:
        count = ffi.new("uint64_t *")
        check(lib.lwmq_observer_look(self._pointer, count))
        now = time.monotonic()
        processes = [self._process(number) for number in range(count[0])]
        seconds = now - self._looked_at if self._looked_at else 0.0
        seen = {(p.pid, entry.key): entry for p in processes for entry in p.entries}
        for key, entry in seen.items():
            before = self._before.get(key)
            if before is not None and seconds > 0:
                entry.rates = {
                    name: (figure - before[name]) / seconds
                    for name, figure in entry.figures.items()
                    if COUNTERS[entry.role, name].kind is CounterKind.FLOW
                }
        self._before = {key: entry.figures for key, entry in seen.items()}
        self._looked_at = now
        self._numbers = {p.pid: self._numbers.get(p.pid, _Numbers()) for p in processes}
        for process in processes:
            self._numbers[process.pid].give([*process.entries, *process.latencies])
        _name_the_stalled(processes)
        _find_whom_they_wait_for(processes)
        return processes

    def _process(self, number: int) -> Process:
        raw = sized("lwmq_process_view")
        check(lib.lwmq_observer_process(self._pointer, number, raw))
        entries: list[Entry] = []
        latencies: list[Latencies] = []
        for one in self._views(number, raw.entry_count):
            if one.kind == lib.LWMQ_ENTRY_LATENCY:
                if not one.flags & lib.LWMQ_ENTRY_CLOSED:
                    latencies.append(_latencies(one))
            elif one.kind in ROLES:  # else of a later version, or nonsense
                entries.append(_entry(one))
        return Process(
            pid=raw.pid,
            uid=raw.uid,
            command=_command(raw.pid),
            known=bool(raw.known),
            page_version=raw.page_version,
            library=_text(raw.library),
            unlisted=raw.unlisted,
            entries=entries,
            latencies=latencies,
            figures=_figures("process", raw),
        )

    def _views(self, number: int, count: int) -> Iterator[Any]:
        for index in range(count):
            raw = sized("lwmq_entry_view")
            check(lib.lwmq_observer_entry(self._pointer, number, index, raw))
            yield raw


def _entry(raw: Any) -> Entry:
    role = ROLES[raw.kind]
    state, seconds = _state(role, raw)
    return Entry(
        role=role,
        address=_text(raw.address),
        name=_text(raw.name),
        opened_ns=int(raw.opened_ns),
        state=state,
        state_seconds=seconds,
        figures=_figures(role, raw),
        unmoved_seconds=raw.unmoved_ns / 1e9 if raw.unmoved_ns else None,
        serves=role in ("endpoint", "listener") or bool(raw.flags & lib.LWMQ_ENTRY_SERVER),
    )


def _figures(owner: str, raw: Any) -> dict[str, int]:
    return {name: int(getattr(raw, name)) for name in _NAMES[owner]}


def _latencies(raw: Any) -> Latencies:
    return Latencies(
        address=_text(raw.address),
        filter=_text(raw.name),
        opened_ns=int(raw.opened_ns),
        seconds=raw.took_ns / 1e9,
        counts=list(raw.took),
    )


def _state(role: str, raw: Any) -> tuple[str, float | None]:
    """What it does, and since when. A reader that keeps others waiting is found later, beside them."""
    waiting = raw.waiting_ns / 1e9
    if role == "queue":
        return ("messages wait" if raw.messages_queued else "empty"), None
    if role == "channel":
        if raw.flags & lib.LWMQ_ENTRY_CONNECTED:
            return "connected", None
        return ("listening" if raw.flags & lib.LWMQ_ENTRY_SERVER else "not connected"), None
    if role == "listener":
        return "listening", None
    if role == "endpoint":
        return ("serving" if raw.partitions else "no stream yet"), None
    if raw.flags & lib.LWMQ_ENTRY_CLOSED:
        return (_HELD if role == "reader" else _ENDED), None
    if raw.flags & lib.LWMQ_ENTRY_STALLED:
        return "endpoint stalled", raw.waiting_ns / 1e9 if raw.waiting_ns else None
    if raw.waiting_ns:
        return ("waiting for room" if role == "writer" else "waiting for batches"), waiting
    if raw.unmoved_ns == 0:
        return "nothing yet", None
    return ("writing" if role == "writer" else "reading"), raw.unmoved_ns / 1e9


def _name_the_stalled(processes: list[Process]) -> None:
    """Readers that have not asked for a batch for a while, and that a writer here waits for; and those that
    an endpoint names.
    """
    entries = [entry for process in processes for entry in process.entries]
    kept_waiting = {
        entry.address
        for entry in entries
        if entry.state == "waiting for room" and (entry.state_seconds or 0.0) >= STALL_S
    }
    named = {(e.address, e.figures["stalled_pid"]) for e in entries if e.figures.get("stalled_pid")}
    for process in processes:
        for entry in process.entries:
            if entry.role == "reader" and (entry.address, process.pid) in named:
                entry.state = "stalled"
    for entry in entries:
        slow = entry.state == "reading" and (entry.unmoved_seconds or 0.0) >= STALL_S
        if slow and entry.address in kept_waiting:
            entry.state = "stalled"


def _find_whom_they_wait_for(processes: list[Process]) -> None:
    """A writer that waits for room names the holder itself. All others wait for whom their address has."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for process in processes:
        for entry in process.entries:
            if entry.state not in (_HELD, _ENDED):
                found[entry.address, entry.role].append(process.pid)
    awaited = {"waiting for batches": "writer", _ENDED: "reader", "endpoint stalled": "endpoint"}
    for process in processes:
        for entry in process.entries:
            if entry.state == "waiting for room":
                entry.waits_for = [pid for pid in (entry.figures["peer_pid"],) if pid]
            elif entry.state in awaited:
                entry.waits_for = sorted(set(found[entry.address, awaited[entry.state]]))


def _command(pid: int) -> str:
    """How it was started; empty when it is gone, or where we may not know."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    text = line.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)
