"""DataFrames written to streams: what arrives, when it is visible, and what is refused."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.spark.producers import Producer, metrics, numbers, read
from tests.spark.streams import LIMIT_S, Consumer, Gate, fail_first, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def kept(ipc: str) -> Iterator[str]:
    """An address that is served apart from those who write and read there."""
    endpoint = Endpoint(ipc, linger=0)
    yield ipc
    with contextlib.suppress(lwmq.TimeoutError):  # not every test reads everything
        endpoint.close()


# promise: rows are visible / task
@pytest.mark.row("P14")
def test_a_consumer_gets_rows_while_the_job_still_runs(spark: SparkSession, ipc: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    consumer = Consumer(ipc)
    frame = spark.range(0, 400, 1, 4).mapInArrow(gate.hold(3), "id long")
    job = threading.Thread(target=write, args=(frame, ipc))
    job.start()
    consumer.wait_for_rows(300)  # those of the tasks that have ended
    assert job.is_alive()
    gate.open()
    job.join(300)
    assert consumer.column("id") == list(range(400))


def test_a_consumer_may_come_after_the_job(spark: SparkSession, ipc: str) -> None:
    write(spark.range(0, 1000, 1, 3), ipc)
    assert Consumer(ipc).column("id") == list(range(1000))


# promise: an attempt fails / task, job
@pytest.mark.row("P14")
@pytest.mark.parametrize("delivery", ["task", "job"])
def test_rows_of_failed_attempts_are_never_visible(spark: SparkSession, ipc: str, delivery: str) -> None:
    consumer = Consumer(ipc)
    # 600 kB per task: batches were published before the attempt fails
    frame = spark.range(0, 4000, 1, 4).selectExpr("id", "repeat('x', 600) text")
    frame = frame.mapInArrow(fail_first(2), "id long, text string")
    write(frame, ipc, delivery=delivery)
    assert consumer.column("id") == list(range(4000))


# promise: rows are visible / job
@pytest.mark.row("P14")
def test_with_delivery_job_nothing_is_visible_before_the_job_commits(
    spark: SparkSession, kept: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    consumer = Consumer(kept)
    other = Consumer(kept, name="other")
    frame = spark.range(0, 400, 1, 4).mapInArrow(gate.hold(3), "id long")
    job = threading.Thread(target=write, args=(frame, kept), kwargs={"delivery": "job", "readers": "2"})
    job.start()
    with pytest.raises(lwmq.TimeoutError), lwmq.open_reader(kept, timeout=1.5, name="hasty") as reader:
        next(reader)
    assert (consumer.rows, other.rows) == (0, 0)
    gate.open()
    job.join(300)
    assert consumer.column("id") == list(range(400))
    assert other.column("id") == list(range(400))


# promise: rows are visible / live
def test_with_delivery_live_rows_are_visible_while_their_task_runs(
    spark: SparkSession, ipc: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    consumer = Consumer(ipc)
    frame = spark.range(0, 20_000, 1, 1).selectExpr("id", "repeat('x', 100) text")
    frame = frame.mapInArrow(gate.hold(0), "id long, text string")
    job = threading.Thread(target=write, args=(frame, ipc), kwargs={"delivery": "live"})
    job.start()
    consumer.wait_for_rows(1000)
    assert job.is_alive()
    gate.open()
    job.join(300)
    assert consumer.column("id") == list(range(20_000))


# promise: the job fails / job
def test_a_job_that_failed_unseen_is_nothing_to_the_reader(spark: SparkSession, kept: str) -> None:
    consumer = Consumer(kept)
    frame = spark.range(0, 100, 1, 2).mapInArrow(fail_first(99), "id long")
    with pytest.raises(Exception, match="told to fail"):
        write(frame, kept, delivery="job")
    write(spark.range(1000, 1010, 1, 2), kept, delivery="job")
    assert consumer.column("id") == list(range(1000, 1010))


# promise: the job fails / task
def test_a_job_that_failed_after_rows_were_visible_is_an_error_behind_them(
    spark: SparkSession, kept: str, tmp_path: Path
) -> None:
    consumer = Consumer(kept)

    def fail_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 3:
            raise RuntimeError("the last one was told to fail")

    with pytest.raises(Exception, match="told to fail"):
        write(spark.range(0, 400, 1, 4).mapInArrow(fail_last, "id long"), kept)
    with pytest.raises(lwmq.AbortedError):
        consumer.table()
    assert consumer.rows % 100 == 0  # tasks that had committed, whole


@pytest.mark.row("P31")
def test_every_type_of_spark_comes_back_as_it_went_out(spark: SparkSession, kept: str) -> None:
    frame = spark.sql(
        """
        select i % 2 = 0 boolean, cast(i % 100 as tinyint) tinyint, cast(i as smallint) smallint,
          cast(i as int) int, i bigint, cast(i / 3 as float) float, i / 3 double, cast(i as decimal(9, 2)) d9,
          cast(i * 1.5 as decimal(18, 4)) d18, cast(i as decimal(38, 18)) * -1 d38,
          repeat('wört ', cast(i % 20 as int)) string, cast(cast(i as string) as binary) binary,
          cast('abc' as char(5)) ch, cast('abc' as varchar(5)) vc,
          date_add(date'1969-12-30', cast(i as int)) date, timestamp_micros(i * 1234567) ts,
          cast(timestamp_micros(i * 1234567) as timestamp_ntz) ntz, time'01:02:03.456' time,
          make_dt_interval(0, 0, 0, cast(i as decimal(18, 6))) ds, make_ym_interval(0, cast(i as int)) ym,
          cast(null as void) nothing, if(i % 3 = 0, null, i) maybe,
          array(i, null, i + 1) a, array(array('x', null), null, array()) aa,
          map('k', i, 'l', null) m, named_struct('x', i, 'y', named_struct('z', cast(i as string))) st,
          array(map(i, array(named_struct('p', true)))) deep, parse_json('{"a": [1, "x"]}') v
        from (select id i from range(0, 500, 1, 3))
        """
    )
    write(frame, kept)
    back = spark.read.format("lwmq").load(kept)
    assert back.dtypes == frame.dtypes  # all of it nullable: the next job that appends may have nulls

    def shown(data: Any) -> list[Any]:
        columns = [
            f"cast({field.name} as string) {field.name}" if field.name in ("v", "ym") else field.name
            for field in data.schema
        ]
        return data.selectExpr(*columns).orderBy("bigint").collect()

    assert shown(back) == shown(frame)


def test_values_arrive_outside_spark_as_arrow_has_them(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    write(spark.sql("select 1 i, 'text' s, cast(-1.25 as decimal(9, 2)) d, array(1, null) a, null n"), ipc)
    table = consumer.table()
    assert table.to_pylist() == [{"i": 1, "s": "text", "d": Decimal("-1.25"), "a": [1, None], "n": None}]
    assert [field.nullable for field in table.schema] == [True] * 5


def test_an_empty_dataframe_gives_an_empty_stream_with_its_schema(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    write(spark.range(10).where("id > 99").selectExpr("id", "cast(id as string) text"), ipc)
    table = consumer.table()
    assert table.num_rows == 0
    assert table.schema.names == ["id", "text"]


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_a_save_mode_other_than_append_is_refused_with_append_named(
    spark: SparkSession, ipc: str, mode: str
) -> None:
    with pytest.raises(Exception, match=r"(?i)append"):
        spark.range(3).write.format("lwmq").mode(mode).save(ipc)


def test_a_dataframe_that_does_not_fit_is_refused_with_the_field_and_both_types(
    spark: SparkSession, kept: str
) -> None:
    write(spark.range(5), kept)
    with pytest.raises(
        Exception, match=r"LWMQ_SCHEMA.*field id is Int\(64, true\) there and Utf8 \(STRING\)"
    ):
        write(spark.range(5).selectExpr("cast(id as string) id"), kept)
    with pytest.raises(Exception, match=r"LWMQ_SCHEMA.*it has no field more BIGINT"):
        write(spark.range(5).selectExpr("id", "id more"), kept)
    with pytest.raises(Exception, match=r"LWMQ_SCHEMA.*the DataFrame has no field id|field 0 is id"):
        write(spark.range(5).selectExpr("id other"), kept)


def test_a_null_is_refused_where_the_stream_takes_none(spark: SparkSession, kept: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with lwmq.open_writer(kept, schema, role="client", linger=60):
        write(spark.range(0, 5, 1, 1).selectExpr("if(id < 9, id, null) id"), kept)
        with pytest.raises(Exception, match=r"LWMQ_SCHEMA.*1 nulls in id"):
            write(spark.range(0, 5, 1, 1).selectExpr("if(id < 4, id, null) id"), kept)
        consumer = Consumer(kept)
        consumer.wait_for_rows(5)


def test_task_i_appends_to_partition_i_mod_p(spark: SparkSession, kept: str) -> None:
    write(spark.range(0, 70, 1, 7), kept, partitions="3")
    for partition in range(3):
        expected = [row for task in range(partition, 7, 3) for row in range(10 * task, 10 * task + 10)]
        assert Consumer(kept, partitions=[partition], name="same").column("id") == expected


def test_a_job_many_times_larger_than_its_window_waits_for_its_reader(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    frame = spark.range(0, 400_000, 1, 2).selectExpr("id", "repeat('x', 100) text")
    write(frame, ipc, delivery="live", bufferBytes="256KiB", buffers="4")  # 43 MB through 1 MiB
    table = consumer.table()
    assert sorted(table["id"].to_pylist()) == list(range(400_000))
    assert max(batch.nbytes for batch in table.to_batches()) <= 256 << 10


def test_a_row_larger_than_a_buffer_gets_a_larger_one(spark: SparkSession, ipc: str) -> None:
    consumer = Consumer(ipc)
    write(spark.sql("select id, repeat('x', 3000000) t from range(0, 4, 1, 1)"), ipc, bufferBytes="1MiB")
    assert [len(text) for text in consumer.table()["t"].to_pylist()] == [3_000_000] * 4


@pytest.mark.row("P13")
@pytest.mark.parametrize(
    ("large", "options"),
    [
        (900_000, {"windowBytes": "1MiB"}),
        (3_000_000, {"windowBytes": "1MiB"}),  # lies in what stagingBytes allows
        (100_000_000, {"bufferBytes": "100MiB"}),
    ],
)
def test_a_large_row_never_waits_for_what_its_own_task_has_not_committed(
    spark: SparkSession, ipc: str, large: int, options: dict[str, str]
) -> None:
    consumer = Consumer(ipc)
    text = f"repeat(string(id), if(id % 2 = 1, {large}, 10)) text"
    write(spark.range(0, 4, 1, 1).selectExpr("id", text), ipc, **options)
    assert [len(text) for text in consumer.column("text")] == [10, large, 10, large]


@pytest.mark.parametrize("columnar", ["auto", "false"])
def test_the_sql_tab_shows_rows_batches_bytes_copies_and_waiting_once(
    spark: SparkSession, kept: str, columnar: str
) -> None:
    write(spark.range(0, 100_000, 1, 2), kept, retain="all")
    frame = spark.read.format("lwmq").load(kept)
    with Endpoint(f"{kept}-copy", linger=0):
        write(frame, f"{kept}-copy", columnarWrite=columnar)
        shown = metrics(spark, "AppendData")
        with contextlib.suppress(lwmq.LwmqError):
            Consumer(f"{kept}-copy").table()
    found = dict(shown)
    assert sorted(name for name, _ in shown) == [
        "bytes copied while writing",
        "bytes written",
        "number of output rows",
        "record batches written",
        "time waited for readers",
    ]
    assert found["number of output rows"] == "100,000"  # in column form, Spark itself counts batches
    assert re.fullmatch(r"(total.*:\n)?7[89]\d\.\d KiB.*", found["bytes written"]), found
    assert re.search(r" (ms|s|m)\b", found["time waited for readers"]), found


def test_a_columnar_plan_is_written_in_columns(spark: SparkSession, kept: str) -> None:
    rows = spark.range(0, 50_000, 1, 4).selectExpr("id", "id * 0.5D half", "concat('t', id) text")
    write(rows, kept, retain="all")
    frame = spark.read.format("lwmq").load(kept)
    copy = f"{kept}-copy"
    with Endpoint(copy, linger=60):
        write(frame, copy)
        assert "ColumnBatches" in _plan_of_last_write(spark)
        write(frame, copy, columnarWrite="false")
        assert "ColumnBatches" not in _plan_of_last_write(spark)
        table = Consumer(copy).table()
    assert sorted(table["id"].to_pylist()) == sorted(2 * list(range(50_000)))
    assert all(row["half"] == row["id"] / 2 and row["text"] == f"t{row['id']}" for row in table.to_pylist())


def _last_execution(spark: SparkSession) -> Any:
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    return store, executions.apply(executions.size() - 1)


def _plan_of_last_write(spark: SparkSession) -> str:
    return str(_last_execution(spark)[1].physicalPlanDescription())


def test_appending_to_the_stream_that_is_read_is_refused_unless_its_end_is_known(
    spark: SparkSession, kept: str
) -> None:
    """It waited for its own end for ever."""
    with lwmq.open_writer(kept, pa.schema([("id", pa.int64())]), retain="all", linger=0) as producer:
        producer.write(pa.table({"id": range(10)}))
        endless = spark.read.format("lwmq").load(kept)
        for frame in (endless, endless.where("id > 3").union(spark.range(3))):
            with pytest.raises(Exception, match=f"reads {kept} to its end, which does not come") as caught:
                write(frame, kept)
            assert "LWMQ_INVALID" in str(caught.value)
        write(endless.limit(3), kept)
        now = spark.read.format("lwmq").option("endingOffsets", "latest").load(kept)
        write(now, kept)
        with contextlib.suppress(lwmq.TimeoutError):
            producer.close()
    again = spark.read.format("lwmq").load(kept)
    write(again, kept)  # which has an end now
    assert spark.read.format("lwmq").load(kept).count() == 2 * (10 + 3 + 13)


@pytest.mark.parametrize("adaptive", [True, False])
def test_appending_what_was_made_of_the_whole_stream_waits_for_its_other_producers(
    spark: SparkSession, kept: str, adaptive: bool
) -> None:
    """Adaptive plans have read their input before they write; others read it while they write."""
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        with lwmq.open_writer(kept, pa.schema([("id", pa.int64())]), retain="all", linger=0) as producer:
            producer.write(pa.table({"id": range(10)}))
            counted = spark.read.format("lwmq").load(kept).groupBy().count().toDF("id")
            if adaptive:
                timer = threading.Timer(1.0, lambda: producer.close(linger=LIMIT_S))
                timer.start()
                write(counted, kept)
                assert spark.read.format("lwmq").load(kept).agg({"id": "max"}).collect() == [(10,)]
                timer.join(LIMIT_S)
            else:
                with pytest.raises(Exception, match=f"reads {kept} to its end, which does not come"):
                    write(counted, kept)
                with contextlib.suppress(lwmq.TimeoutError):
                    producer.close()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_streams_behind_one_address_are_read_and_written(spark: SparkSession, ipc: str) -> None:
    left, right = Producer(f"{ipc}?stream=left", numbers(100)), Producer(f"{ipc}?stream=right", numbers(50))
    consumer = Consumer(f"{ipc}?stream=joined")
    joined = read(spark, f"{ipc}?stream=left").join(read(spark, f"{ipc}?stream=right"), "k").select("k")
    write(joined, f"{ipc}?stream=joined")
    assert sorted(consumer.column("k")) == list(range(50))
    left.finish()
    right.finish()


def test_a_job_makes_its_stream_behind_an_address_that_another_process_serves(
    spark: SparkSession, kept: str
) -> None:
    write(spark.range(0, 100, 1, 2), f"{kept}?stream=fresh")
    assert sorted(Consumer(f"{kept}?stream=fresh").column("id")) == list(range(100))
    with pytest.raises(Exception, match="there is no such stream at the endpoint"):
        read(spark, f"{kept}?stream=second", timeout="1s").count()
