"""kill -9 of who posts and of who receives, with send queues of every kind and with raw buffers."""

from __future__ import annotations

import random

import pytest

from . import rounds
from .case import KINDS, channel_points, draw_queue_case
from .oracle import Broken
from .test_kills import SEED


def run(number: int, kind: int, victim: str = "", point: str | None = None) -> None:
    case = draw_queue_case(random.Random(f"{SEED}-{number}"), kind, victim, point)
    try:
        rounds.run(case)
    except Broken as error:
        pytest.fail(f"LWMQ_SEED={SEED}, {KINDS[kind]}, round {number}: {error}", pytrace=False)


@pytest.mark.row("L34", "L41", "L54")
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize("victim", ["poster", "taker"])
def test_what_a_killed_peer_leaves_is_whole_and_in_order(kind: int, victim: str) -> None:
    run(kind, kind, victim, "")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_whoever_dies_at_any_point_of_any_queue_the_other_goes_on(kind: int) -> None:
    for number, point in enumerate(("", "", *channel_points()) * 2):
        run(number, kind, "", point)
