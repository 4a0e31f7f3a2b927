"""Streams inside `mapInArrow`: Python workers of Spark that write and read record batches themselves.

    ready = df.mapInArrow(lwmq.publish("ipc://features", partitions=8), lwmq.PUBLISH_SCHEMA)
    ready.collect()

    spark.range(0, 8, 1, 8).mapInArrow(lwmq.subscribe("ipc://features"), "id long, x double")

`publish` draws an id when it is called: by that id all tasks of the DataFrame are one producer, and the first
attempt of a task that commits counts. Evaluating the DataFrame again, a retried task or a speculative one
delivers nothing twice. The producer ends when `partitions` tasks have committed.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark.arrow import Endpoint, StreamWriter, describe, open_reader, open_writer
from lwmq_spark.options import parse_address
from lwmq_spark.spark import tickets

PUBLISH_SCHEMA = "partition int, rows bigint, batches bigint, bytes bigint, won boolean"
"""What `publish` yields, one row for each partition of the stream that a task has written to: the partition,
what of the task counts there, and whether this attempt is the one that counts. A task without rows yields one
row, with its own partition."""

_ROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("batches", pa.int64()),
        ("bytes", pa.int64()),
        ("won", pa.bool_()),
    ]
)
DECLARE_S = 30.0  # how long a task without rows waits for somebody to declare the stream
_LOOK_S = 0.2  # how long a look at an address may take before it counts as unserved
_EVERY_INTERFACE = ("*", "0.0.0.0", "[::]", "::")
_kept: dict[str, Endpoint] = {}
_keeping = threading.Lock()


def publish(
    uri: str,
    partitions: int,
    *,
    key: str | Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    stream_partitions: int | None = None,
    **options: Any,
) -> Publisher:
    """A function for `df.mapInArrow(function, lwmq.PUBLISH_SCHEMA)` that writes the DataFrame to a stream.

    partitions: how many the DataFrame has (`df.rdd.getNumPartitions()`, or what `repartition` was asked for);
        the producer ends when as many tasks have committed.
    key: the name of a column, or of several; default: the partition key of the stream. Each row goes to the
        partition of its key, as with `StreamWriter.write`, and the DataFrame needs no `repartition`. Without
        either, task i writes to partition i mod `stream_partitions`.
    schema: of the batches; needed where a partition of the DataFrame may be empty and nobody else declares
        the stream.
    stream_partitions: of the stream, where this producer declares it (default: partitions).
    options: as of `open_writer`: partition_key, bounds, retain, readers, delivery (`task` by default),
        buffer_bytes, window_bytes, staging_bytes, timeout (no limit by default: a writer waits for its
        readers).
    Called in the driver: where nobody serves `uri`, this process does until it ends. Tasks are told the
    driver's host in place of `*`, and the port that the system has chosen in place of 0. One call is one
    producer: call it again for another one.
    """
    if partitions < 1:
        raise ValueError(f"partitions is {partitions}: a DataFrame that is published has at least one")
    ticket = tickets.ticket_or_none(uri)
    tickets.take(uri, ticket)
    served = _serve(uri)
    _announce(served, partitions, options.get("delivery") == "live")
    return Publisher(
        served,
        ticket,
        f"publish/{uuid.uuid4()}",
        partitions,
        key,
        schema,
        {
            "delivery": "task",
            **options,
            "partitions": partitions if stream_partitions is None else stream_partitions,
        },
    )


class Publisher:
    """What `publish` returns: runs in Python workers, once per attempt of a task."""

    schema = PUBLISH_SCHEMA

    def __init__(
        self,
        uri: str,
        ticket: str | None,
        job: str,
        partitions: int,
        key: str | Sequence[str] | None,
        schema: pa.Schema | None,
        options: dict[str, Any],
    ) -> None:
        self._uri = uri
        self._ticket = ticket
        self._job = job
        self._partitions = partitions
        self._key = key
        self._schema = schema
        self._options = options

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write every batch, commit, and yield rows of PUBLISH_SCHEMA."""
        task, attempt = _task()
        if task >= self._partitions:
            raise ValueError(
                f"publish({self._uri!r}, partitions={self._partitions}) met partition {task}: "
                "give it the number of partitions that the DataFrame has"
            )
        tickets.take(self._uri, self._ticket)
        first = next(batches, None)
        writer = self._open(self._schema_of(first), task, attempt)
        try:
            if first is not None:
                writer.write(first, key=self._key)
            for batch in batches:
                writer.write(batch, key=self._key)
            TaskInput().check_whole()
            result = writer.commit()
        except BaseException as exc:
            with contextlib.suppress(errors.LwmqError):  # the first failure is the one to tell
                writer.abort(errors.reason_of(exc))
            raise
        # What is committed is done: with the last commit the stream may end, and who served it have gone.
        with contextlib.suppress(errors.LwmqError):
            writer.close()
        rows = [
            {name: getattr(part, name) for name in _ROW.names[:-1]} | {"won": result.won}
            for part in result.ranges or (result,)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_ROW)

    def _schema_of(self, first: pa.RecordBatch | None) -> pa.Schema:
        if self._schema is not None:
            return self._schema
        if first is not None:
            return first.schema
        try:  # an empty partition knows no schema: another task, or another producer, has to bring it
            declared = describe(self._uri, self._options.get("timeout", DECLARE_S)).schema
        except errors.TimeoutError as exc:
            raise errors.SchemaError(
                f"an empty partition does not know the schema of {self._uri}, and nobody has declared it: "
                "call publish(..., schema=...)"
            ) from exc
        assert declared is not None  # describe waits until it is
        return declared

    def _open(self, schema: pa.Schema, task: int, attempt: int) -> StreamWriter:
        return open_writer(
            self._uri,
            schema,
            role="client",
            job=self._job,
            task=task,
            attempt=attempt,
            job_tasks=self._partitions,
            **self._options,
        )

    def __repr__(self) -> str:
        return f"<Publisher of {self._partitions} partitions to {self._uri}, {self._job}>"


def subscribe(uri: str, *, timeout: float | str | None = 30.0, **options: Any) -> Subscriber:
    """A function for `mapInArrow` that yields the batches of the stream at `uri`, in Python workers.

    The rows of the DataFrame say which partitions of the stream a task reads, by number, in their first
    column: `spark.range(0, n, 1, n)` gives each of n partitions a task of its own. A task ends with the
    stream: while it is still written, have as many slots as tasks.

    timeout: seconds that the stream may take to appear, and each batch to come; None is no limit.
    options: as of `open_reader`: writers, credit.
    Called in the driver, where the positions to begin at are fixed: what is unacknowledged now. A retried
    task begins there again; if that was released meanwhile it ends with DataLossError, never with fewer rows.
    """
    key = tickets.ticket_or_none(uri)
    tickets.take(uri, key)
    uri = _for_tasks(uri)
    starts: dict[int, int] = {}
    if _is_served(uri):
        state = describe(uri, _LOOK_S, wait_declared=False)
        starts = {number: partition.unacked_seq for number, partition in enumerate(state.partitions)}
    return Subscriber(uri, key, f"subscribe/{uuid.uuid4()}", starts, {"timeout": timeout, **options})


class Subscriber:
    """What `subscribe` returns: runs in Python workers, once per attempt of a task."""

    def __init__(
        self, uri: str, key: str | None, name: str, starts: dict[int, int], options: dict[str, Any]
    ) -> None:
        self._uri = uri
        self._key = key
        self._name = name
        self._starts = starts
        self._options = options

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the partitions hold that the input names, in the order of arrival."""
        numbers = sorted({int(number) for batch in batches for number in batch.column(0).to_pylist()})
        if not numbers:
            return
        tickets.take(self._uri, self._key)
        start = {number: self._starts.get(number, 0) for number in numbers}
        with open_reader(self._uri, role="client", name=self._name, start=start, **self._options) as reader:
            yield from reader

    def __repr__(self) -> str:
        return f"<Subscriber to {self._uri}, {self._name}>"


def _task() -> tuple[int, int]:
    """Partition and attempt of the task that runs here; the attempt's number is unique in the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("what publish() returns runs in a Spark task: hand it to df.mapInArrow")
    return context.partitionId(), context.taskAttemptId()


class TaskInput:
    """The file that the Python worker of a task reads. Made on the worker's main thread, inside its function.

    When the JVM fails at what it feeds to a Python worker, it stops writing, and pyarrow takes that for the
    end of the stream. The JVM drops the rows that the worker yields, but rows that have left the worker by
    another way cannot be taken back. After a real end the JVM writes more. Only this file shows the
    difference, and nothing public leads to it. So it is looked for in pyspark's own frames below this one:
    `worker.main` and its callers have it as `infile`, beside `outfile`.
    """

    def __init__(self) -> None:
        """RuntimeError: this pyspark is unknown."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            is_pyspark = Path(frame.f_code.co_filename).parent.name == "pyspark"
            if is_pyspark and "outfile" in frame.f_locals and hasattr(frame.f_locals.get("infile"), "peek"):
                self._file = frame.f_locals["infile"]
                return
            frame = frame.f_back
        raise RuntimeError("this pyspark is unknown: a task cannot tell whether its input is whole")

    def check_whole(self) -> None:
        """Called at the end of the input. RuntimeError: it has broken off, which looks like its end."""
        if not self._file.peek(1):
            raise RuntimeError("the input of this task has broken off: what feeds the task has failed")


def _is_served(uri: str) -> bool:
    try:
        describe(uri, _LOOK_S, wait_declared=False)
    except (errors.TimeoutError, errors.PeerLostError):
        return False
    return True


def _serve(uri: str) -> str:
    """Bind `uri` in this process where nobody serves it, until the process ends: readers may be late.
    Returns the address that tasks are told."""
    address = parse_address(uri).text
    with _keeping:
        is_served = address in _kept
        with contextlib.suppress(errors.AddressError):  # port 0 cannot be connected to
            is_served = is_served or _is_served(_for_tasks(uri))
        if not is_served:
            try:
                _kept[address] = Endpoint(uri, linger=0)
            except errors.AddressError:  # somebody else has bound it in between
                if not _is_served(_for_tasks(uri)):
                    raise
    return _for_tasks(uri)


def _announce(uri: str, tasks: int, is_live: bool) -> None:
    """Reads of `uri` in the JVM of this driver, if it has our jar, leave slots to the tasks that publish."""
    from pyspark import SparkContext

    with contextlib.suppress(TypeError):  # as py4j says that the JVM has no such class
        if SparkContext._jvm is not None:
            SparkContext._jvm.org.lwmq.spark.conf.OwnProducers.published(uri, tasks, is_live)


def _for_tasks(uri: str) -> str:
    """`uri` as processes on other hosts know it: with a host in place of every interface, and a port that is
    not 0 where this process keeps the endpoint."""
    kept = _kept.get(parse_address(uri).text)
    place, mark, options = uri.partition("?")
    if kept is not None:
        place = kept.address.partition("?")[0]
    every = re.match(r"(\w+://)(\*|0\.0\.0\.0|\[::\])(:.*)", place)
    if every is not None:
        place = every[1] + _driver_host() + every[3]
    return place + mark + options


def _driver_host() -> str:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    known = None if context is None else context.getConf().get("spark.driver.host")
    return known if known and known not in _EVERY_INTERFACE else socket.gethostname()


@atexit.register
def _close_kept() -> None:
    with _keeping:
        for endpoint in _kept.values():
            with contextlib.suppress(errors.LwmqError):  # unread batches: nobody came for them
                endpoint.close()
        _kept.clear()
