"""`lwmq tail`: the rows of a stream as they come."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from lwmq_spark.cli._output import JsonOption, TimeoutOption, console, emit, first_rows


def run(
    address: Annotated[str, typer.Argument(help="Which stream, such as ipc://delays.")],
    rows: Annotated[
        int | None, typer.Option("--rows", "-n", min=1, help="Stop after that many rows.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay for the next producer.")] = False,
    columns: Annotated[str | None, typer.Option(help="Only these columns, with commas between.")] = None,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Print rows as they arrive, a table per batch; with --json one object per row.

    tail is a reader like every other: in a stream that keeps batches until one reader has them, what it
    prints is acknowledged, and may be gone. A batch is acknowledged whole or not at all: the one of which
    --rows shows a part comes again, to the next reader. To look without reading use
    `lwmq info ADDRESS --stream`.

    \b
    Examples:
      lwmq tail ipc://delays
      lwmq tail ipc://delays -n 20 --columns carrier,hour
      lwmq tail ipc://delays --follow --json
    """
    import lwmq_spark as lwmq

    with lwmq.open_reader(address, follow=follow, timeout=timeout) as reader:
        try:
            for batch in first_rows(reader, rows):
                if columns is not None:
                    try:
                        batch = batch.select(columns.split(","))
                    except KeyError as unknown:
                        names = ", ".join(batch.schema.names)
                        text = f"no column {unknown} in {address}; it has {names}"
                        raise typer.BadParameter(text) from None
                _show(batch, as_json=json)
        except (KeyboardInterrupt, BrokenPipeError):
            reader.close(linger=0, consume=False)  # what was shown has been read
            raise


def _show(batch: Any, *, as_json: bool) -> None:
    if as_json:
        for row in batch.to_pylist():
            emit(**row)
        return
    table = Table(*batch.schema.names, box=None, header_style="bold", pad_edge=False)
    for row in batch.to_pylist():
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    console.print(table)
