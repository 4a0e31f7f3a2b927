"""Whether a conversation, or one direction of it, that stands still slows down another.

    python -m tests.bench.apart PEER channel|direction serve|ask 0 SECONDS ADDRESS CORE

`ask` sends many small messages that `serve` reads, in turns while nothing else is under way and while another
channel, or the way back of the same one, is full of messages that nobody takes. PEER is `lwmq` or `pyzmq`
(PAIRs); both ends tell each other what to do over a channel of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Protocol

from tests.bench.delegation import zmq_pair

PATIENCE_S = 20.0
MESSAGE = bytes(64)
EACH = 100_000  # messages of a slice
STUCK = 200_000  # messages that nobody takes: more than buffers hold
TOGETHER = 250
FLUSH_EACH = 5_000
FLOW, OTHER, CONTROL = range(3)


class Peer(Protocol):
    """One end of three conversations."""

    def send(self, which: int, count: int) -> None:
        """Sends MESSAGE `count` times; waits where the other end is slow."""

    def take(self, which: int, count: int) -> None:
        """Waits for that many messages."""

    def stick(self, which: int) -> int:
        """Sends messages that the other end does not take, as many as it can or STUCK: how many."""

    def tell(self, word: str) -> None: ...

    def hear(self) -> str: ...

    def close(self) -> None: ...


class Lwmq:
    def __init__(self, address: str, *, serves: bool) -> None:
        import lwmq_spark as lwmq

        role = "server" if serves else "client"
        self.channels = [lwmq.Channel(f"ipc://{address}-{which}", role) for which in range(3)]
        for channel in self.channels:
            channel.wait_connected(PATIENCE_S)
        self.queues = [channel.send_queue() for channel in self.channels]

    def send(self, which: int, count: int) -> None:
        for begin in range(0, count, TOGETHER):
            self.queues[which].post_many([MESSAGE] * TOGETHER)
            if begin % FLUSH_EACH == 0:
                self.channels[which].flush(PATIENCE_S)

    def take(self, which: int, count: int) -> None:
        while count > 0:
            count -= len(self.channels[which].receive_bytes(min(count, TOGETHER), PATIENCE_S))

    def stick(self, which: int) -> int:
        for _ in range(STUCK // TOGETHER):
            self.queues[which].post_many([MESSAGE] * TOGETHER)
        return STUCK

    def tell(self, word: str) -> None:
        self.queues[CONTROL].post(word.encode())

    def hear(self) -> str:
        return bytes(self.channels[CONTROL].receive(PATIENCE_S)).decode()

    def close(self) -> None:
        for channel in self.channels:
            channel.close(PATIENCE_S)


class Zmq:
    def __init__(self, address: str, *, serves: bool) -> None:
        import zmq

        self.zmq = zmq
        self.pairs = [zmq_pair(f"{address}-{which}", serves=serves) for which in range(3)]

    def send(self, which: int, count: int) -> None:
        for _ in range(count):
            self.pairs[which].send(MESSAGE)

    def take(self, which: int, count: int) -> None:
        for _ in range(count):
            self.pairs[which].recv()

    def stick(self, which: int) -> int:
        for sent in range(STUCK):
            try:
                self.pairs[which].send(MESSAGE, self.zmq.NOBLOCK)
            except self.zmq.Again:
                return sent
        return STUCK

    def tell(self, word: str) -> None:
        self.pairs[CONTROL].send_string(word)

    def hear(self) -> str:
        return str(self.pairs[CONTROL].recv_string())

    def close(self) -> None:
        for pair in self.pairs:
            pair.close()


PEERS = {"lwmq": Lwmq, "pyzmq": Zmq}


def serve(peer: Peer) -> None:
    while (word := peer.hear()) != "end":
        what, _, count = word.partition(" ")
        if what == "flow":
            peer.take(FLOW, EACH)
        elif what == "drain":
            peer.take(OTHER, int(count))
        peer.tell(str(peer.stick(FLOW)) if what == "stick" else "done")


def ask(peer: Peer, what: str, seconds: float) -> dict[str, float]:
    def told(word: str) -> str:
        peer.tell(word)
        return peer.hear()

    def slice_ns() -> float:
        peer.tell("flow")
        begun = time.perf_counter_ns()
        peer.send(FLOW, EACH)
        peer.hear()
        return time.perf_counter_ns() - begun

    alone: list[float] = []
    beside: list[float] = []
    slice_ns()
    end = time.perf_counter() + seconds
    while not beside or time.perf_counter() < end:
        alone.append(slice_ns())
        if what == "channel":
            stuck = peer.stick(OTHER)
            beside.append(slice_ns())
            told(f"drain {stuck}")
        else:
            stuck = int(told("stick"))
            beside.append(slice_ns())
            peer.take(FLOW, stuck)
    peer.tell("end")
    of_one, of_other = statistics.median(alone), statistics.median(beside)
    return {"per_second": EACH / of_other * 1e9, "alone_per_second": EACH / of_one * 1e9,
            "to_alone": of_one / of_other, "slices": len(beside)}  # fmt: skip


def main(peer: str, what: str, role: str, _size: str, seconds: str, address: str, core: str) -> None:
    os.sched_setaffinity(0, {int(core)})
    end: Peer = PEERS[peer](address, serves=role == "serve")
    if role == "serve":
        serve(end)
    else:
        print(json.dumps(ask(end, what, float(seconds))))
    end.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
