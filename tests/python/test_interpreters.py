"""Interpreters of one process beside the first: refused, because nothing would end them."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

INNER = """
import sys
sys.path[:] = {path!r}
import lwmq_spark as lwmq
try:
    lwmq.Channel
except ImportError as exc:
    print(exc)
else:
    kept = lwmq.Channel("ipc://never")
"""
OUTER = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
interpreters.run_string(interpreters.create(), sys.argv[1].format(path=sys.path))
print("main:", bytes(lwmq.Message(b"fine")), flush=True)
"""


@pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("_xxsubinterpreters", "_interpreters"))),
    reason="this Python has no module for them",
)
def test_a_subinterpreter_is_refused_and_the_process_ends(spawn: Any) -> None:
    child = spawn(OUTER, INNER)
    assert "works in the main interpreter of a process" in child.line()
    assert child.line() == "main: b'fine'"
    assert child.wait(60) == 0
