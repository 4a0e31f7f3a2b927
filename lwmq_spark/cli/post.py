"""`lwmq post`: messages of the command line, or of stdin, to a channel."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from lwmq_spark.cli._messages import (
    Base64Option,
    ContentsArgument,
    SeparatorOption,
    contents,
    posting,
    separator_of,
    show,
    stdin,
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
    What the peer sends meanwhile is printed, as `lwmq listen` prints it; to ask is `lwmq request`.

    \b
    Examples:
      lwmq post ipc://orders "buy 100" "sell 20"
      tail -f orders.log | lwmq post ipc://orders
      lwmq post "ipc://pictures?buffer_bytes=4mb" --whole < picture.png
      lwmq post ipc://orders -s , EUR,1.08
    """
    between = separator_of(separator)
    if whole and (messages or base64 or between):
        raise typer.BadParameter("--whole takes stdin as it is: no MESSAGE, --separator or --base64 with it")
    posted = [[stdin().read()]] if whole else contents(messages, between, base64)
    with posting(address, timeout, partial(show, separator=between, as_json=json)) as channel:
        for frames in posted:
            channel.post(frames)
    if json:
        emit(address=address, messages=channel.messages, bytes=channel.payload)
    else:
        problems.print(f"posted {channel.messages:,} messages of {channel.payload:,} bytes to {address}")
