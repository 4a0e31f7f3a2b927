"""Addresses that nobody else uses, and processes that are gone when the test is."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()


@pytest.fixture
def ipc() -> str:
    """An ipc address of this test's own."""
    return f"ipc://test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(params=["loop", "ipc"])
def address(request: pytest.FixtureRequest) -> str:
    """An address of this test's own, over every provider that works within one process."""
    return f"{request.param}://test-{os.getpid()}-{next(_numbers)}"


class Child:
    """A Python process that runs a piece of code: `line()` reads what it prints, `tell()` writes to it."""

    def __init__(self, code: str, *arguments: str) -> None:
        prelude = "import sys, os, signal, time\nimport lwmq_spark as lwmq\n"
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", prelude + textwrap.dedent(code), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.pid = self.process.pid

    def line(self) -> str:
        """The next line that it prints, without its end; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9, and wait until the kernel has it."""
        self.process.kill()
        self.process.wait(60)

    def wait(self, timeout: float = 300) -> int:
        return self.process.wait(timeout)

    def rest(self) -> str:
        """All that it still prints, when it has ended."""
        out, _ = self.process.communicate(timeout=300)
        return out


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(code: str, *arguments: Any) -> Child:
        child = Child(code, *map(str, arguments))
        children.append(child)
        return child

    yield start
    for child in children:
        if child.process.poll() is None:
            child.kill()
        for pipe in (child.process.stdin, child.process.stdout):
            if pipe is not None:
                pipe.close()
