"""`lwmq replay`: posts the messages of a tape on a channel."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from lwmq_spark.cli._output import JsonOption, TimeoutOption, emit, problems
from lwmq_spark.cli.record import quoted
from lwmq_spark.errors import ClosedError, TimeoutError

if TYPE_CHECKING:
    from lwmq_spark.channel import Channel

_POSTED_AT_ONCE = 64  # messages that wait in the queue of a peer that is slow
_LOOK_S = 0.2  # whether the peer is there still
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
    messages = payload = 0
    began = time.monotonic()
    # The tape lands at one end of a channel of our own; from there its messages go on as they are.
    with (
        lwmq.Channel(f"{chain}+{inside}", "server") as tape,
        lwmq.Channel(address, linger="forever" if timeout is None else timeout) as channel,
    ):
        channel.wait_connected(timeout)
        queue = channel.send_queue()
        with lwmq.Channel(inside, "client") as other:
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
                queue.post(message)
                messages += 1
                if messages % _POSTED_AT_ONCE == 0:
                    _ship(channel, timeout)
                payload += sum(len(frame) for frame in message)
        _ship(channel, timeout)
        channel.close()
    if json:
        emit(file=file, address=address, messages=messages, bytes=payload, seconds=time.monotonic() - began)
    else:
        problems.print(f"replayed {messages:,} messages of {payload:,} bytes to {address}")


def _ship(channel: Channel, timeout: float | None) -> None:
    """Waits until all that was posted has left. TimeoutError. PeerLostError, ClosedError: nobody reads it."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        channel.try_receive()  # only what ends the peer comes there
        left = _LOOK_S if end is None else min(_LOOK_S, max(0.0, end - time.monotonic()))
        try:
            channel.flush(left)
            return
        except TimeoutError:
            if end is not None and time.monotonic() >= end:
                raise
