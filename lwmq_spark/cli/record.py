"""`lwmq record`: a logger of messages. Everything that a channel receives goes to a tape."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import quote

import typer

from lwmq_spark.cli._messages import received
from lwmq_spark.cli._output import JsonOption, TimeoutOption, emit, problems
from lwmq_spark.errors import PeerLostError


def quoted(file: str) -> str:
    """A file's name as it stands in an address."""
    return quote(file, safe="/._-~")


def run(
    address: Annotated[str, typer.Argument(help="The channel to listen on, such as ipc://feed.")],
    file: Annotated[str, typer.Argument(help="The tape; what is there already stays in front.")],
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after that many.")] = None,
    follow: Annotated[bool, typer.Option(help="Go on after a peer has left, with the next one.")] = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Write every message that comes to ADDRESS to FILE, as it came, with its time; `lwmq replay` plays it.

    Ends when the peer has closed, or with code 4 when it died. Each message is on its way to the disk before
    the next one is received; a tape whose process was killed ends with a whole message.

    \b
    Examples:
      lwmq record ipc://feed feed.tape
      lwmq record ipc://feed feed.tape --follow
    """
    import lwmq_spark as lwmq

    messages = payload = 0
    ended: BaseException | None = None
    began = time.monotonic()
    with lwmq.Channel(f"record={quoted(file)},way=land+{address}") as channel:
        try:
            for message in received(channel, count, follow=follow, timeout=timeout):
                messages += 1
                payload += sum(len(frame) for frame in message)
        except (PeerLostError, KeyboardInterrupt) as stop:
            ended = stop
        failed = sum(state.failed for state in channel.filters)
    figures = {"messages": messages, "bytes": payload, "failed": failed}
    if json:
        emit(address=address, file=file, seconds=time.monotonic() - began, **figures)
    else:
        problems.print(f"recorded {messages:,} messages of {payload:,} bytes in {file}")
    if failed:
        raise OSError(f"{failed} messages could not be written to {file}: is the disk full?")
    if ended is not None:
        raise ended
