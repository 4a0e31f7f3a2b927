"""`lwmq replay`: posts the messages of a tape on a channel."""

from __future__ import annotations

import time
import uuid
from typing import Annotated

import typer

from lwmq_spark.cli._messages import posting
from lwmq_spark.cli._output import JsonOption, TimeoutOption, emit, problems
from lwmq_spark.cli.record import quoted
from lwmq_spark.errors import ClosedError, TimeoutError

_LAST_WAIT_S = 0.2  # for what the transport inside this process still holds


def run(
    file: Annotated[str, typer.Argument(help="A tape of `lwmq record` or of the filter `record`.")],
    address: Annotated[str, typer.Argument(help="The channel to post on, such as ipc://feed.")],
    speed: Annotated[
        int, typer.Option(min=0, help="Times as fast as it was recorded; 0: as fast as it is taken.")
    ] = 0,
    torn: Annotated[bool, typer.Option(help="Play a tape whose end is torn up to there.")] = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Post the messages on FILE to ADDRESS, in their order, and wait until the peer has read them.

    A tape that is damaged is an error before the first message is posted.

    \b
    Examples:
      lwmq replay feed.tape ipc://feed
      lwmq replay feed.tape ipc://feed --speed 1
    """
    import lwmq_spark as lwmq

    inside = f"loop://replay-{uuid.uuid4().hex}"
    chain = f"replay={quoted(file)},speed={speed},torn={'stop' if torn else 'error'}"
    began = time.monotonic()
    # The tape lands at one end of a channel of our own; from there its messages go on as they are.
    with (
        lwmq.Channel(f"{chain}+{inside}", "server") as tape,
        posting(address, timeout, lambda _: None) as channel,
        lwmq.Channel(inside, "client") as other,
    ):
        other.wait_connected(10)
        tape.wait_connected(10)
        over = False
        while not over:
            try:
                message = tape.receive(_LAST_WAIT_S)
            except TimeoutError:
                over = tape.filters[0].held == 0
                continue
            except ClosedError:
                break
            channel.post(message)
    if json:
        figures = {"messages": channel.messages, "bytes": channel.payload}
        emit(file=file, address=address, seconds=time.monotonic() - began, **figures)
    else:
        problems.print(f"replayed {channel.messages:,} messages of {channel.payload:,} bytes to {address}")
