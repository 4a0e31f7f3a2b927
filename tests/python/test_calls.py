"""Messages by call-back and by signal."""

from __future__ import annotations

import asyncio
import logging
import queue
import signal
import threading
import time
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel.calls import calls
from tests.python.pairs import pair

pytestmark = pytest.mark.row("K11")


def test_a_call_back_gets_every_message_in_order(address: str) -> None:
    heard: list[bytes] = []
    all_there = threading.Event()

    def hear(message: lwmq.Message) -> None:
        heard.append(bytes(message))
        if len(heard) == 500:
            all_there.set()

    with pair(address) as (server, client):
        server.on_message(hear)
        queue = client.send_queue()
        for number in range(500):
            queue.post(str(number).encode())
        assert all_there.wait(60)
        server.on_message(None)
        queue.post(b"not heard")
        assert bytes(server.receive(60)) == b"not heard"
    assert heard == [str(number).encode() for number in range(500)]


def test_a_call_back_that_raises_is_logged_and_called_again(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    again = threading.Event()

    def hear(message: lwmq.Message) -> None:
        if bytes(message) == b"bad":
            raise ValueError("this one is bad")
        again.set()

    with pair(address) as (server, client), caplog.at_level(logging.ERROR, "lwmq_spark"):
        server.on_message(hear)
        queue = client.send_queue()
        queue.post(b"bad")
        queue.post(b"good")
        assert again.wait(60)
        server.on_message(None)
    assert "this one is bad" in caplog.text and address.split("?")[0] in caplog.text


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_nothing_that_a_call_back_raises_ends_the_calls_of_others(
    address: str, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    heard = threading.Semaphore(0)

    def leave(_: lwmq.Message) -> None:
        heard.release()
        raise kind

    with pair(address) as (bad, client), pair(address + "-2") as (good, other):
        bad.on_message(leave)
        good.on_message(lambda _: heard.release())
        bad_queue, good_queue = client.send_queue(), other.send_queue()
        for queue in (bad_queue, good_queue, bad_queue):
            queue.post(b"x")
            assert heard.acquire(timeout=60)
    assert kind.__name__ in caplog.text


def test_ends_are_called_in_their_place_and_the_next_peer_is_heard(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: queue.SimpleQueue[bytes | lwmq.LwmqError] = queue.SimpleQueue()

    def end(why: lwmq.LwmqError) -> None:
        heard.put(why)
        raise ValueError("this one is bad")

    with lwmq.Channel(address, "server", linger=0) as server, caplog.at_level(logging.ERROR, "lwmq_spark"):
        server.on_message(lambda message: heard.put(bytes(message)), on_end=end)
        for name in (b"first", b"second"):
            with lwmq.Channel(address, "client") as client:
                client.send_queue().post(name)
            assert heard.get(timeout=60) == name
            assert isinstance(heard.get(timeout=60), lwmq.ClosedError)
        server.on_message(None)
    assert heard.empty()
    assert caplog.text.count("the call-back for the end of") == 2


def test_the_loss_of_a_peer_may_close_the_channel(ipc: str, spawn: Any) -> None:
    lost = threading.Event()
    server = lwmq.Channel(ipc, "server", linger=0)

    def end(why: lwmq.LwmqError) -> None:
        server.close()
        if isinstance(why, lwmq.PeerLostError):
            lost.set()

    server.on_message(lambda message: None, on_end=end)
    client = spawn(
        """
        channel = lwmq.Channel(sys.argv[1], "client")
        channel.wait_connected(60)
        print("connected")
        sys.stdin.readline()
        """,
        ipc,
    )
    assert client.line() == "connected"
    client.kill()
    assert lost.wait(60)
    assert server.closed


def test_call_backs_are_refused_where_they_cannot_be(address: str) -> None:
    with lwmq.Channel(address, raw=True, linger=0) as channel:
        with pytest.raises(lwmq.LwmqError, match="has buffers, not messages: call receive_buffer"):
            channel.on_message(print)
        with pytest.raises(TypeError, match="takes a function of one message, or None, not int"):
            channel.on_message(5)  # type: ignore[arg-type]
    assert channel not in calls._callbacks


def test_a_failure_that_lasts_is_said_once_and_leaves_others_alone(
    ipc: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard = threading.Semaphore(0)
    with lwmq.Channel("ipc:///proc/lwmq-x", linger=0) as lost, pair(ipc) as (server, client):
        lost.on_message(print)
        server.on_message(lambda _: heard.release())
        queue = client.send_queue()
        deadline = time.monotonic() + 60
        while "bind(/proc/lwmq-x)" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for _ in range(100):
            queue.post(b"x")
            assert heard.acquire(timeout=60)
    assert caplog.text.count("bind(/proc/lwmq-x)") == 1


def test_a_call_back_may_answer_and_end_its_own_calls(address: str) -> None:
    with pair(address) as (server, client):
        replies = server.send_queue()

        def answer(message: lwmq.Message) -> None:
            replies.post(b"re:" + bytes(message))
            server.on_message(None)

        server.on_message(answer)
        queue = client.send_queue()
        queue.post(b"one")
        assert bytes(client.receive(60)) == b"re:one"
        queue.post(b"two")
        assert bytes(server.receive(60)) == b"two"


def test_a_channel_that_closes_is_called_no_more_and_others_go_on(address: str) -> None:
    heard = threading.Event()
    with pair(address) as (server, _):
        server.on_message(lambda _: None)
    assert server not in calls._callbacks, "a closed channel is kept"
    with pair(address + "-2") as (server, client):
        server.on_message(lambda _: heard.set())
        client.send_queue().post(b"x")
        assert heard.wait(60)
        server.on_message(None)


def test_a_real_time_signal_says_that_there_is_something(address: str) -> None:
    number = signal.SIGRTMIN + 4
    woken = threading.Event()
    before = signal.signal(number, lambda *_: woken.set())
    try:
        with pair(address) as (server, client):
            server.signal_on_message(number)
            queue = client.send_queue()
            for text in (b"one", b"two"):
                while server.try_receive() is not None:
                    pass
                woken.clear()
                queue.post(text)
                deadline = time.monotonic() + 60
                while not woken.is_set() and time.monotonic() < deadline:
                    time.sleep(0.001)
                assert woken.is_set()
                assert bytes(server.receive(60)) == text
            server.signal_on_message(0)
            with pytest.raises(lwmq.LwmqError, match="signal 15 is no real-time signal"):
                server.signal_on_message(signal.SIGTERM)
    finally:
        signal.signal(number, before)
