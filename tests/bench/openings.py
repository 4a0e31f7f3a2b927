"""How long it takes to open a stream: a writer, and behind it a reader, each until it may write or read.

    python -m tests.bench.openings PEER COUNT ADDRESS

opens COUNT streams, one after the other, and closes them. PEER is `floor` (two local sockets that are
connected and answered once each), `lwmq-door` (streams of an address that another process serves),
`lwmq-warm` (the same, with the connection that the writer before has left), or `lwmq` (each stream has an
address of its own, which the writer binds).
"""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

PATIENCE_S = 60.0

DOOR = """
import sys
import lwmq_spark as lwmq
with lwmq.Endpoint(sys.argv[1], linger=0):
    print("here", flush=True)
    sys.stdin.read()
"""
ECHO = """
import socket, sys
served = socket.socket(socket.AF_UNIX)
served.bind("\\0" + sys.argv[1])
served.listen()
print("here", flush=True)
while True:
    with served.accept()[0] as client:
        client.send(client.recv(1))
"""


@contextlib.contextmanager
def serving(code: str, address: str) -> Iterator[None]:
    command = [sys.executable, "-c", code, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None and server.stdout.readline() == b"here\n"
        try:
            yield
        finally:
            server.kill()


def of_sockets(count: int, address: str) -> list[int]:
    def open_two() -> None:
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("\0" + address)
                client.send(b"x")
                client.recv(1)

    with serving(ECHO, address):
        return [timed(open_two) for _ in range(count)]


def of_streams(count: int, address_of: Callable[[int], str]) -> list[int]:
    import pyarrow as pa

    import lwmq_spark as lwmq

    schema = pa.schema({"n": pa.int64()})
    taken = []
    for number in range(count + 1):
        begin = time.perf_counter_ns()
        writer = lwmq.open_writer(address_of(number), schema, timeout=PATIENCE_S)
        reader = lwmq.open_reader(address_of(number), timeout=PATIENCE_S)
        taken.append(time.perf_counter_ns() - begin)
        writer.abort("the next one, please")
        reader.close()
    return taken[1:]  # the first one loads modules and starts threads


def timed(call: Callable[[], None]) -> int:
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin


def main(peer: str, count: int, address: str) -> None:
    if peer == "floor":
        taken = of_sockets(count, address)
    elif peer == "lwmq":
        taken = of_streams(count, lambda number: f"ipc://{address}-{number}")
    else:
        with serving(DOOR, f"ipc://{address}"):
            names = (lambda _: "same") if peer == "lwmq-warm" else str
            taken = of_streams(count, lambda number: f"ipc://{address}?stream=s{names(number)}")
    print(json.dumps({"p50_ns": statistics.median(taken), "longest_ns": max(taken), "opened": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
