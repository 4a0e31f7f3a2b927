"""`lwmq send`: files of Arrow IPC, Parquet or CSV to an address."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lwmq_spark.cli._files import FORMATS, Source, format_of
from lwmq_spark.cli._output import JsonOption, TimeoutOption, console, duration, emit, metered
from lwmq_spark.options import Retain


def run(
    address: Annotated[str, typer.Argument(help="Where to, such as ipc://flights.")],
    files: Annotated[
        list[str], typer.Argument(help="Files of one schema; - is an Arrow IPC stream on stdin.")
    ],
    format: Annotated[
        str | None, typer.Option(help=f"{', '.join(FORMATS)}; default by the file's name.")
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="The most rows of a batch.")] = 65_536,
    partitions: Annotated[int, typer.Option(min=1, help="Of the stream; batches go round.")] = 1,
    retain: Annotated[Retain, typer.Option(help="When a batch may go.")] = "until_acked",
    linger: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=duration(), help="How long to wait until all was read; default for ever."
        ),
    ] = None,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Stream files into ADDRESS and wait until they were read.

    \b
    Examples:
      lwmq send ipc://flights flights.parquet
      lwmq send ipc://flights part-*.arrow --retain all --partitions 4
      generate-arrow | lwmq send ipc://flights -
    """
    import lwmq_spark as lwmq

    if "://" not in address and any("://" in name for name in files):
        raise typer.BadParameter(f"the address comes first: lwmq send {files[-1]} {address}")
    try:
        formats = [format_of(name, format) for name in files]
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    for name in files:
        if name != "-" and not os.access(name, os.R_OK):
            raise OSError(f"{name} is not there, or may not be read: nothing was sent")
    with Source(files[0], formats[0], batch_rows) as first:
        writer = lwmq.open_writer(
            address, first.schema, partitions=partitions, retain=retain, linger=linger, timeout=timeout
        )
        with writer, metered("sent", quiet=json, address=address) as meter:
            number = 0
            for position, name in enumerate(files):
                source = first if position == 0 else Source(name, formats[position], batch_rows)
                with source:
                    for batch in source.batches:
                        writer.write(batch, partition=number % partitions if partitions > 1 else None)
                        meter.add(batch.num_rows, batch.nbytes)
                        number += 1
            speed, figures = meter.speed(), meter.figures()
    if json:
        emit(address=address, **figures)
    else:
        console.print(
            f"sent {figures['rows']:,} rows in {figures['batches']:,} batches to {address}: {speed}"
        )
