"""Other ways to bring messages from one process to another, for `lwmq perf --against`.

python -m lwmq_spark.cli._rivals NAME ADDRESS BYTES         the side that answers; started by `measure`
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from typing import Any, Protocol

PATIENCE_S = 30.0
COUNT, STOP = b"count", b"stop"


class Rival(Protocol):
    """One end of a conversation."""

    def send(self, payload: bytes) -> None:
        """Sends a message; waits for room."""

    def receive(self) -> bytes:
        """Waits for the next message."""

    def close(self) -> None:
        """After the last message was read."""


class Zmq:
    """A ZeroMQ PAIR over its ipc transport."""

    def __init__(self, address: str, *, server: bool) -> None:
        import zmq

        self._context = zmq.Context()
        self._pair = self._context.socket(zmq.PAIR)
        self._pair.linger = 1000
        self._pair.rcvtimeo = self._pair.sndtimeo = int(PATIENCE_S * 1000)
        (self._pair.bind if server else self._pair.connect)(f"ipc://@{address}")

    def send(self, payload: bytes) -> None:
        self._pair.send(payload)

    def receive(self) -> bytes:
        return bytes(self._pair.recv())

    def close(self) -> None:
        self._pair.close()
        self._context.term()


class Uds:
    """A Unix socket that keeps messages apart: what the kernel has by itself."""

    def __init__(self, address: str, *, server: bool) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(PATIENCE_S)
        if server:
            with self._socket as listener:
                listener.bind(f"\0{address}")
                listener.listen(1)
                self._socket, _ = listener.accept()
        else:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    self._socket.connect(f"\0{address}")
                    break
                except ConnectionRefusedError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.01)
        self._socket.settimeout(None)

    def send(self, payload: bytes) -> None:
        self._socket.send(payload)

    def receive(self) -> bytes:
        return self._socket.recv(1 << 17)

    def close(self) -> None:
        self._socket.close()


RIVALS: dict[str, type[Zmq] | type[Uds]] = {"zmq": Zmq, "uds": Uds}
NAMES = (*RIVALS, "ucx")


def why_not(name: str) -> str | None:
    """What would have to be installed; None where it can run."""
    if name == "zmq" and importlib.util.find_spec("zmq") is None:
        return "needs the Python package pyzmq"
    if name == "ucx" and shutil.which("ucx_perftest") is None:
        return "needs ucx_perftest (Debian: ucx-utils)"
    return None


def measure(name: str, size: int, seconds: float) -> dict[str, Any]:
    """One-way latency and messages per second, as `lwmq perf` measures ours. UCX runs its own native tool."""
    if name == "ucx":
        return _ucx(size, seconds)
    address = f"lwmq-perf-{uuid.uuid4().hex}"
    answering = subprocess.Popen(
        [sys.executable, "-m", "lwmq_spark.cli._rivals", name, address, str(size)], stdout=subprocess.DEVNULL
    )
    try:
        figures = _ask(RIVALS[name](address, server=False), size, seconds)
        answering.wait(PATIENCE_S)
    finally:
        if answering.poll() is None:
            answering.kill()
            answering.wait()
    return figures


def _ask(rival: Rival, size: int, seconds: float) -> dict[str, Any]:
    payload = bytes(size)
    round_trips: list[int] = []
    rival.send(payload)
    rival.receive()  # they have met
    warm_until = time.perf_counter() + 0.3 * seconds
    end = warm_until + seconds
    while (now := time.perf_counter()) < end:
        before = time.perf_counter_ns()
        rival.send(payload)
        rival.receive()
        if now > warm_until:
            round_trips.append(time.perf_counter_ns() - before)
    rival.send(COUNT)
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        for _ in range(256):
            rival.send(payload)
    rival.send(STOP)
    seen = int(rival.receive())
    taken = time.perf_counter() - begun
    rival.close()
    round_trips.sort()

    def one_way(share: float) -> float:
        return round_trips[min(int(len(round_trips) * share), len(round_trips) - 1)] / 2000

    shares = {"latency_p50_us": 0.5, "latency_p99_us": 0.99, "latency_p999_us": 0.999}
    return {name: one_way(share) for name, share in shares.items()} | {"messages_per_second": seen / taken}


def _ucx(size: int, seconds: float) -> dict[str, Any]:
    """ucx_perftest over shared memory: two native processes, whose receiver looks at no byte."""
    count = str(int(1_000_000 * seconds))
    found: dict[str, Any] = {}
    for test, rank in (("tag_lat", "50"), ("tag_lat", "99"), ("tag_lat", "99.9"), ("tag_bw", "50")):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        environment = {**os.environ, "UCX_TLS": "posix,self"}
        serving = subprocess.Popen(
            ["ucx_perftest", "-p", port],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(0.3)
            command = ["ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", str(size), "-n", count]
            command += ["-R", rank, "-v", "-f"]
            asked = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=120, check=True
            )
        finally:
            serving.kill()
            serving.wait()
        cells = [float(cell) for cell in asked.stdout.splitlines()[-1].split(",")]
        if test == "tag_bw":
            found["messages_per_second"] = cells[-1]
        else:
            found[f"latency_p{rank.replace('.', '')}_us"] = cells[1]
    return found


def _answer(name: str, address: str, size: int) -> None:
    rival = RIVALS[name](address, server=True)
    payload = bytes(size)
    while rival.receive() != COUNT:
        rival.send(payload)
    seen = 0
    while rival.receive() != STOP:
        seen += 1
    rival.send(str(seen).encode())
    rival.close()


if __name__ == "__main__":
    _answer(sys.argv[1], sys.argv[2], int(sys.argv[3]))
