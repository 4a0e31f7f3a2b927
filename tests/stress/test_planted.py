"""The oracle sees bugs: four of them lie in the stress build and are switched on one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import rounds
from .case import Case
from .oracle import Broken

_STREAM: dict[str, object] = {"window": 128 << 10, "bytes": 4096, "partitions": 1, "pace_us": 0, "credit": 8}

PLANTED = {
    # A writer uses a block again without asking who leases it.
    "skip_release_check": (
        Case(kind="calm", writers=2, readers=2, after_s=0.2, settings=_STREAM | {"hold": 5}),
        "torn|disorder",
    ),
    # A reader says that it has moved past a batch when it is lent.
    "acknowledge_early": (
        Case(
            kind="stream",
            victim="reader",
            point="reader.consumed",
            passing=20,
            settings=_STREAM | {"hold": 0},
        ),
        "begins at",
    ),
    # The endpoint commits a second attempt of a task.
    "accept_twice": (
        Case(
            kind="job", victim="nobody", settings={"delivery": 1, "window": 1 << 20, "bytes": 256, "count": 5}
        ),
        "won as attempt|were committed",
    ),
    # The endpoint takes offsets of another generation for its own.
    "forget_generation": (Case(kind="generation", settings=_STREAM), "another generation"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_oracle_catches(bug: str) -> None:
    case, complaint = PLANTED[bug]
    rounds.run(case)  # without the bug nothing is wrong
    with pytest.raises(Broken, match=complaint):
        for _ in range(5):
            rounds.run(replace(case, planted=bug))
