"""SIGSTOP of each side: nobody takes it for a death; who was stopped goes on, is given up, or expelled."""

from __future__ import annotations

import random

import pytest

from . import rounds
from .case import draw_stall_case, draw_stop_case, stream_points
from .oracle import Broken
from .test_kills import SEED


def run_many(numbers: range) -> None:
    for number in numbers:
        rng = random.Random(f"{SEED}-stop-{number}")
        case = draw_stop_case(rng, rng.choice(["", *stream_points()]))
        try:
            rounds.run(case)
        except Broken as error:
            pytest.fail(f"LWMQ_SEED={SEED}, stop {number}: {error}", pytrace=False)


def test_whoever_is_stopped_is_waited_for_or_given_up() -> None:
    run_many(range(8))


def run_stalls(policy: str, numbers: range) -> None:
    for number in numbers:
        rng = random.Random(f"{SEED}-{policy}-{number}")
        points = [point for point in stream_points() if policy == "fail" or point.startswith("reader.")]
        case = draw_stall_case(rng, policy, rng.choice(["", *points]))
        try:
            rounds.run(case)
        except Broken as error:
            pytest.fail(f"LWMQ_SEED={SEED}, {policy} {number}: {error}", pytrace=False)


def test_whoever_waits_for_a_stopped_endpoint_is_told_and_goes_on_with_it() -> None:
    run_stalls("fail", range(2))


@pytest.mark.row("C48")
def test_a_stopped_reader_is_expelled_and_what_it_holds_is_not_written_over() -> None:
    run_stalls("expel", range(3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("policy", ["fail", "expel"])
def test_a_hundred_stops_that_last(policy: str) -> None:
    run_stalls(policy, range(3, 103))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_stops() -> None:
    run_many(range(8, 208))
