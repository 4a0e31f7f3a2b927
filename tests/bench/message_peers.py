"""Messages between two Python processes, by several ways: what native_bench does, from Python.

    python -m tests.bench.message_peers PEER METRIC serve|ask BYTES SECONDS ADDRESS CORE

METRIC is `latency` (round trips) or `rate` (one way). The sender copies the payload from its own memory into
the message, or the peer does; the receiver reads every byte of it. iceoryx2 is measured here and not in
native_bench because PyPI carries its Python binding alone: its figures hold what a call from Python costs.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from lwmq_spark.cli import _rivals

PATIENCE_S = 20.0
STOP = (1 << 64) - 1
SMALL_BYTES = 4096  # up to here bytes are compared, above NumPy reads them
FLUSH_EACH = 1000  # our queues have no bound, those of the others do

# Reads all of a message; true for an ordinary one, false for the one that ends the run.
Reader = Callable[[Any], bool]


class Peer(Protocol):
    """One end of a conversation."""

    def send(self, payload: bytes) -> None:
        """Sends a message; waits for room."""

    def receive(self, read: Reader) -> bool:
        """Waits for the next message and answers what `read` says of it."""

    def close(self) -> None:
        """After the last message was read."""


class Lwmq:
    def __init__(self, address: str, server: bool, size: int) -> None:
        import lwmq_spark as lwmq

        self.channel = lwmq.Channel(f"ipc://{address}", "server" if server else "client")
        self.channel.wait_connected(PATIENCE_S)
        self.queue = self.channel.send_queue()
        self.posted = 0

    def send(self, payload: bytes) -> None:
        self.queue.post(payload)
        self.posted += 1
        if self.posted % FLUSH_EACH == 0:
            self.channel.flush(PATIENCE_S)

    def receive(self, read: Reader) -> bool:
        return read(self.channel.receive(PATIENCE_S)[0])

    def close(self) -> None:
        self.channel.close(linger=PATIENCE_S)


class LwmqMany(Lwmq):
    """Calls for up to MANY messages, received as bytes."""

    MANY = 256

    def __init__(self, address: str, server: bool, size: int) -> None:
        super().__init__(address, server, size)
        self.staged: list[bytes] = []
        self.came: list[bytes] = []

    def send(self, payload: bytes) -> None:
        self.staged.append(payload)
        if len(self.staged) == self.MANY:
            self.post_staged()

    def post_staged(self) -> None:
        self.queue.post_many(self.staged)
        self.channel.flush(PATIENCE_S)
        self.staged = []

    def receive(self, read: Reader) -> bool:
        if self.staged:
            self.post_staged()
        if not self.came:
            self.came = self.channel.receive_bytes(self.MANY, PATIENCE_S)[::-1]
        return read(self.came.pop())

    def close(self) -> None:
        if self.staged:
            self.post_staged()
        super().close()


class Iceoryx2:
    """Ours looks without a pause while it is awake, and so does this one."""

    def __init__(self, address: str, server: bool, size: int) -> None:
        self.rival = _rivals.Iceoryx2(address, server=server, bytes_max=size)
        self.size = size
        self.send, self.close = self.rival.send, self.rival.close

    def receive(self, read: Reader) -> bool:
        sample = self.rival.take()
        found = read((ctypes.c_uint8 * self.size).from_address(sample.payload_ptr))
        sample.delete()
        return found


class Iceoryx2Handed(Iceoryx2):
    """Nobody touches the payload; a sample says by its length what other messages say by their first word."""

    def __init__(self, address: str, server: bool, size: int) -> None:
        super().__init__(address, server, size)
        self.send = self.hand_over

    def hand_over(self, payload: bytes) -> None:
        ordinary = payload[0] == 1
        self.rival.loan(self.size if ordinary else self.size - 8).assume_init().send()

    def receive(self, read: Reader) -> bool:
        sample = self.rival.take()
        size = sample.header.number_of_elements
        sample.delete()
        return bool(size == self.size)


class Zmq:
    def __init__(self, address: str, server: bool, size: int) -> None:
        import zmq

        self.context = zmq.Context()
        self.pair = self.context.socket(zmq.PAIR)
        self.pair.linger = 1000
        (self.pair.bind if server else self.pair.connect)(f"ipc://@{address}")

    def send(self, payload: bytes) -> None:
        self.pair.send(payload)

    def receive(self, read: Reader) -> bool:
        return read(self.pair.recv())

    def close(self) -> None:
        self.pair.close()
        self.context.term()


PEERS: dict[str, Callable[[str, bool, int], Peer]] = {
    "lwmq": Lwmq,
    "lwmq-many": LwmqMany,
    "iceoryx2": Iceoryx2,
    "iceoryx2-handed": Iceoryx2Handed,
    "pyzmq": Zmq,
}


def reader(size: int, ordinary: bytes) -> Reader:
    if size <= SMALL_BYTES:
        return lambda view: bytes(view) == ordinary
    return lambda view: bool(np.maximum.reduce(np.frombuffer(view, dtype=np.uint64)) == 1)


def ask_latency(peer: Peer, ordinary: bytes, read: Reader, seconds: float) -> dict[str, float]:
    samples = []
    clock = time.perf_counter_ns
    before = clock()
    warm = before + int(0.3e9 * seconds)
    end = warm + int(1e9 * seconds)
    while before < end:
        peer.send(ordinary)
        peer.receive(read)
        after = clock()
        if before > warm:
            samples.append(after - before)
        before = after
    if not samples:
        sys.exit("no round trip was complete")
    p50, p99, p999 = np.percentile(samples, [50, 99, 99.9]) / 2
    return {"p50_ns": p50, "p99_ns": p99, "p999_ns": p999, "round_trips": len(samples)}


def ask_rate(peer: Peer, ordinary: bytes, stop: bytes, read: Reader, seconds: float) -> dict[str, float]:
    between_looks = 1 if len(ordinary) >= 65536 else 256
    sent, begun = 0, time.perf_counter()
    while time.perf_counter() < begun + seconds:
        for _ in range(between_looks):
            peer.send(ordinary)
        sent += between_looks
    peer.send(stop)
    peer.receive(read)  # the other side answers when it has read everything
    taken = time.perf_counter() - begun
    return {"per_second": sent / taken, "bytes_per_second": sent * len(ordinary) / taken, "messages": sent}


def main(name: str, metric: str, role: str, size: int, seconds: float, address: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    ordinary = np.ones(size // 8, dtype=np.uint64).tobytes()
    stop = STOP.to_bytes(8, "little") + ordinary[8:]
    read = reader(size, ordinary)
    peer = PEERS[name](address, role == "serve", size)
    if role == "serve":
        while peer.receive(read):
            if metric == "latency":
                peer.send(ordinary)
        if metric == "rate":
            peer.send(ordinary)
    elif metric == "latency":
        print(json.dumps(ask_latency(peer, ordinary, read, seconds)))
        peer.send(stop)
    else:
        print(json.dumps(ask_rate(peer, ordinary, stop, read, seconds)))
    peer.close()


if __name__ == "__main__":
    name, metric, role, size, seconds, address, core = sys.argv[1:]
    main(name, metric, role, int(size), float(seconds), address, int(core))
