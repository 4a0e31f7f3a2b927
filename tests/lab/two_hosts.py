"""Two guests on one wire, over RDMA: messages and a stream, until one of the hosts vanishes.

python -m tests.lab.two_hosts serves | connects
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pyarrow as pa

import lwmq_spark as lwmq

ECHO, NUMBERS, LAST = (
    f"rdma://10.77.0.1:7001/{name}?auth=none&silent=4s" for name in ("echo", "numbers", "last")
)
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS, BATCHES = 5_000, 8
MESSAGES = [bytes([n]) * length for n, length in enumerate((1, 100, 1000, 60_000, 5))]


def serve() -> None:
    with lwmq.Channel(ECHO, "server") as channel:
        queue = channel.send_queue()
        for _ in MESSAGES:
            queue.post(channel.receive(600))
    with lwmq.open_writer(NUMBERS, SCHEMA, timeout=600, stall=120) as writer:
        for batch in range(BATCHES):
            numbers = range(batch * ROWS, (batch + 1) * ROWS)
            writer.write(pa.record_batch({"n": numbers, "text": [str(n) for n in numbers]}, SCHEMA))
    with lwmq.Channel(LAST, "server", linger=0) as channel:
        channel.send_queue().post(channel.receive(600))
        try:
            channel.receive(600)
        except lwmq.PeerLostError as error:
            print("lost:", error, flush=True)


def connect() -> None:
    with lwmq.Channel(ECHO, "client") as channel:
        channel.wait_connected(600)
        queue = channel.send_queue()
        for message in MESSAGES:
            queue.post(message)
            assert bytes(channel.receive(600)) == message
    with lwmq.open_reader(NUMBERS, timeout=600, stall=120) as reader:
        table = pa.Table.from_batches(list(reader))
    assert table["n"].to_pylist() == list(range(ROWS * BATCHES))
    assert table["text"].to_pylist() == [str(n) for n in range(ROWS * BATCHES)]
    print("read", table.num_rows, flush=True)
    with lwmq.Channel(LAST, "client") as channel:
        channel.wait_connected(600)
        channel.send_queue().post(b"farewell")
        assert bytes(channel.receive(600)) == b"farewell"
        vanish()


def vanish() -> None:
    """This host ends at once, and tells nobody."""
    Path("/run/lab/status").write_text("0\n")
    Path("/proc/sysrq-trigger").write_text("b")
    signal.pause()


if __name__ == "__main__":
    {"serves": serve, "connects": connect}[sys.argv[1]]()
