"""Peers that come and go, as one hears of them without receiving."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from lwmq_spark._waiting import SLICE_S
from tests.patience import HANG_S


def test_each_coming_and_going_is_heard(address: str) -> None:
    with lwmq.Channel(address, "server", linger=0) as server:
        with pytest.raises(lwmq.TimeoutError, match=r"no peer came to or left .* within 0\.01 s"):
            server.wait_peer(None, 0.01)
        peer = None
        for number in (1, 2, 3):
            with lwmq.Channel(address, "client", linger=0) as client:
                peer = server.wait_peer(peer, 60)
                assert (peer.connected, peer.number, peer.pid) == (True, number, os.getpid())
                assert peer == server.peer
                assert client.wait_peer(timeout=60).number == 1
                with pytest.raises(lwmq.TimeoutError):
                    server.wait_peer(peer, 0)
            gone = server.wait_peer(peer, 60)
            assert gone == replace(peer, connected=False) == server.peer
            peer = gone
        assert server.wait_peer(timeout=0) == peer  # whoever knew nothing hears of the last one


def test_a_peer_that_was_killed_has_gone(each_wire: str, spawn: Callable[..., Any]) -> None:
    with lwmq.Channel(each_wire, "server", linger=0) as server:
        child = spawn("lwmq.Channel(sys.argv[1], 'client').wait_connected(60); time.sleep(600)", each_wire)
        peer = server.wait_peer(timeout=60)
        assert peer.pid == child.pid
        child.kill()
        assert not server.wait_peer(peer, 60).connected


def test_of_several_transports_each_is_watched_by_itself(ipc: str) -> None:
    places = [f"{ipc}-0", f"{ipc}-1"]
    with lwmq.Channel(places, "server", linger=0) as server:
        with lwmq.Channel(places[1], "client", linger=0):
            peer = server.wait_peer(timeout=60, transport=1)
            assert peer.connected
            with pytest.raises(lwmq.TimeoutError):
                server.wait_peer(timeout=0.01)
        assert not server.wait_peer(peer, 60, transport=1).connected
        for none in (2, -1):
            with pytest.raises(ValueError, match="transport"):
                server.wait_peer(timeout=0, transport=none)


def test_who_watches_hears_of_the_close(address: str) -> None:
    server = lwmq.Channel(address, "server", linger=0)
    outcomes: list[object] = []

    def watch() -> None:
        try:
            outcomes.append(server.wait_peer(timeout=60))
        except lwmq.LwmqError as exc:
            outcomes.append(type(exc))

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    time.sleep(0.05)
    server.close()
    for watcher in watchers:
        watcher.join(60)
    assert outcomes == [lwmq.ClosedError] * 3
    with pytest.raises(lwmq.ClosedError):
        server.wait_peer(timeout=0)


def test_a_channel_of_a_listener_has_one_peer(address: str) -> None:
    with lwmq.Listener(address) as listener:
        client = lwmq.Channel(address, "client", linger=0)
        with listener.accept(60) as server:
            peer = server.wait_peer(timeout=60)
            assert (peer.connected, peer.number) == (True, 1)
            client.close()
            peer = server.wait_peer(peer, 60)
            assert not peer.connected
            with pytest.raises(lwmq.ClosedError):  # nobody comes any more
                server.wait_peer(peer, 60)


def test_a_task_that_watches_is_in_nobodys_way(address: str) -> None:
    seen: list[bool] = []

    async def watch(server: lwmq.Channel) -> None:
        peer = None
        while True:
            peer = await aio.wait_peer(server, peer)
            seen.append(peer.connected)

    async def scenario() -> None:
        async with lwmq.Channel(address, "server", linger=0) as server:
            watcher = asyncio.create_task(watch(server))
            for number in (1, 2):
                async with lwmq.Channel(address, "client", linger=0) as client:
                    await aio.wait_connected(server, 60)
                    await heard(2 * number - 1)
                    begun = time.monotonic()
                    for _ in range(100):
                        await aio.flush(client, 60)
                        await aio.flush(server, 60)
                    assert time.monotonic() - begun < 100 * SLICE_S, "each has waited for a slice"
                await heard(2 * number)
            watcher.cancel()

    async def heard(count: int) -> None:
        while len(seen) < count:
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
    assert seen == [True, False] * 2
