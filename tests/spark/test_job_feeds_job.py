"""A job that reads what another job of the same application writes at the same time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S

pytestmark = [pytest.mark.row("P28"), pytest.mark.timeout(10 * HANG_S)]

ROOT = Path(__file__).resolve().parents[2]
ROWS = 200_000
LIVE_TASKS = 2  # each of which waits for a reader as soon as its window is full
PROGRAM = """
import json, sys, threading
import lwmq_spark as lwmq
from lwmq_spark.arrow import describe

slots, rows, tasks, patience = (int(float(word)) for word in sys.argv[1:])
quiet = {"spark.ui.enabled": False, "spark.ui.showConsoleProgress": False}
spark = lwmq.session("feeds", master=f"local[{slots}]", **quiet)
spark.sparkContext.setLogLevel("ERROR")


def write(frame, address, delivery):
    options = {"bufferBytes": "16KiB", "windowBytes": "64KiB", "delivery": delivery}
    frame.write.format("lwmq").mode("append").options(**options).save(address)


def publish(frame, address, delivery):
    options = {"buffer_bytes": "16KiB", "window_bytes": "64KiB", "delivery": delivery}
    frame.mapInArrow(lwmq.publish(address, partitions=tasks, **options), lwmq.PUBLISH_SCHEMA).collect()


def read(address):
    return spark.read.format("lwmq").load(address).selectExpr("sum(id)").collect()[0][0]


class Job(threading.Thread):
    def __init__(self, call, *arguments):
        super().__init__(daemon=True)
        self.call, self.arguments, self.outcome = call, arguments, ["hangs"]
        self.start()

    def run(self):
        try:
            self.outcome = ["ended", self.call(*self.arguments)]
        except Exception as exc:
            self.outcome = ["failed", str(lwmq.error_of(exc) or exc)]


for way in (write, publish):
    for delivery in ("live", "task"):
        for first in ("writer", "reader"):
            address = f"ipc://feeds-{slots}-{way.__name__}-{delivery}-{first}"
            writer = lambda: Job(way, spark.range(0, rows, 1, tasks), address, delivery)
            if first == "writer":
                writes = writer()
                describe(address, patience)
                reads = Job(read, address)
            else:
                reads = Job(read, address)
                describe(address, patience, wait_declared=False)
                writes = writer()
            reads.join(patience)
            if reads.outcome[0] == "failed":  # somebody else takes the rows, so that the writer ends
                with lwmq.open_reader(address, role="client", timeout=patience, linger=0) as rest:
                    for _ in rest:
                        pass
            writes.join(patience)
            print(json.dumps([way.__name__, delivery, first, writes.outcome, reads.outcome]), flush=True)
            if "hangs" in (writes.outcome[0], reads.outcome[0]):
                spark.sparkContext.cancelAllJobs()
                writes.join(patience)
                reads.join(patience)
"""


@pytest.mark.parametrize("slots", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_reader_beside_its_writer_ends_or_is_refused_with_both_numbers(slots: int) -> None:
    """The program runs each order, each delivery, and both ways to write."""
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, (slots, ROWS, LIVE_TASKS, HANG_S))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    outcomes = [json.loads(line) for line in program.stdout.splitlines()]
    assert len(outcomes) == 8, program.stderr[-4000:]
    whole = ["ended", sum(range(ROWS))]
    for way, delivery, first, writer, (how, said) in outcomes:
        case = f"{way} {delivery} {first} first: {writer} {how} {said}"
        assert writer[0] == "ended", case
        needed = (LIVE_TASKS if delivery == "live" else 1) + 1
        if how == "failed" and slots < needed:
            text = rf"this application has {slots} slots?, and needs {needed}: .*{delivery}-{first}"
            assert re.search(text, said), case
        else:
            assert [how, said] == whole, case
        assert delivery == "task" or (how == "failed") == (slots < needed), case
