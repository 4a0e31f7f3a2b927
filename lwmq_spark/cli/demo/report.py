"""What the processes of the demo tell each other at the end, and how it is shown."""

from __future__ import annotations

import json
import os
from typing import Any

from rich.table import Table
from rich.text import Text

from lwmq_spark.cli._output import console
from lwmq_spark.meter import human, rate

_RATES = (("rows", "rows"), ("bytes", "B"))


def send_report(descriptor: int, **figures: Any) -> None:
    """A child's last word, to the director."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
        json.dump(figures, pipe)


def show(figures: dict[str, Any]) -> None:
    """The figures of `director.play`, for people."""
    told = Table.grid(padding=(0, 2, 0, 0))
    for title, leg in (("producer → Spark", figures["read"]), ("Spark → consumer", figures["write"])):
        rows, size = (human(rate(leg[what], leg["seconds"]), f"{unit}/s") for what, unit in _RATES)
        amount = f"{leg['rows']:,} rows, {human(leg['bytes'], 'B')} in {leg['seconds']:.3f} s"
        told.add_row(Text(title, style="bold"), f"{amount}: {rows}, {size}")
        told.add_row("", f"payload bytes copied by the reader: {leg['bytes_copied']}")
        if leg["bytes_on_the_cable"]:
            told.add_row("", f"over the cable, encrypted: {human(leg['bytes_on_the_cable'], 'B')}")
    ahead, read = figures["planned_before_last_batch_s"], figures["read"]
    told.add_row("live", f"Spark had planned {ahead:.2f} s before the last batch came")
    told.add_row("window", f"{human(read['window_bytes'], 'B')} for {human(read['bytes'], 'B')} of flights")
    told.add_row("pages", figures["proof"])
    same = ("the same", "green") if figures["matches_pandas"] else ("NOT the same", "red")
    compared = f", {figures['write']['rows']:,} rows compared"
    told.add_row("pandas", Text.assemble("on the same data: ", same, compared))
    told.add_row("plot", figures["plot"])
    told.add_row("time", f"{figures['seconds']:.1f} s for everything")
    console.print(told)
