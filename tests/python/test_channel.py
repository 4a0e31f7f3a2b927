"""Channels from Python: messages, raw buffers, limits, and what happens at the ends."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from lwmq_spark.channel import limits, providers
from tests.patience import HANG_S

Pair = tuple[lwmq.Channel, lwmq.Channel]


@pytest.fixture
def pair(address: str) -> Iterator[Pair]:
    """The two ends of a channel, connected."""
    with lwmq.Channel(address, "server") as server, lwmq.Channel(address, "client") as client:
        server.wait_connected(60)
        client.wait_connected(60)
        yield server, client


@pytest.mark.row("L58", "M02")
def test_hello(address: str) -> None:
    with lwmq.Channel(address) as one, lwmq.Channel(address) as other:
        one.send_queue().post(b"hello")
        assert bytes(other.receive(timeout=60)) == b"hello"
        other.send_queue().post([b"hello", b"yourself"])
        assert [bytes(frame) for frame in one.receive(timeout=60)] == [b"hello", b"yourself"]


@pytest.mark.row("M01", "L54")
def test_frames_arrive_as_they_were_posted_all_of_them(pair: Pair) -> None:
    server, client = pair
    queue = server.send_queue(priority=lwmq.Priority.HIGHEST)
    shapes = [[b""], [b"", b"x", b""], [bytes([n]) * n for n in range(60)], [b"y" * 60_000]]
    for frames in shapes:
        queue.post(frames)
    for frames in shapes:
        assert [bytes(frame) for frame in client.receive(60)] == frames


def test_a_message_may_be_posted_many_times_and_to_several_channels(pair: Pair) -> None:
    server, client = pair
    message = lwmq.Message([b"once", np.arange(5)])
    one, other = server.send_queue(), client.send_queue()
    for _ in range(3):
        one.post(message)
    other.post(message)
    assert [client.receive(60) for _ in range(3)] == [message] * 3
    assert server.receive(60) == message


@pytest.mark.row("Z05", "L29", "L31")
def test_messages_of_one_queue_keep_their_order_and_share_buffers(pair: Pair) -> None:
    server, client = pair
    queue = server.send_queue()
    count = 20_000
    posting = threading.Thread(target=lambda: [queue.post(n.to_bytes(4, "little")) for n in range(count)])
    posting.start()
    received = [int.from_bytes(client.receive(60)[0], "little") for _ in range(count)]
    posting.join()
    assert received == list(range(count))
    server.flush(60)
    state = server.statistics
    assert state.messages_posted == state.messages_shipped == count
    assert state.buffers_shipped <= count
    assert client.statistics.messages_received == count


def test_receive_bytes_is_receive_many_without_the_messages(pair: Pair) -> None:
    server, client = pair
    queue = server.send_queue()
    sent = [bytes([n % 251]) * (n * 37 % 9000 if n % 9 == 0 else n % 100) for n in range(2000)]
    posting = threading.Thread(target=lambda: [queue.post_many(sent[n : n + 50]) for n in range(0, 2000, 50)])
    posting.start()
    first = client.receive_bytes(4, timeout=60)
    assert 1 <= len(first) <= 4
    got = list(first)
    while len(got) < 2000:
        if len(got) % 3 == 0:
            got.append(bytes(client.receive(timeout=60)))
        else:
            got += client.receive_bytes(timeout=60)
    posting.join()
    assert got == sent
    queue.post([b"several ", b"", b"frames"])
    queue.post([])
    queue.post(b"one")
    rest: list[bytes] = []
    while len(rest) < 3:
        rest += client.receive_bytes(timeout=60)
    assert rest == [b"several frames", b"", b"one"]
    with pytest.raises(lwmq.TimeoutError):
        client.receive_bytes(5, timeout=0)
    with pytest.raises(ValueError, match="limit 0:"):
        client.receive_bytes(0)
    with suppress(lwmq.TimeoutError):
        server.close(linger=0)
    with pytest.raises(lwmq.ClosedError):
        client.receive_bytes(timeout=60)


@pytest.mark.row("K15", "Z05")
def test_receive_many_takes_what_was_waiting_when_it_was_asked(pair: Pair) -> None:
    server, client = pair
    queue = server.send_queue()
    sent = [bytes([n % 251]) * (n * 37 % 9000) for n in range(300)]  # copies, and views where they lie
    for frame in sent[:10]:
        queue.post(frame)
    server.flush(60)
    first = client.receive_many(4, timeout=60)
    assert [bytes(message) for message in first] == sent[:4], "the limit"
    assert [bytes(message) for message in client.receive_many(100, timeout=60)] == sent[4:10], "all there is"
    with pytest.raises(lwmq.TimeoutError):
        client.receive_many(5, timeout=0)
    with pytest.raises(ValueError, match="limit 0:"):
        client.receive_many(0)
    posting = threading.Thread(target=lambda: [queue.post(frame) for frame in sent[10:]])
    posting.start()
    rest: list[bytes] = []
    while len(rest) < 290:
        rest += map(bytes, client.receive_many(timeout=60))
    posting.join()
    assert rest == sent[10:]
    queue.post(b"last")
    with suppress(lwmq.TimeoutError):
        server.close(linger=0)
    assert [bytes(message) for message in client.receive_many(timeout=60)] == [b"last"]
    with pytest.raises(lwmq.ClosedError):
        client.receive_many(timeout=60)


@pytest.mark.row("L53")
def test_a_message_larger_than_a_buffer_is_refused_and_nothing_is_sent(address: str) -> None:
    with lwmq.Channel(address, "server", buffer_bytes=4096, linger=0) as server:
        client = lwmq.Channel(address, "client", linger=0)
        queue = server.send_queue()
        with pytest.raises(lwmq.MessageTooBigError, match=r"\d+.*4096"):
            queue.post(b"x" * 4097)
        fits = 4096
        while True:
            try:
                queue.post(b"y" * fits)
                break
            except lwmq.MessageTooBigError:
                fits -= 1
        assert fits > 4000
        assert client.receive(60).tobytes() == b"y" * fits
        client.close()


@pytest.mark.row("S08")
def test_who_comes_first_makes_no_difference(address: str) -> None:
    with lwmq.Channel(address, "client", retry=0.02) as client:
        client.send_queue().post(b"early")
        time.sleep(0.05)
        with lwmq.Channel(address, "server") as server:
            assert bytes(server.receive(60)) == b"early"


def test_receive_waits_as_long_as_asked_and_says_so(pair: Pair) -> None:
    server, _ = pair
    started = time.monotonic()
    with pytest.raises(lwmq.TimeoutError, match=r"no message within 0\.1 s on"):
        server.receive(timeout=0.1)
    assert 0.08 < time.monotonic() - started < HANG_S
    assert server.try_receive() is None


def test_str_is_refused_by_name(pair: Pair) -> None:
    with pytest.raises(TypeError, match=r"post\(\) takes bytes, not str: did you mean \.encode\(\)\?"):
        pair[0].send_queue().post("buy 100")


def test_what_is_received_outlives_the_channel(address: str) -> None:
    server = lwmq.Channel(address, "server")
    client = lwmq.Channel(address, "client")
    server.send_queue().post([b"small", b"z" * 50_000])
    message = client.receive(60)
    frame = message[1]
    client.close()
    with suppress(lwmq.TimeoutError):  # the peer has not let go of the large one: it counts as not read
        server.close(linger=0)
    del message, client, server
    assert bytes(frame) == b"z" * 50_000


@pytest.mark.row("S04", "Z12")
def test_close_waits_until_the_peer_has_read_and_counts_what_it_drops(address: str) -> None:
    server = lwmq.Channel(address, "server")
    server.send_queue().post(b"nobody")
    with pytest.raises(lwmq.TimeoutError, match=r"\b1\b"):
        server.close(linger=0.1)
    assert server.closed
    server.close()
    with pytest.raises(lwmq.ClosedError):
        server.receive(0)
    with pytest.raises(lwmq.ClosedError):
        server.send_queue()


def test_the_last_figures_are_there_behind_the_close(address: str) -> None:
    with (
        lwmq.Listener(address) as listener,
        lwmq.Channel(address, "client", linger=0) as client,
        listener.accept(60) as server,
    ):
        queue = client.send_queue("bounded_discard_newest", capacity=1)
        queue.post(b"read")
        assert bytes(server.receive(60)) == b"read"
        server.send_queue().post(b"not read")
        with pytest.raises(lwmq.TimeoutError):
            server.close(linger=0)
    assert (client.statistics.messages_posted, client.statistics.connected) == (1, False)
    assert (queue.statistics.posted, queue.statistics.collected, queue.statistics.queued) == (1, 1, 0)
    assert (server.statistics.messages_received, server.statistics.messages_lost) == (1, 1)
    assert (listener.statistics.accepted, listener.statistics.waiting) == (1, 0)


@pytest.mark.row("Z12", "S04")
def test_what_was_posted_before_the_exit_arrives(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        with lwmq.Channel(sys.argv[1], "client") as channel:
            queue = channel.send_queue()
            for n in range(5000):
                queue.post(n.to_bytes(4, "little"))
        """,
        ipc,
    )
    with lwmq.Channel(ipc, "server") as channel:
        assert [int.from_bytes(channel.receive(60)[0], "little") for _ in range(5000)] == list(range(5000))
        assert child.wait() == 0


@pytest.mark.row("S08")
def test_a_killed_peer_is_reported_after_what_it_committed_and_another_may_come(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    code = """
        channel = lwmq.Channel(sys.argv[1], "client")
        queue = channel.send_queue()
        for n in range(3):
            queue.post(bytes([n]))
        channel.flush(60)
        print("flushed")
        sys.stdin.readline()
    """
    with lwmq.Channel(ipc, "server", linger=0) as channel:
        first = spawn(code, ipc)
        assert first.line() == "flushed"
        first.kill()
        assert [channel.receive(60).tobytes() for _ in range(3)] == [b"\0", b"\1", b"\2"]
        with pytest.raises(lwmq.PeerLostError):
            channel.receive(60)
        assert channel.statistics.peers_lost == 1
        second = spawn(code, ipc)
        assert second.line() == "flushed"
        assert channel.receive(60).tobytes() == b"\0"


def test_iteration_ends_when_the_channel_is_closed(pair: Pair) -> None:
    server, client = pair
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.extend(m.tobytes() for m in client))
    thread.start()
    queue = server.send_queue()
    for n in range(10):
        queue.post(bytes([n]))
    deadline = time.monotonic() + 60
    while len(received) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    client.close()
    thread.join(60)
    assert not thread.is_alive()
    assert received == [bytes([n]) for n in range(10)]


def test_threads_share_a_channel_and_its_queues(pair: Pair) -> None:
    server, client = pair
    shared = server.send_queue()
    queues = [shared, shared, server.send_queue(), server.send_queue()]

    def post(number: int) -> None:
        for n in range(500):
            queues[number].post(bytes([number]) + n.to_bytes(4, "little"))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    seen: dict[int, list[int]] = {number: [] for number in range(4)}
    for _ in range(2000):
        data = client.receive(60).tobytes()
        seen[data[0]].append(int.from_bytes(data[1:], "little"))
    for thread in threads:
        thread.join(60)
    assert seen == {number: list(range(500)) for number in range(4)}


@pytest.mark.row("L14", "S13")
def test_raw_buffers_are_got_filled_and_sent_received_and_disposed(address: str) -> None:
    with (
        lwmq.Channel(address, "server", raw=True, buffer_bytes=8192, buffers=4, linger=0) as server,
        lwmq.Channel(address, "client", raw=True, buffer_bytes=8192, buffers=4, linger=0) as client,
    ):
        client.wait_connected(60)
        for number in range(20):
            with server.get_buffer(60) as buffer:
                assert len(buffer) >= 8192
                buffer.data[:4] = number.to_bytes(4, "little")
                buffer.send(4)
            with client.receive_buffer(60) as arrived:
                assert len(arrived) == 4
                assert arrived.data.readonly
                assert int.from_bytes(arrived.data, "little") == number
        assert "given back" in repr(buffer)
        with pytest.raises(lwmq.ClosedError, match="given back"):
            _ = buffer.data
        with pytest.raises(lwmq.LwmqError):
            server.send_queue().post(b"message")


@pytest.mark.row("L16", "L17", "L18", "L19")
def test_as_many_buffers_as_asked_for_can_be_had_at_once_and_the_next_is_a_timeout(address: str) -> None:
    with (
        lwmq.Channel(address, "server", raw=True, buffer_bytes=4096, buffers=(6, 1), linger=0) as server,
        lwmq.Channel(address, "client", raw=True, buffer_bytes=4096, buffers=(1, 6), linger=0) as client,
    ):
        client.wait_connected(60)
        server.wait_connected(60)
        with ExitStack() as held:
            for _ in range(6):
                held.enter_context(server.get_buffer(0))
            started = time.monotonic()
            with pytest.raises(lwmq.TimeoutError, match=r"no send buffer got free within 0\.1 s"):
                server.get_buffer(0.1)
            assert 0.08 < time.monotonic() - started < HANG_S
        for _ in range(6):  # abandoned, they are free again
            server.get_buffer(0).abandon()


@pytest.mark.row("L20")
def test_hundreds_of_buffers_both_ways_keep_order_and_content(address: str) -> None:
    count = 512
    options: dict[str, Any] = {"raw": True, "buffer_bytes": 4096, "buffers": count}
    with (
        lwmq.Channel(address, "server", **options) as server,
        lwmq.Channel(address, "client", **options) as client,
    ):
        client.wait_connected(60)
        ways = ((server, client), (client, server))
        for sender, _ in ways:
            for number in range(count):
                buffer = sender.get_buffer(60)
                buffer.data[:2] = number.to_bytes(2, "little")
                buffer.send(2)
        for _, receiver in ways:
            held = [receiver.receive_buffer(60) for _ in range(count)]
            assert [int.from_bytes(buffer.data, "little") for buffer in held] == list(range(count))
            for buffer in reversed(held):
                buffer.dispose()


@pytest.mark.row("L21")
def test_more_buffers_than_the_transport_has_are_refused_with_both_numbers(address: str) -> None:
    assert limits(address).buffers_max == 4000
    with pytest.raises(lwmq.LwmqError, match=r"4001.*4000|4000.*4001"):
        lwmq.Channel(address, "server", raw=True, buffer_bytes=256, buffers=(3501, 500))
    with lwmq.Channel(
        address, "server", raw=True, buffer_bytes=256, buffers=(3500, 500), linger=0
    ) as channel:
        assert not channel.closed


@pytest.mark.row("L15")
@pytest.mark.parametrize("mebibytes", [64, pytest.param(10 << 10, marks=[pytest.mark.slow])])
def test_a_blob_of_any_size_moves_through_fixed_buffers(
    ipc: str, spawn: Callable[..., Any], mebibytes: int
) -> None:
    child = spawn(
        """
        import hashlib
        seen = hashlib.sha256()
        part = bytearray(os.urandom(1 << 20))
        with lwmq.Channel(sys.argv[1], "client", raw=True, buffer_bytes="1MiB", buffers=4) as channel:
            for n in range(int(sys.argv[2])):
                with channel.get_buffer(60) as buffer:
                    part[:8] = n.to_bytes(8, "little")
                    with buffer.data[: 1 << 20] as view:
                        view[:] = part
                        seen.update(view)
                    buffer.send(1 << 20)
        print(seen.hexdigest())
        """,
        ipc,
        mebibytes,
    )
    seen = hashlib.sha256()
    with lwmq.Channel(ipc, "server", raw=True, buffer_bytes="1MiB", buffers=4) as channel:
        for _ in range(mebibytes):
            with channel.receive_buffer(60) as buffer:
                seen.update(buffer.data)
        assert child.line() == seen.hexdigest()
        assert child.wait() == 0


def test_limits_and_providers_are_told(address: str) -> None:
    assert {"loop", "ipc"} <= set(providers())
    found = limits(address)
    assert found.can_send
    assert found.can_receive
    assert found.can_share_window
    assert found.is_ordered
    assert found.loss_ms == (0 if found.is_in_process else 100)
    with pytest.raises(lwmq.AddressError, match="carrier"):
        limits("carrier://pigeon")


@pytest.mark.row("M15", "L27")
def test_any_number_of_channels_side_by_side(address: str) -> None:
    with ExitStack() as stack:
        pairs = [
            (
                stack.enter_context(lwmq.Channel(f"{address}-{n}", "server")),
                stack.enter_context(lwmq.Channel(f"{address}-{n}", "client")),
            )
            for n in range(40)
        ]
        for number, (server, _) in enumerate(pairs):
            server.send_queue().post(bytes([number]))
        for number, (_, client) in enumerate(pairs):
            assert client.receive(60).tobytes() == bytes([number])


def test_reprs_tell_the_state(address: str) -> None:
    with lwmq.Channel(address, "server", linger=0) as server:
        assert repr(server) == f"<Channel {address} server, waiting for a peer, 0 posted, 0 received>"
        with lwmq.Channel(address, "client", linger=0) as client:
            client.wait_connected(60)
            assert repr(client) == f"<Channel {address} client, connected, 0 posted, 0 received>"
            queue = client.send_queue(priority=lwmq.Priority.IDLE)
            assert repr(queue) == f"<SendQueue mono_unbounded IDLE of {address}>"
    assert repr(server) == f"<Channel {address} closed>"


def test_a_message_without_frames_is_a_message(address: str) -> None:
    with (
        lwmq.Channel(address, "server", linger=0) as server,
        lwmq.Channel(address, "client", linger=0) as client,
    ):
        for frames in ([], b"", [b"last"]):
            client.send_queue().post(frames)
        client.flush(60)
        server.wait_connected(60)
        came = []
        while message := server.try_receive():
            came.append(message)
        assert came == [[], [b""], [b"last"]]


def test_who_does_not_wait_in_asyncio_gets_what_is_there(address: str) -> None:
    async def take(server: lwmq.Channel) -> bytes:
        with pytest.raises(lwmq.TimeoutError, match="no message within 0 s"):
            await aio.receive(server, timeout=0)
        with lwmq.Channel(address, "client", linger=0) as client:
            client.wait_connected(60)
            client.send_queue().post(b"there")
            client.flush(60)
            server.wait_connected(60)  # the client may have posted before the server has let it in
            return bytes(await aio.receive(server, timeout=0))

    with lwmq.Channel(address, "server", linger=0) as server:
        assert asyncio.run(take(server)) == b"there"


def test_an_event_loop_goes_on_while_a_channel_waits_for_its_peer(address: str) -> None:
    async def meet() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        turning = asyncio.create_task(turn())
        async with lwmq.Channel(address, "server", linger=0) as server:
            server.send_queue().post(b"x")
            for call in (aio.wait_connected, aio.flush):
                with pytest.raises(lwmq.TimeoutError, match=r"within 0\.3 s"):
                    await call(server, 0.3)
                with pytest.raises(TimeoutError):  # and nothing stays in the way of a close
                    await asyncio.wait_for(call(server), 0.01)
            async with lwmq.Channel(address, "client", linger=0) as client:
                await aio.wait_connected(client, 60)
                await aio.wait_connected(server)
                await aio.flush(server)
                assert bytes(await aio.receive(client, 60)) == b"x"
        turning.cancel()
        return turns

    assert asyncio.run(asyncio.wait_for(meet(), 60)) > 20


def test_a_time_out_says_that_nobody_is_connected(address: str) -> None:
    with lwmq.Channel(address, "server", linger=0) as server:
        server.send_queue().post(b"x")
        for call in (server.receive, server.flush, lwmq.Replies(server).receive):
            with pytest.raises(lwmq.TimeoutError, match=r"within 0\.01 s on .*: nobody is connected"):
                call(0.01)
        with pytest.raises(lwmq.TimeoutError, match="1 messages were dropped"):
            server.close()


def test_a_wrong_kind_or_priority_says_what_there_is(pair: Pair) -> None:
    with pytest.raises(ValueError, match="kind 'many' is none of mono_unbounded, multi_unbounded,"):
        pair[0].send_queue(kind="many")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="9"):
        pair[0].send_queue(priority=9)  # type: ignore[arg-type]


@pytest.mark.parametrize("polls", [False, True])
@pytest.mark.parametrize("kind", ["plain", "filtered", "several"])
def test_what_a_poll_has_found_nothing_behind_counts_as_read(address: str, kind: str, polls: bool) -> None:
    """Also where the receiver keeps it: the sender's close does not linger for it."""
    ours = {"filtered": f"filters+{address}", "several": [address, f"{address}-2"]}.get(kind, address)
    with (
        lwmq.Channel(ours, "server", linger=0) as server,
        lwmq.Channel(address, "client") as client,
    ):
        client.wait_connected(60)
        client.send_queue().post([b"kept", bytes(8192)])
        client.flush(60)
        while (kept := server.try_receive()) is None:
            pass
        if polls:
            assert server.try_receive() is None
        if polls or (address.startswith("loop") and kind != "filtered"):  # there it is handed over itself
            client.close(linger=0)
        else:
            with pytest.raises(lwmq.TimeoutError, match="1 were shipped and not seen read"):
                client.close(linger=0)
        assert kept[1].nbytes == 8192


def test_what_a_filter_holds_does_not_count_as_read(ipc: str) -> None:
    with (
        lwmq.Channel(f"filters+{ipc}", "server", linger=0) as server,
        lwmq.Channel(ipc, "client") as client,
    ):
        server.wait_connected(60)
        queue = client.send_queue()
        queue.post(b"first")
        assert bytes(server.receive(60)) == b"first"
        server.add_filter("delay=30s")
        queue.post(bytes(8192))
        client.flush(60)
        while server.filters[0].held == 0:
            assert server.try_receive() is None
        for _ in range(3):
            assert server.try_receive() is None
        with pytest.raises(lwmq.TimeoutError, match="1 were shipped and not seen read"):
            client.close(linger=0.1)


@pytest.mark.row("S10")
def test_a_channel_that_erases_leaves_zeros_where_a_message_lay(ipc: str) -> None:
    options: dict[str, Any] = {"secure_erase": True}
    with (
        lwmq.Channel(ipc, role="server", **options) as server,
        lwmq.Channel(ipc + "?secure_erase=true", role="client") as client,
    ):
        client.send_queue().post(b"secret" * 1000)
        message = server.receive(60)
        address = np.frombuffer(message[0], np.uint8).ctypes.data
        assert ctypes.string_at(address, 6) == b"secret"
        del message
        gc.collect()
        deadline = time.monotonic() + 60
        while ctypes.string_at(address, 6000) != bytes(6000):  # in the peer's window
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.row("K13", "K14")
def test_a_message_posted_within_the_process_arrives_as_it_is() -> None:
    array = np.arange(100_000)
    address = f"loop://test-passed-{os.getpid()}"
    with (
        lwmq.Channel(address, buffer_bytes="1MiB", home_thread=True) as server,
        lwmq.Channel(address, buffer_bytes="1MiB", home_thread=True) as client,
    ):
        client.send_queue().post([b"head", array])
        message = server.receive(60)
        assert np.frombuffer(message[1], array.dtype).ctypes.data == array.ctypes.data
        assert client.statistics.messages_passed == 1
        del message


STOPS = """
with lwmq.Channel(sys.argv[1], "server", linger=0, buffers=2, buffer_bytes=1024) as server:
    print(bytes(server.receive(60)[0]).decode())
    sys.stdin.readline()
    print(sum(1 for _ in server.receive_many(1000, 60)))
"""


@pytest.mark.row("S04", "K16")
def test_a_peer_that_is_stopped_makes_flush_and_close_say_so_in_time(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    server = spawn(STOPS, ipc)
    with lwmq.Channel(ipc, "client", linger=0, buffers=2, buffer_bytes=1024) as client:
        queue = client.send_queue()
        queue.post(b"first")
        assert server.line() == "first"
        os.kill(server.pid, signal.SIGSTOP)
        try:
            for _ in range(100):
                queue.post(b"x" * 100)  # more than its buffers hold
            for timeout in (0, 0.2):
                begun = time.monotonic()
                with pytest.raises(lwmq.TimeoutError):
                    client.flush(timeout)
                assert timeout <= time.monotonic() - begun < HANG_S
            begun = time.monotonic()
            with pytest.raises(lwmq.TimeoutError, match=r"a linger of 200 ms; \d+ messages were dropped"):
                client.close(linger=0.2)
            assert 0.2 <= time.monotonic() - begun < HANG_S
        finally:
            os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("asks", ["filters", "latency", "close"])
def test_signals_put_off_the_end_of_a_linger_by_nothing(address: str, asks: str) -> None:
    """What waits meanwhile for its state hears of the close at once."""
    server = lwmq.Channel(address, "server")
    client = lwmq.Channel(address, "client", linger=0)
    server.wait_connected(60)
    server.send_queue().post(b"unread")
    heard: list[float] = []

    def ask() -> None:
        while not server.closed:
            time.sleep(0.001)
        with suppress(lwmq.ClosedError):
            asking = {"filters": lambda: server.filters, "latency": lambda: server.latency(0.5)}
            asking.get(asks, server.close)()
        heard.append(time.monotonic())

    thread = threading.Thread(target=ask)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        thread.start()
        with pytest.raises(lwmq.TimeoutError, match=r"linger of (9[5-9]\d|\d{4,}) ms.* 1 were shipped"):
            server.close(linger=1.0)
        ended = time.monotonic()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        thread.join(60)
        client.close()
    assert heard and heard[0] < ended
