"""Prints the capabilities of rows.csv with the tests that show them, and whether those passed when last run.

    python tests/rows.py                 a table of the rows that have tests
    python tests/rows.py --all           every row
    python tests/rows.py --json
    python tests/rows.py --check L06 M01 ends with 1 unless each of these rows has tests, all of which passed

A Python test names its rows in `@pytest.mark.row("L14")`, on the function, its class or in `pytestmark`; a
native or a Java test in a comment `// rows: L14 L15` directly above it; a notebook in its metadata. Outcomes
come from the JUnit reports of the last run under build/; a test that was not run there counts as `not run`.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
COMMENT = re.compile(r"^\s*// rows: *(.+)$")
STRAY = re.compile(r"//.*\S.* rows: *[A-Z]\d\d")
NATIVE_TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
JAVA_TEST = re.compile(r"^\s*(?:public |final |static )*void (\w+)\(")


@dataclass
class Row:
    """One capability."""

    id: str
    feature: str
    tests: list[Test] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        outcomes = {test.outcome for test in self.tests}
        for outcome in ("fail", "not run", "skip", "pass"):
            if outcome in outcomes:
                return outcome
        return "no test"


@dataclass
class Test:
    """One test and the key under which reports know it."""

    file: Path
    name: str
    key: tuple[str, str]
    outcome: str = "not run"

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}::{self.name}"


def load_rows() -> dict[str, Row]:
    """The rows of rows.csv, in their order."""
    with (TESTS / "rows.csv").open(encoding="utf-8", newline="") as file:
        return {line["id"]: Row(line["id"], line["feature"]) for line in csv.DictReader(file)}


def python_marks(path: Path) -> Iterator[tuple[str, Test]]:
    """(row, test) of each mark in a Python file."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def rows_of(nodes: list[ast.expr]) -> list[str]:
        return [
            str(argument.value)
            for node in nodes
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "row"
            for argument in call.args
            if isinstance(argument, ast.Constant)
        ]

    def visit(body: list[ast.stmt], inherited: list[str], prefix: str) -> Iterator[tuple[str, Test]]:
        for node in body:
            if isinstance(node, ast.Assign) and any(
                getattr(t, "id", "") == "pytestmark" for t in node.targets
            ):
                inherited = inherited + rows_of([node.value])
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from visit(node.body, inherited + rows_of(node.decorator_list), f"{prefix}.{node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                for row in dict.fromkeys(inherited + rows_of(node.decorator_list)):
                    yield row, Test(path, node.name, (prefix, node.name))

    yield from visit(tree.body, [], module)


def comment_marks(path: Path) -> Iterator[tuple[str, Test]]:
    """(row, test) of each `// rows:` comment in a native or Java file."""
    waiting: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if comment := COMMENT.match(line):
            waiting += comment[1].replace(",", " ").split()
        elif STRAY.search(line):
            sys.exit(f"{path}: '// rows:' stands on a line of its own, not in: {line.strip()}")
        elif native := NATIVE_TEST.match(line):
            for row in waiting:
                yield row, Test(path, f"{native[1]}.{native[2]}", (native[1], native[2]))
            waiting = []
        elif path.suffix == ".java" and (java := JAVA_TEST.match(line)):
            for row in waiting:
                yield row, Test(path, java[1], (path.stem, java[1]))
            waiting = []


def notebook_marks(path: Path) -> Iterator[tuple[str, Test]]:
    """(row, test) of the rows that a notebook names in its metadata; nbmake runs it as one test."""
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    for row in metadata.get("rows", []):
        yield row, Test(path, path.name, ("notebooks", path.name))


def outcomes() -> dict[tuple[str, str], str]:
    """Outcome per key, over all reports; of the runs of one parametrised test the worst."""
    worst = {"pass": 0, "skip": 1, "fail": 2}
    found: dict[tuple[str, str], str] = {}
    reports = [
        *(ROOT / "build" / "reports").rglob("*.xml"),
        *(ROOT / "build" / "dev" / "reports").glob("*.xml"),
    ]
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                outcome = "fail"
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                outcome = "skip"
            else:
                outcome = "pass"
            key = _key(case.get("classname", ""), case.get("name", ""))
            if worst[outcome] >= worst.get(found.get(key, "pass"), 0):
                found[key] = outcome
    return found


def _key(class_name: str, name: str) -> tuple[str, str]:
    """Report names without parameters: `Suite/Case.Name/0` and `test_name[x]` are one test each."""
    name = re.sub(r"\[.*\]$|\(.*\)$|/.*$", "", name)
    if class_name.startswith("tests."):
        return class_name, name
    if name.endswith(".ipynb"):
        return "notebooks", name
    parts = [part for part in class_name.split("/") if not part.isdigit()]
    last = parts[-1] if parts else class_name
    return last.rpartition(".")[2].split("$")[0], name


def collect() -> dict[str, Row]:
    """Every row, with its tests and their outcomes. A mark that names no row is an error."""
    rows = load_rows()
    known = outcomes()
    marks: list[tuple[str, Test]] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        marks += python_marks(path)
    for path in sorted([*TESTS.rglob("*.cc"), *TESTS.rglob("*.h"), *TESTS.rglob("*.java")]):
        marks += comment_marks(path)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        marks += notebook_marks(path)
    for id, test in marks:
        if id not in rows:
            raise SystemExit(f"{test} is marked with {id}, which is no row of rows.csv")
        test.outcome = known.get(test.key, "not run")
        rows[id].tests.append(test)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="rows without a test, too")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    parser.add_argument("--check", nargs="+", metavar="ROW", help="end with 1 unless these rows work")
    arguments = parser.parse_args()
    rows = collect()
    shown = [row for row in rows.values() if row.tests or arguments.all]
    if arguments.check:
        shown = [rows[id] for id in arguments.check]
    for row in shown:
        if arguments.json:
            tests = [{"test": str(test), "outcome": test.outcome} for test in row.tests]
            print(json.dumps({"id": row.id, "feature": row.feature, "outcome": row.outcome, "tests": tests}))
        else:
            print(f"{row.id}  {row.outcome:8}{row.feature}")
            for test in row.tests:
                print(f"     {test.outcome:8}  {test}")
    if not arguments.json:
        working = sum(row.outcome == "pass" for row in rows.values())
        print(f"{working} of {len(rows)} rows have tests that all passed")
    return int(bool(arguments.check) and any(row.outcome != "pass" for row in shown))


if __name__ == "__main__":
    sys.exit(main())
