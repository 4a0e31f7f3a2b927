"""What moves tables into and out of Spark by its Python workers: Arrow Flight, pyzmq, Python data sources.

    python -m tests.bench.spark_rivals consume COLUMN    flight PATH TASKS | zmq PATH TASKS | parquet FOLDER,
                                                         line by line

Each rival in its strongest form: Spark's workers talk to the other process themselves, one connection for
each task, and nothing is collected at the driver. Spark imports this module in its workers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

SENT_SCHEMA = "rows long"
Send = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


# ---- out of Spark, from mapInArrow: functions that send the batches of a task and answer its rows


def to_flight(path: str) -> Send:
    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.flight as flight

        rows, writer = 0, None
        with flight.connect(f"grpc+unix://{path}") as client:
            for batch in batches:
                if writer is None:
                    writer, _ = client.do_put(flight.FlightDescriptor.for_path("rows"), batch.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
        yield pa.record_batch({"rows": [rows]})

    return send


def to_zmq(path: str) -> Send:
    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import zmq

        rows = 0
        with zmq.Context() as context, context.socket(zmq.PUSH) as push:
            push.sndhwm = 8
            push.connect(f"ipc://{path}")
            for batch in batches:
                if rows == 0:
                    push.send(batch.schema.serialize().to_pybytes(), zmq.SNDMORE)
                    push.send(batch.serialize(), copy=False)
                else:
                    push.send_multipart([b"", batch.serialize()], copy=False)
                rows += batch.num_rows
            push.send(b"")  # the end of this task
        yield pa.record_batch({"rows": [rows]})

    return send


# ---- the process that they send to


class Sum:
    """Rows and the sum of a column; tasks may add at the same time."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.rows = self.total = 0
        self.lock = threading.Lock()

    def add(self, batch: Any) -> None:
        total = pc.sum(batch[self.column]).as_py() or 0
        with self.lock:
            self.rows += batch.num_rows
            self.total += total


def consume_flight(path: str, tasks: int, found: Sum) -> None:
    import pyarrow.flight as flight

    done = threading.Semaphore(0)

    class Server(flight.FlightServerBase):
        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            for chunk in reader:
                found.add(chunk.data)
            done.release()

    with Server(f"grpc+unix://{path}"):
        print("ready", flush=True)
        for _ in range(tasks):
            done.acquire()
    Path(path).unlink(missing_ok=True)


def consume_zmq(path: str, tasks: int, found: Sum) -> None:
    import zmq

    schema = None
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.rcvhwm = 8
        pull.bind(f"ipc://{path}")
        print("ready", flush=True)
        while tasks > 0:
            frames = pull.recv_multipart(copy=False)
            if len(frames) == 1:
                tasks -= 1
                continue
            if len(frames[0]):
                schema = pa.ipc.read_schema(pa.py_buffer(frames[0].buffer))
            found.add(pa.ipc.read_record_batch(pa.py_buffer(frames[1].buffer), schema))
    Path(path).unlink(missing_ok=True)


def consume_parquet(folder: str, found: Sum) -> None:
    """Reads the one column that it sums, which the others cannot choose after the fact."""
    import pyarrow.parquet as parquet

    found.add(parquet.read_table(folder, columns=[found.column]))


def consume(column: str) -> None:
    for line in sys.stdin:
        kind, where, *rest = line.split()
        found = Sum(column)
        if kind == "flight":
            consume_flight(where, int(rest[0]), found)
        elif kind == "zmq":
            consume_zmq(where, int(rest[0]), found)
        else:
            consume_parquet(where, found)
        print(found.rows, found.total, flush=True)


# ---- into Spark: Python data sources over mapped files and over Flight; and one that writes nowhere


def write_files(folder: str, parts: list[list[pa.RecordBatch]]) -> None:
    """Arrow IPC, one file for each partition."""
    for number, batches in enumerate(parts):
        with pa.ipc.new_file(f"{folder}/{number}.arrow", batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


def _flight_uri(place: str) -> str:
    """Of a host and a port, or of a socket file."""
    return f"grpc+unix://{place}" if place.startswith("/") else f"grpc://{place}"


def serve_flight(place: str, parts: list[list[pa.RecordBatch]]) -> Any:
    """A server of one stream for each partition; `shutdown()` ends it."""
    import pyarrow.flight as flight

    class Server(flight.FlightServerBase):
        def do_get(self, context: Any, ticket: Any) -> Any:
            batches = parts[int(ticket.ticket)]
            return flight.GeneratorStream(batches[0].schema, iter(batches))

    return Server(_flight_uri(place))


class MappedReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self.folder).iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


class FlightReader(DataSourceReader):
    def __init__(self, place: str, tasks: int) -> None:
        self.place, self.tasks = place, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow.flight as flight

        with flight.connect(_flight_uri(self.place)) as client:
            for chunk in client.do_get(flight.Ticket(str(partition.value).encode())):
                yield chunk.data


class DropWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class BenchSource(DataSource):
    """`format("lwmq_bench")` with the option `folder`, or `flight` and `tasks`; written to, it drops rows."""

    @classmethod
    def name(cls) -> str:
        return "lwmq_bench"

    def schema(self) -> str:
        return "k long, v double, i int"

    def reader(self, schema: Any) -> DataSourceReader:
        if folder := self.options.get("folder"):
            return MappedReader(folder)
        return FlightReader(self.options["flight"], int(self.options["tasks"]))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return DropWriter()


if __name__ == "__main__":
    consume(sys.argv[2])
