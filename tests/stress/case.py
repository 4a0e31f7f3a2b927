"""What a round does: drawn from a seed, and printed where the round fails."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from functools import cache

from lwmq_spark.channel import send_queue

from .players import ROOT

# Send queues in the order of their codes, and the buffers of a raw channel.
KINDS = [*send_queue.KINDS, "raw"]

# Who passes the points of a name; all others are passed by everybody.
_PLACES = {
    "endpoint": "server",
    "listener": "server",
    "connect": "client",
    "writer": "writer",
    "pool": "writer",
    "reader": "reader",
}

_JOB_POINTS = [
    *("writer.commit", "writer.commit_asked", "writer.committed", "writer.published"),
    *("endpoint.commit", "endpoint.commit_appended", "endpoint.commit_answered"),
    *("endpoint.job_appended", "endpoint.job_answered"),
    *("job.ask", "job.asked", "job.answered"),
    *("writer.close", "writer.close_asked"),
]


@dataclass
class Case:
    kind: str
    serves: str = "endpoint"  # the role that binds the address
    victim: str = "reader"
    point: str = ""  # empty: at a random time
    passing: int = 1
    after_s: float = 0.02
    writers: int = 1
    readers: int = 1
    named: bool = False  # readers have names, and the next one takes the name of the one that has gone
    policy: str = (
        ""  # towards who is stopped: `fail` or `expel`; empty: it goes on, or dies, before anybody asks
    )
    act: str = "kill"
    settings: dict[str, object] = field(default_factory=dict)
    victim_settings: dict[str, object] = field(default_factory=dict)
    planted: str = ""

    @property
    def order(self) -> dict[str, str]:
        """For the victim's environment."""
        return {"LWMQ_YIELD": f"{self.act}:{self.point}:{self.passing}"} if self.point else {}


@cache
def points() -> tuple[str, ...]:
    """The yield points of the sources."""
    named = re.compile(r'LWMQ_YIELD\("([\w.]+)"\)')
    found = [
        name
        for path in sorted((ROOT / "native" / "src").rglob("*"))
        if path.suffix in {".h", ".cc"}
        for name in named.findall(path.read_text())
    ]
    assert len(found) == len(set(found)), "two yield points have one name"
    return tuple(found)


@cache
def stream_points() -> tuple[str, ...]:
    return tuple(point for point in points() if not point.startswith(("job.", "lane.run_")))


def draw_stream_case(rng: random.Random, point: str = "") -> Case:
    serves = rng.choice(["endpoint", "writer", "reader"])
    place = _PLACES.get(point.split(".")[0], "")
    if place in ("writer", "reader"):
        victim = place
    elif place == "server":
        victim = serves
    elif place == "client":
        victim = rng.choice(["writer", "reader"])
        serves = rng.choice([role for role in ("endpoint", "writer", "reader") if role != victim])
    else:
        victim = rng.choice(["writer", "reader", serves])
    window = rng.choice([128 << 10, 256 << 10, 1 << 20])
    bytes = rng.choice([256, 4096, 16384])
    return Case(
        kind="stream",
        serves=serves,
        victim=victim,
        point=point,
        passing=rng.choice([1, 1, 1, 2, 3, 5, 8, 20, 100]),
        after_s=rng.uniform(0.0, 0.06),
        writers=rng.choice([1, 1, 2]),
        readers=rng.choice([1, 1, 2]),
        settings={
            "window": window,
            "bytes": bytes,
            "partitions": rng.choice([1, 3]),
            "pace_us": rng.choice([0, 0, 50, 500, 2000]),
            "hold": rng.choice([0, 2, 5]) if bytes * 32 <= window else 0,
            "credit": rng.choice([1, 8, 64]),
        },
        named=rng.random() < 0.5,
    )


def draw_stop_case(rng: random.Random, point: str = "") -> Case:
    case = draw_stream_case(rng, point)
    case.kind, case.act = "stop", "stop"
    return case


STALL_MS = 3000  # in place of 5,000; whoever lives on a busy machine answers within


def draw_stall_case(rng: random.Random, policy: str, point: str = "") -> Case:
    """A stop that is long enough to be noticed."""
    case = draw_stop_case(rng, point)
    case.kind, case.policy = "stall", policy
    if policy == "expel":  # one reader is stopped, the other goes on; the writers serve nobody but them
        case.serves, case.victim = "endpoint", "reader"
        case.readers = 2
        case.settings["window"] = max(
            int(str(case.settings["window"])), 64 * int(str(case.settings["bytes"]))
        )
        case.settings["pace_us"] = min(50, int(str(case.settings["pace_us"])))
        case.settings["expel_after_ms"] = STALL_MS
    else:
        case.victim = case.serves
        # A writer waits for its endpoint when its window is full: that should not take seconds.
        case.settings["pace_us"] = min(500, int(str(case.settings["pace_us"])))
    case.settings["stall_ms"] = STALL_MS
    return case


def draw_job_case(rng: random.Random, point: str | None = None) -> Case:
    point = rng.choice(_JOB_POINTS) if point is None else point
    victim = {"writer": "task", "endpoint": "endpoint", "job": "job"}.get(point.split(".")[0], "task")
    return Case(
        kind="job",
        victim=victim,
        point=point,
        passing=rng.choice([1, 1, 2, 3]),
        settings={
            "delivery": rng.choice([1, 2]),
            "window": 1 << 20,
            "bytes": rng.choice([256, 8192]),
            "count": rng.randrange(1, 30),
        },
    )


def draw_generation_case(rng: random.Random) -> Case:
    return Case(
        kind="generation",
        after_s=rng.uniform(0.0, 0.05),
        settings={"window": 256 << 10, "bytes": rng.choice([256, 4096]), "pace_us": rng.choice([0, 200])},
    )


@cache
def channel_points() -> tuple[str, ...]:
    """Those below streams."""
    return tuple(
        p for p in points() if p.split(".")[0] not in ("endpoint", "writer", "reader", "pool", "job")
    )


# Receive queues that discard the oldest, or the newest.
_BOUNDED = [{"receive_kind": kind, "receive_capacity": 50} for kind in (3, 4)]


def draw_queue_case(rng: random.Random, kind: int, victim: str = "", point: str | None = None) -> Case:
    """The `kind`-th of KINDS; on the other side of a queue one that keeps everything, or a bounded one."""
    serves = rng.choice(["poster", "taker"])
    point = rng.choice(["", *channel_points()]) if point is None else point
    place = _PLACES.get(point.split(".")[0], "")
    victim = victim or rng.choice(["poster", "taker"])
    if place:
        serves = victim if place == "server" else next(r for r in ("poster", "taker") if r != victim)
    receives = rng.choice([{}, {}, {"receive_kind": 1}, *_BOUNDED])
    together = int(rng.random() < 0.3)  # posted and lent some at a time, not one by one
    if point.startswith("lane.run_"):
        victim, together = "poster", 1
    queue = {"kind": kind, "capacity": rng.choice([1, 10, 100]), "together": together, **receives}
    if rng.random() < 0.25 and not receives:
        queue["ways"] = 2
    if KINDS[kind] == "raw":
        queue = {"raw": 1}
    return Case(
        kind="queue",
        serves=serves,
        victim=victim,
        point=point,
        passing=rng.choice([1, 1, 2, 3, 8, 50]),
        after_s=rng.uniform(0.0, 0.05),
        settings={
            "bytes": rng.choice([64, 1024, 8000]),
            "pace_us": rng.choice([0, 0, 20, 200]),
            "keeps_all": int(queue.get("kind", 0) <= 1 and "receive_capacity" not in queue),
            "home": int(rng.random() < 0.3),  # of the thread that receives
            "filters": rng.choice(["", "", "", "latency+", "delay=300us+", "filters+"]),
            **queue,
        },
    )


def draw_hub_case(rng: random.Random, kind: int, victim: str = "", point: str | None = None) -> Case:
    """Two posters with the `kind`-th of KINDS, which is a queue, at the address of a hub."""
    point = rng.choice(["", *channel_points()]) if point is None else point
    case = draw_queue_case(rng, kind, point=point)
    case.kind, case.serves = "hub", "hub"
    case.settings.pop("ways", None)  # to a listener each of them is a client
    place = {"server": "hub", "client": "poster"}.get(_PLACES.get(point.split(".")[0], ""), "")
    if point.startswith("lane.run_"):
        place = "poster"
    case.victim = victim or place or rng.choice(["poster", "hub"])
    return case


def draw(rng: random.Random, number: int) -> Case:
    """The number-th round: deaths at points and at random times, and jobs, stops, restarts."""
    if number % 6 == 4:
        return draw_job_case(rng)
    if number % 15 == 7:
        return draw_generation_case(rng)
    if number % 10 == 9:
        return draw_stop_case(rng, rng.choice(["", *stream_points()]))
    if number % 3 == 2:
        return draw_stream_case(rng)
    return draw_stream_case(rng, rng.choice(stream_points()))


def draw_channel_case(rng: random.Random, number: int) -> Case:
    """The number-th round of channels: every third one at a listener."""
    kind = number // 3 % len(KINDS)
    return (
        draw_hub_case(rng, kind) if number % 3 == 2 and KINDS[kind] != "raw" else draw_queue_case(rng, kind)
    )
