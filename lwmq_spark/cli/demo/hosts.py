"""Several hosts on one machine: network namespaces, each with a cable to us, in which commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from lwmq_spark.errors import LwmqError

_LIMIT_S = 60  # catches a hang only


def why_not() -> str | None:
    """Why no network namespace can be made here; None where one can."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    missing = [
        f"{program} (Debian package {package})"
        for program, package in (("unshare", "util-linux"), ("nsenter", "util-linux"), ("ip", "iproute2"))
        if shutil.which(program) is None
    ]
    if missing:
        return f"a network namespace needs {', '.join(missing)}"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network namespace can be made here: {tried.stderr.strip()}"


class Namespace:
    """A network namespace whose loopback is up. Lives until `close`, or until this process ends."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(["unshare", "--net", "--kill-child", "cat"], stdin=subprocess.PIPE)
        deadline = time.monotonic() + _LIMIT_S
        while self.id == _id(os.getpid()):
            if time.monotonic() > deadline or self._keeper.poll() is not None:
                raise LwmqError("unshare --net has made no network namespace")
            time.sleep(0.01)
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """Of the process that keeps the namespace."""
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
        end = ["peer", "name", "eth0", "netns", str(self.pid)]
        _run(["ip", "link", "add", self.cable, "type", "veth", *end])
        _run(["ip", "address", "add", f"{ours}/24", "dev", self.cable])
        _run(["ip", "link", "set", self.cable, "up"])
        self.run("ip", "address", "add", f"{theirs}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        return ours, theirs

    @property
    def cable(self) -> str:
        """Our end's name."""
        return f"lwmq{self.pid}"

    def carried(self, way: str) -> int:
        """Bytes that the cable has carried: `rx` to us, `tx` from us."""
        return int(Path(f"/sys/class/net/{self.cable}/statistics/{way}_bytes").read_text())

    def close(self) -> None:
        """The cable goes with its other end."""
        self._keeper.communicate(timeout=_LIMIT_S)


def _id(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise LwmqError(f"{' '.join(command)}: {ran.stderr.strip()}")
