"""What Spark's log says while a query waits: who waits, for what, and what bounds the wait."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa

import lwmq_spark as lwmq
from tests.patience import HANG_S
from tests.spark.streams import Consumer

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import lwmq_spark as lwmq

quiet = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
spark = lwmq.session("waits", master="local[2]", **quiet)
frame = spark.read.format("lwmq").load(sys.argv[1])
print("read", frame.count(), flush=True)
numbers = spark.range(0, 100_000, 1, 1).write.format("lwmq").mode("append")
numbers.options(bufferBytes="16KiB", windowBytes="64KiB", delivery="live").save(sys.argv[2])
print("written", flush=True)
"""


def test_a_query_that_waits_says_what_for_and_how_to_bound_it(ipc: str) -> None:
    """It was silent for all of the default time-out, or for ever."""
    there, back = f"{ipc}-there", f"{ipc}-back"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, there, back],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert program.stdout is not None
    said: list[str] = []

    def says(*parts: str) -> None:
        """Until a line has all of `parts`."""
        for line in program.stdout or []:
            said.append(line)
            if all(part in line for part in parts):
                return
        raise AssertionError("".join(said))

    alarm = threading.Timer(6 * HANG_S, program.kill)
    alarm.start()
    try:
        wait = f"WARN Notices: lwmq: the plan of a read of {there} has waited for"
        says(wait, "no writer has come with a schema", "option timeout bounds", "`lwmq top`")
        with lwmq.open_writer(there, pa.schema([("k", pa.int64())])) as writer:
            wait = f"a task that reads {there}, partition 0 has waited for"
            says(wait, f"{there}: no batch has come", "endingOffsets=latest", "`lwmq top`")
            writer.write(pa.table({"k": range(10)}))
        says("read 10")
        wait = f"task 0 of a write to {back} has waited for"
        says(wait, f"{back}: the window of", "option timeout bounds", "expelAfter", "`lwmq top`")
        consumer = Consumer(back)
        says("written")
        assert consumer.column("id") == list(range(100_000))
        assert program.wait(HANG_S) == 0
    finally:
        alarm.cancel()
        program.kill()
        program.communicate()
