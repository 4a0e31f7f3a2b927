"""Arrow batches between two Python processes, by several ways. One process of a pair:

    python -m tests.bench.arrow_peers KIND PEER send|receive BATCH_BYTES SECONDS ADDRESS CORE

KIND says what the sender does for each batch, and the receiver with it:

    copied   it has a batch and hands it to the peer; the receiver reads every byte where it lies
    built    NumPy fills the columns where the receiver will read them, and it reads every byte
    handed   one value of each column is written there, and read: what is left is the peer itself
    network  as `copied`, over a TCP connection of this host; nothing takes the shorter way

The receiver prints what it saw from the first batch to the last.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lwmq_spark.cli._rivals import iceoryx2_node

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

    def __init__(self, kind: str) -> None:
        self.whole = kind != "handed"
        self.batches = 0
        self.bytes = 0
        self.first = self.last = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        for column in batch.columns:
            values = column.to_numpy()
            if self.whole:
                np.maximum.reduce(values)  # reads as fast as memory is; a sum of doubles does not
            else:
                values[0]
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


# What is done to the columns of one batch, where they lie in memory that the receiver reads.
Fill = Callable[[list[np.ndarray[Any, Any]], int], None]


def filling(kind: str, batch: pa.RecordBatch) -> Fill:
    values = [column.to_numpy() for column in batch.columns]

    def copied(columns: list[np.ndarray[Any, Any]], number: int) -> None:
        for column, source in zip(columns, values, strict=True):
            column[:] = source

    def built(columns: list[np.ndarray[Any, Any]], number: int) -> None:
        for column in columns:
            column.fill(number)

    def handed(columns: list[np.ndarray[Any, Any]], number: int) -> None:
        for column in columns:
            column[0] = number

    return {"copied": copied, "network": copied, "built": built, "handed": handed}[kind]


class Place:
    """Where the metadata and the columns of such a batch lie in a block: the columns on cache lines."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        message = batch.serialize()
        found = pa.ipc.read_record_batch(message, batch.schema)
        columns = [column.buffers()[1].address - message.address for column in found.columns]
        self.start = -columns[0] % 64
        self.schema, self.rows = batch.schema, batch.num_rows
        self.head = message.slice(0, columns[0]).to_pybytes()
        self.offsets = [self.start + offset for offset in columns]
        self.bytes = self.start + message.size

    def columns(self, block: memoryview) -> list[np.ndarray[Any, Any]]:
        """The columns, to be written to; the metadata is put before them."""
        block[self.start : self.start + len(self.head)] = self.head
        return [np.frombuffer(block, np.float64, self.rows, offset) for offset in self.offsets]

    def batch(self, block: pa.Buffer) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(block.slice(self.start), self.schema)


# ---- the floor of batches built in place: shared memory by hand, both sides look without a pause

SLOTS, LINE = 4, 8  # LINE: 64-bit words of a cache line


def hand_send(address: str, batch: pa.RecordBatch, seconds: float, fill: Fill) -> None:
    place = Place(batch)
    slot = (place.bytes + 4095) & -4096
    with Path(f"/dev/shm/{address}.new").open("wb") as file:
        file.truncate(4096 + SLOTS * slot)
    block, words = _hand_open(f"{address}.new")
    starts = [4096 + number * slot for number in range(SLOTS)]
    columns = [place.columns(memoryview(block)[start : start + place.bytes]) for start in starts]
    Path(f"/dev/shm/{address}.new").rename(f"/dev/shm/{address}")
    sent, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        while sent - words[LINE] >= SLOTS:
            pass
        fill(columns[sent % SLOTS], sent)
        sent += 1
        words[0] = sent
    words[2 * LINE] = 1
    deadline = time.monotonic() + PATIENCE_S
    while words[LINE] < sent and time.monotonic() < deadline:
        time.sleep(0.001)


def hand_receive(address: str, batch: pa.RecordBatch, count: Count) -> None:
    place = Place(batch)
    slot = (place.bytes + 4095) & -4096
    _appears(Path(f"/dev/shm/{address}"))
    block, words = _hand_open(address)
    slots = [pa.py_buffer(block).slice(4096 + number * slot, place.bytes) for number in range(SLOTS)]
    seen = 0
    while True:
        while words[0] <= seen:
            if words[2 * LINE] and words[0] <= seen:
                return
        count.add(place.batch(slots[seen % SLOTS]))
        seen += 1
        words[LINE] = seen


def _hand_open(name: str) -> tuple[mmap.mmap, np.ndarray[Any, Any]]:
    with Path(f"/dev/shm/{name}").open("r+b") as file:
        block = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return block, np.frombuffer(block, np.int64, 4096 // 8)


def _appears(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"no {path} within {PATIENCE_S} s")
        time.sleep(0.01)


# ---- lwmq: one copy into the window, none out of it; or built in the window from the start


_TCP = "tcp-"  # addresses of the kind `network` begin with it


def _port(address: str) -> int:
    return 20_000 + zlib.crc32(address.encode()) % 10_000


def _uri(address: str) -> str:
    if not address.startswith(_TCP):
        return f"ipc://{address}"
    return f"tcp://127.0.0.1:{_port(address)}/batches"


def lwmq_send(address: str, batch: pa.RecordBatch, seconds: float) -> None:
    import lwmq_spark as lwmq

    uri, window = _uri(address), _window(batch)
    with lwmq.open_writer(uri, batch.schema, role="server", window_bytes=window) as writer:
        for each in repeated(batch, seconds):
            writer.write(each)


def lwmq_build(address: str, batch: pa.RecordBatch, seconds: float, fill: Fill, retain: str) -> None:
    import lwmq_spark as lwmq

    uri, window, names = f"ipc://{address}", _window(batch), batch.schema.names
    number, end = 0, time.perf_counter() + seconds
    with lwmq.open_writer(uri, batch.schema, role="server", window_bytes=window, retain=retain) as writer:
        while time.perf_counter() < end:
            with writer.allocate(batch.num_rows) as block:
                fill([block[name] for name in names], number)
            number += 1


def lwmq_receive(address: str, count: Count) -> None:
    import lwmq_spark as lwmq

    if address.startswith(_TCP):
        os.environ["LWMQ_WIRE"] = "1"
    with lwmq.open_reader(_uri(address), role="client", timeout=PATIENCE_S) as reader:
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
    family, place = _socket_place(address)
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as file:
            for batch in pa.ipc.open_stream(file):
                count.add(batch)


def _socket_place(address: str) -> tuple[int, Any]:
    if address.startswith(_TCP):
        return socket.AF_INET, ("127.0.0.1", _port(address))
    return socket.AF_UNIX, f"\0{address}"


@contextmanager
def _connected(address: str) -> Iterator[socket.socket]:
    end = time.monotonic() + PATIENCE_S
    family, place = _socket_place(address)
    with socket.socket(family) as connection:
        while True:
            try:
                connection.connect(place)
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


# ---- Arrow Flight over a Unix socket or TCP, do_get


def _flight(address: str) -> str:
    if address.startswith(_TCP):
        return f"grpc://127.0.0.1:{_port(address)}"
    return f"grpc+unix:///tmp/{address}"


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

    with Server(_flight(address)):
        done.wait(PATIENCE_S + seconds)
    Path(f"/tmp/{address}").unlink(missing_ok=True)


def flight_receive(address: str, count: Count) -> None:
    import pyarrow.flight as flight

    if not address.startswith(_TCP):
        _appears(Path(f"/tmp/{address}"))
    with flight.connect(_flight(address)) as client:
        client.wait_for_available(timeout=int(PATIENCE_S))
        for chunk in client.do_get(flight.Ticket(b"")):
            count.add(chunk.data)
        list(client.do_action(flight.Action("done", b"")))


# ---- iceoryx2 by its Python binding: a loaned sample is filled, and read where it lies


def iceoryx2_send(address: str, batch: pa.RecordBatch, seconds: float, fill: Fill) -> None:
    import iceoryx2 as iox

    place = Place(batch)
    node = iceoryx2_node(address)
    service = _iceoryx2_service(node, address)
    publisher = (
        service.publisher_builder()
        .initial_max_slice_len(place.bytes)
        .max_loaned_samples(1)
        .backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered)
        .create()
    )
    deadline = time.monotonic() + PATIENCE_S
    while service.dynamic_config.number_of_subscribers == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    block_type = ctypes.c_uint8 * place.bytes
    number, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        sample = publisher.loan_slice_uninit(place.bytes)
        block = memoryview(block_type.from_address(sample.payload_ptr)).cast("B")
        fill(place.columns(block), number)
        sample.assume_init().send()
        number += 1
    publisher.loan_slice_uninit(8).assume_init().send()  # the end
    while service.dynamic_config.number_of_subscribers > 0 and time.monotonic() < deadline + seconds:
        time.sleep(0.001)


def iceoryx2_receive(address: str, batch: pa.RecordBatch, count: Count) -> None:
    place = Place(batch)
    node = iceoryx2_node(address)
    subscriber = _iceoryx2_service(node, address).subscriber_builder().create()
    while True:
        while (sample := subscriber.receive()) is None:
            pass
        if sample.header.number_of_elements == 8:
            break
        count.add(place.batch(pa.foreign_buffer(sample.payload_ptr, place.bytes)))
        sample.delete()
    sample.delete()
    subscriber.delete()


def _iceoryx2_service(node: Any, address: str) -> Any:
    import iceoryx2 as iox

    builder = node.service_builder(iox.ServiceName.new(address)).publish_subscribe(iox.Slice[ctypes.c_uint8])
    return (
        builder.payload_alignment(iox.Alignment.new(64))
        .subscriber_max_buffer_size(SLOTS)
        .subscriber_max_borrowed_samples(2)
        .history_size(0)
        .enable_safe_overflow(False)
        .open_or_create()
    )


KINDS = {
    "copied": ["lwmq", "uds + pa.ipc", "pyzmq ipc", "Flight unix", "iceoryx2"],
    "network": ["lwmq tcp", "tcp + pa.ipc", "Flight tcp"],
    "built": ["floor", "lwmq", "lwmq, retain=none", "iceoryx2"],
    "handed": ["floor", "lwmq", "lwmq, retain=none", "iceoryx2"],
}


def send(kind: str, peer: str, address: str, batch: pa.RecordBatch, seconds: float) -> None:
    fill = filling(kind, batch)
    if peer == "floor":
        hand_send(address, batch, seconds, fill)
    elif peer == "iceoryx2":
        iceoryx2_send(address, batch, seconds, fill)
    elif kind in ("built", "handed"):
        retain = "none" if peer.endswith("none") else "until_acked"
        lwmq_build(address, batch, seconds, fill, retain)
    else:
        copying = {
            "lwmq": lwmq_send,
            "lwmq tcp": lwmq_send,
            "uds + pa.ipc": uds_send,
            "tcp + pa.ipc": uds_send,
            "pyzmq ipc": zmq_send,
        }
        copying.get(peer, flight_send)(address, batch, seconds)


def receive(peer: str, address: str, batch: pa.RecordBatch, count: Count) -> None:
    """`batch` tells by-hand receivers what comes; the others learn it from the sender."""
    if peer == "floor":
        hand_receive(address, batch, count)
    elif peer == "iceoryx2":
        iceoryx2_receive(address, batch, count)
    else:
        own = {
            "uds + pa.ipc": uds_receive,
            "tcp + pa.ipc": uds_receive,
            "pyzmq ipc": zmq_receive,
            "Flight unix": flight_receive,
            "Flight tcp": flight_receive,
        }
        own.get(peer, lwmq_receive)(address, count)


def main(kind: str, peer: str, role: str, size: int, seconds: float, address: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    pa.set_cpu_count(1)
    if kind == "network":
        address = _TCP + address
    if role == "send":
        send(kind, peer, address, make_batch(size), seconds)
        return
    count = Count(kind)
    receive(peer, address, make_batch(size), count)
    count.report()


if __name__ == "__main__":
    kind, peer, role, size, seconds, address, core = sys.argv[1:]
    main(kind, peer, role, int(size), float(seconds), address, int(core))
