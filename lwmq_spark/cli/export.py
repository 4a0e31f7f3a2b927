"""`lwmq export`: what `lwmq top` knows, in the text format of Prometheus."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from lwmq_spark.cli._output import JsonOption, emit
from lwmq_spark.observer import Observer


def run(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: any. Default: print once.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on, with --port.")] = "127.0.0.1",
    json: JsonOption = False,
) -> None:
    """Print the figures of every stream, channel and queue of this host for Prometheus, or serve them.

    Nobody is asked: each scrape reads the counters that every process keeps anyway. It shows your own
    processes, as root everybody's. Latencies are there of channels and streams that measure them: with the
    filter `latency` at both ends, such as latency+ipc://orders, or latency=100+ipc://orders for each 100th.
    Arguments of programs are no part of it: lwmq_process_info has the program's name. What has one address
    and name in one process has a label `number` from the second on, which no other one gets. With --json the
    processes are printed as `lwmq top --json` prints them, without rates.

    \b
    Examples:
      lwmq export
      lwmq export --port 9464
      lwmq export --json
    """
    if json and port is not None:
        raise typer.BadParameter("--port serves the text format of Prometheus: leave out --json")
    from lwmq_spark.cli._prometheus import exposition, serve

    observer = Observer()
    if json:
        emit(time=datetime.now(UTC).isoformat(), processes=[process.as_json() for process in observer.look()])
    elif port is None:
        sys.stdout.write(exposition(observer))
    else:
        serve(observer, host, port)
