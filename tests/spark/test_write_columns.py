"""Columns on request: `columnarWrite=true`, and a session that knows our jar and nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from lwmq_spark.spark.jars import jar
from tests.spark.streams import Consumer, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_CHILD = """
    import sys
    from pyspark.sql import SparkSession
    import lwmq_spark as lwmq

    address, jar = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).config("spark.jars", jar)
        .config("spark.ui.showConsoleProgress", False).getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.range(0, 1000, 1, 4)
    try:
        rows.write.format("lwmq").mode("append").option("columnarWrite", True).save(address)
    except Exception as refused:
        assert "LWMQ_UNSUPPORTED" in str(refused), refused
        assert "spark.sql.extensions=org.lwmq.spark.source.LwmqExtensions" in str(refused), refused
    else:
        raise AssertionError("was written")
    rows.write.format("lwmq").mode("append").save(address)
    with lwmq.open_reader(address, timeout=60) as reader:
        assert sorted(reader.read_all()["id"].to_pylist()) == list(range(1000))
    spark.stop()
    print("all said")
"""


@pytest.mark.parametrize("kind", ["rows", "stream", "nested stream", "parquet"])
def test_with_columnar_write_on_request_every_plan_is_written(
    spark: SparkSession, ipc: str, tmp_path: Path, kind: str
) -> None:
    rows = spark.range(0, 20_000, 1, 4).selectExpr(
        "id", "id * 0.5D half", "concat('t', id) text", "array(id) a"
    )
    frame: DataFrame = rows
    if kind.endswith("stream"):
        write(rows, f"{ipc}-source")
        frame = spark.read.format("lwmq").load(f"{ipc}-source")
        frame = frame if kind.startswith("nested") else frame.drop("a")
    elif kind == "parquet":
        rows.drop("a").write.parquet(str(tmp_path / "parquet"))
        frame = spark.read.parquet(str(tmp_path / "parquet"))
    consumer = Consumer(ipc)
    write(frame, ipc, columnarWrite="true")
    expected = [{"id": i, "half": i / 2, "text": f"t{i}", "a": [i]} for i in range(20_000)]
    table = consumer.table().sort_by("id")
    assert table.to_pylist() == [{name: row[name] for name in table.schema.names} for row in expected]


def test_a_job_that_writes_columns_and_fails_says_so(spark: SparkSession, ipc: str) -> None:
    with pytest.raises(Exception, match="told to fail"):
        write(
            spark.range(3).selectExpr("id", "raise_error('told to fail') x"),
            ipc,
            columnarWrite="true",
            timeout="5s",
        )


def test_columns_on_request_are_refused_without_the_extension_with_what_to_set(ipc: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_CHILD), ipc, str(jar())],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert "all said" in child.stdout, child.stderr[-3000:]
