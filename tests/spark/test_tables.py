"""Streams as tables of SQL: created by their address, read, appended to, described, dropped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.spark.producers import kept as keeping
from tests.spark.streams import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "(id BIGINT, text STRING)"


@pytest.fixture
def stream(ipc: str) -> Iterator[str]:
    """The address of a stream that has ended, keeps everything, and holds two rows."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "text": ["a", "b"]})
    with keeping(ipc):
        with (
            contextlib.suppress(lwmq.TimeoutError),
            lwmq.open_writer(ipc, rows.schema, retain="all", linger=0) as writer,
        ):
            writer.write(rows)
        deadline = time.monotonic() + 60
        while describe(ipc, 60.0).state != "ended" and time.monotonic() < deadline:
            time.sleep(0.02)
        yield ipc


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    spark.sql("DROP TABLE IF EXISTS t")
    yield "t"
    spark.sql("DROP TABLE IF EXISTS t")


def ids(spark: SparkSession, query: str = "SELECT id FROM t") -> list[int]:
    return sorted(row[0] for row in spark.sql(query).collect())


@pytest.mark.parametrize("columns", ["", COLUMNS], ids=["inferred", "declared"])
@pytest.mark.parametrize("where", ["OPTIONS (uri '{}')", "OPTIONS (path '{}')", "LOCATION '{}'"])
def test_a_stream_is_a_table_of_sql(
    spark: SparkSession, stream: str, table: str, where: str, columns: str
) -> None:
    spark.sql(f"CREATE TABLE {table} {columns} USING lwmq {where.format(stream)}")
    assert ids(spark) == [1, 2]
    spark.sql("INSERT INTO t VALUES (3, 'c')")  # an INT, which the table makes a BIGINT
    spark.sql("INSERT INTO t (text, id) VALUES ('d', 4)")
    spark.range(5, 6).selectExpr("id", "'e' text").writeTo(table).append()
    spark.range(6, 7).selectExpr("id", "'f' text").write.insertInto(table)
    spark.range(7, 8).selectExpr("id", "'g' text").write.format("lwmq").mode("append").saveAsTable(table)
    assert sorted(tuple(row) for row in spark.table(table).collect()) == [*enumerate("abcdefg", 1)]
    assert [row.data_type for row in spark.sql("DESCRIBE t").collect()][:2] == ["bigint", "string"]
    assert stream in spark.sql("SHOW CREATE TABLE t").collect()[0][0]
    spark.sql("DROP TABLE t")
    assert not spark.catalog.tableExists(table)


def test_a_table_may_be_created_by_what_is_written_to_it(spark: SparkSession, ipc: str, table: str) -> None:
    def created(create: str) -> None:
        assert ids(spark) == [0, 1, 2], create
        spark.sql("DROP TABLE t")

    spark.sql(f"CREATE TABLE t USING lwmq OPTIONS (uri '{ipc}-1', retain 'all') AS SELECT id FROM range(3)")
    created("CREATE TABLE")
    spark.range(3).writeTo(table).using("lwmq").tableProperty("uri", f"{ipc}-2").create()
    created("writeTo")
    spark.range(3).write.format("lwmq").option("path", f"{ipc}-3").saveAsTable(table)
    created("saveAsTable")


def test_a_query_of_a_table_may_have_options_of_its_own(spark: SparkSession, stream: str, table: str) -> None:
    spark.sql(f"CREATE TABLE t USING lwmq OPTIONS (uri '{stream}', startingOffsets 'latest')")
    assert ids(spark) == []
    assert ids(spark, "SELECT id FROM t WITH (startingOffsets = 'EARLIEST')") == [1, 2]
    assert ids(
        spark, "SELECT id FROM t UNION ALL SELECT id FROM t WITH (startingOffsets = '{\"0\": 0}')"
    ) == [1, 2]
    with pytest.raises(Exception, match="'retian' is unknown: did you mean retain"):
        ids(spark, "SELECT id FROM t WITH (retian = 'all')")


def test_a_table_takes_the_defaults_of_the_session(spark: SparkSession, stream: str, table: str) -> None:
    spark.conf.set("spark.datasource.lwmq.uri", stream)
    try:
        spark.sql("CREATE TABLE t USING lwmq")
        assert ids(spark) == [1, 2]
        spark.conf.set("spark.datasource.lwmq.startingOffsets", "latest")
        assert ids(spark) == []
    finally:
        spark.conf.unset("spark.datasource.lwmq.uri")
        spark.conf.unset("spark.datasource.lwmq.startingOffsets")


@pytest.mark.parametrize(
    ("create", "why"),
    [
        ("CREATE TABLE t (id BIGINT) USING lwmq", r"no address: .*CREATE TABLE .* OPTIONS \(uri"),
        (
            "CREATE TABLE t (id BIGINT) USING lwmq OPTIONS (uri 'ipc://x', retian 'all')",
            "did you mean retain",
        ),
        ("CREATE TABLE t (id BIGINT) USING lwmq OPTIONS (uri 'ipc://x', buffers 'many')", "a whole number"),
        ("CREATE TABLE t (id BIGINT) USING lwmq OPTIONS (uri 'flights')", "did you mean 'ipc://flights'"),
        (
            "CREATE TABLE t (id BIGINT) USING lwmq OPTIONS (uri 'ipc://x') PARTITIONED BY (id)",
            "cannot be partitioned by id",
        ),
    ],
)
def test_a_table_that_could_not_be_read_is_refused_when_it_is_created(
    spark: SparkSession, table: str, create: str, why: str
) -> None:
    with pytest.raises(Exception, match=why):
        spark.sql(create)
    assert not spark.catalog.tableExists(table)


def test_a_table_whose_stream_has_changed_names_the_field(
    spark: SparkSession, stream: str, table: str
) -> None:
    spark.sql(f"CREATE TABLE t (id STRING, text STRING) USING lwmq OPTIONS (uri '{stream}')")
    with pytest.raises(Exception, match="field id is BIGINT") as caught:
        ids(spark)
    assert isinstance(lwmq.error_of(caught.value), lwmq.SchemaError)
    with pytest.raises(Exception, match="field id is"):
        spark.sql("INSERT INTO t VALUES ('1', 'x')")


def test_a_temporary_view_reads_a_stream(spark: SparkSession, stream: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lwmq OPTIONS (uri '{stream}')")
    assert ids(spark, "SELECT id FROM v") == [1, 2]
    spark.sql("DROP VIEW v")


def test_values_are_inserted_into_a_temporary_view_of_a_stream(spark: SparkSession, ipc: str) -> None:
    """They were refused, because SQL calls them col1, col2."""
    with keeping(ipc):
        write(spark.sql("SELECT 1L AS id, 'one' AS word"), ipc)
        spark.read.format("lwmq").load(ipc).createOrReplaceTempView("words_of_a_stream")
        spark.sql("INSERT INTO words_of_a_stream VALUES (2, 'two')")
        spark.sql("INSERT INTO words_of_a_stream (word, id) VALUES ('three', 3)")
        with pytest.raises(AnalysisException, match="NOT_ENOUGH_DATA_COLUMNS"):
            spark.sql("INSERT INTO words_of_a_stream VALUES (4)")
        rows = spark.read.format("lwmq").load(ipc).collect()
    assert sorted(tuple(row) for row in rows) == [(1, "one"), (2, "two"), (3, "three")]
