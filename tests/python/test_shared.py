"""What threads do together with one object: nothing is lost, nothing crashes, and who is late hears so."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from lwmq_spark.observer import Observer
from tests.patience import HANG_S
from tests.python.pairs import pair
from tests.together import together

SCHEMA = pa.schema([("n", pa.int64())])


def writer_of(address: str) -> Callable[[], None]:
    return lwmq.open_writer(address, SCHEMA, role="server").abort


def reader_of(address: str) -> Callable[[], None]:
    reader = lwmq.open_reader(address, role="server")
    return lambda: reader.close(linger=0)


def channel_of(address: str) -> Callable[[], None]:
    channel = lwmq.Channel(address, "server", linger=0)
    channel.send_queue()
    return channel.close


OPENED: dict[str, Callable[[str], Callable[[], None]]] = {
    "listener": lambda address: lwmq.Listener(address).close,
    "channel": channel_of,
    "endpoint": lambda address: Endpoint(address, linger=0).close,
    "selector": lambda _: lwmq.Selector().close,
    "writer": writer_of,
    "reader": reader_of,
}


@pytest.mark.parametrize("kind", OPENED)
def test_threads_that_close_one_object_at_once_close_it_once(address: str, kind: str) -> None:
    for number in range(50):
        close = OPENED[kind](f"{address}-{number}")
        together(*[close] * 4)
        close()


def test_a_queue_that_is_made_while_its_channel_closes_is_refused_or_works(address: str) -> None:
    for number in range(20):
        channel = lwmq.Channel(f"{address}-{number}", "server", linger=0)
        posted = threading.Semaphore(0)

        def post(channel: lwmq.Channel = channel, posted: threading.Semaphore = posted) -> None:
            with pytest.raises(lwmq.ClosedError):
                while True:
                    channel.send_queue().post(b"x" * 60_000)
                    posted.release()

        def close(channel: lwmq.Channel = channel, posted: threading.Semaphore = posted) -> None:
            assert posted.acquire(timeout=HANG_S)
            with suppress(lwmq.TimeoutError):
                channel.close()

        together(post, post, post, close)


def test_threads_that_give_the_frames_of_a_message_timestamps_give_all_of_them() -> None:
    frames = 2000
    for _ in range(5):
        message = lwmq.Message([b"frame %d" % n for n in range(frames)])

        def stamp(first: int, message: lwmq.Message = message) -> None:
            for index in range(first, frames, 4):
                message.set_timestamp(index, 5 + index)
                assert message[index] == b"frame %d" % index

        together(*[lambda first=first, stamp=stamp: stamp(first) for first in range(4)])  # type: ignore[misc]
        assert message.timestamps == [5 + index for index in range(frames)]


def test_threads_share_a_message_that_they_post(address: str) -> None:
    message = lwmq.Message([b"x" * 200] * 50)
    with pair(address) as (server, client):

        def post() -> None:
            queue = client.send_queue(kind="mono_unbounded")
            for number in range(100):
                queue.post(message)
                message.set_timestamp(number % 50, 7)

        def receive() -> None:
            for _ in range(300):
                assert server.receive(timeout=HANG_S).frames == [b"x" * 200] * 50

        together(post, post, post, receive)


def test_threads_share_an_observer(address: str) -> None:
    observer = Observer()
    writers = [lwmq.open_writer(f"{address}-{number}", SCHEMA, role="server") for number in range(20)]

    def look() -> None:
        for _ in range(10):
            (own,) = [process for process in observer.look() if process.pid == os.getpid()]
            assert len({e.address for e in own.entries if e.role == "writer"} & names) == len(writers)

    names = {writer.address for writer in writers}
    together(look, look, look, look)
    for writer in writers:
        writer.abort()


def test_nobody_gets_a_view_of_a_raw_buffer_that_is_sent_meanwhile(address: str) -> None:
    """Whoever has one from before makes `send` refuse; whoever asks later hears that it is too late."""
    with pair(address, raw=True) as (server, client):
        for _ in range(500):
            buffer = client.get_buffer(HANG_S)
            buffer.data[:4] = b"good"

            def write(buffer: Any = buffer) -> None:
                with suppress(lwmq.ClosedError, ValueError):  # it was sent: gone, or its view has ended
                    view = buffer.data
                    while True:
                        view[4:8] = b"late"
                        view = buffer.data

            def send(buffer: Any = buffer) -> None:
                buffer.send(8)

            together(write, send)
            with server.receive_buffer(HANG_S) as came:
                first = bytes(came.data)
                assert first[:4] == b"good"
                assert bytes(came.data) == first


def test_a_forked_child_hears_that_buffers_and_routes_are_not_its_own(address: str) -> None:
    with pair(address, raw=True) as (_, client), lwmq.Channel(f"{address}-2", "server", linger=0) as other:
        buffer, router, queue = client.get_buffer(HANG_S), lwmq.Router(), other.send_queue("multi_unbounded")
        buffer.data[:4] = b"mine"
        inside = threading.Event()
        leave = threading.Event()

        def hold() -> None:  # as a close that lingers does
            with other._handle.lock:
                inside.set()
                leave.wait(HANG_S)

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(HANG_S)
        child = os.fork()
        if child == 0:
            told = 0
            try:
                for call in (lambda: buffer.data, lambda: router.add("a", queue)):
                    with pytest.raises(lwmq.ClosedError, match="forked"):
                        call()
                    told += 1
                router.forget(queue)
            finally:
                os._exit(told)
        leave.set()
        holder.join(HANG_S)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert bytes(buffer.data[:4]) == b"mine"
        buffer.abandon()
