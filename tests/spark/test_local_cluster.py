"""Reading and writing where driver and executors are processes of their own, and the producer another one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.spark.addresses import WIRE, new_address

ROOT = Path(__file__).resolve().parents[2]

PRODUCER = """
import sys
import pyarrow as pa
import lwmq_spark as lwmq

schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("parts", pa.list_(pa.float64()))])
with lwmq.open_writer(sys.argv[1], schema, partitions=4, linger=60.0) as writer:
    for number in range(40):
        keys = range(number * 100, number * 100 + 100)
        columns = [list(keys), [f"name {k % 7}" for k in keys], [[k / 2, None] for k in keys]]
        writer.write(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema)], schema=schema),
                     partition=number % 4)
print("consumed")
"""

CLUSTER = """
import subprocess, sys
import pyarrow as pa
from chispa import assert_df_equality
from pyspark.sql import functions as F
import lwmq_spark as lwmq

conf = {
    "spark.ui.enabled": False,
    "spark.executor.memory": "1g",
    "spark.executorEnv.LWMQ_WIRE": "1",
    "spark.sql.shuffle.partitions": 2,
}
spark = lwmq.session("cluster", master="local-cluster[2,1,2048]", **conf)
def move(source, sink, second_sink):
    command = [sys.executable, "-c", sys.argv[1], source]
    producer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    frame = spark.read.format("lwmq").load(source).cache()
    expected = spark.range(4000).selectExpr(
        "id k", "concat('name ', id % 7) name", "array(id / 2, cast(null as double)) parts")
    assert_df_equality(frame, expected, ignore_row_order=True, ignore_nullable=True)
    assert producer.communicate(timeout=60)[0] == "consumed\\n", "the producer was not told"

    table = spark.createDataFrame([(f"name {k}", k) for k in range(7)], "name string, number int").coalesce(1)
    joined = frame.join(table, "name").where("k % 7 = number")
    joined.groupBy("name").agg(F.count("*").alias("n")).write.format("lwmq").mode("append").save(sink)
    with lwmq.open_reader(sink, timeout=60.0) as reader:
        counts = dict(zip(*reader.read_all().select(["name", "n"]).to_pydict().values()))
    assert sum(counts.values()) == 4000 and len(counts) == 7, counts

    # A stream that one job leaves behind is the next job's source.
    second = frame.select("k", "name", "parts").write.format("lwmq").mode("append").options(partitions=3)
    second.save(second_sink)
    again = spark.read.format("lwmq").load(second_sink).cache()
    assert_df_equality(again, expected, ignore_row_order=True, ignore_nullable=True)

for first in range(2, len(sys.argv), 4):
    scheme, *addresses = sys.argv[first : first + 4]
    move(*addresses)
    print("done", scheme)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_suites_of_reading_and_writing_pass_over_tls_on_a_cluster() -> None:
    """Driver and executors are processes of their own, which do not share memory."""
    suites = [str(ROOT / "tests" / "spark" / name) for name in ("test_read.py", "test_write.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "tcps", *suites],
        capture_output=True,
        text=True,
        timeout=1700,
        cwd=ROOT,
        env={**os.environ, "LWMQ_SLOW": "1", "LWMQ_TEST_MASTER": "local-cluster[2,1,2048]"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one cluster says that moves data by each scheme in turn."""
    arguments = []
    for scheme in ("ipc", "tcp"):
        arguments += [scheme, *(new_address(scheme) for _ in range(3))]
    arguments[-1] = "tcp://127.0.0.1:0/the-system-chooses"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLUSTER), PRODUCER, *arguments],
        capture_output=True,
        text=True,
        timeout=550,
        cwd=tmp_path_factory.mktemp("cluster"),
        env={
            **os.environ,
            **WIRE,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        check=False,
    )
    return f"{done.stdout}\nstatus {done.returncode}\n{done.stderr[-6000:]}"


@pytest.mark.row("P05")
@pytest.mark.row("P14")
@pytest.mark.row("P31")
@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
def test_a_producer_a_cluster_and_a_consumer_are_processes_of_their_own(said: str, scheme: str) -> None:
    assert f"done {scheme}\n" in said
    assert "\nstatus 0\n" in said
