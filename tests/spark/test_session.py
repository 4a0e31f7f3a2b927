"""session(), configure(), attach(): what they add, what they leave alone, and what they refuse."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark.spark import jars, versions
from lwmq_spark.spark.session import _ATTACHED, EXTENSIONS, configure

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, tmp_path: Path, **environment: str) -> str:
    """Runs a program with a JVM of its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=550,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            **environment,
        },
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def builder(**options: Any) -> Any:
    from pyspark.sql import SparkSession

    made = SparkSession.Builder()
    for key, value in options.items():
        made.config(key.replace("__", "."), value)
    return made


@pytest.mark.row("P02")
def test_configure_appends_and_never_replaces() -> None:
    mine = builder(spark__jars="/mine.jar", spark__sql__extensions="my.Extension", spark__app__name="mine")
    options = configure(mine)._options
    assert options["spark.jars"] == f"/mine.jar,{jars.jar()}"
    assert options["spark.sql.extensions"] == f"my.Extension,{EXTENSIONS}"
    assert options["spark.app.name"] == "mine"
    assert configure(mine)._options == options


def test_configure_sets_nothing_that_changes_spark_without_us() -> None:
    ours = set(configure(builder())._options)
    assert ours == {"spark.jars", "spark.sql.extensions", "spark.plugins"}


def test_python_workers_get_batches_as_large_as_spark_makes_them(spark: Any) -> None:
    def rows(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"rows": pa.array([batch.num_rows], pa.int64())})

    frame = spark.range(0, 90, 1, 1).selectExpr("repeat(string(id % 10), 1000000) text")
    assert len(frame.mapInArrow(rows, "rows bigint").collect()) > 1  # 90 MB, where a batch has some 64 MiB


@pytest.mark.parametrize("size", ["64MB", "1m"])
def test_attach_keeps_a_setting_of_the_user(spark: Any, size: str) -> None:
    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    attached = spark.conf.get(_ATTACHED, None)
    try:
        spark.conf.unset(_ATTACHED)
        spark.conf.set(key, size)
        lwmq.attach(spark)
        assert spark.conf.get(key) == size
    finally:
        spark.conf.unset(key)
        if attached is not None:
            spark.conf.set(_ATTACHED, attached)


def test_configure_knows_what_spark_defaults_and_submit_arguments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# jars\nspark.jars   /theirs.jar\nspark.sql.extensions=a.B\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = configure(builder())._options
    assert options["spark.jars"] == f"/theirs.jar,{jars.jar()}"
    assert options["spark.sql.extensions"] == f"a.B,{EXTENSIONS}"
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--jars /more.jar --conf spark.sql.extensions=c.D pyspark-shell"
    )
    options = configure(builder())._options
    assert options["spark.jars"] == f"/more.jar,{jars.jar()}"
    assert options["spark.sql.extensions"] == f"c.D,{EXTENSIONS}"


def test_configure_refuses_a_remote_builder_and_names_attach() -> None:
    with pytest.raises(lwmq.LwmqError, match=r"attach\(spark\)"):
        configure(builder(spark__remote="sc://localhost"))


@pytest.mark.row("P25")
def test_configure_passes_the_conf_file_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lwmq.toml").write_text('[spark]\ntimeout = "3s"\nfailOnDataLoss = false\n')
    monkeypatch.setenv("LWMQ_CONF", str(tmp_path))
    options = configure(builder())._options
    assert options["spark.lwmq.defaults.timeout"] == "3s"
    assert options["spark.lwmq.defaults.failOnDataLoss"] == "false"


@pytest.mark.row("P04")
def test_a_wrong_spark_is_named_with_the_remedy() -> None:
    assert versions.spark_problem("4.3.0") is None
    assert versions.spark_problem("4.4.1") is None
    assert "pip install 'pyspark==4.3.*'" in str(versions.spark_problem("4.2.0"))


@pytest.mark.row("P04")
def test_a_wrong_java_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(lwmq.VersionError, match=r"Java 11, but Spark needs 17 .* openjdk-17"):
        configure(builder())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "no Java was found" in str(versions.java_problem())


@pytest.mark.row("P04")
def test_another_copy_of_the_jar_is_named() -> None:
    with pytest.raises(lwmq.VersionError, match=r"/old/lwmq-spark-0\.0\.1\.jar"):
        configure(builder(spark__jars="/a.jar,/old/lwmq-spark-0.0.1.jar"))


@pytest.mark.row("P02")
def test_session_attaches_where_a_session_exists(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    conf = {"spark.sql.shuffle.partitions": 4, "spark.executor.memory": "7g"}
    assert lwmq.session("another", master="local[1]", **conf) is not None
    assert spark.sparkContext.appName == "tests"
    said = capfd.readouterr().err
    assert "cannot take spark.executor.memory" in said and "shuffle" not in said
    assert lwmq.attach(lwmq.attach(spark)) is spark  # which has everything, and is told nothing
    assert capfd.readouterr().err == ""


def skip_without_connect() -> None:
    pytest.importorskip(
        "grpc", reason="Spark Connect needs grpcio, grpcio-status and googleapis-common-protos"
    )


@pytest.mark.row("P03")
def test_attach_makes_reading_and_writing_work_in_spark_connect(tmp_path: Path) -> None:
    skip_without_connect()
    said = run(
        """
        import os, subprocess, sys
        from pyspark.errors import SparkRuntimeException
        from pyspark.sql import SparkSession
        import lwmq_spark as lwmq

        spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        lwmq.attach(spark)
        lwmq.attach(spark)
        address = f"ipc://connect-{os.getpid()}"
        spark.range(0, 1000, 1, 4).write.format("lwmq").mode("append").save(address)
        frame = spark.read.format("lwmq").load(address)
        assert frame.selectExpr("sum(id)").collect()[0][0] == sum(range(1000))

        # Another client of the same server has a session, a class loader and a jar of its own.
        another = '''if True:
            import sys
            from pyspark.sql import SparkSession
            import lwmq_spark as lwmq
            spark = lwmq.attach(SparkSession.builder.remote("sc://localhost").getOrCreate())
            assert spark.read.format("lwmq").load(sys.argv[1] + "-1").count() == 7
            spark.range(0, 500, 1, 2).write.format("lwmq").mode("append").save(sys.argv[1] + "-2")
            '''
        spark.range(7).write.format("lwmq").mode("append").save(address + "-1")
        subprocess.run([sys.executable, "-c", another, address], check=True, timeout=300)
        assert spark.read.format("lwmq").load(address + "-2").count() == 500

        try:
            spark.read.format("lwmq").option("timeout", "soon").load(address).count()
        except SparkRuntimeException as failure:
            said = "option timeout: 'soon' is not a duration: "
            said += "write 100ms, 5s, 2m, 1h, a number of seconds or 'forever'"
            first = str(failure).splitlines()[0]  # Connect shows the server's stack unless told not to
            assert first == f"LWMQ_INVALID: {said} SQLSTATE: P0001", failure
            assert str(lwmq.error_of(failure)) == said, failure
        else:
            raise AssertionError("an option that cannot be read was taken")
        spark.stop()
        print("done")
        """,
        tmp_path,
    )
    assert "done" in said
    assert said.count("cannot take an extension") == 2


@pytest.mark.row("P30")
def test_a_connect_server_that_is_configured_for_exchanges_has_them(tmp_path: Path) -> None:
    skip_without_connect()
    said = run(
        """
        from pyspark.sql import SparkSession
        import lwmq_spark as lwmq

        of_server = lwmq.configure(SparkSession.builder, exchange=True)._options
        of_server["spark.ui.enabled"] = "false"
        spark = SparkSession.builder.config(map=of_server).remote("local[2]").getOrCreate()
        lwmq.attach(spark)
        rows = spark.range(0, 10_000, 1, 4).selectExpr("id % 100 as k", "id")
        moved = lwmq.exchange(rows, "k", partitions=4)
        assert "LwmqExchange hashpartitioning" in moved._explain_string(), moved._explain_string()
        assert moved.selectExpr("count(*)", "sum(id)").collect()[0][:] == (10_000, sum(range(10_000)))
        of_one_key = moved.selectExpr("k", "spark_partition_id() as p").distinct().groupBy("k").count()
        assert {row["count"] for row in of_one_key.collect()} == {1}
        spark.stop()
        print("done")
        """,
        tmp_path,
    )
    assert "done" in said
    assert "cannot take an extension" not in said


INTERRUPTED = """
import os, signal, threading, time
import pyarrow as pa
import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, describe

def interrupt():
    while not describe(address, 5.0).readers_open:
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

address = f"ipc://interrupted-{os.getpid()}"
table = pa.table({"k": range(10)})
kept = Endpoint(address, linger=0)
writer = lwmq.open_writer(address, table.schema, linger=0)
writer.write(table)
"""

STARTED = 'lwmq.session("interrupted", **{"spark.ui.enabled": False})'
RUNNING = 'SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()'

OVER = """
deadline = time.monotonic() + 300
while spark.sparkContext.statusTracker().getActiveJobsIds():
    assert time.monotonic() < deadline, "the query goes on"
    time.sleep(0.05)
writer.write(table)
threading.Thread(target=writer.close, kwargs={"linger": 60.0}).start()
assert spark.read.format("lwmq").load(address).count() == 20, "rows are missing that nobody saw"
print("all rows are there")
"""


# Both JVMs were started without us.
@pytest.mark.row("P02")
@pytest.mark.parametrize(
    "how", [f"{RUNNING}.stop()\nspark = {STARTED}", f"lwmq.attach({RUNNING})"], ids=["session", "attach"]
)
def test_ctrl_c_cancels_a_query_and_acknowledges_nothing(tmp_path: Path, how: str) -> None:
    """PySpark's own handler fails, and what the query read after that was acknowledged, unseen."""
    program = f"""
from pyspark.sql import SparkSession
{INTERRUPTED}
spark = {how}
spark.range(100).write.format("lwmq").mode("append").save(address + "-2")
assert spark.read.format("lwmq").load(address + "-2").count() == 100
frame = spark.read.format("lwmq").load(address)
threading.Thread(target=interrupt, daemon=True).start()
try:
    frame.collect()
except Exception as failure:
    assert "cancelled" in str(failure), failure
    print("interrupted")
{OVER}
"""
    said = run(program, tmp_path)
    assert "interrupted" in said and "all rows are there" in said


def test_an_interrupted_cell_of_a_notebook_cancels_its_query(tmp_path: Path) -> None:
    jupyter_client = pytest.importorskip("jupyter_client", reason="needs jupyter_client and ipykernel")
    kernels = jupyter_client.KernelManager()
    kernels.start_kernel(
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    client = kernels.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(60)
        for cell, wanted in [
            (f"{INTERRUPTED}\nspark = {STARTED}", ""),
            (
                "threading.Thread(target=interrupt, daemon=True).start()\n"
                "spark.read.format('lwmq').load(address).collect()",
                "SparkRuntimeException",
            ),
            (OVER, ""),
        ]:
            answer = client.execute_interactive(cell, timeout=100, output_hook=lambda _: None)["content"]
            assert answer.get("ename", "") == wanted, answer
    finally:
        client.stop_channels()
        kernels.shutdown_kernel(now=True)
