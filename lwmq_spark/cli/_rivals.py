"""Other ways to bring messages from one process to another, for `lwmq perf --against`."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

from lwmq_spark.cli import _python

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


def iceoryx2_node(address: str) -> Any:
    """A node whose files have names that begin with the address, in /dev/shm and in a folder of its own."""
    import iceoryx2 as iox

    iox.set_log_level(iox.LogLevel.Error)
    config = iox.config.default()
    config.global_cfg.prefix = iox.FileName.new(f"{address}-")
    config.global_cfg.root_path = iox.Path.new(f"/dev/shm/{address}.iceoryx2/")
    return iox.NodeBuilder.new().config(config).create(iox.ServiceType.Ipc)


class Iceoryx2:
    """Two services of iceoryx2, one each way; who receives looks without a pause."""

    def __init__(self, address: str, *, server: bool, bytes_max: int = 1 << 17) -> None:
        import iceoryx2 as iox

        self._node = iceoryx2_node(address)
        self._server = server
        depth = 256 if bytes_max <= 1 << 17 else 4

        def service(name: str) -> Any:
            builder = self._node.service_builder(iox.ServiceName.new(f"{address}-{name}"))
            return (
                builder.publish_subscribe(iox.Slice[ctypes.c_uint8])
                .payload_alignment(iox.Alignment.new(64))
                .subscriber_max_buffer_size(depth)
                .subscriber_max_borrowed_samples(2)
                .history_size(0)
                .enable_safe_overflow(False)
                .open_or_create()
            )

        out, into = service("back" if server else "there"), service("there" if server else "back")
        self._services = out, into  # the ports need them
        self._subscriber = into.subscriber_builder().create()
        self._publisher = (
            out.publisher_builder()
            .initial_max_slice_len(bytes_max)
            .max_loaned_samples(1)
            .backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        end = time.monotonic() + PATIENCE_S
        while out.dynamic_config.number_of_subscribers == 0:
            if time.monotonic() > end:
                raise TimeoutError("iceoryx2: the other process did not come")
            time.sleep(0.001)

    def loan(self, size: int) -> Any:
        """A sample, to be filled and sent."""
        return self._publisher.loan_slice_uninit(size)

    def send(self, payload: bytes) -> None:
        sample = self.loan(len(payload))
        ctypes.memmove(sample.payload_ptr, payload, len(payload))
        sample.assume_init().send()

    def take(self) -> Any:
        """The next sample, to be deleted."""
        receive = self._subscriber.receive
        while (sample := receive()) is None:
            pass
        return sample

    def receive(self) -> bytes:
        sample = self.take()
        payload = ctypes.string_at(sample.payload_ptr, sample.header.number_of_elements)
        sample.delete()
        return payload

    def close(self) -> None:
        if self._server:
            time.sleep(0.2)  # the other side may still read our last answer
        self._publisher.delete()
        self._subscriber.delete()


RIVALS: dict[str, type[Zmq] | type[Uds] | type[Iceoryx2]] = {"zmq": Zmq, "uds": Uds, "iceoryx2": Iceoryx2}
NAMES = (*RIVALS, "ucx")
LANGUAGE = dict.fromkeys(RIVALS, "Python") | {"ucx": "C"}  # of the calls that are measured


def why_not(name: str) -> str | None:
    """What would have to be installed; None where it can run."""
    if name == "zmq" and importlib.util.find_spec("zmq") is None:
        return "needs the Python package pyzmq"
    if name == "iceoryx2" and importlib.util.find_spec("iceoryx2") is None:
        return "needs the Python package iceoryx2"
    if name == "ucx" and shutil.which("ucx_perftest") is None:
        return "needs ucx_perftest (Debian: ucx-utils)"
    return None


def measure(name: str, size: int, seconds: float) -> dict[str, Any]:
    """One-way latency and messages per second, as `lwmq perf` measures ours. UCX runs its own native tool."""
    if name == "ucx":
        return _ucx(size, seconds)
    address = f"lwmq-perf-{uuid.uuid4().hex}"
    command = "import sys; from lwmq_spark.cli._rivals import answer; answer(*sys.argv[1:])"
    answering = _python.start("-c", command, name, address, size, stdout=subprocess.DEVNULL)
    try:
        figures = _ask(RIVALS[name](address, server=False), size, seconds)
        answering.wait(PATIENCE_S)
    finally:
        if answering.poll() is None:
            answering.kill()
            answering.wait()
        for left in Path("/dev/shm").glob(f"{address}*"):  # iceoryx2 leaves a folder and a file or two
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return figures


def _ask(rival: Rival, size: int, seconds: float) -> dict[str, Any]:
    payload = bytes(size)
    round_trips: list[int] = []
    rival.send(payload)
    rival.receive()  # they have met
    warm_until = time.perf_counter() + 0.3 * seconds
    end = warm_until + seconds
    while (now := time.perf_counter()) < end or not round_trips:
        before = time.perf_counter_ns()
        rival.send(payload)
        rival.receive()
        if now > warm_until:
            round_trips.append(time.perf_counter_ns() - before)
    rival.send(COUNT)
    begun, sent = time.perf_counter(), 0
    while time.perf_counter() < begun + seconds or not sent:
        for _ in range(256):
            rival.send(payload)
        sent += 256
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


def answer(name: str, address: str, size: str) -> None:
    """The side that answers, in a process of its own, until it has counted what came."""
    rival = RIVALS[name](address, server=True)
    payload = bytes(int(size))
    while rival.receive() != COUNT:
        rival.send(payload)
    seen = 0
    while rival.receive() != STOP:
        seen += 1
    rival.send(str(seen).encode())
    rival.close()
