"""Addresses that nobody else uses."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

import lwmq_spark as lwmq
from lwmq_spark.spark import tickets

WIRE = {"LWMQ_WIRE": "1"}
"""The environment of a process that takes no shorter way to a network address on its own host."""
_numbers = itertools.count()


def new_address(scheme: str) -> str:
    """A port belongs to one process, so each address of a network has a port of its own."""
    name = f"spark-{os.getpid()}-{next(_numbers)}"
    return (
        f"{scheme}://{name}" if scheme == "ipc" else f"{scheme}://127.0.0.1:{free_port('127.0.0.1')}/{name}"
    )


def with_ticket(address: str) -> str:
    """`address`, whose key this process has from now on, if the driver's application has one."""
    tickets.take(address, tickets.ticket_or_none(address))
    return address


def for_outsiders(address: str, folder: Path) -> str:
    """`address` as another process uses it: with a file of its key, if the driver's application has one."""
    if tickets.ticket_or_none(address) is None:
        return address
    lwmq.ticket(address, folder / "ticket.psk")
    return f"{address}?psk={folder / 'ticket.psk'}"


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])
