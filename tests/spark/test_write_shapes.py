"""Schemas and rows of unusual shape: wide, deep, long lists, and strings that are no text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.spark.producers import Producer, kept
from tests.spark.streams import Consumer, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def wide(spark: SparkSession, columns: int, rows: int) -> DataFrame:
    """c0, c1 and so on, by turns numbers and strings; made in Python, as Spark's own code is slow there."""
    names = [f"c{i}" for i in range(columns)]

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_pylist()
            texts = pa.array([f"t{i}" for i in ids])
            numbers = pa.array(ids, pa.int64())
            yield pa.record_batch([texts if i % 2 else numbers for i in range(len(names))], names)

    ddl = ", ".join(f"{name} {'string' if i % 2 else 'bigint'}" for i, name in enumerate(names))
    return spark.range(0, rows, 1, 1).mapInArrow(fill, ddl)


@pytest.mark.row("P31")
@pytest.mark.timeout(400)  # Spark plans for a while
@pytest.mark.parametrize("columns", [3_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_stream_of_thousands_of_columns_is_written_and_read(
    spark: SparkSession, ipc: str, columns: int
) -> None:
    write(wide(spark, columns, 20), ipc, columnarWrite="false", retain="all")
    back = spark.read.format("lwmq").load(ipc)
    assert len(back.columns) == columns
    some = back.where("c0 > 16").select(f"c{columns - 1}", f"c{columns // 2}").collect()
    assert sorted(tuple(row) for row in some) == [("t17", 17), ("t18", 18), ("t19", 19)]
    consumer = Consumer(f"{ipc}-copy")
    write(back, f"{ipc}-copy", columnarWrite="true")
    table = consumer.table()
    for i, column in enumerate(table.columns):
        assert column.to_pylist() == ([f"t{n}" for n in range(20)] if i % 2 else list(range(20)))
    assert table.num_columns == columns


@pytest.mark.row("P31")
@pytest.mark.parametrize("kind", ["arrays", "structs", "maps"])
def test_a_hundred_and_fifty_levels_are_written_and_read(spark: SparkSession, ipc: str, kind: str) -> None:
    frame = spark.range(0, 200, 1, 1)
    value = F.concat(F.lit("t"), F.col("id"))
    for level in range(150):
        if level % 30 == 29:  # Spark's stack has a dozen frames for each level of an expression
            frame = frame.select("id", value.alias("v"))
            value = F.col("v")
        if kind == "maps":
            value = F.create_map(F.lit("k"), value)
        elif kind == "arrays":
            value = F.array(value)
        else:
            value = F.struct(F.lit(level).alias("n"), value.alias("s"))
    frame = frame.select("id", F.when(F.col("id") % 3 != 0, value).alias("v"))
    write(frame, ipc, retain="all")
    back = spark.read.format("lwmq").load(ipc)
    assert back.where("id in (3, 100)").collect() == frame.where("id in (3, 100)").collect()
    write(back, f"{ipc}-copy", columnarWrite="true")
    assert spark.read.format("lwmq").load(f"{ipc}-copy").count() == 200


@pytest.mark.parametrize(
    "element",
    [
        "named_struct('a', concat('a', x), 'b', string(x))",
        "string(x)",
        "array(x, x + 1)",
        "map(x, string(x))",
    ],
)
def test_a_row_with_a_long_list_is_written_as_any_other(spark: SparkSession, ipc: str, element: str) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr(
        "id", f"transform(sequence(0, if(id = 1, 299999, 9)), x -> {element}) list"
    )
    write(frame, ipc, retain="all")
    back = spark.read.format("lwmq").load(ipc)
    sizes = (
        back.selectExpr("id", "size(list) n", "hash(transform(list, x -> string(x))) h")
        .orderBy("id")
        .collect()
    )
    assert (
        sizes == frame.selectExpr("id", "size(list) n", "hash(transform(list, x -> string(x))) h").collect()
    )
    assert [row.n for row in sizes] == [10, 300_000, 10]


def test_a_row_that_the_window_cannot_hold_names_the_option_to_set(spark: SparkSession, ipc: str) -> None:
    frame = spark.range(0, 3, 1, 1).selectExpr("repeat('x', 3000000) t")
    with pytest.raises(
        Exception, match=r"LWMQ_MESSAGE_TOO_BIG.*batch of 3\d{6} bytes.*in Spark .*bufferBytes"
    ):
        write(frame, ipc, windowBytes="2MiB", delivery="live")


@pytest.mark.parametrize("plan", ["rows", "parquet", "stream", "python"])
def test_a_string_that_is_not_utf8_is_refused_with_field_and_row(
    spark: SparkSession, ipc: str, tmp_path: Path, plan: str
) -> None:
    frame = spark.range(0, 1000, 1, 1).selectExpr(
        "id", "if(id = 700, cast(X'6FC1' as string), concat('wört ', id)) t"
    )
    if plan == "parquet":
        frame.write.parquet(str(tmp_path / "parquet"))
        frame = spark.read.parquet(str(tmp_path / "parquet"))
    elif plan == "stream":
        with kept(f"{ipc}-source"):
            producer = Producer(f"{ipc}-source", pa.Table.from_batches([_texts()]), retain="all")
            _check_texts(spark.read.format("lwmq").load(f"{ipc}-source"), ipc)
            producer.finish()
        return
    elif plan == "python":

        def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield _texts()

        frame = spark.range(0, 1, 1, 1).mapInArrow(broken, "id bigint, t string")
    _check_texts(frame, ipc)


def _texts() -> pa.RecordBatch:
    texts = pa.array([b"o\xc1" if i == 700 else f"wört {i}".encode() for i in range(1000)], pa.binary())
    return pa.record_batch(
        {"id": pa.array(range(1000)), "t": pa.Array.from_buffers(pa.string(), 1000, texts.buffers())}
    )


def _check_texts(frame: DataFrame, ipc: str) -> None:
    for columns in ("true", "false"):
        target = f"{ipc}-{columns}"
        with Endpoint(target, linger=0):
            with pytest.raises(
                Exception,
                match=r"LWMQ_INVALID: the string in t of row 700 of its task is not UTF-8: 2 bytes, 6F C1",
            ):
                write(frame, target, columnarWrite=columns, delivery="job")
            write(frame, target, columnarWrite=columns, delivery="job", invalidUtf8="replace")
            table = Consumer(target).table().sort_by("id")
        assert table["t"].to_pylist() == ["o\ufffd" if i == 700 else f"wört {i}" for i in range(1000)]


def test_nulls_count_where_their_parent_is_there(spark: SparkSession, ipc: str) -> None:
    struct = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    schema = pa.schema([("s", struct), ("l", pa.list_(pa.field("element", struct)))])
    good = (
        "select named_struct('a', 1) s, array(named_struct('a', 2), null) l union all "
        "select null, null union all select null, array()"
    )
    with Endpoint(ipc, linger=0), lwmq.open_writer(ipc, schema, role="client", linger=30):
        consumer = Consumer(ipc)
        write(spark.sql(good).coalesce(1), ipc)
        consumer.wait_for_rows(3)
        for bad, text in (
            ("named_struct('a', cast(null as int)) s, array(named_struct('a', 1)) l", "1 nulls in s.a,"),
            ("null s, array(named_struct('a', cast(null as int)), null) l", "1 nulls in l.element.a,"),
        ):
            with pytest.raises(Exception, match=f"LWMQ_SCHEMA: {text}"):
                write(spark.sql(f"select cast(s as struct<a: int>) s, l from (select {bad})"), ipc)
    assert sorted(consumer.table().to_pylist(), key=str) == sorted(
        [{"s": {"a": 1}, "l": [{"a": 2}, None]}, {"s": None, "l": None}, {"s": None, "l": []}], key=str
    )
