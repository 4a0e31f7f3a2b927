"""Columns on request: `columnarWrite=true` in a session that knows our jar and nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from lwmq_spark.spark.jars import jar

_CHILD = """
    import sys
    from pyspark.sql import SparkSession
    import lwmq_spark as lwmq
    from lwmq_spark.arrow import Endpoint

    address, jar, folder = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).config("spark.jars", jar)
        .config("spark.ui.showConsoleProgress", False).getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")

    def copied(frame, name):
        target = f"{address}-{name}"
        frame.write.format("lwmq").mode("append").option("columnarWrite", True).save(target)
        with lwmq.open_reader(target, timeout=60) as reader:
            return reader.read_all().sort_by("id").to_pylist()

    rows = spark.range(0, 20_000, 1, 4)
    rows = rows.selectExpr("id", "id * 0.5D half", "concat('t', id) text", "array(id) a")
    expected = [{"id": i, "half": i / 2, "text": f"t{i}", "a": [i]} for i in range(20_000)]
    flat = [{name: row[name] for name in ("id", "half", "text")} for row in expected]
    with Endpoint(address, linger=0):
        rows.write.format("lwmq").mode("append").option("retain", "all").save(address)
        stream = spark.read.format("lwmq").load(address)
        assert copied(rows, "rows") == expected, "a plan that ends in rows"
        assert copied(stream.drop("a"), "flat") == flat, "columns of a stream"
        assert copied(stream, "nested") == expected, "nested columns of a stream"
        rows.drop("a").write.parquet(folder)
        assert copied(spark.read.parquet(folder), "parquet") == flat, "columns of Parquet"
        try:
            copied(spark.range(3).selectExpr("id", "raise_error('told to fail') x"), "failing")
        except Exception as failure:
            assert "told to fail" in str(failure)
        else:
            raise AssertionError("a job that fails says so")
    spark.stop()
    print("all copied")
"""


def test_columns_on_request_need_no_extension(ipc: str, tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_CHILD), ipc, str(jar()), str(tmp_path / "parquet")],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert "all copied" in child.stdout, child.stderr[-3000:]
