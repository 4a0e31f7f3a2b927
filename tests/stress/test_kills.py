"""kill -9 of writer, endpoint and reader, at named points and at random times."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace

import pytest

from . import rounds
from .case import Case, draw, draw_queue_case, draw_stall_case, points
from .oracle import Broken
from .players import Player

# The everyday suite plays the same rounds each time; the slow one new ones. Where one fails it says its seed.
SEED = os.environ.get("LWMQ_SEED") or (str(time.time_ns()) if os.environ.get("LWMQ_SLOW") == "1" else "1")


def run_many(numbers: range) -> None:
    for number in numbers:
        case = draw(random.Random(f"{SEED}-{number}"), number)
        try:
            rounds.run(case)
        except Broken as error:
            pytest.fail(
                f"LWMQ_SEED={SEED}, round {number}: {error}\nagain: {rounds.again(SEED, number)}",
                pytrace=False,
            )


@pytest.mark.row("L34")
def test_whoever_is_killed_the_others_lose_nothing_and_go_on() -> None:
    run_many(range(30))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_kills_leave_nothing_behind() -> None:
    run_many(range(30, 1030))


@pytest.mark.parametrize("victim", ["endpoint", "writer", "reader"])
def test_the_death_of_a_process_that_has_forked_is_noticed(victim: str) -> None:
    rounds.run(Case(kind="stream", victim=victim, named=True, settings=_ordinary() | {"forks": 1}))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["endpoint", "writer", "reader"])
def test_the_death_of_a_process_of_4_gb_is_noticed(victim: str) -> None:
    rounds.run(
        Case(kind="stream", victim=victim, victim_settings={"resident_mb": 4096}, settings=_ordinary())
    )


def test_two_readers_and_two_writers_in_a_small_window_never_wait_for_room_that_is_there() -> None:
    """A drop between a writer's look at the ledger and its WantRoom was told to nobody: everybody slept."""
    for credit in (1, 64):
        settings = _ordinary() | {"window": 256 << 10, "bytes": 16384, "credit": credit}
        rounds.run(Case(kind="calm", writers=2, readers=2, after_s=0.2, settings=settings))


def test_every_yield_point_is_passed_by_somebody() -> None:
    """A point that nobody passes is one where nobody has ever been killed."""
    missing = set(points())
    for _ in range(10):  # some are passed only where two meet at the right moment
        missing -= _passed_in_a_round_of_each()
        if not missing:
            break
    assert not missing


def _passed_in_a_round_of_each() -> set[str]:
    passed: set[str] = set()
    for serves in ("endpoint", "writer", "reader"):
        case = Case(kind="stream", serves=serves, victim=serves, act="list", readers=2, settings=_ordinary())
        passed |= _passed(case)
    for delivery in (1, 2):
        settings = {"delivery": delivery, "window": 1 << 20, "bytes": 256, "count": 3}
        passed |= _passed(Case(kind="job", victim="nobody", act="list", settings=settings))
    expel = draw_stall_case(random.Random("expel"), "expel")
    passed |= _passed(replace(expel, act="list"))
    run = draw_queue_case(random.Random("run"), 0, "poster", "lane.run_shown")
    return passed | _passed(replace(run, act="list"))


def _passed(case: Case) -> set[str]:
    seen: list[Player] = []
    rounds.run(case, seen)
    return {line.rest for player in seen for line in player.lines if line.what == "yield"}


def _ordinary() -> dict[str, object]:
    return {"window": 256 << 10, "bytes": 4096, "partitions": 1, "pace_us": 0, "hold": 2, "credit": 8}
