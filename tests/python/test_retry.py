"""How often a channel tries to connect: seen by a socket that closes each attempt."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S
from tests.stress.players import socket_name

QUICK, SLOW = 0.05, 0.5


@contextmanager
def refusing(address: str) -> Iterator[socket.socket]:
    """Listens where the server of an ipc address would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(socket_name(address).replace("@", "\0", 1))
        listening.listen(64)
        yield listening


def _by_argument(addresses: list[str], retries: list[float], stack: ExitStack) -> None:
    for address, retry in zip(addresses, retries, strict=True):
        stack.enter_context(lwmq.Channel(address, "client", retry=retry, linger=0))


def _by_address(addresses: list[str], retries: list[float], stack: ExitStack) -> None:
    for address, retry in zip(addresses, retries, strict=True):
        stack.enter_context(lwmq.Channel(f"{address}?retry={retry}", "client", linger=0))


def _by_transport(addresses: list[str], retries: list[float], stack: ExitStack) -> None:
    """One channel of two transports; what the argument says is the first one's."""
    further = f"{addresses[1]}?retry={retries[1]}"
    stack.enter_context(lwmq.Channel([addresses[0], further], "client", retry=retries[0], linger=0))


@pytest.mark.row("S08")
@pytest.mark.parametrize(
    ("said", "retries"),
    [
        (_by_argument, [QUICK, SLOW]),
        (_by_address, [SLOW, QUICK]),
        (_by_transport, [QUICK, SLOW]),
        (_by_transport, [SLOW, QUICK]),
    ],
)
def test_attempts_to_connect_come_as_often_as_the_retry_interval_says(
    ipc: str, said: Callable[[list[str], list[float], ExitStack], None], retries: list[float]
) -> None:
    addresses = [f"{ipc}-a", f"{ipc}-b"]
    with ExitStack() as stack:
        sockets = [stack.enter_context(refusing(address)) for address in addresses]
        attempts = dict.fromkeys(retries, 0)
        began = time.monotonic()
        said(addresses, retries, stack)
        while attempts[SLOW] < 3:
            ready, _, _ = select.select(sockets, [], [], HANG_S)
            assert ready, f"nobody tries any more: {attempts}"
            for listening in ready:
                listening.accept()[0].close()
                attempts[retries[sockets.index(listening)]] += 1
        took = time.monotonic() - began
    for retry, count in attempts.items():  # never earlier; a busy machine makes it later
        assert count <= 1 + took / (0.9 * retry), f"{count} attempts in {took:.2f} s, one in {retry} s"
    assert attempts[QUICK] > attempts[SLOW], attempts
