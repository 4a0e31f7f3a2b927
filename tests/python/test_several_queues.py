"""Several transports and every kind of send queue: each keeps for its own peer what the kind's rule says."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel import SendQueueStatistics
from lwmq_spark.channel.send_queue import KINDS
from tests.patience import HANG_S

SLOW = os.environ.get("LWMQ_SLOW") == "1"
CAPACITY = 7
BEFORE = 300  # messages, more than go to a peer that does not read
SMALL = {"buffer_bytes": 1024, "buffers": 2}  # with room for one message of ours


def _text(number: int) -> bytes:
    return b"%06d" % number * 100


def _number(message: lwmq.Message) -> int:
    frame = bytes(message)
    assert frame == frame[:6] * 100
    return int(frame[:6])


class Model:
    """What a queue holds while nobody collects, in its order."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held: list[tuple[int, int]] = []  # tag, number
        self.discarded = self.replaced = 0

    def post(self, tag: int, number: int) -> None:
        if tag and (same := [held for held in self.held if held[0] == tag]):
            self.held.remove(*same)
            self.replaced += 1
        if "bounded_d" in self.kind and len(self.held) == CAPACITY:
            self.discarded += 1
            if "newest" in self.kind:
                return
            self.held.pop(0)
        self.held.append((tag, number))

    def numbers(self) -> list[int]:
        return [number for _, number in self.held]


@pytest.fixture
def places(ipc: str) -> list[str]:
    return [ipc, f"loop://{ipc.partition('://')[2]}"]


@contextmanager
def _hub(places: list[str]) -> Iterator[lwmq.Channel]:
    with lwmq.Channel(places, "server", linger=0, **SMALL) as hub:
        yield hub
        with suppress(lwmq.LwmqError):
            hub.close()


def _client(place: str, stack: ExitStack) -> lwmq.Channel:
    channel = stack.enter_context(lwmq.Channel(place, "client", linger=0, retry=0.02, **SMALL))
    channel.wait_connected(HANG_S)
    return channel


def _absent(place: str, stack: ExitStack) -> Callable[[], lwmq.Channel]:
    """A peer that comes when it is asked for."""
    return lambda: _client(place, stack)


def _silent(place: str, stack: ExitStack) -> Callable[[], lwmq.Channel]:
    """A peer that is there and reads when it is asked to."""
    channel = _client(place, stack)
    return lambda: channel


@pytest.mark.row("L51", "L47", "S02", "S03")
@pytest.mark.parametrize("later", [0, 1], ids=["ipc_reads_later", "loop_reads_later"])
@pytest.mark.parametrize("how", [_absent, _silent])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3) if SLOW else range(1))
def test_who_reads_gets_all_and_who_reads_later_what_the_kind_of_the_queue_keeps(
    places: list[str],
    kind: str,
    how: Callable[[str, ExitStack], Callable[[], lwmq.Channel]],
    later: int,
    seed: int,
) -> None:
    chance = random.Random(seed)
    model = Model(kind)
    with _hub(places) as hub, ExitStack() as stack:
        reading = _client(places[1 - later], stack)
        other = how(places[later], stack)
        # While one of these waits for the other peer, nothing else is collected for it.
        urgent = hub.send_queue(priority=lwmq.Priority.TIME_CRITICAL)
        queue = hub.send_queue(kind, capacity=CAPACITY if "bounded_d" in kind else None)  # type: ignore[arg-type]

        def post(posting: lwmq.SendQueue, tag: int, number: int) -> None:
            """The reader's queue is empty again when this returns."""
            posting.post(_text(number), tag=tag)
            assert _number(reading.receive(HANG_S)) == number

        for number in range(BEFORE):
            post(urgent, 0, number)
        count = chance.randint(1, 100)
        for number in range(count):
            tag = chance.randint(0, 9) if "tagged" in kind else 0
            model.post(tag, number)
            post(queue, tag, number)
        assert urgent.statistics.queued > 0
        assert queue.statistics == SendQueueStatistics(
            posted=count,
            collected=count,  # the reader's
            discarded=model.discarded,
            replaced=model.replaced,
            queued=len(model.held),
        )
        came = other()
        expected = [*range(BEFORE), *model.numbers()]
        assert [_number(came.receive(HANG_S)) for _ in expected] == expected
        for number in range(10):  # and from here on both read
            post(queue, 0, number)
            assert _number(came.receive(HANG_S)) == number
        assert reading.try_receive() is None and came.try_receive() is None


SHARES = (5, 4, 3, 2, 1)


@pytest.mark.row("L51", "L41", "S01", "M19")
@pytest.mark.parametrize("first", [0, 1], ids=["ipc_first", "loop_first"])
def test_weights_and_priorities_hold_for_every_transport(places: list[str], first: int) -> None:
    """For what waits already, and whoever comes first."""
    with _hub(places) as hub, ExitStack() as stack:
        queues = {priority: hub.send_queue("multi_unbounded", priority) for priority in lwmq.Priority}
        for priority, queue in queues.items():
            queue.post_many([bytes([priority]) * 600] * 300)
        hub.set_weights(SHARES)
        queues[lwmq.Priority.IDLE].priority = lwmq.Priority.TIME_CRITICAL
        for place in (places[first], places[1 - first]):
            peer = _client(place, stack)
            assert Counter(peer.receive(HANG_S)[0][0] for _ in range(600)) == {1: 300, 7: 300}
            shares = Counter(peer.receive(HANG_S)[0][0] for _ in range(20 * sum(SHARES)))
            assert shares == {2 + n: 20 * share for n, share in enumerate(SHARES)}
