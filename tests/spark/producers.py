"""What the read tests share: producers outside Spark, and what Spark says about a plan that has run."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from lwmq_spark.arrow.layout import Encoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT_S = 300.0  # the start of a cluster on a busy machine, and below the limit of a test


class Producer:
    """Writes a table to a stream on a thread of this process, which is not Spark's."""

    def __init__(
        self, address: str, table: pa.Table, *, rows: int = 1000, partitions: int = 1, **options: Any
    ) -> None:
        self.failure: BaseException | None = None
        self.written = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(address, table, rows, partitions, options), daemon=True
        )
        self._thread.start()

    def _run(
        self, address: str, table: pa.Table, rows: int, partitions: int, options: dict[str, Any]
    ) -> None:
        try:
            with lwmq.open_writer(
                address, table.schema, partitions=partitions, linger=LIMIT_S, **options
            ) as writer:
                for number, batch in enumerate(table.to_batches(max_chunksize=rows)):
                    writer.write(batch, partition=number % partitions)
                self.written.set()
        except BaseException as failure:
            self.failure = failure
        finally:
            self.written.set()

    @property
    def ended(self) -> bool:
        """Everything was consumed, or it has failed."""
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Until everything was consumed; raises what went wrong."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), "not everything was consumed"
        if self.failure is not None:
            raise self.failure


def publish_unchecked(writer: lwmq.StreamWriter, batch: pa.RecordBatch) -> None:
    """The batch as a writer sends it that looks at no value: nulls in what the stream declares not null."""
    writer._publish(Encoder(batch.schema).encode(batch), 0)


def end(writer: lwmq.StreamWriter) -> None:
    """Ends a stream that somebody keeps, whoever has read it."""
    with contextlib.suppress(lwmq.TimeoutError):
        writer.close(linger=0)


@contextlib.contextmanager
def kept(address: str) -> Iterator[None]:
    """The address is served by this process, apart from who writes and reads there; what is unread at the end
    goes with it."""
    endpoint = Endpoint(address, linger=0)
    try:
        yield
    finally:
        with contextlib.suppress(lwmq.TimeoutError):
            endpoint.close()


def drain(address: str, producer: Producer) -> None:
    """Reads what a failed query has left at `address` until its producer has ended."""
    limit = time.monotonic() + LIMIT_S
    while not producer.ended and time.monotonic() < limit:
        with (
            contextlib.suppress(lwmq.LwmqError),
            lwmq.open_reader(address, role="client", timeout=1, linger=0) as rest,
        ):
            for _ in rest:
                pass
        time.sleep(0.01)


def numbers(rows: int) -> pa.Table:
    """Rows of a number, half of it, and a text."""
    return pa.table(
        {
            "k": pa.array(range(rows), pa.int64()),
            "half": pa.array([n / 2 for n in range(rows)], pa.float64()),
            "text": pa.array([f"row {n}" for n in range(rows)], pa.string()),
        }
    )


def read(spark: SparkSession, address: str, **options: Any) -> DataFrame:
    return spark.read.format("lwmq").options(**options).load(address)


def plan(frame: DataFrame) -> str:
    """The plan as it has run, or would."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def metrics(spark: SparkSession, node: str = "BatchScan") -> list[tuple[str, str]]:
    """What the SQL tab shows of the last execution at each node whose name begins so."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    execution = executions.apply(executions.size() - 1).executionId()
    values = store.executionMetrics(execution)
    nodes = store.planGraph(execution).allNodes()
    found = []
    for number in range(nodes.size()):
        if nodes.apply(number).name().startswith(node):
            ours = nodes.apply(number).metrics()
            for place in range(ours.size()):
                value = values.get(ours.apply(place).accumulatorId())
                if value.isDefined():
                    found.append((ours.apply(place).name(), value.get()))
    return found
