"""The processes of a round: each is `stress_driver` in a role, with its lines, its board and its end."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev" / "stress"
DRIVER = BUILD / "stress_driver"
WRITERS, PARTITIONS = 16, 4
_BOARD = struct.Struct(f"<{1 + WRITERS * PARTITIONS}Q")


def must_be_built(file: Path) -> None:
    """Fails unless `make test` or `make test-build` has built `file`, of the target `stress`."""
    assert file.exists(), f"{file} is not built: make test-build"


def become_reaper() -> None:
    """What the players fork is ours to reap when they are gone."""
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


@dataclass(frozen=True)
class Line:
    what: str
    ns: int
    rest: str


class Player:
    """One process. `orders` go into its environment, `settings` to its command line."""

    def __init__(
        self,
        role: str,
        address: str,
        folder: Path,
        name: str,
        orders: dict[str, str] | None = None,
        **settings: object,
    ) -> None:
        self.role, self.name, self.address = role, name, address
        self.id = int(str(settings.get("id", 0)))
        self.settings = settings
        self.serves = bool(settings.get("serves"))
        self.partitions = int(str(settings.get("partitions", 1)))
        self.lines: list[Line] = []
        self.died_ns = 0  # when it was killed
        self.told_to_close = False
        self.goes_on = False  # a stop of its own is not to last any more
        board = folder / f"{name}.board"
        with board.open("w+b") as file:
            file.truncate(_BOARD.size)
            self._board = mmap.mmap(file.fileno(), _BOARD.size)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LWMQ_")}
        environment |= {"TMPDIR": str(folder), **(orders or {})}
        self._is_to_die = environment.get("LWMQ_YIELD", "").startswith("kill")
        self._partial = {"out": b"", "err": b""}
        words = [f"{key}={value}" for key, value in settings.items()]
        self.begun_ns = time.monotonic_ns()
        self.process = subprocess.Popen(
            [DRIVER, role, address, f"board={board}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdout and self.process.stderr and self.process.stdin
        self._streams = {self.process.stdout.fileno(): "out", self.process.stderr.fileno(): "err"}
        for fd in self._streams:
            os.set_blocking(fd, False)

    def __repr__(self) -> str:
        def since_begin(ns: int) -> str:
            return f"{(ns - self.begun_ns) / 1e9:.3f} s"

        said = "; ".join(
            f"{since_begin(line.ns)} {line.what} {line.rest}".strip()[:160] for line in self.lines[-4:]
        )
        now = since_begin(time.monotonic_ns())
        return f"<{self.name} {self.role} {self.process.pid} read/wrote {self.batches}: {said}; now {now}>"

    # -- What it says

    def descriptors(self) -> list[int]:
        return list(self._streams)

    def read(self) -> None:
        for fd, stream in list(self._streams.items()):
            with contextlib.suppress(BlockingIOError):
                while data := os.read(fd, 65536):
                    *whole, self._partial[stream] = (self._partial[stream] + data).split(b"\n")
                    for line in whole:
                        self._take(line.decode(errors="replace"))
                del self._streams[fd]

    def _take(self, line: str) -> None:
        words = line.split(" ", 2)
        if words[0] == "yield":
            point, ns = line.split()[1:3]
            self.lines.append(Line("yield", int(ns), point))
            if self._is_to_die:
                self.died_ns = self.died_ns or int(ns)
        elif len(words) >= 2 and words[1].isdigit():
            self.lines.append(Line(words[0], int(words[1]), words[2] if len(words) > 2 else ""))
        else:
            self.lines.append(Line("said", 0, line))

    def said(self, what: str, since: int = 0) -> Line | None:
        return next((line for line in self.lines if line.what == what and line.ns >= since), None)

    # -- What its board says

    def _field(self, index: int) -> int:
        return int(struct.unpack_from("<Q", self._board, index * 8)[0])

    @property
    def batches(self) -> int:
        return self._field(0)

    def next(self, writer: int, partition: int) -> int:
        return self._field(1 + writer * PARTITIONS + partition)

    def has_read(self, writer: Player) -> bool:
        return any(self.next(writer.id, partition) for partition in range(PARTITIONS))

    # -- Its end

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self, text: str = "") -> None:
        """Tells it to close in order."""
        self.told_to_close = True
        with contextlib.suppress(BrokenPipeError, ValueError):
            assert self.process.stdin
            self.process.stdin.write(text.encode())
            self.process.stdin.close()

    def kill(self) -> None:
        self.died_ns = self.died_ns or time.monotonic_ns()
        self.process.kill()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Now, and whenever it comes to its point from here on."""
        self.goes_on = True
        self.process.send_signal(signal.SIGCONT)

    def keep_going(self) -> None:
        if self.goes_on and self.alive:
            state = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "T":
                self.process.send_signal(signal.SIGCONT)

    def clear_away(self) -> None:
        """Whatever it was, nothing is left of it."""
        if self.alive:
            self.kill()
        self.process.wait()
        self.read()
        if child := self.said("child"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child.rest), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(child.rest), 0)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError, ValueError):
                assert stream
                stream.close()
        self._streams.clear()


def listen(players: Iterable[Player], seconds: float) -> None:
    """Reads what the players say now or within `seconds`."""
    players = list(players)
    for player in players:
        player.keep_going()
    by_fd = {fd: player for player in players for fd in player.descriptors()}
    if by_fd:
        ready, _, _ = select.select(list(by_fd), [], [], max(0.0, seconds))
        for fd in ready:
            by_fd[fd].read()
    elif seconds > 0:
        time.sleep(min(seconds, 0.001))


def until(players: Iterable[Player], seconds: float, condition: Callable[[], bool]) -> bool:
    """Listens until the condition holds; False when it does not in time."""
    players = list(players)
    end = time.monotonic() + seconds
    while not condition():
        left = end - time.monotonic()
        if left <= 0:
            return condition()
        listen(players, min(left, 0.002))
    return True


def socket_name(address: str) -> str:
    """The abstract socket of an address, as providers/ipc makes it: FNV-1a over the name."""
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in address.removeprefix("ipc://").encode():
        value = (value ^ byte) * ((1 << 88) + 0x13B) % (1 << 128)
    return f"@lwmq/{os.getuid()}/{value:032x}"


def is_bound(address: str) -> bool:
    return socket_name(address) in Path("/proc/net/unix").read_text()
