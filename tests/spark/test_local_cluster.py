"""Reading and writing where driver and executors are processes of their own, and the producer another one.
The cluster runs before it hears of us."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PRODUCER = """
import sys
import pyarrow as pa
import lwmq_spark as lwmq

schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("parts", pa.list_(pa.float64()))])
with lwmq.open_writer(sys.argv[1], schema, partitions=4, linger=300.0) as writer:
    for number in range(40):
        keys = range(number * 100, number * 100 + 100)
        columns = [list(keys), [f"name {k % 7}" for k in keys], [[k / 2, None] for k in keys]]
        writer.write(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema)], schema=schema),
                     partition=number % 4)
print("consumed")
"""

CLUSTER = """
import os, subprocess, sys
import pyarrow as pa
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
import lwmq_spark as lwmq

spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", False)
    .config("spark.executor.memory", "1g").config("spark.sql.shuffle.partitions", 2).getOrCreate()
)
assert spark.range(10).count() == 10
for _ in range(2):
    lwmq.attach(spark)
source, sink = (f"ipc://cluster-{name}-{os.getpid()}" for name in ("source", "sink"))
producer = subprocess.Popen([sys.executable, "-c", sys.argv[1], source], stdout=subprocess.PIPE, text=True)

frame = spark.read.format("lwmq").load(source).cache()
expected = spark.range(4000).selectExpr(
    "id k", "concat('name ', id % 7) name", "array(id / 2, cast(null as double)) parts")
assert_df_equality(frame, expected, ignore_row_order=True, ignore_nullable=True)
assert producer.communicate(timeout=300)[0] == "consumed\\n", "the producer was not told"

frame.groupBy("name").agg(F.count("*").alias("n")).write.format("lwmq").mode("append").save(sink)
with lwmq.open_reader(sink, timeout=60.0) as reader:
    counts = dict(zip(*reader.read_all().select(["name", "n"]).to_pydict().values()))
assert sum(counts.values()) == 4000 and len(counts) == 7, counts

# A stream that one job leaves behind is the next job's source.
frame.select("k", "name", "parts").write.format("lwmq").mode("append").options(partitions=3).save(sink + "-2")
again = spark.read.format("lwmq").load(sink + "-2").cache()
assert_df_equality(again, expected, ignore_row_order=True, ignore_nullable=True)
spark.stop()
print("done")
"""


@pytest.mark.alone
@pytest.mark.row("P03")
@pytest.mark.row("P05")
@pytest.mark.row("P14")
@pytest.mark.row("P31")
def test_a_producer_a_running_cluster_and_a_consumer_are_processes_of_their_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLUSTER), PRODUCER],
        capture_output=True,
        text=True,
        timeout=550,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "done" in done.stdout
    said = done.stdout + done.stderr
    assert said.count("cannot take an extension") == 1
    assert "Unable to load custom metric" not in said
