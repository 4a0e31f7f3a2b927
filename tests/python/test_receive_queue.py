"""The kinds of receive queues: who gets which message, what survives, and what goes on meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.python.pairs import pair

KINDS = ["multi_unbounded", "bounded_discard_oldest", "bounded_discard_newest"]


def _queued(kind: str, capacity: int | None = None) -> dict[str, Any]:
    return {"receive_queue": kind, "receive_capacity": capacity}


def _landed(channel: lwmq.Channel, count: int) -> None:
    """Waits until so many have landed, without receiving."""
    deadline = time.monotonic() + 60
    while channel.statistics.messages_received < count:
        assert time.monotonic() < deadline, channel.statistics
        time.sleep(0.002)


@pytest.mark.row("K03", "Z10", "L56")
@pytest.mark.parametrize("kind", KINDS)
def test_a_peers_sends_complete_while_the_application_is_busy(address: str, kind: str) -> None:
    """More than its buffers hold, small and large, and nobody receives."""
    capacity = None if kind == "multi_unbounded" else 100
    with pair(address, receive=_queued(kind, capacity), buffers=4, buffer_bytes=16384) as (server, client):
        queue = client.send_queue()
        sent = [n.to_bytes(4, "little") * (1 + n * 7919 % 3000) for n in range(1000)]
        for frame in sent:
            queue.post(frame)
        client.close(linger=60)  # waits until all of it counts as read
        _landed(server, 1000)
        state = server.statistics
        kept = capacity or 1000
        assert (state.receive_queued, state.receive_discarded) == (kept, 1000 - kept)
        survivors = sent[:kept] if kind == "bounded_discard_newest" else sent[-kept:]
        assert [bytes(server.receive(60)) for _ in range(kept)] == survivors
        with pytest.raises(lwmq.ClosedError):
            server.receive(60)


@pytest.mark.row("S02")
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_messages_that_the_rule_says_survive(address: str, kind: str, seed: int) -> None:
    """Against a model of a few lines, for any order of posts and receives."""
    chance = random.Random(seed)
    capacity = chance.randint(1, 7)
    model: deque[int] = deque()
    discarded = posted = taken = 0
    with pair(address, receive=_queued(kind, capacity)) as (server, client):
        queue = client.send_queue()
        for _ in range(60):
            for _ in range(chance.randint(0, 9)):
                queue.post(posted.to_bytes(4, "little"))
                if len(model) < capacity:
                    model.append(posted)
                elif kind == "bounded_discard_oldest":
                    model.popleft()
                    model.append(posted)
                    discarded += 1
                else:
                    discarded += 1
                posted += 1
            # Otherwise the receive itself lands first what has come, which over a network may be a part.
            if chance.random() < 0.5 or address.startswith("tcp"):
                _landed(server, posted)
            for _ in range(chance.randint(0, 4)):
                message = server.try_receive()
                got = None if message is None else int.from_bytes(bytes(message), "little")
                assert got == (model.popleft() if model else None)
                taken += got is not None
            _landed(server, posted)
            state = server.statistics
            assert (state.receive_queued, state.receive_discarded) == (len(model), discarded)
        assert taken + discarded + len(model) == posted


@pytest.mark.row("S02", "K16")
def test_several_threads_receive_at_once_and_each_message_goes_to_one(address: str) -> None:
    count, threads = 6000, 4
    with pair(address, receive=_queued("multi_unbounded")) as (server, client):
        queue = client.send_queue()
        got: list[list[int]] = [[] for _ in range(threads)]

        def take(mine: list[int], many: bool) -> None:
            while True:
                for message in server.receive_many(8, 60) if many else [server.receive(60)]:
                    number = int.from_bytes(message[0][:4], "little")
                    if number == count:
                        return
                    mine.append(number)

        taking = [threading.Thread(target=take, args=(mine, n % 2 == 1)) for n, mine in enumerate(got)]
        for thread in taking:
            thread.start()
        for number in range(count):
            queue.post(number.to_bytes(4, "little") * (2000 if number % 50 == 0 else 1))
        for _ in range(threads):  # one each; whoever takes several at once may take more than his own
            queue.post(count.to_bytes(4, "little"))
        ends = time.monotonic() + 60
        while any(thread.is_alive() for thread in taking) and time.monotonic() < ends:
            time.sleep(0.05)
            queue.post(count.to_bytes(4, "little"))
        assert not any(thread.is_alive() for thread in taking)
        assert sorted(number for mine in got for number in mine) == list(range(count))
        assert all(mine == sorted(mine) for mine in got)


@pytest.mark.row("K11", "K03")
@pytest.mark.parametrize("kind", KINDS)
def test_the_descriptor_tells_of_what_the_service_thread_landed(address: str, kind: str) -> None:
    import select

    with pair(address, receive=_queued(kind, None if kind == "multi_unbounded" else 8)) as (server, client):
        queue = client.send_queue()
        server.fileno()
        for number in range(60):
            while server.try_receive() is not None:
                pass
            if number % 3 == 0:
                time.sleep(0.02)
            queue.post(b"%d" % number)
            assert select.select([server], [], [], 60)[0], f"round {number}: a wake-up was lost"
            assert bytes(server.receive(60)) == b"%d" % number


def test_the_loss_of_the_peer_comes_behind_what_it_sent(ipc: str, spawn: Callable[..., Any]) -> None:
    with lwmq.Channel(ipc, "server", receive_queue="multi_unbounded", linger=0) as server:
        child = spawn(
            """
            import sys, lwmq_spark as lwmq
            channel = lwmq.Channel(sys.argv[1], "client")
            queue = channel.send_queue()
            for n in range(500):
                queue.post(b"%d" % n)
            channel.flush(60)
            sys.stdin.read()
            """,
            ipc,
        )
        _landed(server, 500)
        child.kill()
        child.wait()
        assert [bytes(server.receive(60)) for _ in range(500)] == [b"%d" % n for n in range(500)]
        with pytest.raises(lwmq.PeerLostError):
            server.receive(60)


def test_close_ends_every_thread_that_receives(address: str) -> None:
    ended = []
    with pair(address, receive=_queued("multi_unbounded")) as (server, _):

        def take() -> None:
            try:
                server.receive()
            except lwmq.ClosedError:
                ended.append(1)

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        server.close(linger=0)
        for thread in threads:
            thread.join(60)
        assert ended == [1, 1, 1]


def test_kinds_and_capacities_that_do_not_fit_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="none of mono_unbounded, multi_unbounded"):
        lwmq.Channel(address, receive_queue="stack")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"capacity None of a bounded_discard_oldest .*say how many"):
        lwmq.Channel(address, receive_queue="bounded_discard_oldest")
    with pytest.raises(ValueError, match="capacity 3 of a mono_unbounded receive queue: only bounded"):
        lwmq.Channel(address, receive_capacity=3)
    with pytest.raises(lwmq.LwmqError, match="raw channel has no receive queue"):
        lwmq.Channel(address, raw=True, receive_queue="multi_unbounded")
