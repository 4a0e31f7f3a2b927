"""Routing by topic and headers, and shares of work in turns."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S
from tests.python.pairs import pair

Ends = list[tuple[lwmq.Channel, lwmq.SendQueue]]  # who receives, and the queue that leads there


@pytest.fixture
def ends(address: str) -> Iterator[Ends]:
    with ExitStack() as stack:
        made = []
        for number in range(4):
            server, client = stack.enter_context(pair(f"{address}-{number}"))
            made.append((server, client.send_queue("multi_unbounded")))
        yield made


def received(channel: lwmq.Channel) -> list[bytes]:
    texts = []
    while (message := channel.try_receive()) is not None:
        texts.append(bytes(message[len(message) - 1]))
    return texts


@pytest.mark.row("K45")
def test_a_message_goes_to_every_queue_that_a_route_leads_to_once(ends: Ends) -> None:
    router = lwmq.Router()
    (eur, eur_queue), (all_, all_queue), (alarm, alarm_queue), (nobody, _) = ends
    router.add("trades.*.eur", eur_queue)
    router.add("trades.#", all_queue)
    router.add("#", all_queue)
    router.add("urgent", alarm_queue, frame=1)
    assert router.post([b"trades.sap.eur", b"calm", b"1"]) == 2
    assert router.post([b"trades.sap.usd", b"urgent", b"2"]) == 2
    assert router.post([b"trades", b"3"]) == 1
    for _, queue in ends[:3]:
        queue._channel.flush(60)
    for channel, expected in ((eur, [b"1"]), (all_, [b"1", b"2", b"3"]), (alarm, [b"2"]), (nobody, [])):
        if expected:
            got = [bytes((message := channel.receive(60))[len(message) - 1]) for _ in expected]
            assert got == expected
        assert channel.try_receive() is None
    router.remove("#", all_queue)
    assert router.post([b"news"]) == 0
    router.forget(all_queue)
    assert router.post([b"trades.sap.usd"]) == 0
    assert repr(router) == "<Router of 2 routes to 2 queues>"


def matches(pattern: str, topic: str) -> bool:
    """The rule, as a regular expression over words that each end with a dot."""
    words = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    expression = "".join(words.get(word, re.escape(word) + r"\.") for word in pattern.split(".") if pattern)
    return re.fullmatch(expression, topic + "." if topic else "") is not None


@pytest.mark.row("K45")
@pytest.mark.parametrize("seed", range(5))
def test_patterns_match_as_their_regular_expressions_do(ends: Ends, seed: int) -> None:
    chance = random.Random(seed)
    queues = [queue for _, queue in ends]
    routes: dict[tuple[str, int], lwmq.SendQueue] = {}
    router = lwmq.Router()

    def words(of: str, count: int) -> str:
        return ".".join(chance.choice(of) for _ in range(count))

    for _ in range(600):
        if chance.random() < 0.3:
            route = (words("ab*#", chance.randint(0, 4)), chance.randrange(len(queues)))
            if route in routes:
                router.remove(route[0], routes.pop(route))
            else:
                routes[route] = queues[route[1]]
                router.add(route[0], routes[route])
        topic = words("abc", chance.randint(0, 5))
        expected = {queue for (pattern, _), queue in routes.items() if matches(pattern, topic)}
        assert router.post(topic.encode()) == len(expected), (topic, sorted(routes))
    assert len(router) == len(routes)


def test_the_empty_topic_has_no_words(ends: Ends) -> None:
    router = lwmq.Router()
    for pattern, (_, queue) in zip(("*", "#", "", "*.*"), ends, strict=True):
        router.add(pattern, queue)
    assert router.post([b"", b"1"]) == 2
    for (_, queue), expected in zip(ends, (0, 1, 1, 0), strict=True):
        assert queue.statistics.posted == expected
    router.remove("", ends[2][1])
    assert router.post([b"", b"2"]) == 1


@pytest.mark.row("K27", "Z09")
def test_of_a_group_each_gets_its_share_and_who_is_full_is_passed_over(address: str) -> None:
    with ExitStack() as stack:
        pairs = [stack.enter_context(pair(f"{address}-{number}")) for number in range(3)]
        router = lwmq.Router()
        for _, client in pairs:
            router.add("jobs.#", client.send_queue("bounded_discard_newest", capacity=1000), group="workers")
        for number in range(300):
            assert router.post([b"jobs", str(number).encode()]) == 1
        shares = []
        for server, client in pairs:
            client.flush(60)
            shares.append(received(server))
        assert [len(share) for share in shares] == [100, 100, 100]
        assert sorted(int(text) for share in shares for text in share) == list(range(300))

    with ExitStack() as stack:
        busy_address, idle_address = address + "-busy", address + "-idle"
        busy, idle = (
            stack.enter_context(lwmq.Channel(uri, "client", linger=0, buffers=2, buffer_bytes=1024))
            for uri in (busy_address, idle_address)
        )
        router = lwmq.Router()
        queues = []
        for channel, capacity in ((busy, 5), (idle, 1000)):
            queues.append(channel.send_queue("bounded_discard_newest", capacity=capacity))
            router.add("jobs", queues[-1], group="workers")
        for _ in range(100):  # five wait for who does not take them, and then he is passed over
            assert router.post(b"jobs") == 1
        assert [queue.statistics.queued for queue in queues] == [5, 95]
        router.add("x", busy.send_queue("bounded_discard_newest", capacity=1), group="one")
        assert router.post(b"x") == 1
        with pytest.raises(lwmq.LwmqError, match="none of 1 queues of a group has room"):
            router.post(b"x")
        for channel in (busy, idle):
            with suppress(lwmq.TimeoutError):  # nobody was there
                channel.close()


@pytest.mark.row("K27")
def test_of_a_group_those_whose_peer_is_there_come_first(address: str) -> None:
    with (
        pair(f"{address}-there") as (server, there),
        lwmq.Channel(f"{address}-alone", "client", linger=0) as alone,
    ):
        router = lwmq.Router()
        lonely = alone.send_queue("multi_unbounded")
        for queue in (lonely, there.send_queue("multi_unbounded")):
            router.add("job", queue, group="workers")
        there.wait_connected(60)
        for _ in range(100):
            assert router.post(b"job") == 1
        there.flush(60)
        assert len(received(server)) == 100 and lonely.statistics.queued == 0
        router.forget(queue)
        assert router.post(b"job") == 1
        assert lonely.statistics.queued == 1
        with pytest.raises(lwmq.TimeoutError):
            alone.close()


@pytest.mark.row("K45")
def test_a_topic_may_have_any_number_of_words(ends: Ends) -> None:
    (_, queue), (_, every), (_, many), _ = ends
    router = lwmq.Router()
    router.add("#", every)
    router.add("a.#.z", queue)
    router.add(".".join(["#.a"] * 16), many)
    begun = time.monotonic()  # milliseconds; without care, longer than anybody waits
    assert router.post(".".join(["a", *["b"] * 5000, "z"]).encode()) == 2
    assert router.post(".".join("a" * 5000).encode()) == 2
    assert time.monotonic() - begun < HANG_S
    assert router.post(".".join("b" * 33).encode()) == 1


def test_what_cannot_be_routed_is_refused(ends: Ends) -> None:
    (_, queue), _, _, (server, _) = ends
    router = lwmq.Router()
    with pytest.raises(lwmq.LwmqError, match=r"has the word 'b\*': \* and # stand for whole words"):
        router.add("a.b*", queue)
    with pytest.raises(lwmq.LwmqError, match="has 33 words; up to 32"):
        router.add(".".join("a" * 33), queue)
    router.add("a", queue)
    with pytest.raises(lwmq.LwmqError, match="leads to this queue already"):
        router.add("a", queue)
    with pytest.raises(lwmq.LwmqError, match="no pattern 'a' for frame 1"):
        router.remove("a", queue, frame=1)
    with pytest.raises(ValueError, match="mono_unbounded has one poster"):
        router.add("a", server.send_queue())
    assert router.post([]) == 0
    with pytest.raises(lwmq.MessageTooBigError):
        router.post([b"a", bytes(1 << 20)])
    assert len(router) == 1
    queue._channel.close()
    assert router.post(b"a") == 0 and len(router) == 0
    for change in (router.add, router.remove):
        with pytest.raises(lwmq.ClosedError):
            change("a", queue)
    router.forget(queue)
