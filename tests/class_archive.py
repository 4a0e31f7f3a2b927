"""Records which classes Spark loads for a first job, so that JVMs of the tests find them parsed and verified.

    python -m tests.class_archive     # writes build/dev/spark.jsa

A session starts in half the time with it. It is a dynamic archive of HotSpot's class data sharing (JEP 350):
a JVM with other jars or of another version does not use it, and says nothing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = ROOT / "build" / "dev" / "spark.jsa"

JOB = """
import os
import lwmq_spark as lwmq

spark = lwmq.session("classes", **{"spark.ui.enabled": False})
address = f"ipc://classes-{os.getpid()}"
frame = spark.range(0, 100, 1, 2).selectExpr("id", "string(id) text")
frame.write.format("lwmq").mode("append").save(address)
frame = spark.read.format("lwmq").load(address).mapInArrow(lambda batches: batches, "id long, text string")
frame.groupBy("text").count().collect()
spark.stop()
"""


# For a JVM of a test. It runs most code too seldom for the work of the second compiler to come back.
JVM = [
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
]


def options() -> dict[str, str]:
    """For the environment of whatever starts Spark: its launcher passes SPARK_SUBMIT_OPTS to the JVM."""
    if not ARCHIVE.exists():
        return {}
    jvm = [*JVM, f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    executors = f"-Dspark.executor.extraJavaOptions={shlex.join(jvm)}"
    return {"SPARK_SUBMIT_OPTS": shlex.join([*jvm, executors])}


def main() -> None:
    record = {"SPARK_SUBMIT_OPTS": shlex.quote(f"-XX:ArchiveClassesAtExit={ARCHIVE}") + " -Xlog:disable"}
    subprocess.run([sys.executable, "-c", JOB], env={**os.environ, **record}, cwd=ARCHIVE.parent, check=True)


if __name__ == "__main__":
    main()
