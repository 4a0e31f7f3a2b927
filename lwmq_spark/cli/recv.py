"""`lwmq recv`: a stream into a file of Arrow IPC, Parquet or CSV."""

from __future__ import annotations

from typing import Annotated

import typer

from lwmq_spark.cli._files import FORMATS, Sink, format_of
from lwmq_spark.cli._output import JsonOption, TimeoutOption, emit, first_rows, metered, problems
from lwmq_spark.errors import LwmqError


def run(
    address: Annotated[str, typer.Argument(help="Where from, such as ipc://delays.")],
    file: Annotated[str, typer.Argument(help="The file to write; - is an Arrow IPC stream on stdout.")],
    format: Annotated[
        str | None, typer.Option(help=f"{', '.join(FORMATS)}; default by the file's name.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Stop after that many rows.")] = None,
    follow: Annotated[bool, typer.Option(help="Go on after the end, with the next producer.")] = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Read the stream at ADDRESS into FILE, until it ends.

    What was read is acknowledged: a stream that keeps batches until one reader has them lets them go. A batch
    is acknowledged whole or not at all: the one of which --rows takes a part comes again, to the next reader.
    FILE is called FILE.part until it is complete; after a failure, or Ctrl-C, that has what came. With
    --follow, which goes on behind the end of the stream, FILE grows under its own name, and is completed by
    Ctrl-C. With --json the figures go to stdout, or to stderr where the data goes to stdout.

    \b
    Examples:
      lwmq recv ipc://delays delays.parquet
      lwmq recv ipc://delays - | python consume.py
      lwmq recv ipc://delays first.csv --rows 1000 --timeout 10
    """
    import lwmq_spark as lwmq

    try:
        chosen = format_of(file, format)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    stopped: BaseException | None = None
    with (
        Sink(file, chosen, grows=follow) as sink,  # before anybody sends to us for nothing
        lwmq.open_reader(address, follow=follow, timeout=timeout) as reader,
        metered("received", quiet=json, address=address, total_rows=rows) as meter,
    ):
        sink.begin(reader.schema)
        try:
            for batch in first_rows(reader, rows):
                sink.write(batch)
                meter.add(batch.num_rows, batch.nbytes)
        except (KeyboardInterrupt, LwmqError) as stop:
            if not follow:
                raise
            stopped = stop
        sink.finish()
        speed, figures = meter.speed(), meter.figures()
    if not json:
        problems.print(f"received {figures['rows']:,} rows in {figures['batches']:,} batches: {speed}")
    elif file == "-":
        problems.print_json(data={"address": address, **figures}, indent=None)
    else:
        emit(address=address, file=file, **figures)
    if stopped is not None:
        raise stopped
