"""Queries with filters: which batches they skip by the bounds of columns, and that their answers stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.producers import metrics, plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.row("P08")
ROWS = 20_000
COLUMNS = [
    "id",
    "cast(id % 100 as tinyint) as tiny",
    "cast(id / 4 as float) as f",
    "id / 8D as d",
    "if(id % 1000 = 0, null, concat('row ', lpad(id, 6, '0'))) as s",
    "cast(concat('b', lpad(id, 6, '0')) as binary) as b",
    "date_add(date'2026-01-01', cast(id / 100 as int)) as day",
    "timestamp_seconds(1767225600 + id) as t",
    "timestamp_ntz'2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) as n",
    "cast(id as decimal(12, 2)) as money",
    "if(id < 5000, null, id) as late",
    "struct(id as inner) as whole",
]
FILTERS = [
    "id >= 7000 and id < 8000",
    "7000 > id",
    "id = 12345",
    "id in (3, 17000, null)",
    "tiny = 5",
    "f > 4000",
    "d <= 10.5",
    "d = double('NaN')",
    "s = 'row 012345'",
    "s < 'row 0011'",
    "s between 'row 0150' and 'row 0151'",
    "s is null and id > 100",
    "s is not null and s > 'row 019'",
    "b > cast('b019' as binary)",
    "day = date'2026-01-11'",
    "t < timestamp'2026-01-01 01:00:00Z'",
    "n >= timestamp_ntz'2026-01-01 05:00:00'",
    "money = 700.00",
    "late is null",
    "late > 19000 or id < 10",
    "whole.inner = 300",
    "not (id <= 19000)",
    "id + 1 = 400",
    "id <=> 500",
]
# Of columns without bounds, and what says nothing of a single column.
HAVE_NO_BOUNDS = ["money = 700.00", "late > 19000 or id < 10", "whole.inner = 300"]
# Every batch has such rows, or bounds cannot tell.
SKIP_NOTHING = [*HAVE_NO_BOUNDS, "tiny = 5", "s is null and id > 100", "id + 1 = 400"]
BATCHES = 12


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[str]:
    """Twelve batches, whose bounds lie one behind the other in most columns."""
    stream = f"filtered-{os.getpid()}"
    name = f"lwmq.here.`{stream}`"
    rows = spark.range(0, ROWS, 1, 4).selectExpr(*COLUMNS)
    bounds = "ID, tiny, f, d, s, b, day, t, n, late"
    write = rows.write.format("lwmq").mode("append").option("bounds", bounds).option("retain", "all")
    write.option("partitions", 4).option("bufferBytes", 200_000).save(f"ipc://{stream}")
    yield name
    spark.sql(f"DROP TABLE {name}")


@pytest.fixture(scope="module")
def cached(spark: SparkSession, table: str) -> Iterator[str]:
    """The same rows, which know nothing of bounds."""
    rows = spark.range(0, ROWS).selectExpr(*COLUMNS)
    rows.createOrReplaceTempView("all_rows")
    yield "all_rows"


def answer(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter_skips_batches_and_changes_no_answer(
    spark: SparkSession, table: str, cached: str, condition: str
) -> None:
    expected = answer(spark.sql(f"SELECT * FROM {cached} WHERE {condition}"))
    frame = spark.sql(f"SELECT * FROM {table} WHERE {condition}")
    assert answer(frame) == expected
    shown = dict(metrics(spark))
    skipped, read = int(shown["record batches skipped"]), int(shown["record batches read"])
    assert (skipped == 0) == (condition in SKIP_NOTHING)
    assert ("skips batches by" in plan(frame)) == (condition not in HAVE_NO_BOUNDS)
    assert skipped + read == BATCHES


def test_the_catalog_shows_and_declares_bounds(spark: SparkSession, ipc: str) -> None:
    name = f"lwmq.here.`{ipc.removeprefix('ipc://')}`"
    spark.sql(f"CREATE TABLE {name} (k BIGINT, v STRING) OPTIONS (retain 'all', bounds 'k,v')")
    assert "bounds=k,v" in str(spark.sql(f"DESCRIBE EXTENDED {name}").collect())
    for first in (0, 1000):
        spark.sql(f"INSERT INTO {name} SELECT id + {first}, string(id) FROM range(100)")
    assert spark.sql(f"SELECT count(*) FROM {name} WHERE k > 500").first()[0] == 100
    assert int(dict(metrics(spark))["record batches skipped"]) >= 1
    spark.sql(f"DROP TABLE {name}")


def test_bounds_of_what_has_none_are_refused(spark: SparkSession, ipc: str) -> None:
    frame = spark.range(10).selectExpr("cast(id as decimal(12, 2)) as money", "id")
    write = frame.write.format("lwmq").option("uri", ipc).mode("append")
    with pytest.raises(Exception, match='column "money" can have no bounds'):
        write.option("bounds", "money").save()
    with pytest.raises(Exception, match=r"the bounds of .* names nobody"):
        write.option("bounds", "nobody").save()
