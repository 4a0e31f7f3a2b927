"""Rows that go from task to task inside a barrier stage, in Python workers."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S
from tests.spark.streams import fail_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.row("P29"), pytest.mark.timeout(5 * HANG_S)]

KEYS = {
    "boolean": "id % 3 = 0",
    "byte": "cast(id % 100 as tinyint)",
    "int": "if(id % 7 = 0, null, cast(id as int))",
    "long": "id * 1000003",
    "float": "cast(id % 50 as float)",
    "double": "case id % 4 when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D else id / 3D end",
    "text": "if(id % 5 = 0, null, repeat(char(97 + id % 26), cast(id % 40 as int)))",
    "bytes": "cast(cast(id as string) as binary)",
    "date": "date_add(date'2020-01-01', cast(id % 400 as int))",
    "time": "timestamp_micros(id * 977)",
    "decimal": "cast(id % 300 / 7 as decimal(12, 4))",
    "wide": "cast(id * id as decimal(38, 2))",
}

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The ids of the rows that this task gets, and the number of the task."""
    from pyspark import TaskContext

    task = TaskContext.get().partitionId()
    for batch in batches:
        yield pa.record_batch({"id": batch["id"], "task": pa.array([task] * batch.num_rows, pa.int32())})


def places(frame: DataFrame, key: Any, function: Function = place, **options: Any) -> list[tuple[int, int]]:
    found = lwmq.map_exchanged(frame, key, function, "id long, task int", **options).collect()
    return sorted((row.id, row.task) for row in found)


def repartitioned(frame: DataFrame, tasks: int, *key: str) -> list[tuple[int, int]]:
    """The same as Spark's own exchange has it."""
    from pyspark.sql.functions import spark_partition_id

    found = frame.repartition(tasks, *key).select("id", spark_partition_id().alias("task")).collect()
    return sorted((row.id, row.task) for row in found)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3000, 1, 2).selectExpr("id", *(f"{text} AS {name}" for name, text in KEYS.items()))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert not [*Path("/dev/shm").glob("*exchange*")]


@pytest.mark.parametrize("key", [*([name] for name in KEYS), ["int", "text"]], ids="-".join)
def test_each_row_is_where_repartition_places_it(frame: DataFrame, key: list[str]) -> None:
    assert places(frame, key) == repartitioned(frame, 2, *key)


def test_rows_of_one_key_go_to_one_task_and_those_of_a_task_keep_their_order(spark: SparkSession) -> None:
    frame = spark.range(0, 50_000, 1, 2).selectExpr("id", "7 AS k")
    found = lwmq.map_exchanged(frame, "k", place, "id long, task int").collect()
    assert len({row.task for row in found}) == 1
    ids = [row.id for row in found]
    assert sorted(ids) == list(range(50_000))
    for half in (range(25_000), range(25_000, 50_000)):
        assert [number for number in ids if number in half] == list(half)


@pytest.mark.parametrize(("condition", "rows"), [("id < 50", 50), ("id < 0", 0)], ids=["one", "all"])
def test_tasks_without_rows_take_part(spark: SparkSession, condition: str, rows: int) -> None:
    frame = spark.range(0, 100, 1, 2).where(condition)
    assert places(frame, "id") == repartitioned(frame, 2, "id")
    assert len(places(frame, "id")) == rows


def test_one_task_keeps_its_rows(spark: SparkSession) -> None:
    assert places(spark.range(0, 100, 1, 1), "id") == [(number, 0) for number in range(100)]


def test_more_rows_than_windows_hold_pass_while_every_task_writes_and_reads(spark: SparkSession) -> None:
    """Each task first gets rows when its own window has long been full; what it keeps of them is copied."""

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches)
        time.sleep(0.5)  # meanwhile the windows of all tasks fill
        kept = [first, *batches]
        yield from place(iter(kept))

    frame = spark.range(0, 100_000, 1, 2)
    found = places(frame, "id", slow, buffer_bytes="16KiB", window_bytes="64KiB")
    assert found == repartitioned(frame, 2, "id")


def test_a_task_that_gives_up_early_holds_up_no_other(spark: SparkSession) -> None:
    def some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 0:
            yield next(place(batches)).slice(0, 1)
        else:
            yield from place(batches)

    frame = spark.range(0, 200_000, 1, 2)
    found = Counter(task for _, task in places(frame, "id", some, buffer_bytes="16KiB", window_bytes="64KiB"))
    all_of_1 = sum(task for _, task in repartitioned(frame, 2, "id"))
    assert found == {0: 1, 1: all_of_1}


# ---- What is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchanges", [False, True], ids=["scan", "adaptive"])
def test_more_tasks_than_slots_are_refused_at_once_with_both_numbers(
    spark: SparkSession, exchanges: bool
) -> None:
    frame = spark.range(0, 100, 1, 3)
    with pytest.raises(ValueError, match=r"between 3 tasks .* the application has 2"):
        lwmq.map_exchanged(frame.repartition(3) if exchanges else frame, "id", place, "id long, task int")


def test_an_exchange_outside_a_barrier_stage_is_refused(spark: SparkSession) -> None:
    def outside(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from lwmq.exchange_batches(batches, "id")

    with pytest.raises(Exception, match="exchange_batches runs in the tasks of a barrier stage"):
        spark.range(0, 10, 1, 1).mapInArrow(outside, "id long").collect()


@pytest.mark.parametrize(("key", "text"), [("nobody", "no column 'nobody'"), ("list", "the key has list")])
def test_a_key_that_cannot_be_is_an_error_that_names_it(spark: SparkSession, key: str, text: str) -> None:
    frame = spark.range(0, 10, 1, 2).selectExpr("id", "array(id) list")
    with pytest.raises(Exception, match=text):
        places(frame, key)


# ---- Failures --------------------------------------------------------------------------------------------


def once(folder: Path, task: int, how: str) -> Function:
    """For map_exchanged: the first attempt of `task` fails at its first batch."""
    mark = folder / "failed"

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in place(batches):
            if TaskContext.get().partitionId() == task and not mark.exists():
                mark.touch()
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("told to fail")
            yield batch

    return fail


@pytest.mark.parametrize("how", ["failed", "killed"])
@pytest.mark.parametrize("task", [0, 1])
def test_a_task_that_fails_ends_the_stage_and_the_next_attempt_has_all_rows(
    spark: SparkSession, tmp_path: Path, task: int, how: str
) -> None:
    """Spark tries a barrier stage again, as a whole, if a stage follows it."""
    frame = spark.range(0, 300_000, 1, 2)
    options = {"buffer_bytes": "16KiB", "window_bytes": "64KiB"}
    found = lwmq.map_exchanged(frame, "id", once(tmp_path, task, how), "id long, task int", **options)
    rows = found.repartition(1).collect()
    assert (tmp_path / "failed").exists()
    assert sorted((row.id, row.task) for row in rows) == repartitioned(frame, 2, "id")


@pytest.mark.parametrize("how", ["failed", "killed"])
@pytest.mark.parametrize("task", [0, 1])
def test_a_task_that_fails_in_the_last_stage_fails_the_job_with_its_reason(
    spark: SparkSession, tmp_path: Path, task: int, how: str
) -> None:
    frame = spark.range(0, 300_000, 1, 2)
    text = "told to fail" if how == "failed" else r"exited unexpectedly|PeerLostError"
    with pytest.raises(Exception, match=text):
        places(frame, "id", once(tmp_path, task, how), buffer_bytes="16KiB", window_bytes="64KiB")


def test_an_input_that_fails_fails_every_task_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    """The other task reads until the stream ends, which is an error there: it writes down which one."""
    said = tmp_path / "said"

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get().partitionId()

        def source() -> Iterator[pa.RecordBatch]:
            yield next(batches)
            if task == 1:
                raise RuntimeError("told to fail")
            yield from batches

        try:
            yield from lwmq.exchange_batches(source(), "id")
        except lwmq.LwmqError as exc:
            said.write_text(f"{task} {type(exc).__name__} {exc}")
            raise

    with pytest.raises(Exception, match="told to fail"):
        spark.range(0, 300_000, 1, 2).mapInArrow(failing, "id long", barrier=True).collect()
    deadline = time.monotonic() + HANG_S
    while not said.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "told to fail" in said.read_text()
    assert said.read_text().startswith("0 AbortedError")


def test_an_input_that_breaks_off_is_no_end(spark: SparkSession) -> None:
    """The JVM fails at the rows that it feeds to a worker, and stops. That is no end of them."""
    frame = spark.range(0, 100_000, 1, 2).selectExpr("if(id = 99000, raise_error('told to'), id) AS id")
    with pytest.raises(Exception, match="told to"):
        places(frame, "id")


def test_a_worker_that_ran_one_exchange_runs_the_next(spark: SparkSession) -> None:
    """Also after one in which tasks before it failed."""
    frame = spark.range(0, 100, 1, 2)
    with pytest.raises(Exception, match="attempt 0 was told to fail"):
        places(frame.mapInArrow(fail_first(9), "id long"), "id")
    for _ in range(3):
        assert places(frame, "id") == repartitioned(frame, 2, "id")


def test_a_reduction_sums_every_key_once(spark: SparkSession) -> None:
    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        grouped = pa.Table.from_batches(batches).group_by("k").aggregate([("v", "sum")])
        yield from grouped.rename_columns(["k", "v"]).to_batches()

    frame = spark.range(0, 100_000, 1, 2).selectExpr("id % 101 AS k", "id AS v")
    found = lwmq.map_exchanged(frame, "k", sums, "k long, v long").toArrow()
    assert found.num_rows == 101
    assert pc.sum(found["v"]).as_py() == sum(range(100_000))
