"""Rows that go from task to task inside one barrier stage, in shared memory and not through the JVM.

    def sums(batches):
        for batch in batches:    # the rows of this task's keys, from every task
            ...

    lwmq.map_exchanged(df, "symbol", sums, "symbol string, total double")

`map_exchanged` runs in the driver. It refuses a DataFrame with more partitions than there are slots. Each of
its tasks calls `exchange_batches`, which a function of your own may also do inside
`df.mapInArrow(function, schema, barrier=True)`.

All tasks of one host share a stream with a partition for each task of the stage. The first of these tasks
serves the stream. A task writes to the streams of all hosts, on a thread of its own, and meanwhile reads its
own partition. So no task waits for a reader that waits for the same task to read.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._waiting import background_thread
from lwmq_spark.arrow import Endpoint, StreamReader, StreamWriter, open_reader, open_writer
from lwmq_spark.arrow.split import partition_ids, split
from lwmq_spark.spark import tickets
from lwmq_spark.spark.publish import TaskInput
from lwmq_spark.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext
    from pyspark.sql import DataFrame

_Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_exchanged(
    frame: DataFrame, key: str | Sequence[str], function: _Function, schema: Any, **options: Any
) -> DataFrame:
    """`frame.mapInArrow(function, schema, barrier=True)`, where each task gets the rows of its own keys.

    The rows are placed as by `frame.repartition(n, key)`, where n is the number of partitions of `frame`.
    options: see `exchange_batches`.
    Called in the driver. ValueError: `frame` has more partitions than the application has slots, and all
    tasks of a barrier stage run at the same time. The text has both numbers. A Spark Connect client cannot
    know the slots; there Spark waits for more of them, and fails after some minutes.
    """
    _check_slots(frame)

    def exchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(exchange_batches(batches, key, **options))

    return frame.mapInArrow(exchanged, schema, barrier=True)


def exchange_batches(
    batches: Iterable[pa.RecordBatch],
    key: str | Sequence[str],
    *,
    buffer_bytes: int | str | None = None,
    window_bytes: int | str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Give `batches` to the tasks that own their keys, and yield the rows whose keys this task owns.

    Called in every task of a barrier stage, inside `mapInArrow`. Of n tasks, task i owns the keys of which
    `lwmq_spark.arrow.partition_ids(batch, key, n)` is i, which are those of partition i of Spark's
    `repartition(n, key)`. Rows come while the other tasks still make them. The rows that one task gives
    another one keep their order.
    batches: what the task has, perhaps none. A thread iterates over them.
    key: the name of a column, or of several; `partition_ids` says of which types.
    buffer_bytes, window_bytes: see `open_writer`. A task has a window for each host of the stage.
    The batches that are yielded are read-only and lie in the window of the task that wrote them. A task that
    gives up the iterator early still takes in the rest, and drops it.
    When a task fails or dies, the iterators of the other tasks raise AbortedError or PeerLostError. KeyError,
    SchemaError: the key. RuntimeError: no barrier stage, or the input of the task has broken off.
    """
    with _joined(iter(batches), key, {"buffer_bytes": buffer_bytes, "window_bytes": window_bytes}) as joined:
        if joined is None:
            return  # no task has a row
        reader, sender = joined
        try:
            try:
                for batch in reader:
                    yield batch
                    del batch  # leased no longer than the caller keeps it
            except GeneratorExit:
                for _ in reader:  # the other tasks need the room, and Spark wants this task's input read
                    pass
        except errors.LwmqError:
            if sender.failure is not None:  # which has ended the reader
                raise sender.failure from None
            raise
        sender.finish()


@contextlib.contextmanager
def _joined(
    batches: Iterator[pa.RecordBatch], key: str | Sequence[str], options: dict[str, Any]
) -> Iterator[tuple[StreamReader, _Sender] | None]:
    """A reader of the rows of this task, and a running sender of `batches`. None: no task has a row.

    The end waits until no task of this host needs the stream any more.
    """
    context = _barrier_context()
    task = context.partitionId()
    # Executors at one address share a host and its network namespace, so their tasks share memory.
    hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    servers = [hosts.index(host) for host in hosts]  # of each task: the task that serves its host's stream
    source = TaskInput()
    first = next(batches, None)
    if first is not None:
        partition_ids(first.slice(0, 0), key, len(hosts))  # a wrong key is an error before anybody waits
    with contextlib.ExitStack() as stack:
        notice: dict[str, Any] = {"schema": None if first is None else _text_of(first.schema)}
        if servers[task] == task:
            notice |= _serve(stack, task, hosts)
        notices = [json.loads(message) for message in context.allGather(json.dumps(notice))]
        declared = next((found["schema"] for found in notices if found["schema"] is not None), None)
        if declared is None:
            yield None
            return
        for server in set(servers):
            tickets.take(notices[server]["address"], notices[server]["key"])
        reader = open_reader(
            notices[servers[task]]["address"],
            role="client",
            name=f"task {task}",
            partitions=[task],
            writers=len(hosts),
        )
        stack.push(reader)
        sender = _Sender(servers, key, source, reader)
        stack.push(sender.leave)
        for server in sorted(set(servers)):
            sender.writers[server] = open_writer(
                notices[server]["address"], _schema_of(declared), len(hosts), role="client", **options
            )
        sender.start(itertools.chain([] if first is None else [first], batches))
        yield reader, sender


class _Sender:
    """The thread that sends the rows of a task to their owners."""

    def __init__(
        self, servers: list[int], key: str | Sequence[str], source: TaskInput, reader: StreamReader
    ) -> None:
        self.writers: dict[int, StreamWriter] = {}  # by the task that serves
        self._servers = servers
        self._key = key
        self._source = source
        self._reader = reader
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def start(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._thread = background_thread(self._run, "lwmq exchange", batches)
        self._thread.start()

    def _run(self, batches: Iterator[pa.RecordBatch]) -> None:
        tasks = len(self._servers)
        try:
            for batch in batches:
                parts = split(batch, partition_ids(batch, self._key, tasks), tasks)
                for owner, part in enumerate(parts):
                    if part.num_rows:
                        self.writers[self._servers[owner]].write(part, partition=owner)
            self._source.check_whole()
            for writer in self.writers.values():
                writer.close()  # waits until the owners have read everything
        except BaseException as exc:
            self.failure = exc
            self.abort(errors.reason_of(exc))
            self._reader.close(linger=0, consume=False)  # wakes the thread that reads

    def abort(self, reason: str) -> None:
        for writer in self.writers.values():
            with contextlib.suppress(errors.LwmqError):
                writer.abort(reason)

    def finish(self) -> None:
        """Wait until everything is sent. Raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def leave(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The end of the task's `with`: after a failure the other tasks hear of it."""
        if kind is not None:
            self.abort(errors.reason_of(exc))


def _serve(stack: contextlib.ExitStack, task: int, hosts: list[str]) -> dict[str, str | None]:
    """Serve the stream of this host until all its tasks have left. Returns its address and its key.

    The key is for tasks on other hosts. It travels with the address, as a message between Spark's processes.
    """
    if len(set(hosts)) == 1:
        address, key = f"ipc://exchange-{secrets.token_hex(16)}", None
    else:
        address, key = f"tcps://*:0/exchange-{task}", f"exchange-{task}:{secrets.token_hex(32)}"
    tickets.take(address, key)
    endpoint = stack.enter_context(Endpoint(address, linger="forever"))
    return {"address": endpoint.address.replace("://*:", f"://{hosts[task]}:"), "key": key}


def _barrier_context() -> BarrierTaskContext:
    from pyspark import BarrierTaskContext, TaskContext

    context = TaskContext.get()
    if not isinstance(context, BarrierTaskContext):
        raise RuntimeError(
            "exchange_batches runs in the tasks of a barrier stage: df.mapInArrow(..., barrier=True)"
        )
    return context


def _check_slots(frame: DataFrame) -> None:
    """ValueError: the tasks of a stage over `frame` cannot run at the same time."""
    if is_connect(frame):
        return
    execution = frame._jdf.queryExecution()
    plan = execution.executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":  # which would run its stages to know more
        tasks = plan.initialPlan().outputPartitioning().numPartitions()
    else:
        tasks = execution.toRdd().getNumPartitions()
    context: Any = frame.sparkSession.sparkContext._jsc.sc()
    slots = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())
    if tasks > slots:
        raise ValueError(
            f"an exchange between {tasks} tasks needs {tasks} slots at the same time, and the application "
            f"has {slots}: give the DataFrame {slots} partitions, or the application more cores"
        )


def _text_of(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
