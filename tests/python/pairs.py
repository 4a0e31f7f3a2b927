"""Two channels of this process that have found each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import lwmq_spark as lwmq


@contextmanager
def pair(
    address: str, *, receive: dict[str, Any] | None = None, **options: Any
) -> Iterator[tuple[lwmq.Channel, lwmq.Channel]]:
    """A server, which receives as `receive` says, and its client; closed behind it."""
    with (
        lwmq.Channel(address, "server", linger=0, **(receive or {}), **options) as server,
        lwmq.Channel(address, "client", linger=0, **options) as client,
    ):
        server.wait_connected(60)
        client.wait_connected(60)
        yield server, client
        for channel in (client, server):
            with suppress(lwmq.LwmqError):
                channel.close()
