"""`lwmq listen`: the messages of a channel as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from lwmq_spark.cli._messages import SeparatorOption, received, separator_of, show, timestamps_ns
from lwmq_spark.cli._output import JsonOption, TimeoutOption


def run(
    address: Annotated[str, typer.Argument(help="The channel to listen on, such as ipc://orders.")],
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after that many.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on after a peer has left, with the next one.")
    ] = False,
    separator: SeparatorOption = None,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Print the messages that come to ADDRESS, a line each, a tab between frames.

    Ends when the peer has closed, or with code 4 when it died. On a terminal what is not printable is
    escaped; a file or a pipe has every byte. With --json `frames` are base64, `texts` the same as text,
    `timestamps_ns` since 1970 where the sender gave them.

    \b
    Examples:
      lwmq listen ipc://orders
      lwmq listen ipc://orders -n 10 --timeout 5
      lwmq listen ipc://orders --follow --json
    """
    import lwmq_spark as lwmq

    between = separator_of(separator)
    with lwmq.Channel(address) as channel:
        for message in received(channel, count, follow=follow, timeout=timeout):
            show(message, between, as_json=json, timestamps_ns=timestamps_ns(message) if json else None)
