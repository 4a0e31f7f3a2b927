"""No test needs a quick machine: two kinds that did are found by their shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
SHORT_S = 1.0
EXPECTS = re.compile(r"raises\(|TimeoutError")
# Of the line of a sleep: what follows shows that nothing has happened.
MEANWHILE = "# meanwhile"
# Of the line above a statement: its time-out is to run out.
SHORT = "# short"


def calls_with_short_time_outs(tree: ast.Module, lines: list[str]) -> Iterator[int]:
    """Lines of calls that must succeed within less than a second: no error is expected around them."""

    def visit(node: ast.AST, expected: bool) -> Iterator[int]:
        if isinstance(node, ast.With | ast.AsyncWith):
            expected = expected or any(EXPECTS.search(ast.unparse(item.context_expr)) for item in node.items)
        if isinstance(node, ast.Try):
            expected = expected or any("TimeoutError" in ast.unparse(h.type) for h in node.handlers if h.type)
        if isinstance(node, ast.Call) and not expected:
            for keyword in node.keywords:
                value = keyword.value
                if (
                    keyword.arg == "timeout"
                    and isinstance(value, ast.Constant)
                    and isinstance(value.value, int | float)
                    and 0 < value.value < SHORT_S
                    and SHORT not in lines[node.lineno - 2]
                ):
                    yield node.lineno
        for child in ast.iter_child_nodes(node):
            yield from visit(child, expected)

    return visit(tree, False)


def sleeps_before_assertions(tree: ast.Module, lines: list[str]) -> Iterator[int]:
    """Lines of sleeps with an assertion as the next statement."""
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if not isinstance(body, list):
                continue
            for sleep, after in pairwise(body):
                if (
                    isinstance(sleep, ast.Expr)
                    and ast.unparse(sleep.value).startswith("time.sleep(")
                    and isinstance(after, ast.Assert)
                    and MEANWHILE not in lines[sleep.lineno - 1]
                ):
                    yield sleep.lineno


def found_in_the_suite() -> Iterator[str]:
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        name = file.relative_to(ROOT)
        for line in calls_with_short_time_outs(tree, text.splitlines()):
            yield f"{name}:{line}: this call must succeed, and has less than {SHORT_S} s"
        for line in sleeps_before_assertions(tree, text.splitlines()):
            yield f"{name}:{line}: wait until it has happened, or say {MEANWHILE}: what must not happen"


def test_no_test_needs_a_quick_machine() -> None:
    assert not list(found_in_the_suite())


def test_both_kinds_are_seen() -> None:
    text = """
with pytest.raises(lwmq.TimeoutError):
    reader.read(timeout=0.5)
reader.read(timeout=0.5)
time.sleep(0.1)
assert there
time.sleep(0.1)  # meanwhile nobody comes
assert not there
"""
    tree = ast.parse(text)
    assert list(calls_with_short_time_outs(tree, text.splitlines())) == [4]
    assert list(sleeps_before_assertions(tree, text.splitlines())) == [5]
