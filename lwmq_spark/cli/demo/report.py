"""What the processes of the demo tell each other at the end, and how it is shown."""

from __future__ import annotations

import json
import os
from typing import Any

from lwmq_spark.cli._output import console
from lwmq_spark.meter import human, rate


def send_report(descriptor: int, **figures: Any) -> None:
    """A child's last word, to the director."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as pipe:
        json.dump(figures, pipe)


def show(figures: dict[str, Any]) -> None:
    """The figures of `director.play`, for people."""
    for title, leg in (("producer → Spark", figures["read"]), ("Spark → consumer", figures["write"])):
        rows_per_second = human(rate(leg["rows"], leg["seconds"]), "rows/s")
        gigabytes_per_second = rate(leg["bytes"], leg["seconds"]) / 1e9
        console.print(
            f"[bold]{title}[/bold]  {leg['rows']:,} rows, {human(leg['bytes'], 'B')} "
            f"in {leg['seconds']:.3f} s: {rows_per_second}, {gigabytes_per_second:.3g} GB/s; "
            f"payload bytes copied by the reader: {leg['bytes_copied']}",
            markup=True,
        )
    read = figures["read"]
    console.print(
        f"live: Spark had planned {figures['planned_before_last_batch_s']:.2f} s before the last batch came; "
        f"the window held {human(read['window_bytes'], 'B')} of {human(read['bytes'], 'B')}"
    )
    console.print(f"pages: {figures['proof']}")
    agrees = "[green]the same[/green]" if figures["matches_pandas"] else "[red]NOT the same[/red]"
    console.print(
        f"pandas on the same data: {agrees}, {figures['write']['rows']:,} rows compared", markup=True
    )
    console.print(f"plot: {figures['plot']}    everything took {figures['seconds']:.1f} s")
