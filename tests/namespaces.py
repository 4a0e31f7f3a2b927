"""Network namespaces for tests: another one in which commands run, on the same host, as in a container."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.patience import HANG_S


def why_not() -> str | None:
    """Why no network namespace can be made here; None where one can."""
    if os.geteuid() != 0:
        return "a network namespace of one's own needs root"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()}"


class Namespace:
    """One with its loopback up and nothing else. A process keeps it, and it goes with that process."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        deadline = time.monotonic() + HANG_S
        while self.id == _id(os.getpid()):
            assert time.monotonic() < deadline, "unshare makes no network namespace"
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """Of the process that keeps it."""
        return self._keeper.pid

    @property
    def id(self) -> int:
        """Its inode, by which our errors name it."""
        return _id(self.pid)

    def command(self, *command: str) -> list[str]:
        """`command`, so that it runs in the namespace: same user, same files, same processes."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]

    def run(self, *command: str) -> None:
        _run(self.command(*command))

    def connect(self, network: str) -> tuple[str, str]:
        """A cable between us and it: our address and its own in `network`, such as 10.213.77."""
        ours, theirs = f"{network}.1", f"{network}.2"
        cable = f"lwmq{self.pid}"
        end = ["peer", "name", "eth0", "netns", str(self.pid)]
        _run(["ip", "link", "add", cable, "type", "veth", *end])
        _run(["ip", "address", "add", f"{ours}/24", "dev", cable])
        _run(["ip", "link", "set", cable, "up"])
        self.run("ip", "address", "add", f"{theirs}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        return ours, theirs

    def close(self) -> None:
        """The cable goes with its other end."""
        self._keeper.kill()
        self._keeper.wait(HANG_S)


def _id(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _run(command: Sequence[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}: {ran.stderr}"
