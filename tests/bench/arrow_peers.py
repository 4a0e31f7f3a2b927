"""Arrow batches between two Python processes, by several ways. One process of a pair:

    python -m tests.bench.arrow_peers PEER send|receive BATCH_BYTES SECONDS ADDRESS CORE

The receiver reads every byte of every batch where it lies, and prints what it saw from the first to the last.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = 4
PATIENCE_S = 20.0


def make_batch(size: int) -> pa.RecordBatch:
    """Four columns of doubles, `size` bytes together."""
    column = pa.array([1.0] * (size // (8 * COLUMNS)), pa.float64())
    return pa.record_batch([column] * COLUMNS, names=[f"c{i}" for i in range(COLUMNS)])


def repeated(batch: pa.RecordBatch, seconds: float) -> Iterator[pa.RecordBatch]:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield batch


class Count:
    """What a receiver sees."""

    def __init__(self) -> None:
        self.batches = 0
        self.bytes = 0
        self.first = self.last = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        for column in batch.columns:
            np.maximum.reduce(column.to_numpy())  # reads as fast as memory is; a sum of doubles does not
        self.last = time.perf_counter()
        if self.first == 0.0:
            self.first = self.last  # the first batch starts the clock and is not counted
            return
        self.batches += 1
        self.bytes += batch.nbytes

    def report(self) -> None:
        seconds = self.last - self.first
        print(json.dumps({
            "batches": self.batches,
            "bytes_per_second": self.bytes / seconds if seconds else 0.0,
            "per_second": self.batches / seconds if seconds else 0.0,
        }))  # fmt: skip


# ---- lwmq: one copy into the window, none out of it; or built in the window from the start


def lwmq_send(address: str, batch: pa.RecordBatch, seconds: float) -> None:
    import lwmq_spark as lwmq

    uri, window = f"ipc://{address}", _window(batch)
    with lwmq.open_writer(uri, batch.schema, role="server", window_bytes=window) as writer:
        for each in repeated(batch, seconds):
            writer.write(each)


def lwmq_receive(address: str, count: Count) -> None:
    import lwmq_spark as lwmq

    with lwmq.open_reader(f"ipc://{address}", role="client", timeout=PATIENCE_S) as reader:
        for batch in reader:
            count.add(batch)


def _window(batch: pa.RecordBatch) -> int:
    return max(8 << 20, 4 * batch.nbytes + (1 << 20))


# ---- a stream of Arrow IPC through a Unix socket


def uds_send(address: str, batch: pa.RecordBatch, seconds: float) -> None:
    with (
        _connected(address) as connection,
        connection.makefile("wb", buffering=0) as file,
        pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema) as writer,
    ):
        for each in repeated(batch, seconds):
            writer.write_batch(each)


def uds_receive(address: str, count: Count) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as file:
            for batch in pa.ipc.open_stream(file):
                count.add(batch)


@contextmanager
def _connected(address: str) -> Iterator[socket.socket]:
    end = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX) as connection:
        while True:
            try:
                connection.connect(f"\0{address}")
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        yield connection


# ---- pyzmq, a PAIR over ipc, batches as IPC messages


def zmq_send(address: str, batch: pa.RecordBatch, seconds: float) -> None:
    import zmq

    with zmq.Context() as context, context.socket(zmq.PAIR) as pair:
        pair.sndhwm = 8
        pair.connect(f"ipc://@{address}")
        pair.send(batch.schema.serialize().to_pybytes())
        for each in repeated(batch, seconds):
            pair.send(each.serialize(), copy=False)
        pair.send(b"")
        pair.recv()


def zmq_receive(address: str, count: Count) -> None:
    import zmq

    with zmq.Context() as context, context.socket(zmq.PAIR) as pair:
        pair.rcvhwm = 8
        pair.bind(f"ipc://@{address}")
        schema = pa.ipc.read_schema(pa.py_buffer(pair.recv()))
        while len(frame := pair.recv(copy=False)):
            count.add(pa.ipc.read_record_batch(pa.py_buffer(frame.buffer), schema))
        pair.send(b"")


# ---- Arrow Flight over a Unix socket, do_get


def flight_send(address: str, batch: pa.RecordBatch, seconds: float) -> None:
    import pyarrow.flight as flight

    done = threading.Event()

    class Server(flight.FlightServerBase):
        def do_get(self, context: Any, ticket: Any) -> Any:
            batches = repeated(batch, seconds)
            return flight.GeneratorStream(batch.schema, batches)

        def do_action(self, context: Any, action: Any) -> list[Any]:
            done.set()
            return []

    with Server(f"grpc+unix:///tmp/{address}"):
        done.wait(PATIENCE_S + seconds)
    Path(f"/tmp/{address}").unlink(missing_ok=True)


def flight_receive(address: str, count: Count) -> None:
    import pyarrow.flight as flight

    end = time.monotonic() + PATIENCE_S
    while not Path(f"/tmp/{address}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    with flight.connect(f"grpc+unix:///tmp/{address}") as client:
        client.wait_for_available(timeout=int(PATIENCE_S))
        for chunk in client.do_get(flight.Ticket(b"")):
            count.add(chunk.data)
        list(client.do_action(flight.Action("done", b"")))


PEERS: dict[str, tuple[Callable[[str, pa.RecordBatch, float], None], Callable[[str, Count], None]]] = {
    "lwmq": (lwmq_send, lwmq_receive),
    "uds + pa.ipc": (uds_send, uds_receive),
    "pyzmq ipc": (zmq_send, zmq_receive),
    "Flight unix": (flight_send, flight_receive),
}


def main(peer: str, role: str, size: int, seconds: float, address: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    pa.set_cpu_count(1)
    send, receive = PEERS[peer]
    if role == "send":
        send(address, make_batch(size), seconds)
        return
    count = Count()
    receive(address, count)
    count.report()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0], arguments[1], int(arguments[2]), float(arguments[3]), arguments[4], int(arguments[5]))
