"""Addresses that nobody else uses, and processes that are gone when the test is."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.namespaces import Namespace, why_not
from tests.network import KEY, loopback

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()


def fresh_address(request: pytest.FixtureRequest) -> str:
    """One that nobody else uses, over what the fixture's parameter names; `uring` is tcp by io_uring."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    if request.param in ("loop", "ipc"):
        return f"{request.param}://{name}"
    settings = request.getfixturevalue("monkeypatch")
    settings.setenv("LWMQ_WIRE", "1")
    if request.param == "tcps":
        settings.setenv("LWMQ_PSK", str(request.getfixturevalue("key_file")))
    if request.param == "uring":
        settings.setenv("LWMQ_ENGINE", "uring")
    scheme = "tcps" if request.param == "tcps" else "tcp"
    return f"{loopback(scheme)}{request.getfixturevalue('port')}/{name}"


@pytest.fixture
def ipc() -> str:
    """An ipc address of this test's own."""
    return f"ipc://test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def port() -> int:
    """A port of this host that nobody serves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(params=["loop", "ipc", "tcp"])
def address(request: pytest.FixtureRequest) -> str:
    """An address of this test's own, over every provider; over tcp nothing takes the shorter way."""
    return fresh_address(request)


@pytest.fixture(params=["loop", "ipc"])
def near_address(request: pytest.FixtureRequest) -> str:
    """An address of this test's own, over every provider whose two ends know each other's processes."""
    return fresh_address(request)


@pytest.fixture(params=["ipc", "tcp"])
def between(request: pytest.FixtureRequest) -> str:
    """An address of this test's own for several processes, which over tcp take no shorter way."""
    return fresh_address(request)


@pytest.fixture(params=["ipc", "tcp", "uring", "tcps"])
def each_wire(request: pytest.FixtureRequest) -> str:
    """As `between`, and over tcp by both engines and under TLS: for tests in which processes are killed."""
    return fresh_address(request)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "lwmq.psk"
    path.touch(0o600)
    path.write_text(f"tests:{KEY}\n")
    return path


@pytest.fixture(params=["epoll", "uring"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process and of those that it starts."""
    monkeypatch.setenv("LWMQ_ENGINE", request.param)


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


@pytest.fixture
def hosts() -> Iterator[list[tuple[Namespace, str, str]]]:
    """Three other hosts, each with a cable to us: our address there, and its own."""
    if reason := why_not():
        pytest.skip(reason)
    made = [Namespace() for _ in range(3)]
    with free_network() as network:
        try:
            yield [(one, *one.connect(f"10.{network}.{number}")) for number, one in enumerate(made)]
        finally:
            for one in made:
                one.close()


@contextlib.contextmanager
def free_network() -> Iterator[int]:
    """A number that no other test of this machine has: two cables of one network are one too many."""
    for number in random.sample(range(256), 256):
        taken = socket.socket(socket.AF_UNIX)
        try:
            taken.bind(f"\0test-network-{number}")
        except OSError:
            taken.close()
            continue
        with taken:
            yield number
        return
    pytest.fail("256 tests have a network each")


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program in a namespace; it is killed when the test is over."""
    running = []

    def started(where: Namespace, code: str, *arguments: object) -> subprocess.Popen[str]:
        prelude = "import sys\nimport numpy as np, pyarrow as pa\nimport lwmq_spark as lwmq\n"
        command = [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]
        process = subprocess.Popen(
            where.command(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        running.append(process)
        return process

    yield started
    for process in running:
        process.kill()
        process.communicate()
