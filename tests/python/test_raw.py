"""Buffers of raw channels: who has one, what a view of it may show, and when it comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import lwmq_spark as lwmq
from tests.python.pairs import pair


@contextmanager
def _raw_pair(address: str, buffers: int = 4) -> Iterator[tuple[lwmq.Channel, lwmq.Channel]]:
    options: dict[str, Any] = {"raw": True, "buffer_bytes": 4096, "buffers": buffers}
    with pair(address, **options) as both:
        yield both


def test_raw_buffers_that_are_forgotten_come_back(address: str) -> None:
    with _raw_pair(address) as (server, client):
        for number in range(20):
            server.get_buffer(60).data[0] = number  # never sent
            buffer = server.get_buffer(60)
            buffer.data[0] = number
            buffer.send(1)
            assert client.receive_buffer(60).data[0] == number  # never disposed of


def test_a_send_that_is_refused_leaves_the_buffer_with_the_sender(address: str) -> None:
    with _raw_pair(address) as (server, client):
        buffer = server.get_buffer(60)
        with pytest.raises(TypeError, match=r"used_bytes 1\.5: an int is wanted, not float"):
            buffer.send(1.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="used_bytes -1"):
            buffer.send(-1)
        with pytest.raises(ValueError, match="cannot send 5000 bytes of a buffer of 4096"):
            buffer.send(5000)
        array = np.frombuffer(buffer.data, np.uint8)
        piece = buffer.data[:4]
        for held in ("array", "piece"):
            with pytest.raises(
                BufferError, match=r"held by an array, or a slice of `data`.*nothing was sent"
            ):
                buffer.send(4)
            if held == "array":
                array[:4] = 7
                del array
        piece.release()
        buffer.send(4)
        assert bytes(client.receive_buffer(60).data) == b"\7\7\7\7"


def test_views_of_raw_buffers_end_with_them(address: str) -> None:
    with _raw_pair(address) as (server, client):
        sent, unsent = (server.get_buffer(60) for _ in range(2))
        views = [sent.data, unsent.data]
        sent.send(8)
        unsent.abandon()
        received = client.receive_buffer(60)
        views.append(received.data)
        received.dispose()
        for view in views:
            with pytest.raises(ValueError, match="released memoryview"):
                _ = view[0]
        with pytest.raises(lwmq.ClosedError):
            _ = sent.data


def test_an_array_on_a_received_buffer_keeps_it_also_after_close(address: str) -> None:
    with _raw_pair(address, buffers=2) as (server, client):
        arrays = []
        for number in range(2):
            with server.get_buffer(60) as buffer:
                buffer.data[0] = number + 1
                buffer.send(8)
            with client.receive_buffer(60) as received:
                arrays.append(np.frombuffer(received.data, np.uint8))
        with pytest.raises(lwmq.TimeoutError, match="no send buffer got free within"):
            server.get_buffer(0.05)  # both are shown still
        del arrays[0]
        server.get_buffer(60).abandon()
        client.close()
        server.close()
        assert arrays[0][0] == 2


def test_an_unsent_buffer_outlives_the_close(address: str) -> None:
    with _raw_pair(address) as (server, client):
        kept, forgotten = server.get_buffer(60), server.get_buffer(60)
        view, array = kept.data, np.frombuffer(forgotten.data, np.uint8)
        server.close()
        client.close()
        view[:4] = bytes(range(4))
        array[:] = 5
        assert kept.data is view
        with pytest.raises(lwmq.ClosedError):
            kept.send(4)
        kept.abandon()
        with pytest.raises(ValueError, match="released memoryview"):
            _ = view[0]
        del forgotten
        assert array.sum() == 5 * len(array)
        del array


def test_an_array_on_an_unsent_buffer_outlives_the_peer(ipc: str, spawn: Callable[..., Any]) -> None:
    code = """
        channel = lwmq.Channel(sys.argv[1], "client", raw=True, buffer_bytes=4096, buffers=4)
        channel.wait_connected(60)
        print("there")
        time.sleep(60)
    """
    with lwmq.Channel(ipc, "server", raw=True, buffer_bytes=4096, buffers=4, linger=0) as server:
        child = spawn(code, ipc)
        assert child.line() == "there"
        array = np.frombuffer(server.get_buffer(60).data, np.uint8)
        array[0] = 7
        child.kill()
        with pytest.raises(lwmq.PeerLostError):
            server.receive_buffer(60)
        assert spawn(code, ipc).line() == "there"
        server.get_buffer(60).data[:8] = bytes(8)
        assert array[0] == 7
        del array


def test_a_time_out_without_a_peer_says_so(address: str) -> None:
    text = r"no send buffer got free within 0\.01 s on .*: nobody is connected"
    channel = lwmq.Channel(address, "server", raw=True, linger=0)
    with channel, pytest.raises(lwmq.TimeoutError, match=text):
        channel.get_buffer(0.01)
