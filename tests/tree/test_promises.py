"""conf/GUARANTEES.md says who dies and what is promised then. Each cell of its tables is held by a test,
which says so in a comment above it: `promise: <when, or how it begins> / <column>, <column>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISE = re.compile(r"^(?:#|//) promise: (.+) / (.+)$", re.MULTILINE)


def cells() -> list[tuple[str, str]]:
    """Row and column of each, as the page has them, without marks."""
    text = (ROOT / "conf" / "GUARANTEES.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## What is promised when\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        lines = [line.strip("| ").split("|") for line in table.splitlines()]
        head, _, *rows = [[_plain(cell) for cell in line] for line in lines]
        found += [(row[0], column) for row in rows for column in head[1:]]
    return found


def _plain(cell: str) -> str:
    return cell.replace("`", "").strip()


def promises() -> Iterator[tuple[str, str, Path]]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")) + sorted((ROOT / "tests").rglob("*_test.cc")):
        for row, columns in PROMISE.findall(path.read_text(encoding="utf-8")):
            yield from ((row, column, path) for column in columns.split(", "))


def named(row: str, column: str) -> list[tuple[str, str]]:
    """The cells that a test means: a row by its beginning, where it is not one itself."""
    rows = [known for known, _ in cells() if known == row] or [k for k, _ in cells() if k.startswith(row)]
    return [cell for cell in cells() if cell[0] in rows and cell[1].startswith(column)]


def test_each_cell_of_the_tables_of_promises_is_held_by_a_test() -> None:
    assert len(cells()) > 35
    held = {cell for row, column, _ in promises() for cell in named(row, column)}
    assert [cell for cell in cells() if cell not in held] == []


def test_a_test_names_one_cell_that_is_there() -> None:
    wrong = {(row, column, path.name) for row, column, path in promises() if len(named(row, column)) != 1}
    assert wrong == set()
