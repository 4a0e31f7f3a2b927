"""Streams inside `mapInArrow`: Spark's Python workers write and read record batches themselves.

    ready = df.mapInArrow(lwmq.publish("ipc://features", partitions=8), lwmq.PUBLISH_SCHEMA)
    ready.collect()

    spark.range(0, 8, 1, 8).mapInArrow(lwmq.subscribe("ipc://features"), "id long, x double")

Each call of `publish` draws an id, under which all tasks of the DataFrame count as one producer. Of the
attempts of a task, the first that commits counts. So nothing is delivered twice when the DataFrame is
evaluated again, or a task is retried or run speculatively. The producer ends when `partitions` tasks have
committed.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark.arrow import Endpoint, StreamWriter, describe, open_reader, open_writer
from lwmq_spark.options import parse_address

PUBLISH_SCHEMA = "partition int, rows bigint, batches bigint, bytes bigint, won boolean"
"""What `publish` yields, one row per task: the stream's partition, the rows, batches and bytes that count
there, and whether this attempt is the one that counts."""

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
_kept: dict[str, Endpoint] = {}
_keeping = threading.Lock()


def publish(
    uri: str,
    partitions: int,
    *,
    schema: pa.Schema | None = None,
    stream_partitions: int | None = None,
    **options: Any,
) -> Publisher:
    """Returns a function that writes a DataFrame to a stream: `df.mapInArrow(function, lwmq.PUBLISH_SCHEMA)`.

    partitions: the number of partitions of the DataFrame (`df.rdd.getNumPartitions()`, or the number passed
        to `repartition`). The producer ends when that many tasks have committed.
    schema: the schema of the batches. Needed if a partition of the DataFrame may be empty and nobody else
        declares the stream.
    stream_partitions: the number of partitions of the stream, if this producer declares it (default:
        partitions).
    options: passed to `open_writer`: retain, readers, delivery (`task` by default), buffer_bytes,
        window_bytes, staging_bytes, timeout (no limit by default: a writer waits for its readers).
    Call it in the driver. If nobody serves `uri`, the driver's process serves it until the process ends. Each
    call makes one producer.
    """
    if partitions < 1:
        raise ValueError(f"partitions is {partitions}: a DataFrame that is published has at least one")
    role = "client" if _ensure_served(uri) else "auto"  # behind another's address the tasks make the stream
    return Publisher(
        uri,
        f"publish/{uuid.uuid4()}",
        partitions,
        schema,
        {
            "delivery": "task",
            "role": role,
            **options,
            "partitions": partitions if stream_partitions is None else stream_partitions,
        },
    )


class Publisher:
    """What `publish` returns: runs in Python workers, once per attempt of a task."""

    schema = PUBLISH_SCHEMA

    def __init__(
        self, uri: str, job: str, partitions: int, schema: pa.Schema | None, options: dict[str, Any]
    ) -> None:
        self._uri = uri
        self._job = job
        self._partitions = partitions
        self._schema = schema
        self._options = options

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write every batch, commit, and yield the one row of PUBLISH_SCHEMA."""
        task, attempt = _task()
        if task >= self._partitions:
            raise ValueError(
                f"publish({self._uri!r}, partitions={self._partitions}) met partition {task}: "
                "give it the number of partitions that the DataFrame has"
            )
        first = next(batches, None)
        writer = self._open(self._schema_of(first), task, attempt)
        try:
            if first is not None:
                writer.write(first)
            for batch in batches:
                writer.write(batch)
            _check_whole()
            result = writer.commit()
        except BaseException as exc:
            with contextlib.suppress(errors.LwmqError):  # the first failure is the one to tell
                writer.abort(errors.reason_of(exc))
            raise
        # What is committed is done: with the last commit the stream may end, and who served it have gone.
        with contextlib.suppress(errors.LwmqError):
            writer.close()
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "partition": result.partition,
                    "rows": result.rows,
                    "batches": result.batches,
                    "bytes": result.bytes,
                    "won": result.won,
                }
            ],
            schema=_ROW,
        )

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

    The first column of the DataFrame holds numbers of partitions of the stream, and each task reads the
    partitions that its rows name. `spark.range(0, n, 1, n)` gives each of n partitions its own task. A task
    ends when the stream ends: while the stream is still being written, have at least as many slots as tasks.

    timeout: seconds to wait for the stream to appear, and for each batch; None is no limit.
    options: passed to `open_reader`: writers, credit.
    Call it in the driver. The call fixes the start positions: the first unacknowledged batch of each
    partition. A retried task starts there again. If those batches were released meanwhile, the task fails
    with DataLossError; it never returns fewer rows.
    """
    starts: dict[int, int] = {}
    if _is_served(uri):
        state = describe(uri, _LOOK_S, wait_declared=False)
        starts = {number: partition.unacked_seq for number, partition in enumerate(state.partitions)}
    return Subscriber(uri, f"subscribe/{uuid.uuid4()}", starts, {"timeout": timeout, **options})


class Subscriber:
    """What `subscribe` returns: runs in Python workers, once per attempt of a task."""

    def __init__(self, uri: str, name: str, starts: dict[int, int], options: dict[str, Any]) -> None:
        self._uri = uri
        self._name = name
        self._starts = starts
        self._options = options

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the partitions hold that the input names, in the order of arrival."""
        numbers = sorted({int(number) for batch in batches for number in batch.column(0).to_pylist()})
        if not numbers:
            return
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


def _check_whole() -> None:
    """RuntimeError if the input of this task has broken off, which looks like its end.

    When the source of a Python worker's input fails, Spark just stops writing to the worker's socket. pyarrow
    takes that for the end of the stream; only the JVM knows of the failure. The JVM then drops what the
    worker yields, but a commit cannot be dropped. After a real end Spark sends more: there is something left
    to read.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals and "outfile" in frame.f_locals:
            if not frame.f_locals["infile"].peek(1):
                raise RuntimeError("the input of this task has broken off: what feeds publish() has failed")
            return
        frame = frame.f_back  # type: ignore[assignment]
    raise RuntimeError("publish() does not know this pyspark: it cannot tell whether its input is whole")


def _is_served(uri: str) -> bool:
    try:
        describe(uri, _LOOK_S, wait_declared=False)
    except (errors.TimeoutError, errors.PeerLostError):
        return False
    return True


def _ensure_served(uri: str) -> bool:
    """Bind `uri` in this process where nobody serves it, until the process ends: readers may be late.

    False: another process serves the address, and the stream is not there.
    """
    address = parse_address(uri).text
    with _keeping:
        if address in _kept or _is_served(uri):
            return True
        try:
            _kept[address] = Endpoint(uri, linger=0)
        except errors.AddressError:  # another process has bound it
            if not _is_served(uri):
                if "?" not in address:
                    raise
                return False
        return True


@atexit.register
def _close_kept() -> None:
    with _keeping:
        for endpoint in _kept.values():
            with contextlib.suppress(errors.LwmqError):  # unread batches: nobody came for them
                endpoint.close()
        _kept.clear()
