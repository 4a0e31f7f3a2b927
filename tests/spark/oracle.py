"""What must hold for the rows that arrive, whoever dies: they have numbers, and nobody has to be believed.

Each row of a stream has a number of its own; what arrives is compared with what was written as a multiset,
and the rows of a partition must come in the order of their numbers. test_planted.py shows that it sees bugs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Broken(AssertionError):
    """Rows are lost, come twice, are out of order, or were never written."""


def every_row_once(arrived: Iterable[int], written: Iterable[int]) -> None:
    """`arrived` has the numbers of `written`, each as often as there."""
    have, want = Counter(arrived), Counter(written)
    if have != want:
        raise Broken(f"lost: {_shown(want - have)}; too often, or never written: {_shown(have - want)}")


def in_order(rows: Iterable[tuple[int, int]]) -> None:
    """`rows` are (partition, number), as they arrived: within a partition the numbers grow."""
    last: dict[int, int] = {}
    for partition, number in rows:
        if number <= last.get(partition, -1):
            raise Broken(f"partition {partition}: {number} comes after {last[partition]}")
        last[partition] = number


def _shown(rows: Counter[int]) -> str:
    few = ", ".join(str(number) for number in sorted(rows)[:5])
    return f"{rows.total()} rows ({few}{', ...' if len(rows) > 5 else ''})"
