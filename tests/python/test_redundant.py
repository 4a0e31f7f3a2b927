"""Redundant transports: several ways to one peer, of which any may fail."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S

pytestmark = pytest.mark.row("L51")


@pytest.fixture
def ways(ipc: str) -> list[str]:
    return [f"{ipc}-a", f"{ipc}-b"]


def test_each_message_comes_once_in_the_order_of_its_queue(ways: list[str]) -> None:
    count = 3000
    with (
        lwmq.Channel(ways, "server", redundant=True) as server,
        lwmq.Channel(ways, "client", redundant=True) as client,
    ):
        server.wait_connected(60)
        queues = [
            client.send_queue(),
            client.send_queue("multi_unbounded"),
            client.send_queue(priority=lwmq.Priority.IDLE),
        ]
        for n in range(count):
            name = n.to_bytes(4, "little")
            queues[n % 3].post([name, b"." * (n * 7 % 9000)] if n % 2 else name)
        got: list[list[int]] = [[], [], []]
        for _ in range(count):
            message = server.receive(60)
            n = int.from_bytes(message[0], "little")
            assert len(message) == 1 + n % 2
            got[n % 3].append(n)
        assert got == [list(range(part, count, 3)) for part in range(3)]
        client.flush(60)
        with pytest.raises(lwmq.TimeoutError):
            server.receive(0.2)
        state = server.statistics
        assert (state.messages_received, state.duplicates_dropped) == (count, count)
        assert client.statistics.messages_posted == count
        server.send_queue().post(b"and back")
        assert bytes(client.receive(60)[0]) == b"and back"


def test_threads_that_post_at_once_agree_on_one_order(ways: list[str]) -> None:
    threads, each = 4, 400
    with (
        lwmq.Channel(ways, "server", redundant=True) as server,
        lwmq.Channel(ways, "client", redundant=True) as client,
    ):
        server.wait_connected(60)
        queue = client.send_queue("multi_unbounded")

        def post(name: int) -> None:
            for n in range(each):
                queue.post(bytes([name]) + n.to_bytes(4, "little"))

        posters = [threading.Thread(target=post, args=(name,)) for name in range(threads)]
        for poster in posters:
            poster.start()
        got: dict[int, list[int]] = {name: [] for name in range(threads)}
        for _ in range(threads * each):
            frame = bytes(server.receive(60)[0])
            got[frame[0]].append(int.from_bytes(frame[1:], "little"))
        for poster in posters:
            poster.join()
        assert got == {name: list(range(each)) for name in range(threads)}


def test_what_one_way_loses_another_brings(ways: list[str]) -> None:
    count = 2000
    lossy = [f"loss=0.2,seed=5+{ways[0]}", ways[1]]
    with (
        lwmq.Channel(ways, "server", redundant=True) as server,
        lwmq.Channel(lossy, "client", redundant=True) as client,
    ):
        while any(peer.statistics.buffers_free < 64 for peer in (server, client)):
            time.sleep(0.01)  # both ways are there, on both sides: who is away is not waited for
        queue = client.send_queue()
        for n in range(count):
            queue.post(n.to_bytes(4, "little"))
        assert [int.from_bytes(server.receive(60)[0], "little") for _ in range(count)] == list(range(count))
        assert client.filters[0].dropped > count // 20


@pytest.mark.parametrize("weak", [0, 1])
@pytest.mark.parametrize("filters", ["loss=1.0", "loss=0.01,seed=2", "rate=20000"])
def test_who_closes_has_brought_everything_over_the_better_way(
    ways: list[str], filters: str, weak: int
) -> None:
    """And that one way did not is no loss to the peer, whichever ends last."""
    count = 20_000
    theirs = [f"{filters}+{way}" if place == weak else way for place, way in enumerate(ways)]
    with (
        lwmq.Channel(ways, "server", redundant=True) as server,
        lwmq.Channel(theirs, "client", redundant=True) as client,
    ):
        while not all(peer and peer.connected for peer in client.peers):
            time.sleep(0.01)
        queue = client.send_queue()
        for n in range(count):
            queue.post(n.to_bytes(4, "little"))
        closing = threading.Thread(target=client.close)
        closing.start()
        got: list[int] = []
        with pytest.raises(lwmq.ClosedError, match="has closed"):
            while True:
                got += [int.from_bytes(data, "little") for data in server.receive_bytes(256, 60)]
        closing.join(60)
        assert got == list(range(count))


def test_a_gap_is_waited_for_and_then_left_behind(ways: list[str]) -> None:
    """One way loses messages, the other brings them too late: who polls hears of what follows."""
    with (
        lwmq.Channel([ways[0], f"delay=300s+{ways[1]}"], "server", redundant=True) as server,
        lwmq.Channel([f"loss=0.5,seed=3+{ways[0]}", ways[1]], "client", linger=0, redundant=True) as client,
    ):
        server.wait_connected(60)
        deadline = time.monotonic() + 60
        while server.statistics.buffers_free < 64 and time.monotonic() < deadline:
            time.sleep(0.01)  # both ways are there
        queue = client.send_queue()
        for n in range(20):
            queue.post(bytes([n]))
        got: list[int] = []
        poll = select.poll()
        poll.register(server.fileno(), select.POLLIN)
        begin = time.monotonic()
        while 19 - len(got) > client.filters[0].dropped and time.monotonic() - begin < HANG_S:
            poll.poll(5000)
            try:
                while True:
                    got.append(bytes(server.receive(0)[0])[0])
            except lwmq.TimeoutError:
                pass
        assert got == sorted(set(got)) and 3 < len(got) < 20
        assert time.monotonic() - begin > 0.2


def test_one_way_is_enough(ways: list[str]) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(lwmq.Channel(ways, "client", redundant=True))
        with pytest.raises(lwmq.TimeoutError):
            client.wait_connected(0.1)
        one = stack.enter_context(lwmq.Channel(ways[1], "server", linger=0))  # that knows nothing of it
        client.wait_connected(60)
        queue = client.send_queue()
        for n in range(100):
            queue.post([bytes([n]), b"x" * 100])
        got = [[bytes(frame) for frame in one.receive(60)] for _ in range(100)]
        assert got == [[bytes([n]), b"x" * 100] for n in range(100)]
        client.flush(60)
        assert client.statistics.connected
        client.close()  # without a linger, it would wait for ever for a way that was never there


def test_a_way_that_comes_later_brings_nothing_twice(ways: list[str]) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(lwmq.Channel(ways, "client", redundant=True, retry=0.02))
        queue = client.send_queue("bounded_discard_oldest", capacity=50)
        server = stack.enter_context(lwmq.Channel([ways[0], f"{ways[1]}-other"], "server", redundant=True))
        client.wait_connected(60)
        for n in range(200):
            queue.post(n.to_bytes(4, "little"))
            assert int.from_bytes(server.receive(60)[0], "little") == n
        server.close()
        assert isinstance(_end_of(client), lwmq.ClosedError)
        later = stack.enter_context(lwmq.Channel(ways, "server", redundant=True))
        queue.post((200).to_bytes(4, "little"))
        got = [int.from_bytes(later.receive(60)[0], "little")]
        while got[-1] != 200:
            got.append(int.from_bytes(later.receive(60)[0], "little"))
        # The second way had kept the last of what went over the first alone.
        assert got == list(range(got[0], 201)) and got[0] in (151, 200)


TALKER = """
import sys, time
import lwmq_spark as lwmq
channel = lwmq.Channel(sys.argv[1:3], "server", redundant=True)
channel.wait_connected(60)
while channel.statistics.buffers_free < 64:
    time.sleep(0.01)
queue = channel.send_queue()
for n in range(500):
    queue.post(n.to_bytes(4, "little"))
channel.flush(60)
print("said", flush=True)
time.sleep(60)
"""


def test_the_end_of_the_peer_is_told_once_behind_all_that_it_said(
    ways: list[str], spawn: Callable[..., Any]
) -> None:
    talker = spawn(TALKER, *ways)
    with lwmq.Channel(ways, "client", redundant=True, retry=0.02) as client:
        client.wait_connected(60)
        assert talker.line() == "said"
        talker.kill()
        got = []
        with pytest.raises(lwmq.PeerLostError):
            while True:
                got.append(int.from_bytes(client.receive(60)[0], "little"))
        assert got == list(range(500))
        with pytest.raises(lwmq.TimeoutError):
            client.receive(0.5)


@pytest.mark.parametrize("lossy", [0, 1])
def test_what_a_lost_peer_had_said_over_one_way_fills_the_gaps_of_another(
    ways: list[str], spawn: Callable[..., Any], lossy: int
) -> None:
    """Both ways have ended, and what is ahead over the one waits for all that came over the other."""
    theirs = [f"loss=0.5,seed=4+{way}" if place == lossy else way for place, way in enumerate(ways)]
    talker = spawn(TALKER, *theirs)
    with lwmq.Channel(ways, "client", redundant=True, retry=0.02) as client:
        client.wait_connected(60)
        assert talker.line() == "said"
        talker.kill()
        time.sleep(0.3)
        got: list[int] = []
        with pytest.raises(lwmq.PeerLostError):
            while True:
                got += [int.from_bytes(message[0], "little") for message in client.receive_many(256, 60)]
        assert got == list(range(500))


def _end_of(channel: lwmq.Channel) -> lwmq.LwmqError:
    with pytest.raises(lwmq.LwmqError) as end:
        channel.receive(60)
    return end.value


def test_one_address_is_no_redundancy(ipc: str) -> None:
    with pytest.raises(ValueError, match="redundant=True with one address"):
        lwmq.Channel(ipc, redundant=True)


def test_several_threads_cannot_receive_one_stream(ways: list[str]) -> None:
    with pytest.raises(lwmq.LwmqError, match="mono receive queue"):
        lwmq.Channel(ways, redundant=True, receive_queue="multi_unbounded")


def test_two_ways_to_one_peer_are_refused_where_one_side_did_not_ask(ways: list[str]) -> None:
    with (
        lwmq.Channel(ways, "server", linger=0) as server,
        lwmq.Channel(ways, "client", redundant=True),
        pytest.raises(lwmq.LwmqError, match="are redundant on both sides"),
    ):
        server.wait_connected(60)
