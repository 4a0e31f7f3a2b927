"""Streams as tables of the catalog `lwmq`: found by name, listed, described, read, written, declared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.spark.producers import end, plan
from tests.spark.producers import kept as keeping
from tests.spark.streams import Consumer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.row("P23")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "word": ["one", "two"]})


@pytest.fixture
def name(ipc: str) -> Iterator[str]:
    """The name, in `here`, of a stream that has ended, keeps everything, and holds two rows."""
    with keeping(ipc):
        writer = lwmq.open_writer(ipc, ROWS.schema, retain="all")
        writer.write(ROWS)
        end(writer)
        yield ipc.removeprefix("ipc://")


@pytest.fixture
def new(spark: SparkSession, ipc: str) -> Iterator[str]:
    """A name in `here` that nobody serves."""
    name = ipc.removeprefix("ipc://")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS lwmq.here.`{name}`")


def sql(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(statement).collect())


def refusal(spark: SparkSession, statement: str) -> str:
    """What the first line of the error says."""
    with pytest.raises(Exception) as caught:
        spark.sql(statement).collect()
    said = str(lwmq.error_of(caught.value) or caught.value)
    return said.splitlines()[0]


def test_a_stream_of_this_host_is_a_table_by_its_name(spark: SparkSession, name: str) -> None:
    assert sql(spark, f"SELECT id, word FROM lwmq.here.`{name}`") == [(1, "one"), (2, "two")]
    assert sql(spark, f"SELECT count(*) FROM lwmq.`ipc://{name}` WHERE id > 1") == [(1,)]
    assert "BatchScan" in plan(spark.table(f"lwmq.here.`{name}`"))
    spark.sql("USE lwmq")
    try:
        assert sql(spark, "SELECT current_catalog(), current_schema()") == [("lwmq", "here")]
        assert sql(spark, f"SELECT word FROM `{name}`") == [("one",), ("two",)]
    finally:
        spark.sql("USE spark_catalog.default")


def test_an_address_is_a_table(spark: SparkSession, address: str) -> None:
    with keeping(address):
        writer = lwmq.open_writer(address, ROWS.schema, retain="all")
        writer.write(ROWS)
        end(writer)
        assert sql(spark, f"SELECT word FROM lwmq.`{address}`") == [("one",), ("two",)]
        spark.sql(f"INSERT INTO lwmq.`{address}` VALUES (3, 'three')")
        assert sql(spark, f"SELECT max(id) FROM lwmq.`{address}`") == [(3,)]
        name = address.removeprefix("ipc://")
        assert ("here", name, False) in sql(spark, "SHOW TABLES IN lwmq.here")
        assert sql(spark, f"SELECT min(id) FROM lwmq.here.`{name}`") == [(1,)]


def test_rows_that_are_inserted_are_appended(spark: SparkSession, name: str) -> None:
    table = f"lwmq.here.`{name}`"
    spark.sql(f"INSERT INTO {table} VALUES (3, 'three')")  # an INT, which the table makes a BIGINT
    spark.sql(f"INSERT INTO {table} (word, id) VALUES ('four', 4)")
    spark.range(5, 6).selectExpr("id", "'five' word").writeTo(table).append()
    spark.range(6, 7).selectExpr("'six' word", "id").write.mode("append").saveAsTable(table)
    assert [row[0] for row in sql(spark, f"SELECT * FROM {table}")] == [1, 2, 3, 4, 5, 6]
    assert "NOT_ENOUGH_DATA_COLUMNS" in refusal(spark, f"INSERT INTO {table} VALUES (7)")
    assert "cannot be overwritten" in refusal(spark, f"INSERT OVERWRITE {table} VALUES (7, 'seven')")


def test_a_query_may_have_options_of_its_own(spark: SparkSession, name: str) -> None:
    table = f"lwmq.here.`{name}`"
    assert sql(spark, f"SELECT id FROM {table} WITH (startingOffsets = 'latest')") == []
    assert "did you mean retain" in refusal(spark, f"SELECT id FROM {table} WITH (retian = 'all')")


@pytest.mark.row("P24")
def test_metadata_columns_are_selected_in_sql(spark: SparkSession, name: str) -> None:
    found = sql(
        spark, f"SELECT _endpoint, _partition, _seq, _timestamp > '2020-01-01' FROM lwmq.here.`{name}`"
    )
    assert found == [(f"ipc://{name}", 0, 0, True)] * 2
    assert spark.sql(f"SELECT * FROM lwmq.here.`{name}`").columns == ["id", "word"]


def test_streams_are_listed(spark: SparkSession, name: str) -> None:
    assert sql(spark, "SHOW NAMESPACES IN lwmq") == [("here",)]
    assert sql(spark, f"SHOW TABLES IN lwmq.here LIKE '{name}'") == [("here", name, False)]
    assert sql(spark, f"SHOW TABLES IN lwmq LIKE '{name}'") == [("here", name, False)]
    assert sql(spark, "SHOW TABLES IN lwmq.here LIKE 'no such stream'") == []
    assert "SCHEMA_NOT_FOUND" in refusal(spark, "SHOW TABLES IN lwmq.elsewhere")
    assert "streams" in str(sql(spark, "DESCRIBE NAMESPACE lwmq.here"))
    assert spark.catalog.tableExists(f"lwmq.here.`{name}`")


def test_a_stream_of_another_process_is_listed_and_read(spark: SparkSession, ipc: str) -> None:
    name = ipc.removeprefix("ipc://")
    code = (
        "import sys, pyarrow as pa, lwmq_spark as lwmq\n"
        "table = pa.table({'id': [7]})\n"
        "with lwmq.open_writer(sys.argv[1], table.schema) as writer:\n"
        "    writer.write(table)\n"
        "    print('written', flush=True)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code, ipc], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "written\n"
        assert sql(spark, f"SHOW TABLES IN lwmq.here LIKE '{name}'") == [("here", name, False)]
        said = refusal(spark, f"DROP TABLE lwmq.here.`{name}`")
        assert f"is served by process {other.pid}" in said and "only that process" in said
        assert sql(spark, f"SELECT * FROM lwmq.here.`{name}`") == [(7,)]
        assert other.wait(60) == 0
    finally:
        other.kill()
        other.communicate()


def test_a_stream_is_described(spark: SparkSession, name: str) -> None:
    table = f"lwmq.here.`{name}`"
    assert [tuple(row)[:2] for row in spark.sql(f"DESCRIBE {table}").collect()][:2] == [
        ("id", "bigint"),
        ("word", "string"),
    ]
    extended = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert extended["Provider"] == "lwmq"
    assert "2 rows" in extended["Statistics"]
    assert {"_endpoint", "_partition", "_seq", "_timestamp"} <= extended.keys()
    properties = extended["Table Properties"]
    for said in (
        f"uri=ipc://{name}",
        "partitions=1",
        "retain=all",
        "state=ended",
        f"process {os.getpid()} on ",
    ):
        assert said in properties
    assert f"ipc://{name}" in sql(spark, f"SHOW CREATE TABLE {table}")[0][0]


def test_a_stream_whose_process_does_not_answer_is_not_listed_and_named_when_it_is_read(
    spark: SparkSession, name: str
) -> None:
    code = (
        "import sys, time, pyarrow as pa, lwmq_spark as lwmq\n"
        "with lwmq.open_writer(sys.argv[1], pa.schema({'id': pa.int64()})) as writer:\n"
        "    print('open', flush=True)\n"
        "    time.sleep(600)\n"
    )
    stopped = f"{name}-stopped"
    other = subprocess.Popen(
        [sys.executable, "-c", code, f"ipc://{stopped}"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        assert ("here", stopped, False) in sql(spark, "SHOW TABLES IN lwmq.here")
        other.send_signal(signal.SIGSTOP)
        assert sql(spark, f"SHOW TABLES IN lwmq.here LIKE '{name}*'") == [("here", name, False)]
        assert "has not answered" in refusal(spark, f"SELECT * FROM lwmq.here.`{stopped}`")
    finally:
        other.kill()
        other.communicate()


def test_a_name_that_nobody_serves_is_no_table(spark: SparkSession, new: str) -> None:
    for statement in ("SELECT * FROM", "DESCRIBE", "DROP TABLE", "INSERT INTO", "ALTER TABLE"):
        rest = {"INSERT INTO": "VALUES (1)", "ALTER TABLE": "SET TBLPROPERTIES ('a' = 'b')"}.get(
            statement, ""
        )
        assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(spark, f"{statement} lwmq.here.`{new}` {rest}"), statement
    assert not spark.catalog.tableExists(f"lwmq.here.`{new}`")
    assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(spark, f"SELECT * FROM lwmq.elsewhere.`{new}`")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.range(3).writeTo(f"lwmq.here.`{new}`").append()
    with pytest.raises(lwmq.TimeoutError):  # and nobody has begun to serve it
        describe(f"ipc://{new}", 0.1)


def test_an_address_that_cannot_be_is_named(spark: SparkSession) -> None:
    assert "did you mean" in refusal(spark, "SELECT * FROM lwmq.`icp://flights`")


def test_an_option_of_the_catalog_is_refused(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.catalog.streams", "org.lwmq.spark.catalog.LwmqCatalog")
    spark.conf.set("spark.sql.catalog.streams.retain", "all")
    assert "spark.sql.catalog.streams.retain: the catalog has no options" in refusal(
        spark, "SHOW NAMESPACES IN streams"
    )


def test_a_table_that_is_created_declares_a_stream(spark: SparkSession, new: str) -> None:
    table = f"lwmq.here.`{new}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, word VARCHAR(9)) "
        "PARTITIONED BY (bucket(8, id)) OPTIONS (retain 'all')"
    )
    state = describe(f"ipc://{new}", 5.0)
    assert len(state.partitions) == 8 and state.retain == "all" and state.state == "open"
    assert state.schema.names == ["id", "word"]
    assert sql(spark, f"SHOW TABLES IN lwmq.here LIKE '{new}'") == [("here", new, False)]
    assert sql(spark, f"SELECT * FROM {table} WITH (endingOffsets = 'latest')") == []
    assert "ALREADY_EXISTS" in refusal(spark, f"CREATE TABLE {table} (id BIGINT)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT)")
    spark.sql(f"INSERT INTO {table} SELECT /*+ REPARTITION(8) */ id, 'x' FROM range(100)")
    assert sql(spark, f"SELECT count(*), count(DISTINCT _partition) FROM {table}") == [(100, 8)]
    spark.sql(f"DROP TABLE {table}")
    assert not spark.catalog.tableExists(table)
    with pytest.raises(lwmq.TimeoutError):
        describe(f"ipc://{new}", 0.1)


def test_a_reader_of_a_declared_stream_waits_for_the_first_rows(spark: SparkSession, new: str) -> None:
    spark.sql(f"CREATE TABLE lwmq.here.`{new}` (id BIGINT)")
    consumer = Consumer(f"ipc://{new}")
    spark.sql(f"INSERT INTO lwmq.here.`{new}` SELECT id FROM range(3)")
    assert consumer.column("id") == [0, 1, 2]


def test_a_table_is_created_by_what_is_written_to_it(spark: SparkSession, new: str) -> None:
    table = f"lwmq.here.`{new}`"
    spark.sql(f"CREATE TABLE {table} OPTIONS (retain 'all') AS SELECT id FROM range(3)")
    assert sql(spark, f"SELECT * FROM {table}") == [(0,), (1,), (2,)]
    spark.sql(f"DROP TABLE {table}")
    spark.range(4).writeTo(table).create()
    assert sql(spark, f"SELECT count(*) FROM {table}") == [(4,)]


def test_a_table_of_this_driver_is_replaced(spark: SparkSession, new: str) -> None:
    table = f"lwmq.here.`{new}`"
    spark.sql(f"CREATE OR REPLACE TABLE {table} OPTIONS (retain 'all') AS SELECT id FROM range(3)")
    spark.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT 'one' word")
    assert sql(spark, f"SELECT * FROM {table}") == [("one",)]
    spark.range(2).write.mode("overwrite").saveAsTable(table)
    assert sql(spark, f"SELECT * FROM {table}") == [(0,), (1,)]


def test_a_table_is_created_where_a_reader_waits(spark: SparkSession, ipc: str) -> None:
    """It is no table before, because nobody has said what its columns are."""
    name = ipc.removeprefix("ipc://")
    with keeping(ipc):
        assert sql(spark, f"SHOW TABLES IN lwmq.here LIKE '{name}'") == []
        assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(spark, f"SELECT * FROM lwmq.here.`{name}`")
        spark.range(4).writeTo(f"lwmq.here.`{name}`").create()
        assert sql(spark, f"SELECT count(*) FROM lwmq.here.`{name}`") == [(4,)]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (
            "CREATE TABLE {} (id BIGINT) PARTITIONED BY (id)",
            "partitioned by bucket(n, column) alone, not by id",
        ),
        ("CREATE TABLE {} (id BIGINT) PARTITIONED BY (bucket(0, id))", "0"),
        (
            "CREATE TABLE {} (id BIGINT) PARTITIONED BY (bucket(2, id)) OPTIONS (partitions 2)",
            "the number of partitions is given twice: say it once",
        ),
        (
            "CREATE TABLE {} (id INT) PARTITIONED BY (bucket(2, id)) OPTIONS (partitionKey 'id')",
            "the partition key is given twice: say it once",
        ),
        ("CREATE TABLE {} (id BIGINT) OPTIONS (retian 'all')", "did you mean retain"),
        ("CREATE TABLE {} (id BIGINT) OPTIONS (startingOffsets 'latest')", "WITH (startingOffsets"),
        ("CREATE TABLE {} (id BIGINT) OPTIONS (retain 'some')", "retain"),
        ("CREATE TABLE {} (id BIGINT) USING orc", "USING orc"),
        ("CREATE TABLE {} (id BIGINT) LOCATION 'ipc://elsewhere'", "LOCATION"),
    ],
)
def test_what_a_stream_cannot_be_is_refused_before_anybody_serves_it(
    spark: SparkSession, new: str, statement: str, why: str
) -> None:
    assert why in refusal(spark, statement.format(f"lwmq.here.`{new}`"))
    assert not spark.catalog.tableExists(f"lwmq.here.`{new}`")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {} ADD COLUMN n INT",
        "ALTER TABLE {} SET TBLPROPERTIES ('retain' = 'all')",
        "ALTER TABLE {} RENAME TO here.other",
        "COMMENT ON TABLE {} IS 'words'",
        "CREATE NAMESPACE lwmq.there",
        "DROP NAMESPACE lwmq.here",
        "COMMENT ON NAMESPACE lwmq.here IS 'words'",
    ],
)
def test_what_a_catalog_of_streams_cannot_do_is_said_in_one_line(
    spark: SparkSession, name: str, statement: str
) -> None:
    said = refusal(spark, statement.format(f"lwmq.here.`{name}`"))
    assert "LWMQ" not in said and "stream" in said, said
