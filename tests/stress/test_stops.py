"""SIGSTOP of each side: nobody takes it for a death; what was stopped goes on, or is given up."""

from __future__ import annotations

import random

import pytest

from . import rounds
from .case import draw_stop_case, stream_points
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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_hundred_stops() -> None:
    run_many(range(8, 208))
