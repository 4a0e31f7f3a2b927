"""Streams at network addresses: what differs from one host."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, describe
from tests.network import loopback

SCHEMA = pa.schema([("n", pa.int64())])


pytestmark = pytest.mark.usefixtures("engine")


READER = """
    with lwmq.open_reader(sys.argv[1], timeout=60) as reader:
        batches = [(b.num_rows, b["n"][0].as_py()) for b in reader]
        print(batches, reader.statistics.batches)
"""


def batch_of(value: int, rows: int = 1000) -> pa.RecordBatch:
    return pa.record_batch({"n": np.full(rows, value)}, schema=SCHEMA)


@pytest.mark.row("M17")
def test_an_endpoint_serves_this_host_and_a_network_at_once(
    ipc: str, port: int, spawn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tcp = f"{loopback()}{port}/prices"
    with Endpoint(ipc) as endpoint, lwmq.open_writer(ipc, SCHEMA, readers=2, linger=60) as writer:
        endpoint.listen(tcp)
        assert describe(tcp).addresses == (ipc, tcp)
        local = spawn(READER, ipc)
        monkeypatch.setenv("LWMQ_WIRE", "1")
        remote = spawn(READER, tcp)
        for value in range(50):
            writer.write(batch_of(value))
        writer.close()
    expected = f"{[(1000, value) for value in range(50)]} 50"
    assert local.line() == expected
    assert remote.line() == expected


def test_the_port_that_the_system_chose_is_in_the_address(spawn: Callable[..., Any]) -> None:
    with Endpoint("tcp://127.0.0.1:0/any") as endpoint:
        assert re.fullmatch(r"tcp://127\.0\.0\.1:[1-9]\d*/any", endpoint.address)
        child = spawn(READER, endpoint.address)
        with lwmq.open_writer(endpoint.address, SCHEMA, linger=60) as writer:
            writer.write(batch_of(7))
        assert child.line() == "[(1000, 7)] 1"


def windows(pid: int) -> set[str]:
    """The inodes of all windows that a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in maps if "lwmq-window" in line}


@pytest.mark.parametrize("wire", [False, True])
def test_a_client_on_the_same_host_maps_the_windows_of_the_writer(
    port: int, spawn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, wire: bool
) -> None:
    """Unless a test asks for the wire: then it has mirrors of its own."""
    address = f"{loopback()}{port}/near"
    if wire:
        monkeypatch.setenv("LWMQ_WIRE", "1")
    reader = spawn(
        """
        with lwmq.open_reader(sys.argv[1], timeout=60) as reader:
            batch = next(reader)
            print("holds")
            sys.stdin.readline()
        """,
        address,
    )
    monkeypatch.delenv("LWMQ_WIRE", raising=False)
    with lwmq.open_writer(address, SCHEMA, linger=60) as writer:
        writer.write(batch_of(1))
        assert reader.line() == "holds"
        seen, own = windows(reader.pid), windows(os.getpid())
        assert seen
        assert (not seen & own) == wire
        reader.tell()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ipc://elsewhere", "network addresses alone"),
        ("tcp://127.0.0.1:7/x?stream=y", "listens for all of its streams"),
        ("tcp://127.0.0.1", "the port is missing"),
    ],
)
def test_an_endpoint_says_where_it_cannot_listen(ipc: str, address: str, why: str) -> None:
    with Endpoint(ipc) as endpoint, pytest.raises(lwmq.LwmqError, match=why):
        endpoint.listen(address)


@pytest.fixture
def psk(tmp_path: Path) -> Callable[[str], Path]:
    """Files with shared keys, by the keys."""

    def written(key: str) -> Path:
        path = tmp_path / f"{key[:4]}.psk"
        path.touch(mode=0o600)
        path.write_text(key)
        return path

    return written


@pytest.mark.row("Z13")
def test_streams_are_encrypted_with_a_shared_key(
    port: int, spawn: Callable[..., Any], psk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LWMQ_WIRE", "1")
    key, other = psk("ab" * 32), psk("cd" * 32)
    address = f"{loopback('tcps')}{port}/secret"
    with Endpoint(f"{address}?psk={key}") as endpoint:
        assert str(key) not in endpoint.address
        reader = spawn(READER, f"{address}?psk={key}")
        with lwmq.open_writer(f"{address}?psk={key}", SCHEMA, linger=60) as writer:
            for value in range(20):
                writer.write(batch_of(value))
        assert reader.line() == f"{[(1000, value) for value in range(20)]} 20"
        with pytest.raises(lwmq.LwmqError, match="key"):
            lwmq.open_reader(f"{address}?psk={other}", role="client", timeout=10)
    with pytest.raises(lwmq.LwmqError, match="credentials"):
        Endpoint(address)


def test_a_network_beyond_loopback_needs_credentials_or_says_that_it_has_none(
    port: int, spawn: Callable[..., Any]
) -> None:
    with pytest.raises(lwmq.LwmqError, match="auth=none"):
        Endpoint(f"tcp://*:{port}/open")
    with Endpoint(f"tcp://*:{port}/open?auth=none") as endpoint:
        reader = spawn(READER, f"tcp://127.0.0.1:{port}/open")
        with lwmq.open_writer(endpoint.address, SCHEMA, role="client", linger=60) as writer:
            writer.write(batch_of(1))
        assert reader.line() == "[(1000, 1)] 1"


def test_two_processes_cannot_serve_one_port(port: int, ipc: str, spawn: Callable[..., Any]) -> None:
    address = f"tcp://127.0.0.1:{port}/x"
    child = spawn(
        """
        from lwmq_spark.arrow import Endpoint
        with Endpoint(sys.argv[1]):
            print("serves")
            sys.stdin.readline()
        """,
        address,
    )
    assert child.line() == "serves"
    with pytest.raises(lwmq.AddressError, match="another process serves the port"):
        Endpoint(address)
    with Endpoint(ipc) as endpoint, pytest.raises(lwmq.AddressError, match="another process serves the port"):
        endpoint.listen(address)
    child.tell()
