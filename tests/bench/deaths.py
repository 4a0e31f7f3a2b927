"""How soon the death of a process is noticed by who waits for a message, or a batch, of it.

    python -m tests.bench.deaths PEER COUNT ADDRESS

kills COUNT processes, one after the other. PEER is `floor` (a pair of local sockets, whose end a read tells
of), `lwmq` (a channel) or `lwmq-stream` (a stream of the reader's, to which the process writes), both also as
`lwmq-tcp` and `lwmq-tcp-stream`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

PATIENCE_S = 60.0
ASLEEP_S = 0.05  # whoever waits has gone to sleep by then

VICTIMS = {
    "floor": "",
    "lwmq": """
import lwmq_spark as lwmq
channel = lwmq.Channel(sys.argv[1], "client")
channel.send_queue().post(b"here")
channel.flush(60)
""",
    "lwmq-stream": """
import lwmq_spark as lwmq, pyarrow as pa
batch = pa.record_batch({"n": [1]})
writer = lwmq.open_writer(sys.argv[1], batch.schema, role="client")
writer.write(batch)
""",
}


def start(peer: str, address: str, inherited: int | None = None) -> subprocess.Popen[str]:
    """A process that has said something, and lives until it is killed."""
    code = f"import sys, time\n{VICTIMS[peer]}\nprint('here', flush=True)\ntime.sleep({PATIENCE_S})"
    return subprocess.Popen(
        [sys.executable, "-c", code, address],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[] if inherited is None else [inherited],
    )


def until_noticed(victim: subprocess.Popen[str], wait: Callable[[], object]) -> int:
    """Nanoseconds from the kill to the end of `wait`."""
    struck: list[int] = []

    def strike() -> None:
        time.sleep(ASLEEP_S)
        struck.append(time.perf_counter_ns())
        victim.send_signal(signal.SIGKILL)

    assert victim.stdout is not None and victim.stdout.readline() == "here\n"
    striking = threading.Thread(target=strike)
    striking.start()
    wait()
    noticed = time.perf_counter_ns()
    striking.join()
    victim.communicate()
    return noticed - struck[0]


def of_a_socket(address: str) -> int:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            victim = start("floor", address, theirs.fileno())
        return until_noticed(victim, lambda: ours.recv(1))


def place(address: str, scheme: str) -> str:
    if scheme == "ipc":
        return f"ipc://{address}"
    os.environ["LWMQ_WIRE"] = "1"  # of the victim, too: else both ends meet in shared memory
    return f"tcp://127.0.0.1:0/{address}"


def of_a_channel(address: str, scheme: str = "ipc") -> int:
    import lwmq_spark as lwmq

    def wait() -> None:
        try:
            channel.receive(PATIENCE_S)
        except lwmq.PeerLostError:
            return
        sys.exit("it has said something more")

    with lwmq.Channel(place(address, scheme), "server", linger=0) as channel:
        victim = start("lwmq", channel.address)
        channel.receive(PATIENCE_S)
        return until_noticed(victim, wait)


def of_a_stream(address: str, scheme: str = "ipc") -> int:
    import lwmq_spark as lwmq

    def wait() -> None:
        try:
            next(reader)
        except (lwmq.AbortedError, lwmq.PeerLostError):
            return
        sys.exit("it has written something more")

    with lwmq.open_reader(place(address, scheme), role="server", timeout=PATIENCE_S, linger=0) as reader:
        victim = start("lwmq-stream", reader.address)
        next(reader)
        return until_noticed(victim, wait)


PEERS: dict[str, Callable[[str], int]] = {
    "floor": of_a_socket,
    "lwmq": of_a_channel,
    "lwmq-stream": of_a_stream,
    "lwmq-tcp": partial(of_a_channel, scheme="tcp"),
    "lwmq-tcp-stream": partial(of_a_stream, scheme="tcp"),
}


def main(peer: str, count: int, address: str) -> None:
    taken = [PEERS[peer](f"{address}-{number}") for number in range(count)]
    print(json.dumps({"p50_ns": statistics.median(taken), "longest_ns": max(taken), "deaths": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
