"""Addresses that are socket files, such as ipc:///run/orders: whose file it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq

SCHEMA = pa.schema([("n", pa.int64())])

SERVERS: dict[str, Callable[[str], Any]] = {
    "channel": lambda address: lwmq.Channel(address, "server", linger=0),
    "listener": lwmq.Listener,
    "writer": lambda address: lwmq.open_writer(address, SCHEMA, role="server", linger=0),
    "reader": lambda address: lwmq.open_reader(address, role="server", linger=0),
}


def _close(server: Any) -> None:
    with suppress(lwmq.TimeoutError):  # nobody has read the stream
        server.close()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_closes_leaves_the_socket_file_of_its_successor(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "name"
    first = SERVERS[kind](f"ipc://{file}")
    file.unlink()  # as what tidies up a folder does
    successor = lwmq.Channel(f"ipc://{file}", "server", linger=0)
    _close(first)
    assert file.is_socket()
    with lwmq.Channel(f"ipc://{file}", "client", linger=0) as client:
        client.wait_connected(60)
        successor.wait_connected(60)
    successor.close()
    assert not file.exists()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_removes_its_own_socket_file_and_no_other(tmp_path: Path, kind: str) -> None:
    file, moved = tmp_path / "name", tmp_path / "moved"
    server = SERVERS[kind](f"ipc://{file}")
    file.rename(moved)
    file.write_text("somebody's")
    _close(server)
    assert file.read_text() == "somebody's"
    moved.unlink()
    file.unlink()
    _close(SERVERS[kind](f"ipc://{file}"))
    assert not file.exists()


def test_a_client_reaches_the_successor_while_both_servers_of_a_file_live(tmp_path: Path) -> None:
    file = tmp_path / "name"
    with lwmq.Listener(f"ipc://{file}"):
        file.unlink()
        with (
            lwmq.Listener(f"ipc://{file}") as successor,
            lwmq.Channel(f"ipc://{file}", "client", linger=0) as client,
            successor.accept(60) as accepted,
        ):
            client.wait_connected(60)
            client.send_queue().post(b"hello")
            assert bytes(accepted.receive(60)) == b"hello"
