"""kill -9 of who posts and of who receives, with send queues of every kind and with raw buffers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from . import rounds
from .case import KINDS, Case, channel_points, draw_hub_case, draw_queue_case
from .oracle import Broken
from .test_kills import SEED

Draw = Callable[[random.Random, int, str, str | None], Case]
QUEUES = KINDS[:-1]  # all but the buffers of a raw channel


def run(
    number: int, kind: int, victim: str = "", point: str | None = None, draw: Draw = draw_queue_case
) -> None:
    case = draw(random.Random(f"{SEED}-{number}"), kind, victim, point)
    try:
        rounds.run(case)
    except Broken as error:
        pytest.fail(f"LWMQ_SEED={SEED}, {KINDS[kind]}, round {number}: {error}", pytrace=False)


@pytest.mark.row("L34", "L41", "L54")
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize("victim", ["poster", "taker"])
def test_what_a_killed_peer_leaves_is_whole_and_in_order(kind: int, victim: str) -> None:
    run(kind, kind, victim, "")


@pytest.mark.row("L34", "L41", "L54", "Z09")
@pytest.mark.parametrize("kind", range(len(QUEUES)), ids=QUEUES)
@pytest.mark.parametrize("victim", ["poster", "hub"])
def test_a_death_at_the_address_of_a_listener_concerns_its_peers_alone(kind: int, victim: str) -> None:
    run(kind, kind, victim, "", draw_hub_case)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_whoever_dies_at_any_point_of_any_queue_the_other_goes_on(kind: int) -> None:
    for number, point in enumerate(("", "", *channel_points()) * 2):
        run(number, kind, "", point)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", range(len(QUEUES)), ids=QUEUES)
def test_whoever_dies_at_any_point_at_a_listener_the_others_go_on(kind: int) -> None:
    for number, point in enumerate(("", "", *channel_points()) * 2):
        run(number, kind, "", point, draw_hub_case)
