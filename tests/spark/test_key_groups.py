"""Streams with a partition key: joins and aggregations by it need no exchange, whoever has written them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.producers import end, plan
from tests.spark.producers import kept as keeping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.row("P11")
ROWS = 20_000


@pytest.fixture
def names(spark: SparkSession, ipc: str) -> Iterator[tuple[str, str]]:
    """Two names of the catalog that nobody serves."""
    pair = tuple(f"lwmq.here.`{ipc.removeprefix('ipc://')}-{n}`" for n in "ab")
    yield pair
    for name in pair:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture(autouse=True)
def no_broadcasts(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def address_of(name: str) -> str:
    return "ipc://" + name.split("`")[1]


def exchanges(spark: SparkSession, query: str) -> tuple[int, list[tuple[Any, ...]]]:
    """How many exchanges the plan has that has run, and the rows."""
    frame = spark.sql(query)
    rows = sorted(tuple(row) for row in frame.collect())
    return len(re.findall(r"(?:Lwmq)?Exchange hash", plan(frame))), rows


def make(spark: SparkSession, name: str, buckets: int, columns: str) -> None:
    """A keyed stream that a Spark query fills."""
    declared = f"PARTITIONED BY (bucket({buckets}, k)) OPTIONS (retain 'all')"
    spark.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT) {declared}")
    spark.sql(f"INSERT INTO {name} SELECT {columns} FROM range({ROWS})")


JOIN = "SELECT a.k, count(*) AS n, sum(a.v + b.v) AS s FROM {0} a JOIN {1} b ON a.k = b.k GROUP BY a.k"
LEFT, RIGHT = "id % 501, id", "id % 77, id * 3"


def expected(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as base:
        base.sql(f"CREATE TABLE a AS SELECT range % 501 AS k, range AS v FROM range({ROWS})")
        base.sql(f"CREATE TABLE b AS SELECT range % 77 AS k, range * 3 AS v FROM range({ROWS})")
        return sorted(base.sql(query.format("a", "b")).fetchall())


def test_a_join_and_an_aggregation_by_the_key_have_no_exchange(
    spark: SparkSession, names: tuple[str, str]
) -> None:
    make(spark, names[0], 8, LEFT)
    make(spark, names[1], 8, RIGHT)
    assert "bucket(8, k)" in str(spark.sql(f"DESCRIBE {names[0]}").collect())
    for query in (JOIN, "SELECT k, sum(v) FROM {0} GROUP BY k", "SELECT DISTINCT k FROM {1}"):
        count, rows = exchanges(spark, query.format(*names))
        assert (count, rows) == (0, expected(query))


def test_unequal_counts_of_buckets_and_other_keys_keep_their_exchange(
    spark: SparkSession, names: tuple[str, str]
) -> None:
    make(spark, names[0], 8, LEFT)
    make(spark, names[1], 5, RIGHT)
    for query in (JOIN, "SELECT v % 10 AS t, count(*) FROM {0} GROUP BY v % 10"):
        count, rows = exchanges(spark, query.format(*names))
        assert count > 0
        assert rows == expected(query)


def test_each_row_lies_in_the_partition_of_its_key(spark: SparkSession, names: tuple[str, str]) -> None:
    make(spark, names[0], 8, "if(id % 7 = 0, NULL, id - 10000), id")
    spark.range(100).selectExpr("id AS k", "id AS v").writeTo(names[0]).append()
    table = spark.table(names[0])
    assert table.where("_partition != lwmq.bucket(8, k) OR _partition != pmod(hash(k), 8)").count() == 0
    assert table.count() == ROWS + 100


def test_a_spark_query_joins_what_python_and_spark_have_written(
    spark: SparkSession, names: tuple[str, str]
) -> None:
    make(spark, names[0], 4, LEFT)
    address = address_of(names[1])
    table = pa.table({"k": [n % 77 for n in range(ROWS)], "v": [n * 3 for n in range(ROWS)]})
    with keeping(address):
        writer = lwmq.open_writer(address, table.schema, partitions=4, partition_key="k", retain="all")
        writer.write(table)
        end(writer)
        count, rows = exchanges(spark, JOIN.format(*names))
        assert (count, rows) == (0, expected(JOIN))


def test_a_stream_that_grows_is_read_with_exchanges(spark: SparkSession, names: tuple[str, str]) -> None:
    make(spark, names[0], 4, LEFT)
    address = address_of(names[0])
    writer = lwmq.open_writer(address, pa.schema({"k": pa.int64(), "v": pa.int64()}))
    frame = spark.sql(f"SELECT k, sum(v) FROM {names[0]} GROUP BY k")
    end(writer)
    assert sorted(tuple(row) for row in frame.collect()) == expected("SELECT k, sum(v) FROM {0} GROUP BY k")


def test_a_write_by_path_says_the_key_or_is_refused(spark: SparkSession, ipc: str) -> None:
    rows = spark.range(1000).selectExpr("id % 10 AS k", "id AS v")

    def write(**options: Any) -> None:
        rows.write.format("lwmq").mode("append").options(retain="all", **options).save(ipc)

    with keeping(ipc):
        write(partitions=4, partitionKey="K")
        write(partitions=4, partitionKey="k")
        for options in ({}, {"partitions": 4}, {"partitions": 8, "partitionKey": "k"}, {"partitionKey": "v"}):
            with pytest.raises(Exception, match="has 4 partitions and the partition key k"):
                write(**options)
        unknown = r"partition key of .* names nothing, but the rows have no column"
        with pytest.raises(Exception, match=unknown):
            write(partitions=4, partitionKey="nothing")
        frame = spark.read.format("lwmq").load(ipc)
        assert frame.where("_partition != pmod(hash(k), 4)").count() == 0
        assert frame.count() == 2000


def test_a_write_of_no_rows_is_a_write(spark: SparkSession, names: tuple[str, str]) -> None:
    make(spark, names[0], 4, LEFT)
    spark.sql(f"INSERT INTO {names[0]} SELECT id, id FROM range(10) WHERE 1 = 0")
    spark.sql(f"INSERT INTO {names[0]} VALUES (1, 1)")
    assert spark.sql(f"SELECT count(*) FROM {names[0]}").collect()[0][0] == ROWS + 1
    assert exchanges(spark, f"SELECT max(v) FROM {names[0]} GROUP BY k HAVING max(v) < 0") == (0, [])


def test_the_function_of_the_catalog(spark: SparkSession) -> None:
    same = "SELECT count_if(lwmq.bucket(8, {0}) != pmod(hash({0}), 8)) FROM range(-500, 500)"
    keys = "id; int(id); string(id); id / 3.0; double(id); float(id); id > 0; int(NULL)"
    for key in keys.split("; "):
        assert spark.sql(same.format(key)).collect()[0][0] == 0, key
    with pytest.raises(Exception, match="bucket"):
        spark.sql("SELECT lwmq.bucket('a', id) FROM range(3)").collect()
    with pytest.raises(Exception, match="at least one partition"):
        spark.sql("SELECT lwmq.bucket(int(id - 1), id) FROM range(3)").collect()
    assert "bucket" in str(spark.sql("SHOW USER FUNCTIONS IN lwmq.here").collect())
