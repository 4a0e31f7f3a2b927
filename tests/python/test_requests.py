"""Requests and replies: which reply is whose, what ends a request, and that nothing else does."""

from __future__ import annotations

import asyncio
import gc
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel.requests import HEAD, Frames, Request
from tests.patience import HANG_S, until
from tests.python.pairs import pair
from tests.stopping import stopped

SOLVER = """
from tests.bench.delegation import solve
with lwmq.Channel(sys.argv[1], "server") as channel:
    print("there", flush=True)
    lwmq.Replies(channel).serve(solve, forever=False)
"""

SERVER = """
channel = lwmq.Channel(sys.argv[1], "server", linger=0, buffers=4)
replies = lwmq.Replies(channel)
print("there", flush=True)
replies.serve(lambda frames: [b"re:", *frames])
"""


@contextmanager
def _serving(channel: lwmq.Channel, handler: Callable[[Frames], Any]) -> Iterator[lwmq.Replies]:
    replies = lwmq.Replies(channel)
    thread = threading.Thread(target=replies.serve, args=(handler,))
    thread.start()
    try:
        yield replies
    finally:
        with suppress(lwmq.LwmqError):
            channel.close(linger=0)
        thread.join(60)
        assert not thread.is_alive()


def _request_threads() -> int:
    return sum(thread.name == "lwmq-requests" for thread in threading.enumerate())


@pytest.mark.row("M21")
def test_each_reply_comes_to_its_request_over_any_number_outstanding(address: str) -> None:
    with pair(address) as (server, client), _serving(server, lambda frames: [b"re", *frames]) as replies:
        with lwmq.Requests(client) as requests:
            asked = [requests.submit([b"%d" % n, b"x" * (n % 50)], timeout=60) for n in range(3000)]
            for n, reply in enumerate(asked):
                assert [bytes(frame) for frame in reply.result(60)] == [b"re", b"%d" % n, b"x" * (n % 50)]
            assert bytes(requests.request(b"one")) == b"reone"
            assert tuple(requests.request([])) == (b"re",)
            state = requests.statistics
            assert (state.asked, state.answered, state.outstanding) == (3002, 3002, 0)
        until(lambda: replies.statistics.answered == 3002)


@pytest.mark.row("M21")
def test_replies_come_in_any_order_and_from_any_thread(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        replies = lwmq.Replies(server)
        asked = [requests.submit(b"%d" % n) for n in range(1200)]
        came = [replies.receive(60) for _ in asked]

        def answer(mine: list[Request]) -> None:
            for request in reversed(mine):
                request.reply(b"re" + bytes(request.frames))

        threads = [threading.Thread(target=answer, args=(came[n::3],)) for n in range(3)]
        for thread in threads:
            thread.start()
        wait(asked, 60)
        assert [bytes(reply.result(0)) for reply in asked] == [b"re%d" % n for n in range(1200)]
        for thread in threads:
            thread.join()
        with pytest.raises(lwmq.LwmqError, match="request 1 was answered before"):
            came[0].reply(b"again")


def test_many_threads_and_tasks_ask_at_once(address: str) -> None:
    with (
        pair(address) as (server, client),
        _serving(server, lambda frames: frames),
        lwmq.Requests(client) as requests,
    ):
        wrong = []

        def ask(who: int) -> None:
            for n in range(200):
                said = b"%d %d" % (who, n)
                if bytes(requests.request(said, timeout=60)) != said:
                    wrong.append(said)

        async def tasks() -> list[Frames]:
            return await asyncio.gather(*(requests.submit(b"%d" % n, timeout=60) for n in range(1500)))

        threads = [threading.Thread(target=ask, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        assert [bytes(frames) for frames in asyncio.run(tasks())] == [b"%d" % n for n in range(1500)]
        for thread in threads:
            thread.join()
        assert not wrong


def test_each_request_has_a_time_out_of_its_own_and_a_late_reply_is_counted(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        replies = lwmq.Replies(server)
        for_ever = requests.submit(b"for ever")
        long = requests.submit(b"long", timeout=60)
        time.sleep(0.2)  # the thread sleeps now, for 60 s as far as it knows
        started = time.monotonic()
        short = [requests.submit(b"short", timeout=0.3 - 0.002 * n) for n in range(100)]
        for reply in short:
            with pytest.raises(lwmq.TimeoutError, match=r"no reply to request \d+ within 0\.\d+ s on "):
                reply.result(60)
        assert 0.29 < time.monotonic() - started < HANG_S
        assert not long.done() and not for_ever.done()
        with pytest.raises(lwmq.TimeoutError, match="request 2 within 0 s"):
            long.result(0)
        for _ in range(102):
            replies.receive(60).reply(b"late")
        assert bytes(for_ever.result(60)) == bytes(long.result(60)) == b"late"
        until(lambda: requests.statistics.late == 100)
        state = requests.statistics
        assert (state.timed_out, state.answered, state.outstanding) == (100, 2, 0)


def test_a_request_that_was_never_posted_delays_no_time_out(address: str) -> None:
    with pair(address) as (_, client), lwmq.Requests(client) as requests:
        for _ in range(5):
            with pytest.raises(lwmq.MessageTooBigError):
                requests.request(b"x" * (1 << 20), timeout=0.01)
            with pytest.raises(lwmq.TimeoutError):
                requests.request(b"nobody answers", timeout=0.2)
        state = requests.statistics  # a machine that is busy may be late to refuse
        assert state.given_up + state.timed_out == 10 and state.timed_out >= 5


def test_a_cancelled_request_is_forgotten(address: str) -> None:
    async def too_long() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(requests.submit(b"slow"), 0.05)

    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit(b"x")
        assert reply.cancel()
        with pytest.raises(CancelledError):
            reply.result(60)
        asyncio.run(too_long())
        assert (requests.statistics.given_up, requests.statistics.outstanding) == (2, 0)
        replies = lwmq.Replies(server)
        for _ in range(2):
            replies.receive(60).reply(b"late")
        until(lambda: requests.statistics.late == 2)


def test_an_exception_of_the_handler_is_raised_where_was_asked(address: str) -> None:
    def handler(frames: Frames) -> Any:
        match bytes(frames):
            case b"raise":
                raise KeyError("no such carrier: ÄÖ" + "x" * 5000)
            case b"str":
                return "text"
            case b"big":
                return bytes(1 << 20)
        return b"fine"

    with (
        pair(address) as (server, client),
        _serving(server, handler) as replies,
        lwmq.Requests(client) as requests,
    ):
        with pytest.raises(lwmq.HandlerError, match=r"KeyError: 'no such carrier: ÄÖx+ ") as raised:
            requests.request(b"raise", timeout=60)
        assert raised.value.kind == "KeyError" and len(str(raised.value)) < 1200
        with pytest.raises(lwmq.HandlerError, match=r"TypeError: .*not str"):
            requests.request(b"str", timeout=60)
        with pytest.raises(lwmq.HandlerError, match="MessageTooBigError: "):
            requests.request(b"big", timeout=60)
        assert bytes(requests.request(b"ok", timeout=60)) == b"fine"
        assert (requests.statistics.failed, requests.statistics.answered) == (3, 1)
        until(lambda: (replies.statistics.failed, replies.statistics.answered) == (3, 1))


def _times_asleep(thread: threading.Thread) -> int:
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.alone
@pytest.mark.row("M21")
def test_a_reply_wakes_who_waits_for_it_and_nobody_else(address: str) -> None:
    with (
        pair(address) as (server, client),
        _serving(server, lambda frames: frames),
        lwmq.Requests(client) as requests,
    ):
        for _ in range(3):  # the best counts: to wait for the GIL is to sleep, too
            before, started = _times_asleep(requests._thread), time.monotonic()
            for n in range(3000):
                assert bytes(requests.request(b"%d" % n, timeout=60)) == b"%d" % n
            seconds = time.monotonic() - started
            asleep = _times_asleep(requests._thread) - before
            # It looks now and then whether somebody leads still.
            if few := asleep < 500 + 300 * seconds:
                break
        assert few, f"{asleep} times in {seconds:.2f} s"


@pytest.mark.row("M21")
def test_a_batch_of_short_tasks_is_delegated_in_one_request(ipc: str, spawn: Callable[..., Any]) -> None:
    server = spawn(SOLVER, ipc)
    assert server.line() == "there"
    commands = [b"%064d" % number for number in range(32)]
    with lwmq.Channel(ipc, "client", linger=0) as client, lwmq.Requests(client) as requests:
        for _ in range(50):
            assert [bytes(reply) for reply in requests.request(commands, timeout=HANG_S)] == commands
        assert requests.statistics.asked == 50


@pytest.mark.parametrize("after_s", [0.005, 0.2])  # while who waits is in the channel, and behind that
@pytest.mark.parametrize("how", ["cancel", "close", "channel", "peer", "time", "reply", "callback", "limit"])
def test_a_wait_ends_with_whatever_ends_the_request(address: str, how: str, after_s: float) -> None:
    ends: dict[str, type[BaseException] | None] = {
        "cancel": CancelledError,
        "close": lwmq.ClosedError,
        "channel": lwmq.ClosedError,
        "peer": lwmq.ClosedError,
        "time": lwmq.TimeoutError,
        "limit": lwmq.TimeoutError,
    }
    ended: list[Any] = []
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        timeout = after_s + 0.1 if how == "time" else None
        reply = requests.submit(b"x", timeout=timeout)

        def wait_for_it() -> None:
            try:
                ended.append(reply.result(after_s + 0.1 if how == "limit" else None))
            except BaseException as exc:
                ended.append(type(exc))

        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        time.sleep(after_s)
        called = threading.Event()
        match how:
            case "cancel":
                assert reply.cancel()
            case "close":
                requests.close()
            case "channel":
                with suppress(lwmq.TimeoutError):
                    client.close(linger=0)
            case "peer":
                server.close(linger=0)
            case "callback":  # the reply is the keeper's to settle from here on
                reply.add_done_callback(lambda _: called.set())
        if how in ("reply", "callback"):
            lwmq.Replies(server).receive(60).reply(b"y")
        waiting.join(60)
        assert not waiting.is_alive()
        assert ended == [ends.get(how, (b"y",))]
        assert how != "callback" or called.wait(60)
        if how in ("cancel", "reply", "callback"):  # and the next one gets his
            second = requests.submit(b"z")
            while bytes((request := lwmq.Replies(server).receive(60)).frames) != b"z":
                pass
            request.reply(b"2")
            assert bytes(second.result(60)) == b"2"


def test_who_waits_receives_for_others_and_leaves_the_rest_to_the_keeper(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        replies = lwmq.Replies(server)
        got: list[bytes] = []
        first = threading.Thread(target=lambda: got.append(bytes(requests.request(b"first"))))
        first.start()
        asked = [replies.receive(60)]
        others = [requests.submit(b"other") for _ in range(3)]
        asked += [replies.receive(60) for _ in others]
        for request in asked[1:3]:
            request.reply(b"r")
        assert [bytes(reply.result(60)) for reply in others[:2]] == [b"r", b"r"]
        assert first.is_alive()
        asked[0].reply(b"own")
        first.join(60)
        assert got == [b"own"]
        asked[3].reply(b"last")
        assert bytes(others[2].result(60)) == b"last"
        assert requests.statistics.answered == 4


@pytest.mark.row("L56")
def test_a_silent_peer_never_blocks_who_asks_and_all_is_answered_when_it_goes_on(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    server = spawn(SERVER, ipc)
    assert server.line() == "there"
    with lwmq.Channel(ipc, "client", linger=0, buffers=4) as client, lwmq.Requests(client) as requests:
        assert bytes(requests.request(b"x", timeout=60)) == b"re:x"
        with stopped(server.pid):
            asked = [requests.submit(b"%0100d" % n) for n in range(20_000)]  # far more than four buffers hold
            with pytest.raises(lwmq.TimeoutError):
                requests.request(b"not now", timeout=0.1)
            assert requests.statistics.outstanding == 20_000
        assert [bytes(reply.result(60)) for reply in asked] == [b"re:%0100d" % n for n in range(20_000)]
        until(lambda: requests.statistics.late == 1)


@pytest.mark.row("L56")
@pytest.mark.parametrize("count", [40_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_any_number_of_requests_are_outstanding_and_each_is_settled_once(
    ipc: str, spawn: Callable[..., Any], count: int
) -> None:
    """Of the last ones the time is over before the peer goes on."""
    patient = count - count // 20
    server = spawn(SERVER, ipc)
    assert server.line() == "there"
    with lwmq.Channel(ipc, "client", linger=0, buffers=4) as client, lwmq.Requests(client) as requests:
        assert bytes(requests.request(b"x", timeout=60)) == b"re:x"
        with stopped(server.pid):
            began = time.monotonic()
            asked = [requests.submit(b"%d" % n, timeout=600) for n in range(patient)]
            timeout = 2 + (time.monotonic() - began) / 2  # ten times what asking the last ones takes
            asked += [requests.submit(b"%d" % n, timeout=timeout) for n in range(patient, count)]
            state = requests.statistics
            assert state.outstanding + state.timed_out == count
            for reply in reversed(asked[patient:]):  # the last first: its wait is that for all
                assert isinstance(reply.exception(60), lwmq.TimeoutError)
            assert requests.statistics.outstanding == patient
        for n in reversed(range(patient)):
            assert bytes(asked[n].result(60)) == b"re:%d" % n
        until(lambda: requests.statistics.late == count - patient)  # those are answered, too, and once
        state = requests.statistics
        assert (state.asked, state.answered, state.timed_out) == (count + 1, patient + 1, count - patient)
        assert state.outstanding == state.failed == state.lost == state.given_up == 0
        assert state.foreign == state.malformed == 0


def test_a_peer_that_is_killed_fails_what_is_outstanding_and_its_successor_answers(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    server = spawn(SERVER.replace("replies.serve", "time.sleep(600); replies.serve"), ipc)
    assert server.line() == "there"
    with lwmq.Channel(ipc, "client", linger=60, buffers=4) as client, lwmq.Requests(client) as requests:
        client.wait_connected(60)
        asked = [requests.submit(b"%0100d" % n, timeout=600) for n in range(5000)]
        time.sleep(0.05)
        server.kill()
        for reply in asked:
            with pytest.raises(lwmq.PeerLostError):
                reply.result(60)
        assert requests.statistics.lost == 5000
        with pytest.raises(lwmq.TimeoutError):
            requests.request(b"nobody there", timeout=0.05)
        server = spawn(SERVER, ipc)
        assert server.line() == "there"
        assert bytes(requests.request(b"anew", timeout=60)) == b"re:anew"
        assert requests.statistics.foreign == requests.statistics.malformed == 0


def test_close_fails_what_is_outstanding_and_leaves_the_channel(address: str) -> None:
    with pair(address) as (server, client):
        requests = lwmq.Requests(client)
        asked = [requests.submit(b"x", timeout=600) for _ in range(1000)]
        requests.close()
        requests.close()
        for reply in asked:
            with pytest.raises(lwmq.ClosedError, match=r"requests on .* are closed"):
                reply.result(0)
        with pytest.raises(lwmq.ClosedError, match=r"requests on .* are closed"):
            requests.request(b"x")
        until(lambda: _request_threads() == 0)
        server.send_queue().post(b"still")
        assert bytes(client.receive(60)) == b"still"


def test_closing_the_channel_at_either_end_fails_what_is_outstanding(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit(b"x")
        server.close()
        with pytest.raises(lwmq.ClosedError, match="has closed"):
            reply.result(60)
        reply = requests.submit(b"y")
        with suppress(lwmq.TimeoutError):
            client.close(linger=0)
        with pytest.raises(lwmq.ClosedError, match="is closed"):
            reply.result(60)
        with pytest.raises(lwmq.ClosedError):
            requests.submit(b"z")
        until(lambda: _request_threads() == 0)


def test_requests_that_are_forgotten_end_their_thread(address: str) -> None:
    gc.collect()  # what other tests have left goes first
    until(lambda: _request_threads() == 0)
    files = len(list(Path("/proc/self/fd").iterdir()))
    with pair(address) as (_, client):
        requests = lwmq.Requests(client)
        reply = requests.submit(b"x")
        del requests
        gc.collect()
        assert not reply.done() and _request_threads() == 1  # what is outstanding keeps it
        reply.cancel()
        until(lambda: _request_threads() == 0)
    del reply
    gc.collect()
    # The service threads' own were made once.
    until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= files + 4)


def test_the_head_is_as_it_is_written_down(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit([b"a", b"b"])
        message = server.receive(60)
        head = bytes(message[0])
        assert head[:8].hex() == "6c777271" + "01" + "01" + "0000"  # "lwrq", format, request, zero
        assert head[16:].hex() == "0100000000000000"
        assert [bytes(frame) for frame in message.frames[1:]] == [b"a", b"b"]
        server.send_queue().post([bytes.fromhex("6c77727101020000") + head[8:], b"c"])
        assert bytes(reply.result(60)) == b"c"
        failing = requests.submit(b"d")
        head = bytes(server.receive(60)[0])
        assert head[16:].hex() == "0200000000000000"
        server.send_queue().post([bytes.fromhex("6c77727101030000") + head[8:], b"Kind", b"text"])
        with pytest.raises(lwmq.HandlerError, match="the peer's handler failed: Kind: text"):
            failing.result(60)


def test_what_a_hostile_peer_sends_harms_nobody(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit(b"x", timeout=60)
        head = bytes(server.receive(60)[0])
        asker, number = struct.unpack("<QQ", head[8:])

        def made(
            magic: bytes = b"lwrq", form: int = 1, kind: int = 2, zero: int = 0, number: int = 1
        ) -> bytes:
            return HEAD.pack(magic, form, kind, zero, asker, number)

        wrong: list[list[bytes]] = [
            [],
            [b""],
            [b"lwrq"],
            [made() + b"\0"],
            [made(magic=b"LWRQ")],
            [made(form=2)],
            [made(kind=0)],
            [made(kind=1)],
            [made(kind=4)],
            [made(zero=1)],
            [made(number=0)],
            [made(number=2)],
            [made(number=(1 << 64) - 1)],
            [made(kind=3)],
            [made(kind=3), b"Kind"],
            [made(kind=3), b"Kind", b"text", b"more"],
            [made(kind=3), b"Kind", bytes(1001)],
        ]
        queue = server.send_queue()
        for frames in wrong:
            queue.post(frames)
        queue.post([HEAD.pack(b"lwrq", 1, 2, 0, asker ^ 1, number), b"to another one"])
        until(lambda: requests.statistics.malformed + requests.statistics.foreign == len(wrong) + 1)
        assert requests.statistics.foreign == 1 and not reply.done()
        queue.post([made(), b"right"])
        assert bytes(reply.result(60)) == b"right"
        queue.post([made(), b"twice"])
        failing = requests.submit(b"x")
        queue.post([made(kind=3, number=2), b"\xff\xfe", b"\0"])
        with pytest.raises(lwmq.HandlerError, match="�"):
            failing.result(60)
        assert requests.statistics.late == 1


def test_a_server_drops_what_is_no_request_and_stays(address: str) -> None:
    with pair(address) as (server, client), _serving(server, lambda frames: frames) as replies:
        queue = client.send_queue()
        for frames in (
            [],
            [b"GET /"],
            [HEAD.pack(b"lwrq", 1, 2, 0, 7, 1)],
            [HEAD.pack(b"lwrq", 9, 1, 0, 7, 1)],
        ):
            queue.post(frames)
        with lwmq.Requests(client) as requests:
            assert bytes(requests.request(b"x", timeout=60)) == b"x"
        assert (replies.statistics.malformed, replies.statistics.received) == (4, 1)


def test_two_requesters_of_one_channel_of_two_transports_get_their_own_replies(address: str) -> None:
    addresses = [f"{address}-{n}" for n in range(2)]
    with lwmq.Channel(addresses, "server", linger=0) as server:
        clients = [lwmq.Channel(one, "client", linger=0) for one in addresses]
        try:
            with (
                _serving(server, lambda frames: [b"re:", *frames]),
                lwmq.Requests(clients[0]) as first,
                lwmq.Requests(clients[1]) as second,
            ):
                for n in range(200):
                    asked = first.submit(b"a%d" % n, timeout=60), second.submit(b"b%d" % n, timeout=60)
                    assert [bytes(reply.result()) for reply in asked] == [b"re:a%d" % n, b"re:b%d" % n]
                assert first.statistics.answered == second.statistics.answered == 200
                until(lambda: first.statistics.foreign == second.statistics.foreign == 200)
        finally:
            for client in clients:
                with suppress(lwmq.LwmqError):
                    client.close(linger=0)


def test_a_callback_may_ask_but_not_wait_for_what_its_own_thread_receives(address: str) -> None:
    asked = threading.Event()  # a callback that is added to what is settled runs where it is added

    def echo(frames: Frames) -> Frames:
        assert asked.wait(60)
        return frames

    with (
        pair(address) as (server, client),
        _serving(server, echo),
        lwmq.Requests(client) as requests,
    ):
        seen: list[Any] = []
        done = threading.Event()

        def then(_: Any) -> None:
            try:
                requests.request(b"second", timeout=60)
            except lwmq.LwmqError as exc:
                seen.append(str(exc))
            third = requests.submit(b"third")
            third.add_done_callback(lambda _: (seen.append(bytes(third.result())), done.set()))

        requests.submit(b"first").add_done_callback(then)
        asked.set()
        assert done.wait(60)
        assert "awaited in a callback" in seen[0] and seen[1] == b"third"


async def _answer(server: lwmq.Channel, count: int) -> None:
    replies = lwmq.Replies(server)
    for _ in range(count):
        request = await replies.receive_async()
        request.reply(request.frames)


def test_one_event_loop_asks_and_answers(address: str) -> None:
    async def both() -> list[Frames]:
        answering = asyncio.create_task(_answer(server, 300))
        got = await asyncio.gather(*(requests.submit(b"%d" % n, timeout=60) for n in range(300)))
        await answering
        return got

    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        assert [bytes(frames) for frames in asyncio.run(both())] == [b"%d" % n for n in range(300)]


def test_requests_and_replies_come_and_go_without_leaving_a_queue_behind_each_time(address: str) -> None:
    with pair(address) as (server, client):
        for number in range(20):
            replies = lwmq.Replies(server)
            with lwmq.Requests(client) as requests:
                reply = requests.submit(b"%d" % number)
                replies.serve_one(lambda frames: frames, timeout=60)
                assert bytes(reply.result(60)) == b"%d" % number
        with pytest.raises(lwmq.TimeoutError):
            replies.serve_one(lambda frames: frames, timeout=0.1)
        assert (len(client._queues), len(server._queues)) == (1, 1)


def test_serve_ends_with_its_peer_when_asked_to(address: str) -> None:
    with pair(address) as (server, client):
        replies = lwmq.Replies(server)
        thread = threading.Thread(target=replies.serve, args=(bytes,), kwargs={"forever": False})
        thread.start()
        with lwmq.Requests(client) as requests:
            assert bytes(requests.request(b"x", timeout=60)) == b"x"
        client.close(linger=60)
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("asks", ["request", "submit"])
def test_requests_go_on_when_what_kept_the_peer_away_is_mended(ipc: str, asks: str) -> None:
    def ask(requests: lwmq.Requests, frames: bytes) -> bytes:
        if asks == "request":
            return bytes(requests.request(frames, timeout=60))
        return bytes(requests.submit(frames, timeout=60).result(60))

    with lwmq.Channel(ipc, "client", linger=0) as client, lwmq.Requests(client) as requests:
        with lwmq.Channel(ipc, "server", buffers=(4, 1), linger=0):
            for frames in (b"first", b"second", b"third"):
                with pytest.raises(lwmq.LwmqError, match="one side sends with 32 buffers"):
                    ask(requests, frames)
        with lwmq.Channel(ipc, "server", linger=0) as server:
            replies = lwmq.Replies(server)
            serving = threading.Thread(target=replies.serve, args=(lambda frames: frames,))
            serving.start()
            end, answer = time.monotonic() + 60, b""
            while not answer:  # the client tries again now and then
                with suppress(lwmq.LwmqError):
                    answer = ask(requests, b"fourth")
                assert time.monotonic() < end
            assert answer == b"fourth"
            assert requests.statistics.outstanding == 0
            server.close()
            serving.join()


def test_what_keeps_the_peer_away_is_told_to_who_comes_later(ipc: str) -> None:
    """It is told once, to whoever receives."""
    refused = pytest.raises(lwmq.LwmqError, match="one side sends with 32 buffers")
    with (
        lwmq.Channel(ipc, "server", buffers=(4, 1), linger=0),
        lwmq.Channel(ipc, "client", linger=0) as client,
    ):
        with refused:
            client.receive(60)
        for _ in range(2):
            with lwmq.Requests(client) as requests, refused:
                requests.submit(b"anybody?").result(60)


def test_too_many_and_what_cannot_be_posted_are_refused(address: str) -> None:
    with pair(address) as (server, client):
        with pytest.raises(ValueError, match="outstanding_max 0"):
            lwmq.Requests(client, outstanding_max=0)
        with pytest.raises(ValueError, match="not of the channel on"):
            lwmq.Requests(client, queue=server.send_queue())
        with lwmq.Requests(client, outstanding_max=3) as requests:
            with pytest.raises(TypeError, match="bytes, not str"):
                requests.submit("x")
            with pytest.raises(lwmq.MessageTooBigError):
                requests.submit(bytes(1 << 20))
            for _ in range(3):
                requests.submit(b"x")
            with pytest.raises(lwmq.LwmqError, match=r"3 requests are outstanding on .* outstanding_max"):
                requests.submit(b"x")
            assert requests.statistics.given_up == 1


def test_a_reply_keeps_the_requests_that_it_belongs_to(address: str) -> None:
    with pair(address) as (server, client):
        reply = lwmq.Requests(client).submit(b"x")
        gc.collect()
        lwmq.Replies(server).receive(60).reply(b"y")
        assert bytes(reply.result(60)) == b"y"
        until(lambda: _request_threads() == 0)  # settled, it keeps them no more


def test_a_second_receiver_beside_requests_is_refused(address: str) -> None:
    with pair(address) as (server, client), lwmq.Selector() as selector:
        refused = pytest.raises(
            lwmq.LwmqError, match=r"a Requests has what comes over .*open a further channel"
        )
        with lwmq.Requests(client) as requests:
            for receive in (
                lambda: lwmq.Requests(client),
                lambda: client.receive(0),
                client.try_receive,
                lambda: client.receive_many(timeout=0),
                lambda: client.receive_bytes(timeout=0),
                lambda: next(iter(client)),
                lambda: client.on_message(print),
                lambda: selector.add(client),
                lambda: asyncio.run(client.receive_async()),
            ):
                with refused:
                    receive()
            reply = requests.submit(b"x")
            lwmq.Replies(server).receive(60).reply(b"y")
            assert bytes(reply.result(60)) == b"y"
        server.send_queue().post(b"ours again")
        assert bytes(client.receive(60)) == b"ours again"
        client.on_message(lambda _: None)
        with pytest.raises(lwmq.LwmqError, match="goes to a call-back: end that"):
            lwmq.Requests(client)
        client.on_message(None)
        selector.add(client)
        with pytest.raises(lwmq.LwmqError, match="goes to a selector: remove it"):
            lwmq.Requests(client)
        selector.remove(client)
        lwmq.Requests(client).close()


def test_who_waits_in_a_receive_hears_that_requests_were_made(address: str) -> None:
    heard: list[BaseException] = []

    def receive(channel: lwmq.Channel) -> None:
        try:
            channel.receive(60)
        except lwmq.LwmqError as exc:
            heard.append(exc)

    with pair(address) as (_, client):
        thread = threading.Thread(target=receive, args=(client,))
        thread.start()
        with lwmq.Requests(client):
            thread.join(60)
        assert len(heard) == 1 and "a Requests has what comes" in str(heard[0])


def test_a_request_that_nobody_can_hear_says_so(ipc: str) -> None:
    with lwmq.Channel(ipc, "server", linger=0) as channel, lwmq.Requests(channel) as requests:
        with pytest.raises(lwmq.TimeoutError, match=r"within 0\.05 s on .*: nobody is connected"):
            requests.request(b"x", timeout=0.05)
        reply = requests.submit(b"x")
        with pytest.raises(lwmq.TimeoutError, match=r"within 0\.05 s: nobody is connected"):
            reply.result(0.05)
        reply.cancel()
        with suppress(lwmq.TimeoutError):
            channel.close(linger=0)


def test_channels_and_requests_close_beside_the_event_loop(ipc: str) -> None:
    async def ask() -> bytes:
        async with lwmq.Channel(ipc, "client") as channel, lwmq.Requests(channel) as requests:
            return bytes(await requests.submit(b"x", timeout=60))

    with lwmq.Channel(ipc, "server", linger=0) as server:
        thread = threading.Thread(target=lwmq.Replies(server).serve, args=(lambda f: bytes(f) * 2,))
        thread.start()
        assert asyncio.run(ask()) == b"xx"
        server.close()
        thread.join(60)


@pytest.mark.parametrize("side", [lwmq.Requests, lwmq.Replies])
def test_what_is_no_channel_is_refused(side: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="takes a channel, not int"):
        side(5)


def test_a_handler_that_ends_its_program_has_answered(address: str) -> None:
    def leave(_: Frames) -> None:
        raise SystemExit("the server goes home")

    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit(b"work")
        with pytest.raises(SystemExit):
            lwmq.Replies(server).serve_one(leave, timeout=60)
        with pytest.raises(lwmq.HandlerError, match="SystemExit: the server goes home"):
            reply.result(60)


def test_a_callback_that_raises_system_exit_ends_no_thread(address: str) -> None:
    with pair(address) as (server, client), _serving(server, lambda _: b"yes"), lwmq.Requests(client) as asks:
        called = threading.Event()
        reply = asks.submit(b"1")
        reply.add_done_callback(lambda _: sys.exit(3))
        reply.add_done_callback(lambda _: called.set())
        assert called.wait(60)
        assert asks.request(b"2", timeout=60) == (b"yes",)
    assert reply.done()


def test_asyncio_wait_is_told_what_it_can_wait_for(address: str) -> None:
    async def ask(requests: lwmq.Requests) -> None:
        replies = [requests.submit(b"1"), requests.submit(b"2")]
        with pytest.raises(TypeError, match=r"asyncio\.wrap_future\(reply\) makes one"):
            await asyncio.wait(replies)  # type: ignore[type-var]
        done, pending = await asyncio.wait([asyncio.wrap_future(reply) for reply in replies], timeout=60)
        assert (len(done), len(pending)) == (2, 0)

    with pair(address) as (server, client), _serving(server, lambda _: b"yes"), lwmq.Requests(client) as asks:
        asyncio.run(ask(asks))


def test_a_signal_handler_looks_at_replies_and_answers_what_is_being_answered(address: str) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        replies = lwmq.Replies(server)
        asked = requests.submit(b"1")
        request = replies.receive(60)
        with replies._lock, request._lock:  # as where the handler has come in between
            assert replies.statistics.received == 1
            request.reply(b"from the handler")
        assert asked.result(60) == (b"from the handler",)
        with pytest.raises(lwmq.LwmqError, match="was answered before"):
            request.reply(b"again")


@pytest.mark.parametrize("timeout", ["1", True + 1j])
def test_what_is_no_time_is_refused_by_name(address: str, timeout: Any) -> None:
    with pair(address) as (server, client), lwmq.Requests(client) as requests:
        reply = requests.submit(b"1")
        for wait_for in (reply.result, lwmq.Replies(server).receive, lwmq.Selector().select):
            with pytest.raises(TypeError, match="a timeout is a number of seconds"):
                wait_for(timeout)
