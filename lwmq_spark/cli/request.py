"""`lwmq request`: asks whoever replies at an address."""

from __future__ import annotations

from typing import Annotated

import typer

from lwmq_spark.cli._messages import (
    Base64Option,
    ContentsArgument,
    SeparatorOption,
    contents,
    role_of,
    separator_of,
    show,
    too_big,
)
from lwmq_spark.cli._output import JsonOption, TimeoutOption
from lwmq_spark.errors import MessageTooBigError


def run(
    address: Annotated[str, typer.Argument(help="Where `Replies` are served, such as ipc://prices.")],
    messages: ContentsArgument = None,
    separator: SeparatorOption = None,
    base64: Base64Option = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Ask ADDRESS one request after the other, and print each reply as `lwmq listen` prints a message.

    The other side serves `lwmq_spark.Replies`, in any language; we connect, unless ADDRESS says
    another role. Code 1: its handler failed; the text has why.

    \b
    Examples:
      lwmq request ipc://prices EUR USD
      lwmq request ipc://prices EUR --timeout 2 --json
    """
    import lwmq_spark as lwmq

    between = separator_of(separator)
    asked = contents(messages, between, base64)
    with (
        lwmq.Channel(address, role_of(address, "client"), linger=0) as channel,
        lwmq.Requests(channel) as requests,
    ):
        for number, frames in enumerate(asked, 1):
            try:
                reply = requests.request(frames, timeout=timeout)
            except MessageTooBigError as exc:
                raise too_big(f"request {number}", frames, exc) from None
            show(reply, between, as_json=json)
