"""Every order of every store of the protocols, with deaths anywhere; and that errors are seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from . import channels, protocols
from .checker import Model, Process, Wrong

HERE = Path(__file__).parent
MODELS: list[tuple[Callable[..., Model], list[str]]] = [
    (protocols.lane, protocols.LANE_WRONG),
    (protocols.run, protocols.RUN_WRONG),
    (protocols.handed, protocols.HANDED_WRONG),
    (protocols.sleeper, protocols.SLEEPER_WRONG),
    (protocols.lease, protocols.LEASE_WRONG),
    (protocols.room, protocols.ROOM_WRONG),
    (protocols.spsc, protocols.SPSC_WRONG),
    (protocols.multi, protocols.MULTI_WRONG),
    (protocols.left_behind, protocols.LEFT_WRONG),
    (protocols.wanted, protocols.WANTED_WRONG),
    (protocols.served, protocols.SERVED_WRONG),
    (protocols.home, protocols.HOME_WRONG),
    (protocols.home_wanted, protocols.HOME_WANTED_WRONG),
    (protocols.home_hands, protocols.HOME_HANDS_WRONG),
    (protocols.rest, protocols.REST_WRONG),
    (protocols.followers, protocols.FOLLOWERS_WRONG),
    (protocols.followers_bounded, []),
    (protocols.called, protocols.CALLED_WRONG),
    (protocols.gives_up, protocols.GIVES_UP_WRONG),
    (channels.closing, channels.CLOSING_WRONG),
    (channels.closing_free, channels.CLOSING_FREE_WRONG),
    (channels.closing_two, channels.CLOSING_TWO_WRONG),
    (channels.polled, channels.POLLED_WRONG),
    (channels.polled_beside, channels.POLLED_BESIDE_WRONG),
    (channels.polled_interrupted, channels.POLLED_INTERRUPTED_WRONG),
    (channels.landed, channels.LANDED_WRONG),
    (channels.landed_refused, channels.LANDED_REFUSED_WRONG),
    (channels.kept_buffers, channels.KEPT_BUFFERS_WRONG),
    (channels.retired, channels.RETIRED_WRONG),
    (channels.alarmed, channels.ALARMED_WRONG),
    (channels.reopened, channels.REOPENED_WRONG),
    (channels.closed_beside, channels.CLOSED_BESIDE_WRONG),
    (channels.destroyed, channels.DESTROYED_WRONG),
    (channels.destroyed_beside, channels.DESTROYED_BESIDE_WRONG),
    (channels.entry, channels.ENTRY_WRONG),
]
MUTATIONS = [(make, wrong) for make, wrongs in MODELS for wrong in wrongs]


# The digest of the files of this folder with which every test here has passed. They depend on nothing else:
# while the files are the same, only the slow suite runs them again.
PROVEN = HERE / "proven.txt"


def digest() -> str:
    """Of the models, the checker and the mutations."""
    found = hashlib.sha256()
    for file in sorted(HERE.glob("*.py")):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


IS_PROVEN = PROVEN.read_text(encoding="utf-8").strip() == digest()
once_per_change = [pytest.mark.slow] if IS_PROVEN else []


@pytest.mark.row("Z22", "K20")
def test_who_changes_a_model_runs_all_of_it() -> None:
    assert IS_PROVEN, (
        "tests/model has changed, and its tests were run with this suite. When they have all passed, write "
        f"{digest()} into {PROVEN.name}"
    )


@pytest.mark.row("Z22", "K20")
@pytest.mark.parametrize(
    "make",
    [pytest.param(make, marks=once_per_change) for make, _ in MODELS],
    ids=lambda make: make.__name__,
)
def test_the_protocol_holds_in_every_order_and_whoever_dies(make: Callable[..., Model]) -> None:
    assert make().run() > 500


def test_waiting_holds_where_the_kernel_has_no_membarrier() -> None:
    assert protocols.sleeper(membarrier=False).run() > 500


@pytest.mark.parametrize(
    ("make", "wrong"),
    [pytest.param(make, wrong, marks=once_per_change) for make, wrong in MUTATIONS],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_checker_sees(make: Callable[..., Model], wrong: str) -> None:
    with pytest.raises(Wrong):
        make(wrong).run()


def test_the_checker_knows_that_stores_wait_in_buffers() -> None:
    """Dekker's algorithm without fences lets both in; with them it does not."""

    def dekker(fences: bool) -> Model:
        processes = []
        for me, other in (("a", "b"), ("b", "a")):
            process = Process(me, {"other": 0}, mortal=False)
            process.store(me, 1)
            if fences:
                process.fence()
            process.load("other", other)
            process.goto("over", lambda r: r["other"] == 1)
            process.load("other", f"in:{other}")
            process.check(lambda r: r["other"] == 0, "both are in")
            process.store(f"in:{me}", 1)
            process.fence()
            process.label("over")
            processes.append(process)
        return Model(processes, {"a": 0, "b": 0, "in:a": 0, "in:b": 0})

    dekker(fences=True).run()
    with pytest.raises(Wrong, match="both are in"):
        dekker(fences=False).run()
