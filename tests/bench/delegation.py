"""Work that another process does: what it costs to have it done there, beside doing it here.

    python -m tests.bench.delegation PEER serve|ask BATCH SECONDS ADDRESS CORE

A command is one frame of a request, of 64 bytes; the solver works TASK_NS on each, and its reply has a frame
for each. A BATCH of 0 is for one command on which nobody works, there and back. PEER is `lwmq` (Requests and
Replies), `pyzmq` (parts of a message between two PAIRs), or `pipe` (lists over a connection of
multiprocessing, what Python people take first).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

TASK_NS = 100_000
COMMAND_BYTES = 64
PATIENCE_S = 20.0

# What is asked, as frames; what is answered.
Solve = Callable[[Sequence[Any]], list[bytes]]
Ask = Callable[[list[bytes]], Sequence[Any]]


def work(command: Any) -> bytes:
    end = time.perf_counter_ns() + TASK_NS
    while time.perf_counter_ns() < end:
        pass
    return bytes(command)


def solve(commands: Sequence[Any]) -> list[bytes]:
    return [work(command) for command in commands]


def echo(commands: Sequence[Any]) -> list[bytes]:
    return [bytes(command) for command in commands]


def serve_lwmq(address: str, do: Solve) -> None:
    import lwmq_spark as lwmq

    with lwmq.Channel(f"ipc://{address}", "server") as channel:
        lwmq.Replies(channel).serve(do, forever=False)


def ask_lwmq(address: str, use: Callable[[Ask], None]) -> None:
    import lwmq_spark as lwmq

    with lwmq.Channel(f"ipc://{address}", "client") as channel, lwmq.Requests(channel) as requests:
        channel.wait_connected(PATIENCE_S)
        use(lambda commands: requests.request(commands, timeout=PATIENCE_S))


def zmq_pair(address: str, *, serves: bool) -> Any:
    import zmq

    pair = zmq.Context.instance().socket(zmq.PAIR)
    pair.linger = 1000
    (pair.bind if serves else pair.connect)(f"ipc://@{address}")
    return pair


def serve_zmq(address: str, do: Solve) -> None:
    pair = zmq_pair(address, serves=True)
    while commands := pair.recv_multipart()[1:]:  # no commands are a message, too
        pair.send_multipart(do(commands))


def ask_zmq(address: str, use: Callable[[Ask], None]) -> None:
    pair = zmq_pair(address, serves=False)

    def ask(commands: list[bytes]) -> Sequence[Any]:
        pair.send_multipart([b"", *commands])
        return pair.recv_multipart()  # type: ignore[no-any-return]

    use(ask)
    pair.send_multipart([b""])


def serve_pipe(address: str, do: Solve) -> None:
    with Listener(f"\0{address}", "AF_UNIX") as listener, listener.accept() as connection:
        while commands := connection.recv():
            connection.send(do(commands))


def _connection(address: str) -> Connection:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Client(f"\0{address}", "AF_UNIX")
        except ConnectionRefusedError:  # nobody listens yet
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def ask_pipe(address: str, use: Callable[[Ask], None]) -> None:
    connection = _connection(address)

    def ask(commands: list[bytes]) -> Sequence[Any]:
        connection.send(commands)
        return connection.recv()  # type: ignore[no-any-return]

    with connection:
        use(ask)
        connection.send([])


PEERS = {"lwmq": (serve_lwmq, ask_lwmq), "pyzmq": (serve_zmq, ask_zmq), "pipe": (serve_pipe, ask_pipe)}


def measure(ask: Ask, batch: int, seconds: float) -> dict[str, float]:
    """Medians of a task's time: delegated, and here; in turns, so that both meet the same machine."""
    commands = [number.to_bytes(COMMAND_BYTES, "little") for number in range(batch)]
    delegated, here = [], []
    end = time.perf_counter() + seconds
    while not here or time.perf_counter() < end:
        for do, taken in ((ask, delegated), (solve, here)):
            begun = time.perf_counter_ns()
            answers = do(commands)
            taken.append((time.perf_counter_ns() - begun) / batch)
            if [bytes(answer) for answer in answers] != commands:
                sys.exit("another answer than was to be expected")
    ns, alone = statistics.median(delegated), statistics.median(here)
    return {"task_ns": ns, "here_ns": alone, "overhead": 100 * (ns / alone - 1), "batches": len(here)}


def measure_round_trips(ask: Ask, seconds: float) -> dict[str, float]:
    command = bytes(COMMAND_BYTES)
    taken = []
    end = time.perf_counter() + seconds
    while not taken or time.perf_counter() < end:
        begun = time.perf_counter_ns()
        (answer,) = ask([command])
        taken.append(time.perf_counter_ns() - begun)
        if bytes(answer) != command:
            sys.exit("another answer than was to be expected")
    taken.sort()
    return {"p50_ns": statistics.median(taken), "p99_ns": taken[len(taken) * 99 // 100], "asked": len(taken)}


def main(peer: str, role: str, batch: int, seconds: float, address: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    serves, asks = PEERS[peer]
    if role == "serve":
        serves(address, solve if batch > 0 else echo)
    elif batch > 0:
        asks(address, lambda ask: print(json.dumps(measure(ask, batch, seconds))))
    else:
        asks(address, lambda ask: print(json.dumps(measure_round_trips(ask, seconds))))


if __name__ == "__main__":
    peer, role, batch, seconds, address, core = sys.argv[1:]
    main(peer, role, int(batch), float(seconds), address, int(core))
