"""`lwmq request`: asks whoever replies at an address."""

from __future__ import annotations

from typing import Annotated

import typer

from lwmq_spark.cli._messages import (
    Base64Option,
    ContentsArgument,
    SeparatorOption,
    contents,
    separator_of,
    show,
)
from lwmq_spark.cli._output import JsonOption, TimeoutOption


def run(
    address: Annotated[str, typer.Argument(help="Where `Replies` are served, such as ipc://prices.")],
    messages: ContentsArgument = None,
    separator: SeparatorOption = None,
    base64: Base64Option = False,
    timeout: TimeoutOption = None,
    json: JsonOption = False,
) -> None:
    """Ask ADDRESS one request after the other, and print each reply as `lwmq listen` prints a message.

    The other side serves `lwmq_spark.Replies`, in any language. Code 1: its handler failed; the text has why.

    \b
    Examples:
      lwmq request ipc://prices EUR USD
      lwmq request ipc://prices EUR --timeout 2 --json
    """
    import lwmq_spark as lwmq

    between = separator_of(separator)
    asked = contents(messages, between, base64)
    with lwmq.Channel(address, linger=0) as channel, lwmq.Requests(channel) as requests:
        for frames in asked:
            show(requests.request(frames, timeout=timeout), between, as_json=json)
