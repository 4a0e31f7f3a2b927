"""The kinds of send queues from Python: bounds, tags, waiting, priorities, many at once, counters."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from lwmq_spark.channel import SendQueueStatistics
from tests.patience import HANG_S

BOUNDED = ["bounded_discard_oldest", "bounded_discard_newest"]


@pytest.fixture
def lonely(address: str) -> Iterator[lwmq.Channel]:
    """A channel without a peer: what is posted stays queued."""
    channel = lwmq.Channel(address, "client", linger=0, retry=0.02)
    yield channel
    with suppress(lwmq.TimeoutError):
        channel.close()


def drain(channel: lwmq.Channel, count: int) -> list[str]:
    return [channel.receive(60).tobytes().decode() for _ in range(count)]


@pytest.mark.row("S02")
@pytest.mark.parametrize(("kind", "kept"), [(BOUNDED[0], ["7", "8", "9"]), (BOUNDED[1], ["0", "1", "2"])])
def test_a_bounded_queue_keeps_the_newest_or_the_oldest_and_counts_the_others(
    kind: str, kept: list[str], lonely: lwmq.Channel
) -> None:
    queue = lonely.send_queue(kind, capacity=3)  # type: ignore[arg-type]
    for n in range(10):
        queue.post(str(n).encode())
    assert queue.statistics == SendQueueStatistics(posted=10, collected=0, discarded=7, replaced=0, queued=3)
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        assert drain(server, 3) == kept
        lonely.flush(60)
        assert queue.statistics.collected == 3


@pytest.mark.row("S03")
@pytest.mark.parametrize("kind", ["multi_unbounded_tagged", *(f"{kind}_tagged" for kind in BOUNDED)])
def test_a_tag_has_at_most_one_unsent_message_and_it_goes_to_the_end(kind: str, lonely: lwmq.Channel) -> None:
    queue = lonely.send_queue(kind, capacity=4 if "bounded_d" in kind else None)  # type: ignore[arg-type]
    for text, tag in [("a1", 1), ("p1", 0), ("b1", 2**64 - 1), ("a2", 1), ("p2", 0), ("b2", 2**64 - 1)]:
        queue.post(text.encode(), tag=tag)
    assert queue.statistics == SendQueueStatistics(posted=6, collected=0, discarded=0, replaced=2, queued=4)
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        assert drain(server, 4) == ["p1", "a2", "p2", "b2"]
        assert server.statistics.bytes_received == 8  # tags stay where they are


def test_a_tag_for_a_queue_without_tags_and_a_timeout_for_one_without_bounds_are_refused(
    lonely: lwmq.Channel,
) -> None:
    queue = lonely.send_queue()
    with pytest.raises(lwmq.LwmqError, match=r"tag 7 for a send queue without tags"):
        queue.post(b"x", tag=7)
    with pytest.raises(ValueError, match="tag -1: 0 to 18446744073709551615 are possible"):
        queue.post(b"x", tag=-1)
    with pytest.raises(lwmq.LwmqError, match=r"an unbounded queue has room at once: no timeout, here 0.1 s"):
        queue.post(b"x", timeout=0.1)
    with pytest.raises(ValueError, match="capacity None of a bounded_discard_oldest queue"):
        lonely.send_queue("bounded_discard_oldest")
    with pytest.raises(ValueError, match="capacity 0 of a bounded_discard_oldest queue"):
        lonely.send_queue("bounded_discard_oldest", capacity=0)
    with pytest.raises(ValueError, match="capacity 5 of a mono_unbounded queue"):
        lonely.send_queue(capacity=5)
    assert queue.statistics.posted == 0


@pytest.mark.row("S02")
@pytest.mark.parametrize("kind", BOUNDED)
def test_a_post_waits_for_room_as_long_as_asked_and_then_the_rule_applies(
    kind: str, lonely: lwmq.Channel
) -> None:
    queue = lonely.send_queue(kind, capacity=1)  # type: ignore[arg-type]
    queue.post(b"first", timeout=60)
    started = time.monotonic()
    # short: the post is to wait in vain
    queue.post(b"second", timeout=0.5)  # longer than a slice: only the last may discard
    assert 0.45 < time.monotonic() - started < HANG_S
    assert queue.statistics.discarded == 1

    posting = threading.Thread(target=lambda: queue.post(b"third", timeout=None))
    posting.start()
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        assert drain(server, 2) == ["second" if kind == BOUNDED[0] else "first", "third"]
    posting.join(60)
    assert not posting.is_alive()
    assert queue.statistics.discarded == 1


@pytest.mark.row("S02")
@pytest.mark.parametrize("kind", BOUNDED)
def test_a_post_that_may_not_discard_says_that_there_is_no_room(kind: str, lonely: lwmq.Channel) -> None:
    queue = lonely.send_queue(kind, capacity=2)  # type: ignore[arg-type]
    message = lwmq.Message([b"kept", b"whole"])
    queue.post(b"first", may_discard=False)
    queue.post(message, may_discard=False, timeout=1)
    for timeout in (0, 0.3):
        started = time.monotonic()
        with pytest.raises(lwmq.TimeoutError, match=rf"no room within {timeout} s in a send queue of 2"):
            queue.post(message, timeout=timeout, may_discard=False)
        assert timeout <= time.monotonic() - started < HANG_S
    assert queue.statistics.discarded == 0 and queue.statistics.posted == 2
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        queue.post(b"third", timeout=60, may_discard=False)
        assert [bytes(server.receive(60)[0]) for _ in range(3)] == [b"first", b"kept", b"third"]
    assert [bytes(frame) for frame in message] == [b"kept", b"whole"]


def test_close_ends_a_post_that_waits_for_room(lonely: lwmq.Channel) -> None:
    queue = lonely.send_queue("bounded_discard_newest", capacity=1)
    queue.post(b"first")
    seen: list[BaseException] = []

    def wait() -> None:
        try:
            queue.post(b"second", timeout=None)
        except lwmq.LwmqError as exc:
            seen.append(exc)

    posting = threading.Thread(target=wait)
    posting.start()
    time.sleep(0.05)
    with pytest.raises(lwmq.TimeoutError):
        lonely.close(linger=0)
    posting.join(60)
    assert isinstance(seen[0], lwmq.ClosedError)


@pytest.mark.row("L44")
def test_threads_share_a_multi_queue_each_in_its_own_order(address: str) -> None:
    with (
        lwmq.Channel(address, "server") as server,
        lwmq.Channel(address, "client") as client,
    ):
        queue = client.send_queue("multi_unbounded")

        def post(number: int) -> None:
            for n in range(0, 500, 5):
                queue.post(bytes([number]) + n.to_bytes(4, "little"))
                queue.post_many([bytes([number]) + m.to_bytes(4, "little") for m in range(n + 1, n + 5)])

        threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        seen: dict[int, list[int]] = {number: [] for number in range(4)}
        for _ in range(2000):
            data = server.receive(60).tobytes()
            seen[data[0]].append(int.from_bytes(data[1:], "little"))
        for thread in threads:
            thread.join(60)
        assert seen == {number: list(range(500)) for number in range(4)}


def test_many_messages_go_in_one_call(address: str) -> None:
    with (
        lwmq.Channel(address, "server", buffer_bytes=4096) as server,
        lwmq.Channel(address, "client", buffer_bytes=4096) as client,
    ):
        queue = client.send_queue()
        frames = [str(n).encode() * (n % 50) for n in range(5000)]
        queue.post_many(frames[:10] + [bytearray(frame) for frame in frames[10:20]])
        queue.post_many(iter(frames[20:]))
        queue.post_many([])
        assert [server.receive(60).tobytes() for _ in frames] == frames
        with pytest.raises(lwmq.MessageTooBigError, match=r"message 1 of 2, of 4097 bytes, .* 4096"):
            queue.post_many([b"x", b"x" * 4097])
        with pytest.raises(TypeError, match=r"post_many\(\) takes bytes, not str"):
            queue.post_many(["text"])
        assert queue.statistics.posted == 5000


def test_many_messages_of_several_frames_go_in_one_call(address: str) -> None:
    with (
        lwmq.Channel(address, "server", buffer_bytes=4096) as server,
        lwmq.Channel(address, "client", buffer_bytes=4096) as client,
    ):
        queue = client.send_queue()
        kept = lwmq.Message([b"head", b"body"], timestamp=7)
        queue.post_many([b"one", [b"two", bytearray(b"frames")], kept, (), memoryview(b"last"), kept])
        came = [server.receive(60) for _ in range(6)]
        assert came == [[b"one"], [b"two", b"frames"], [b"head", b"body"], [], [b"last"], [b"head", b"body"]]
        assert came[2].timestamps == [7, 7] and kept[0] == b"head"
        with pytest.raises(lwmq.MessageTooBigError, match=r"message 1 of 2"):
            queue.post_many([kept, [b"x", b"x" * 4097]])
        for wrong in ([kept, "text"], [kept, 5], [[b"x", "text"]]):
            with pytest.raises(TypeError, match=r"post_many\(\) takes"):
                queue.post_many(wrong)
        with pytest.raises(TypeError, match=r"as a list, not generator"):
            queue.post_many([(part for part in (b"a", b"b"))])
        assert queue.statistics.posted == 6
    with pytest.raises(lwmq.ClosedError):
        queue.post_many([kept])


@pytest.mark.row("L41", "L50", "S01", "M19")
def test_weights_and_priorities_decide_who_goes_first(lonely: lwmq.Channel) -> None:
    queues = {priority: lonely.send_queue("multi_unbounded", priority) for priority in lwmq.Priority}
    for priority, queue in queues.items():
        queue.post_many([priority.name.encode()] * 1000)
    lonely.set_weights((5, 4, 3, 2, 1))
    queues[lwmq.Priority.IDLE].priority = lwmq.Priority.TIME_CRITICAL
    assert "TIME_CRITICAL" in repr(queues[lwmq.Priority.IDLE])
    with pytest.raises(lwmq.LwmqError, match="3 weights; there are 5"):
        lonely.set_weights((1, 2, 3))
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        first = drain(server, 2000)
        assert Counter(first) == {"TIME_CRITICAL": 1000, "IDLE": 1000}
        shares = Counter(drain(server, 1500))
    assert [shares[p.name] for p in list(lwmq.Priority)[1:6]] == [500, 400, 300, 200, 100]


@pytest.mark.parametrize("kind", BOUNDED)
def test_an_event_loop_goes_on_while_posts_wait_for_room(kind: str, lonely: lwmq.Channel) -> None:
    queue = lonely.send_queue(kind, capacity=3)  # type: ignore[arg-type]

    async def produce(first: int) -> None:
        for n in range(first, first + 100):
            await aio.post(queue, b"%d" % n)

    async def run() -> list[int]:
        for _ in range(3):
            await aio.post(queue, b"0")
        with pytest.raises(lwmq.TimeoutError, match=r"no room within 0\.05 s in a send queue of 3"):
            await aio.post(queue, b"never", timeout=0.05)
        cancelled = asyncio.create_task(aio.post(queue, b"never"))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        with suppress(asyncio.CancelledError):
            await cancelled
        producers = [asyncio.create_task(produce(first)) for first in (1000, 2000)]
        await asyncio.sleep(0.05)
        async with lwmq.Channel(lonely.address, "server", linger=0) as server:
            got = [int(bytes(await aio.receive(server, 60))) for _ in range(203)]
        await asyncio.gather(*producers)
        return got

    got = asyncio.run(asyncio.wait_for(run(), 60))
    assert got[:3] == [0, 0, 0]
    assert [n for n in got[3:] if n < 2000] == list(range(1000, 1100))
    assert [n for n in got[3:] if n >= 2000] == list(range(2000, 2100))
    assert queue.statistics.discarded == 0


def test_a_thread_that_has_nothing_to_post_yet_waits_for_room(lonely: lwmq.Channel) -> None:
    queue = lonely.send_queue("bounded_discard_newest", capacity=1)
    queue.wait_room()
    queue.post(b"x")
    with pytest.raises(lwmq.TimeoutError, match=r"no room within 0 s"):
        queue.wait_room(0)
    with pytest.raises(lwmq.TimeoutError, match=r"no room within 0\.05 s"):
        queue.wait_room(0.05)
    waiting = threading.Thread(target=queue.wait_room)
    waiting.start()
    with lwmq.Channel(lonely.address, "server", linger=0) as server:
        waiting.join(60)
        assert not waiting.is_alive()
        assert drain(server, 1) == ["x"]
    with pytest.raises(lwmq.LwmqError, match="an unbounded queue has room at once"):
        lonely.send_queue().wait_room()
