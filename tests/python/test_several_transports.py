"""Channels with several transports: one stream to many peers, many peers to one queue."""

from __future__ import annotations

import asyncio
import hashlib
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.stopping import stopped


@pytest.fixture
def places(ipc: str) -> list[str]:
    """Three over shared memory and one inside the process."""
    return [f"{ipc}-a", f"{ipc}-b", f"{ipc}-c", f"loop://{ipc.partition('://')[2]}"]


@pytest.fixture
def scene(
    places: list[str], request: pytest.FixtureRequest
) -> Iterator[tuple[lwmq.Channel, list[lwmq.Channel]]]:
    """One channel with a transport to each place, and a peer at each."""
    kind = getattr(request, "param", "mono_unbounded")
    with ExitStack() as stack:
        peers = [stack.enter_context(lwmq.Channel(place, "client", linger=0)) for place in places]
        hub = stack.enter_context(lwmq.Channel(places, "server", linger=0, receive_queue=kind))
        hub.wait_connected(60)
        for peer in peers:
            peer.wait_connected(60)
        yield hub, peers
        for channel in (*peers, hub):
            with suppress(lwmq.LwmqError):
                channel.close()


Scene = tuple[lwmq.Channel, list[lwmq.Channel]]


# Reads all of a stream, says what it was, and sends as many messages of its own.
PEER = """
    import hashlib
    with lwmq.Channel(sys.argv[1], "client", linger=60) as channel:
        seen, count = hashlib.sha256(), 0
        while (frames := [bytes(frame) for frame in channel.receive(60)]) != [b"end"]:
            seen.update(repr(frames).encode())
            count += 1
        print(count, seen.hexdigest())
        queue = channel.send_queue()
        for n in range(count):
            queue.post([sys.argv[1].encode(), b"%d" % n])
    """


@pytest.mark.row("L47", "L51", "L57")
@pytest.mark.parametrize("kind", ["mono_unbounded", "multi_unbounded"])
def test_peers_in_other_processes_get_the_same_stream_each_in_order_as_does_one_in_this(
    places: list[str], spawn: Callable[..., Any], kind: Any
) -> None:
    sent = [[b"%d" % n] + [bytes([n % 251]) * (n * 37 % 5000)] * (n % 3) for n in range(2000)]
    digest = hashlib.sha256(b"".join(repr(frames).encode() for frames in sent)).hexdigest()
    with (
        lwmq.Channel(places[-1], "client", linger=0) as inside,
        lwmq.Channel(places, "server", linger=0, receive_queue=kind) as hub,
    ):
        children = [spawn(PEER, place) for place in places[:3]]
        queue = hub.send_queue()
        for n, frames in enumerate(sent):  # from before anyone is there
            queue.post(frames)
            if n % 200 == 0:
                time.sleep(0.002)
        queue.post(b"end")
        assert [[bytes(frame) for frame in inside.receive(60)] for _ in sent] == sent
        assert bytes(inside.receive(60)) == b"end"
        assert [child.line() for child in children] == [f"{len(sent)} {digest}"] * 3
        came: dict[bytes, list[int]] = {place.encode(): [] for place in places[:3]}
        while sum(map(len, came.values())) < 3 * len(sent):
            with suppress(lwmq.ClosedError):  # of one of them, behind what it has sent
                place, number = hub.receive(60)
                came[bytes(place)].append(int(bytes(number)))
        assert list(came.values()) == [list(range(len(sent)))] * 3
        assert [child.wait() for child in children] == [0] * 3


@pytest.mark.row("L47", "L51", "Z09")
def test_every_peer_gets_the_same_stream(scene: Scene) -> None:
    hub, peers = scene
    queue, other = hub.send_queue(), hub.send_queue(priority=lwmq.Priority.HIGHEST)
    sent = [n.to_bytes(4, "little") * (1 + n * 13 % 3000) for n in range(2000)]
    for n, frame in enumerate(sent):
        queue.post(frame)
        if n % 100 == 0:
            other.post([b"several", b"frames"])
    for peer in peers:
        got = [[bytes(frame) for frame in peer.receive(60)] for _ in range(len(sent) + 20)]
        assert [frames[0] for frames in got if len(frames) == 1] == sent
        assert got.count([b"several", b"frames"]) == 20
    state = hub.statistics
    assert state.connected and state.messages_posted == 2020
    assert state.messages_shipped == 2020 * len(peers)
    hub.flush(60)


@pytest.mark.row("L57", "Z09", "L51", "K16")
@pytest.mark.parametrize("scene", ["mono_unbounded", "multi_unbounded"], indirect=True)
def test_what_comes_over_any_transport_is_in_one_queue_and_in_order_for_each(scene: Scene) -> None:
    hub, peers = scene
    count = 1500
    queues = [peer.send_queue() for peer in peers]
    for n in range(count):
        for place, queue in enumerate(queues):
            queue.post(bytes([place]) + n.to_bytes(4, "little"))
    got: list[list[int]] = [[] for _ in peers]
    taken = 0
    while taken < count * len(peers):
        for message in hub.receive_many(64, 60):
            frame = bytes(message)
            got[frame[0]].append(int.from_bytes(frame[1:], "little"))
            taken += 1
    assert got == [list(range(count))] * len(peers)
    with pytest.raises(lwmq.TimeoutError):
        hub.receive(0.02)


@pytest.mark.row("K26", "K16")
def test_peers_that_send_unequally_are_served_equally(scene: Scene) -> None:
    hub, peers = scene
    for place, peer in enumerate(peers):
        queue = peer.send_queue()
        for _ in range(20 * (1 + 10 * place)):
            queue.post(bytes([place]))
        peer.flush(60)
    first = [bytes(hub.receive(60))[0] for _ in range(60)]
    assert [first.count(place) for place in range(4)] == [15] * 4


@pytest.mark.row("K11", "L57")
@pytest.mark.parametrize("scene", ["mono_unbounded", "multi_unbounded"], indirect=True)
def test_one_descriptor_speaks_for_all(scene: Scene) -> None:
    hub, peers = scene
    queues = [peer.send_queue() for peer in peers]
    while hub.try_receive() is not None:
        pass
    for n in range(80):
        if n % 5 == 0:
            time.sleep(0.005)
        queues[n % 4].post(b"%d" % n)
        assert select.select([hub], [], [], 60)[0], f"round {n}: a wake-up was lost"
        assert bytes(hub.receive(60)) == b"%d" % n
        assert hub.try_receive() is None

    async def listen() -> list[bytes]:
        return [bytes(await hub.receive_async()) for _ in range(4)]

    async def both() -> list[bytes]:
        listening = asyncio.create_task(listen())
        for queue in queues:
            await asyncio.sleep(0.002)
            queue.post(b"async")
        return await asyncio.wait_for(listening, 60)

    assert asyncio.run(both()) == [b"async"] * 4


@pytest.mark.row("L51", "L56", "K16", "K44")
def test_the_loss_of_one_peer_and_the_silence_of_another_disturb_no_other(
    places: list[str], spawn: Callable[..., Any]
) -> None:
    code = """
        import sys, lwmq_spark as lwmq
        with lwmq.Channel(sys.argv[1], "client", linger=0) as channel:
            channel.send_queue().post(b"here")
            channel.receive()
            sys.stdin.read()
        """
    with (
        lwmq.Channel(places[:3], "server", linger=0, buffers=(2, 32)) as hub,
        lwmq.Channel(places[2], "client", linger=0) as good,
    ):
        lost, silent = (spawn(code, place) for place in places[:2])
        assert [bytes(hub.receive(60)) for _ in range(2)] == [b"here"] * 2
        good.wait_connected(60)
        queue = hub.send_queue()
        with stopped(silent.pid):
            lost.kill()
            for n in range(3000):
                queue.post(n.to_bytes(4, "little") * 50)
                assert bytes(good.receive(60)) == n.to_bytes(4, "little") * 50
            with pytest.raises(lwmq.PeerLostError):
                hub.receive(60)
            good.send_queue().post(b"still here")
            assert bytes(hub.receive(60)) == b"still here"
            again = spawn(code, places[0])  # what was only queued goes to the next one
            assert bytes(hub.receive(60)) == b"here"
            again.kill()
        silent.kill()
        with suppress(lwmq.TimeoutError, lwmq.PeerLostError):
            hub.close(linger=0)


def test_what_cannot_be_is_refused_in_words(places: list[str]) -> None:
    with pytest.raises(ValueError, match="without a transport"):
        lwmq.Channel([])
    with pytest.raises(
        lwmq.LwmqError, match=r"buffers of 8192 bytes beside those of 4096 at .*one size of buffers"
    ):
        lwmq.Channel([places[0], places[1] + "?buffer_bytes=8KiB"], "server", buffer_bytes=4096)
    with pytest.raises(lwmq.LwmqError, match="a raw channel has one transport"):
        lwmq.Channel(places[:2], raw=True)
    with lwmq.Channel(places[1], "server"), pytest.raises(lwmq.AddressError):
        lwmq.Channel(places[:2], "server")
    with lwmq.Channel(places[0], "server"):
        pass  # it was given up together with the other


@pytest.mark.parametrize("_round", range(20))
def test_two_transports_to_one_channel_are_refused(places: list[str], _round: int) -> None:
    """Whichever side sees it first: the other one closes its end meanwhile, and that is not the reason."""
    with (
        lwmq.Channel(places[:2], "server", linger=0) as server,
        lwmq.Channel(places[:2], "client", linger=0, retry=0.02) as client,
    ):
        with pytest.raises(
            lwmq.LwmqError, match=r"reached over .* already: two transports of a channel lead to"
        ):
            client.receive(60)
        with pytest.raises(lwmq.LwmqError, match=r"reached over .* already"):
            server.receive(60)


@pytest.mark.row("K13")
def test_the_figures_are_sums_also_of_what_was_handed_over(ipc: str) -> None:
    inside = f"loop://{ipc.partition('://')[2]}"
    with (
        lwmq.Channel(ipc, "client", linger=0) as first,
        lwmq.Channel(inside, "client", linger=0) as second,
        lwmq.Channel([ipc, inside], "server", linger=60) as hub,
    ):
        hub.wait_connected(60)
        hub.send_queue().post(b"x")
        assert [bytes(peer.receive(60)) for peer in (first, second)] == [b"x"] * 2
        assert hub.statistics.messages_passed == 1, "the second transport's"
