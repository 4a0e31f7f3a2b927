"""`lwmq post`: messages of the command line, or of stdin, to a channel."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lwmq_spark.cli._messages import (
    Base64Option,
    ContentsArgument,
    SeparatorOption,
    contents,
    posting,
    separator_of,
)
from lwmq_spark.cli._output import JsonOption, TimeoutOption, emit, problems


def run(
    address: Annotated[str, typer.Argument(help="The channel to post on, such as ipc://orders.")],
    messages: ContentsArgument = None,
    separator: SeparatorOption = None,
    base64: Base64Option = False,
    whole: Annotated[bool, typer.Option("--whole", help="All of stdin is one message.")] = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Post messages to ADDRESS, and wait until the peer has read them.

    Each line of stdin leaves at once. A message is one frame; with --separator it is cut into several.
    What the peer answers is dropped: to ask is `lwmq request`.

    \b
    Examples:
      lwmq post ipc://orders "buy 100" "sell 20"
      tail -f orders.log | lwmq post ipc://orders
      lwmq post ipc://orders --whole < picture.png
      lwmq post ipc://orders -s , EUR,1.08
    """
    between = separator_of(separator)
    if whole and (messages or base64 or between):
        raise typer.BadParameter("--whole takes stdin as it is: no MESSAGE, --separator or --base64 with it")
    with posting(address, timeout) as channel:
        if whole:
            channel.post([sys.stdin.buffer.read()])
        else:
            for frames in contents(messages, between, base64):
                channel.post(frames)
    if json:
        emit(address=address, messages=channel.messages, bytes=channel.payload)
    else:
        problems.print(f"posted {channel.messages:,} messages of {channel.payload:,} bytes to {address}")
