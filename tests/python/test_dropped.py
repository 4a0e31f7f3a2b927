"""What nobody holds any more is closed with the last reference, as a file is, and not by the collector."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def channel(address: str) -> lwmq.Channel:
    return lwmq.Channel(address, "server")


def channel_with_queues(address: str) -> lwmq.Channel:
    made = channel(address)
    made.send_queue()
    made.send_queue("bounded_discard_oldest", capacity=3)
    made.set_weights([1, 1, 1, 1, 1])
    return made


def channel_that_has_posted(address: str) -> lwmq.Channel:
    made = channel(address)
    with lwmq.Channel(address, "client") as peer:
        queue, answers = made.send_queue(), peer.send_queue()
        queue.post(b"one")
        queue.post_many([b"two", [b"three", b"four"]])
        assert queue.statistics.posted == 3
        assert [bytes(peer.receive(HANG_S)) for _ in range(3)] == [b"one", b"two", b"threefour"]
        answers.post(b"five")
        assert bytes(made.receive(HANG_S)) == b"five"
        assert made.try_receive() is None
        made.flush(HANG_S)
    return made


def channel_that_was_awaited(address: str) -> lwmq.Channel:
    made = channel(address)

    async def await_one() -> bytes:
        peer = lwmq.Channel(address, "client")
        waiting = asyncio.ensure_future(made.receive_async())
        await asyncio.sleep(0.01)
        peer.send_queue().post(b"one")
        got = bytes(await waiting)
        await peer.__aexit__(None, None, None)
        return got

    assert asyncio.run(await_one()) == b"one"
    return made


def channel_with_replies(address: str) -> lwmq.Channel:
    made = channel(address)
    replies = lwmq.Replies(made)
    assert replies.try_receive() is None
    return made


def raw_channel(address: str) -> lwmq.Channel:
    made = lwmq.Channel(address, "server", raw=True)
    with lwmq.Channel(address, "client", raw=True):
        buffer = made.get_buffer(HANG_S)
        buffer.data[:3] = b"abc"
        buffer.send(3)
    return made


def listener(address: str) -> lwmq.Listener:
    made = lwmq.Listener(address)
    assert made.try_accept() is None
    made.fileno()
    return made


def writer(address: str) -> Any:
    made = lwmq.open_writer(address, SCHEMA, role="server")
    made.write(pa.record_batch({"n": [1, 2]}, schema=SCHEMA))
    return made


def reader(address: str) -> Any:
    return lwmq.open_reader(address, role="server")


def endpoint(address: str) -> Endpoint:
    return Endpoint(address)


MAKERS = [
    *(channel, channel_with_queues, channel_that_has_posted, channel_that_was_awaited, channel_with_replies),
    *(raw_channel, listener, writer, reader, endpoint),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_address_is_free_when_nobody_holds_what_had_it(make: Callable[[str], Any], ipc: str) -> None:
    made = make(ipc)
    known = weakref.ref(made)
    with pytest.raises(lwmq.AddressError):
        lwmq.Listener(ipc)
    del made
    assert known() is None
    lwmq.Listener(ipc).close()


def test_a_send_queue_holds_its_channel(ipc: str) -> None:
    with lwmq.Channel(ipc, "client", linger=0) as peer:
        queue = lwmq.Channel(ipc, "server").send_queue()
        queue.post(b"one")
        assert bytes(peer.receive(HANG_S)) == b"one"
        known = weakref.ref(queue._channel)
        peer.try_receive()
        queue._channel.flush(HANG_S)
        del queue
        assert known() is None
        with pytest.raises(lwmq.LwmqError):
            peer.receive(HANG_S)


def test_of_a_queue_that_nobody_holds_the_messages_leave_and_are_counted(ipc: str) -> None:
    with lwmq.Channel(ipc, "server") as channel, lwmq.Channel(ipc, "client") as peer:
        for n in range(3):
            channel.send_queue("multi_unbounded").post(b"%d" % n)
        assert sorted(bytes(peer.receive(HANG_S)) for _ in range(3)) == [b"0", b"1", b"2"]
        assert channel.statistics.messages_posted == 3


def test_requests_and_a_selector_hold_their_channels_and_nothing_holds_them(ipc: str) -> None:
    channel = lwmq.Channel(ipc, "server", linger=0)
    requests = lwmq.Requests(channel)
    of_requests, of_channel = weakref.ref(requests), weakref.ref(channel)
    del channel
    assert of_channel() is not None
    del requests
    assert of_requests() is None
    end = time.monotonic() + HANG_S
    while of_channel() is not None:  # its thread lets go
        assert time.monotonic() < end
        time.sleep(0.01)

    selector = lwmq.Selector()
    channel, listener = lwmq.Channel(ipc, "server"), lwmq.Listener(f"{ipc}-many")
    selector.add(channel)
    selector.add(listener)
    selector.fileno()
    known = [weakref.ref(each) for each in (selector, channel, listener)]
    del channel, listener
    assert all(each() is not None for each in known)
    del selector
    assert [each() for each in known] == [None, None, None]


def test_descriptors_go_with_what_had_them(ipc: str) -> None:
    a, b = socket.socketpair()
    first = a.fileno()
    a.close(), b.close()
    for _ in range(50):
        made = channel_that_was_awaited(ipc)
        del made
    a, b = socket.socketpair()
    assert a.fileno() <= first + 8  # not one for each
    a.close(), b.close()


def test_a_channel_that_another_thread_drops_is_closed_there(ipc: str) -> None:
    held = [lwmq.Channel(ipc, "server")]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join(HANG_S)
    lwmq.Channel(ipc, "server").close()
