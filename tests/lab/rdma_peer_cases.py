"""Our provider and a peer written from WIRE.md alone (rdma_peer.py). test_networks.py runs it in a guest."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq

PROGRAM = Path(__file__).with_name("rdma_peer.py")
RXE, SIW = "10.77.0.1", "10.77.1.1"
KEY = "tests:00112233445566778899aabbccddeeff"
RAW: dict[str, Any] = {"raw": True, "buffer_bytes": "64KiB", "buffers": 4, "linger": 30}
_ports = itertools.count(7100)

Peer = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Starts the program; it has ended when the test is over."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = ["/usr/bin/python3", str(PROGRAM), *map(str, arguments)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(params=[RXE, SIW], ids=["rxe", "siw"])
def host(request: pytest.FixtureRequest) -> str:
    name = "rxe0" if request.param == RXE else "siw0"
    if not Path("/sys/class/infiniband", name).exists():
        pytest.skip(f"not run: there is no {name}")
    return str(request.param)


@pytest.fixture(params=["", KEY], ids=["open", "key"])
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _settings(key: str, folder: Path) -> str:
    if not key:
        return "?auth=none"
    path = folder / "lwmq.psk"
    path.touch(0o600)
    path.write_text(key + "\n")
    return f"?psk={path}"


def _options(key: str) -> list[str]:
    return ["--psk", key] if key else []


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _serve(listener: lwmq.Listener, client: subprocess.Popen[str]) -> None:
    """Sends back what an honest client sends."""
    with listener.accept(60) as channel:
        for _ in range(24):
            with channel.receive_buffer(60) as received, channel.get_buffer(60) as buffer:
                size = len(received.data)
                buffer.data[:size] = received.data
                buffer.send(size)
    assert _line(client) == "exchanged 24"


def test_the_peer_connects_to_our_listener(peer: Peer, host: str, key: str, tmp_path: Path) -> None:
    port = next(_ports)
    with lwmq.Listener(f"rdma://{host}:{port}{_settings(key, tmp_path)}", **RAW) as listener:
        _serve(listener, peer("connect", host, port, *_options(key)))


def test_our_client_connects_to_the_peer(peer: Peer, host: str, key: str, tmp_path: Path) -> None:
    port = next(_ports)
    server = peer("serve", host, port, *_options(key))
    assert _line(server) == "listening"
    with lwmq.Channel(f"rdma://{host}:{port}{_settings(key, tmp_path)}", "client", **RAW) as client:
        for size in (1, 9, 1000, 1016, 4096, 65_536, 5, 65_536):
            with client.get_buffer(60) as buffer:
                buffer.data[:size] = bytes([size % 251]) * size
                buffer.send(size)
            with client.receive_buffer(60) as received:
                assert bytes(received.data) == bytes([size % 251]) * size
    assert _line(server) == "exchanged 8"


# What each hostile peer does, and how our end words the loss.
HOSTILE = {
    "key": "was lost",
    "outside": "a range outside of its buffer",
    "beyond": "a range outside of its buffer",
    "written": "was lost",
    "taken": "more notes taken than there were",
    "length": "a note of another length than it says",
    "headless": "a note without a head",
    "again": "a buffer begins that was not given back",
    "kind": "a head of no kind that there is",
    "flagged": "a head of no kind that there is",
    "sides": "a head of no kind that there is",
    "longer": "the peer shows an extent of",
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_client_is_lost_with_a_text_and_the_next_is_served(peer: Peer, hostile: str) -> None:
    port = next(_ports)
    with lwmq.Listener(f"rdma://{RXE}:{port}?auth=none", **RAW) as listener:
        client = peer("connect", RXE, port, "--hostile", hostile)
        with listener.accept(60) as channel:
            if hostile == "key":
                with channel.get_buffer(60) as buffer:
                    buffer.send(60_000)  # by RDMA WRITE, which the peer's device refuses
            with pytest.raises(lwmq.LwmqError, match=HOSTILE[hostile]) as raised:
                while True:
                    channel.receive_buffer(60)
            assert not isinstance(raised.value, lwmq.TimeoutError)
            assert _line(client) == "hostile"
        client.kill()
        _serve(listener, peer("connect", RXE, port))


@pytest.mark.parametrize("hostile", ["key", "outside", "taken", "again"])
def test_a_hostile_listener_is_lost_with_a_text(peer: Peer, hostile: str) -> None:
    port = next(_ports)
    server = peer("serve", RXE, port, "--hostile", hostile)
    assert _line(server) == "listening"
    with lwmq.Channel(f"rdma://{RXE}:{port}?auth=none", "client", **RAW) as channel:
        if hostile == "key":
            with channel.get_buffer(60) as buffer:
                buffer.send(60_000)
        with pytest.raises(lwmq.LwmqError, match=HOSTILE[hostile]) as raised:
            while True:
                channel.receive_buffer(60)
        assert not isinstance(raised.value, lwmq.TimeoutError)


def test_a_replayed_proof_is_refused_and_the_next_client_is_served(peer: Peer, tmp_path: Path) -> None:
    port = next(_ports)
    with lwmq.Listener(f"rdma://{RXE}:{port}{_settings(KEY, tmp_path)}", **RAW) as listener:
        client = peer("connect", RXE, port, "--psk", KEY, "--hostile", "replay")
        listener.accept(60).close()  # the meeting that is recorded
        assert _line(client) == "hostile"
        while not (state := listener.statistics).refused:
            time.sleep(0.01)
        assert "the client does not have the key that it names" in state.refusal
        client.kill()
        _serve(listener, peer("connect", RXE, port, "--psk", KEY))
