"""What a cluster goes through, called by name from a test; runs in the driver's process (cluster.py)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.spark import exchanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
LIMIT_S = 300.0


def build(class_path: str, halt: str, more: dict[str, Any]) -> SparkSession:
    conf: dict[str, Any] = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.ui.enabled": False,
        "spark.executor.memory": "1g",
        "spark.deploy.maxExecutorRetries": -1,
        "spark.task.maxFailures": 8,
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
        "spark.plugins": "org.lwmq.test.HaltingPlugin",  # ours is appended
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.lwmq.test.halt": halt,
        "spark.speculation": False,
        **more,
    }
    session = lwmq.session(
        "faults", master=conf.pop("spark.master"), exchange=conf.pop("exchange", False), **conf
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


# ---- What happens to a task ---------------------------------------------------------------------------


def kill_executor(folder: str, partition: int, after_batches: int) -> Step:
    """For mapInArrow: kill -9 of the executor, once, in the middle of task `partition`."""

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            yield batch
            if number == after_batches and TaskContext.get().partitionId() == partition:
                try:
                    (Path(folder) / "armed").unlink()
                except FileNotFoundError:
                    continue
                pid = os.getpid()
                while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(pid, signal.SIGKILL)
                time.sleep(LIMIT_S)

    return kill


def arm(folder: str) -> None:
    (Path(folder) / "armed").touch()


def is_armed(folder: str) -> bool:
    return (Path(folder) / "armed").exists()


def numbered(spark: SparkSession, rows: int, tasks: int) -> DataFrame:
    """Rows with numbers, wide enough that a task publishes several batches."""
    return spark.range(0, rows, 1, tasks).selectExpr("id as k", "repeat('x', 500) as pad")


def read(spark: SparkSession, address: str, **options: Any) -> DataFrame:
    return spark.read.format("lwmq").options(**options).load(address)


def write(frame: DataFrame, address: str, **options: Any) -> None:
    frame.write.format("lwmq").mode("append").options(**options).save(address)


# ---- Scenarios ----------------------------------------------------------------------------------------


def wait_for_executors(spark: SparkSession, count: int) -> None:
    """Until so many have come, and have done something."""
    deadline = time.monotonic() + LIMIT_S
    context = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    while context.getExecutorMemoryStatus().size() < count + 1:  # the driver counts, too
        assert time.monotonic() < deadline, f"{count} executors take too long"
        time.sleep(0.05)
    assert spark.range(0, 100, 1, 8).mapInArrow(lambda batches: batches, "id bigint").count() == 100


def killed_while_reading(spark: SparkSession, address: str, folder: str) -> list[int]:
    arm(folder)
    frame = read(spark, address).select("k").mapInArrow(kill_executor(folder, 0, 3), "k bigint")
    rows = sorted(row.k for row in frame.collect())
    assert not is_armed(folder), "nobody was killed"
    return rows


def killed_while_writing(spark: SparkSession, address: str, folder: str, delivery: str) -> None:
    arm(folder)
    frame = numbered(spark, 4000, 4).mapInArrow(kill_executor(folder, 1, 5), "k bigint, pad string")
    write(frame, address, delivery=delivery, bufferBytes="64KiB")
    assert not is_armed(folder), "nobody was killed"


def written(spark: SparkSession, address: str, rows: int) -> None:
    write(numbered(spark, rows, 2).select("k"), address)


def halted_after_commit(spark: SparkSession, address: str, halt: str, delivery: str) -> None:
    Path(halt).touch()
    write(numbered(spark, 4000, 4), address, delivery=delivery)
    assert not Path(halt).exists(), "nobody was halted"


def stage_recomputed(spark: SparkSession, address: str, folder: str) -> list[list[int]]:
    """The executor goes in the second stage, and with it what its tasks of the first stage have written."""
    arm(folder)
    sums = read(spark, address).selectExpr("k % 10 as g", "k").groupBy("g").agg({"k": "sum"})
    schema = "g bigint, s bigint"
    rows = sums.toDF("g", "s").mapInArrow(kill_executor(folder, 0, 0), schema).collect()
    assert not is_armed(folder), "nobody was killed"
    return sorted([row.g, row.s] for row in rows)


def written_in_a_small_window(spark: SparkSession, address: str) -> None:
    """Eight times as much as the window holds, live, so that every block is written several times."""
    write(numbered(spark, 4000, 2), address, delivery="live", windowBytes="256KiB", bufferBytes="16KiB")


def read_after_a_failure(spark: SparkSession, address: str) -> list[int]:
    """A query that acknowledges batch by batch and fails at row 1550; then what is left for the next one."""
    failing = read(spark, address, ack="batch").selectExpr("k", "assert_true(k != 1550)")
    try:
        failing.collect()
    except Exception:
        return [row.k for row in read(spark, address).collect()]
    raise AssertionError("the query has not failed")


def read_of_another_generation(spark: SparkSession, address: str) -> str | list[int]:
    """Planned while one endpoint lives, done when another one serves other rows: they are none of its own."""

    def serve(first: int) -> tuple[Endpoint, lwmq.StreamWriter]:
        endpoint = Endpoint(address, linger=0)
        table = pa.table({"k": range(first, first + 1000)})
        writer = lwmq.open_writer(address, table.schema, role="client", linger=0)
        writer.write(table)
        return endpoint, writer

    def close(endpoint: Endpoint, writer: lwmq.StreamWriter) -> None:
        writer.abort("its endpoint goes")
        with contextlib.suppress(lwmq.TimeoutError):  # what it wrote is unread
            endpoint.close()

    endpoint, writer = serve(0)
    frame = read(spark, address, endingOffsets="latest")
    close(endpoint, writer)
    endpoint, writer = serve(1_000_000)
    try:
        return [row.k for row in frame.collect()]
    except Exception as failure:
        return type(lwmq.error_of(failure)).__name__
    finally:
        close(endpoint, writer)


def read_plainly(spark: SparkSession, address: str) -> str:
    """The error of a query."""
    frame = read(spark, address)
    try:
        frame.collect()
    except Exception as failure:
        found = lwmq.error_of(failure)
        return f"{type(found).__name__}: {found}"
    raise AssertionError("the query has not failed")


def slow(folder: str, limit_s: float, read_first: int) -> Step:
    """For mapInArrow: the first attempt of task 0 stops behind `read_first` batches until another attempt has
    come, or time is over; each attempt leaves a file."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        task, attempt = context.partitionId(), context.attemptNumber()
        (Path(folder) / f"{task}.{attempt}").touch()
        deadline = time.monotonic() + limit_s
        for count, batch in enumerate(batches, 1):
            yield batch
            while task == attempt == 0 and count >= read_first and time.monotonic() < deadline:
                if (Path(folder) / "0.1").exists():
                    break
                time.sleep(0.01)

    return wait


def copied(
    spark: SparkSession, source: str, sink: str, folder: str, delivery: str, read_first: int
) -> tuple[list[str], str | None, list[str]]:
    """Source to sink by tasks of which Spark makes speculative copies, once `read_first` batches were read.
    Returns task.attempt of each that had rows, the job's error, and what Spark says of tasks that did not end
    well."""
    frame = read(spark, source).select("k").mapInArrow(slow(folder, 120.0, read_first), "k bigint")
    try:
        write(frame, sink, delivery=delivery)
        failure = None
    except Exception as exception:
        failure = type(lwmq.error_of(exception)).__name__
    return sorted(path.name for path in Path(folder).iterdir()), failure, task_errors(spark)


def task_errors(spark: SparkSession) -> list[str]:
    """Error texts of all tasks of the application so far, killed ones among them."""
    store = spark._jsparkSession.sparkContext().statusStore()
    tasks = [store.taskList(stage, 0, 1000) for stage in range(20)]
    said = [of_stage.apply(i).errorMessage() for of_stage in tasks for i in range(of_stage.size())]
    return [text.get() for text in said if text.isDefined()]


def random_faults(spark: SparkSession, source: str, sink: str, folder: str, halt: str, seed: int) -> None:
    """Source to shuffle to sink, with one death somewhere on the way."""
    chance = random.Random(seed)
    where = chance.choice(["reading", "writing", "committed", "nobody"])
    partition, after = chance.randrange(2), chance.randrange(4)
    frame = read(spark, source).select("k")
    if where == "reading":
        arm(folder)
        frame = frame.mapInArrow(kill_executor(folder, partition, after), "k bigint")
    frame = frame.repartition(3)
    if where == "writing":
        arm(folder)
        frame = frame.mapInArrow(kill_executor(folder, partition, after), "k bigint")
    if where == "committed":
        Path(halt).touch()
    write(frame, sink, delivery=chance.choice(["task", "job"]))


def stopped_after_save(spark: SparkSession, source: str, sink: str, delivery: str) -> None:
    """An application that has read and written, and goes at once. Nobody has opened the sink before."""
    assert read(spark, source).count() > 0
    write(spark.range(0, 1000, 1, 4).toDF("k"), sink, delivery=delivery)
    spark.stop()


def killed_driver(_: SparkSession, sink: str, folder: str, delivery: str) -> None:
    """Tasks commit, one after the other, and never all of them: until somebody kills us, once the file `last`
    says that the last one runs."""
    session = lwmq.session("another", master="local[1]", **{"spark.ui.enabled": False})

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 2:
            (Path(folder) / "last").touch()
            time.sleep(LIMIT_S)

    write(session.range(0, 30, 1, 3).toDF("k").mapInArrow(wait, "k bigint"), sink, delivery=delivery)


def main() -> None:
    spark = build(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            scenario = globals().get(name) or getattr(exchanges, name)
            answer = {"result": scenario(spark, *arguments)}
        except Exception:
            answer = {"failure": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
