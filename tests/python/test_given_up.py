"""What tasks have given up: what comes for them belongs to the next one, and nothing waits behind them.

No time is asserted but with a bound that only a hang passes.
"""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from tests.python.pairs import pair

SCHEMA = pa.schema([("n", pa.int64())])
HANGS_S = 20.0  # 150 given-up waits cost longer where one waits behind another


@pytest.fixture
def stream(address: str) -> Iterator[tuple[lwmq.StreamWriter, lwmq.StreamReader]]:
    writer = lwmq.open_writer(address, SCHEMA, role="server", linger=0)
    reader = lwmq.open_reader(address, role="client")
    yield writer, reader
    reader.close(linger=0)
    with suppress(lwmq.LwmqError):
        writer.close(linger=0)


def _write(writer: lwmq.StreamWriter, *numbers: int) -> None:
    for number in numbers:
        writer.write(pa.record_batch({"n": [number]}))


def _number(batch: pa.RecordBatch | None) -> int | None:
    return None if batch is None else int(batch["n"][0].as_py())


async def _give_up(awaited: Awaitable[object]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(awaited, 0.05)


def test_batches_behind_a_read_that_timed_out_come_in_the_next_loop_and_without_one(stream: Any) -> None:
    writer, reader = stream
    with pytest.raises(lwmq.TimeoutError, match=r"no batch within 0\.3 s on .*, after 0 batches"):
        asyncio.run(aio.read(reader, 0.3))
    _write(writer, 0, 1, 2, 3)
    assert _number(asyncio.run(aio.read(reader, 10))) == 0
    assert _number(reader.read_next_batch(60)) == 1
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(aio.read(reader), 0))
    assert _number(asyncio.run(aio.read(reader, 10))) == 2
    assert _number(reader.read_next_batch(60)) == 3


def test_each_batch_comes_once_however_many_loops_have_given_up_before_it(stream: Any) -> None:
    writer, reader = stream
    got: list[int | None] = []
    for number in range(20):
        with suppress(TimeoutError):
            asyncio.run(asyncio.wait_for(aio.read(reader), 0.01 * (number % 3)))
        _write(writer, number)
        how = number % 3
        if how == 0:
            got.append(_number(reader.read_next_batch(60)))
        elif how == 1:
            got.append(_number(asyncio.run(aio.read(reader, 10))))
        else:
            got.append(_number(asyncio.run(anext(aiter(reader)))))
    assert got == list(range(20))


def test_a_batch_that_came_for_a_task_that_had_gone_is_left_to_others_by_a_close(ipc: str) -> None:
    with lwmq.open_writer(ipc, SCHEMA, role="server", linger=0) as writer:
        first = lwmq.open_reader(ipc, role="client", name="one")
        with pytest.raises(lwmq.TimeoutError):
            asyncio.run(aio.read(first, 0.05))
        _write(writer, 7)
        time.sleep(0.05)
        first.close()
        with lwmq.open_reader(ipc, role="client", name="one") as second:
            assert _number(second.read_next_batch(60)) == 7


def test_the_end_of_a_stream_comes_behind_a_read_that_was_given_up(stream: Any) -> None:
    writer, reader = stream
    with pytest.raises(lwmq.TimeoutError):
        asyncio.run(aio.read(reader, 0.05))
    _write(writer, 1)
    with suppress(lwmq.TimeoutError):
        writer.close(linger=0)
    assert [_number(batch) for batch in reader] == [1]
    assert asyncio.run(aio.read(reader, 10)) is None


Take = Callable[[lwmq.Channel], Awaitable[Any]]


@pytest.mark.parametrize("what", ["receive", "receive_many", "receive_bytes"])
def test_messages_behind_a_receive_that_was_given_up_come_in_the_next_loop(address: str, what: str) -> None:
    with pair(address) as (server, client):
        queue = server.send_queue()
        got = []
        for number in range(6):
            asyncio.run(_give_up(getattr(aio, what)(client)))
            queue.post(b"%d" % number)
            if number % 2:
                got.append(bytes(client.receive(60)))
            else:
                some = asyncio.run(getattr(aio, what)(client, timeout=60))
                got += [bytes(one) for one in (some if isinstance(some, list) else [some])]
        assert got == [b"%d" % number for number in range(6)]


def test_clients_requests_and_buffers_behind_what_was_given_up_come_in_the_next_loop(address: str) -> None:
    with lwmq.Listener(address) as listener:
        asyncio.run(_give_up(aio.accept(listener)))
        with (
            lwmq.Channel(address, "client", linger=0) as client,
            asyncio.run(aio.accept(listener, 60)) as server,
        ):
            replies = lwmq.Replies(server)
            asyncio.run(_give_up(aio.receive(replies)))
            with lwmq.Requests(client) as requests:
                asked = requests.submit(b"7")
                request = asyncio.run(aio.receive(replies, 60))
                request.reply(request.frames)
                assert bytes(asked.result(60)) == b"7"


def test_buffers_behind_what_was_given_up_come_in_the_next_loop(address: str) -> None:
    with pair(address, raw=True, buffer_bytes=4096, buffers=2) as (server, client):
        asyncio.run(_give_up(aio.receive_buffer(client)))
        for number in range(6):
            if number >= 2:  # both are under way
                with pytest.raises(lwmq.TimeoutError):
                    asyncio.run(aio.get_buffer(server, 0.02))
                with asyncio.run(aio.receive_buffer(client, 60)) as got:
                    assert got.data[0] == number - 2
            buffer = asyncio.run(aio.get_buffer(server, 60))
            buffer.data[0] = number
            buffer.send(1)
        for number in (4, 5):
            with client.receive_buffer(60) as got:
                assert got.data[0] == number


def test_a_reader_closes_behind_a_read_that_timed_out(stream: Any) -> None:
    _, reader = stream
    with pytest.raises(lwmq.TimeoutError):
        asyncio.run(aio.read(reader, 0.05))

    async def main() -> None:
        await _give_up(aio.read(reader))
        await asyncio.wait_for(aio.close(reader), HANGS_S)

    asyncio.run(main())
    assert reader.closed


def test_a_writer_closes_within_its_linger_behind_a_write_that_was_given_up(ipc: str) -> None:
    big = pa.record_batch({"n": list(range(60_000))})

    async def main(writer: lwmq.StreamWriter) -> None:
        written = 0
        with pytest.raises(TimeoutError):
            while True:
                await asyncio.wait_for(aio.write(writer, big), 0.2)
                written += 1
        await _give_up(aio.write(writer, big))
        before = time.monotonic()
        with pytest.raises(lwmq.TimeoutError, match=f"{written} batches"):
            await aio.close(writer, linger=0.3)
        assert time.monotonic() - before < HANGS_S

    asyncio.run(main(lwmq.open_writer(ipc, SCHEMA, role="server", window_bytes="2MiB")))


def test_a_write_that_was_given_up_is_not_written_when_there_is_room_again(ipc: str) -> None:
    """So what is written next stands behind what was written before it."""
    size = 60_000

    def batch(number: int) -> pa.RecordBatch:
        return pa.record_batch({"n": [number] * size})

    writer = lwmq.open_writer(ipc, SCHEMA, role="server", window_bytes="2MiB", buffer_bytes="1MiB")
    reader = lwmq.open_reader(ipc, role="client")

    async def fill() -> int:
        number = 0
        with pytest.raises(TimeoutError):
            while True:
                await asyncio.wait_for(aio.write(writer, batch(number)), 0.3)
                number += 1
        return number

    written = asyncio.run(fill())
    got = [_number(reader.read_next_batch(60)) for _ in range(written)]
    reader.consume()

    async def rest() -> list[int | None]:
        await asyncio.wait_for(aio.write(writer, batch(100)), 60)
        closing = asyncio.create_task(aio.close(writer))
        some = [_number(one) async for one in reader]
        await closing
        return some

    assert got + asyncio.run(rest()) == [*range(written), 100]
    reader.close()


WAITS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "wait_connected": aio.wait_connected,
    "wait_peer": aio.wait_peer,
    "flush": aio.flush,
    "get_buffer": aio.get_buffer,
}


@pytest.mark.parametrize("what", WAITS)
def test_a_channel_closes_at_once_behind_many_waits_that_were_given_up(ipc: str, what: str) -> None:
    channel = lwmq.Channel(ipc, "server", linger=0, raw=what == "get_buffer")
    if what == "flush":
        channel.send_queue().post(b"nobody is there")
    for _ in range(150):
        asyncio.run(_give_up_soon(WAITS[what](channel)))

    async def main() -> None:
        async with asyncio.timeout(HANGS_S):
            with suppress(lwmq.TimeoutError):
                await aio.close(channel)

    asyncio.run(main())
    assert channel.closed


async def _give_up_soon(awaited: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(awaited, 0.005)


def test_waits_that_were_given_up_leave_nothing_behind(address: str) -> None:
    with pair(address) as (_, client):
        for _ in range(30):
            asyncio.run(_give_up_soon(aio.wait_peer(client, client.peer)))
            asyncio.run(_give_up_soon(aio.receive(client)))
        end = time.monotonic() + 60
        while client.watcher._rota._waits and time.monotonic() < end:
            time.sleep(0.01)
        assert not client.watcher._rota._waits
        kept = weakref.ref(client)
    del client, _
    end = time.monotonic() + 60
    while kept() is not None and time.monotonic() < end:  # its threads may be about to let go of it
        gc.collect()
        time.sleep(0.01)
    assert kept() is None


def test_a_loop_that_is_closed_in_the_middle_leaves_its_waits_to_nobody(stream: Any) -> None:
    writer, reader = stream
    loop = asyncio.new_event_loop()
    task = loop.create_task(aio.read(reader))
    loop.run_until_complete(asyncio.sleep(0.05))
    assert not task.done()
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    end = time.monotonic() + 60
    while reader.waiter._rota._waits and time.monotonic() < end:
        time.sleep(0.01)
    assert not reader.waiter._rota._waits
    _write(writer, 5)
    assert _number(asyncio.run(aio.read(reader, 10))) == 5


def test_tasks_that_await_different_things_of_one_channel_all_hear_of_theirs(address: str) -> None:
    async def main() -> None:
        with lwmq.Channel(address, "server", linger=0) as server:
            waiting = [
                asyncio.create_task(aio.wait_connected(server, 60)),
                asyncio.create_task(aio.wait_peer(server, timeout=60)),
                asyncio.create_task(aio.wait_connected(server)),
            ]
            await asyncio.sleep(0.05)
            waiting.pop().cancel()
            with lwmq.Channel(address, "client", linger=0):
                await asyncio.gather(*waiting)
                assert server.peer is not None

    asyncio.run(main())


def test_tasks_of_two_loops_share_a_wait(address: str) -> None:
    with lwmq.Channel(address, "server", linger=0) as server:

        async def main() -> None:
            other = asyncio.create_task(asyncio.to_thread(asyncio.run, aio.wait_connected(server, 60)))
            mine = asyncio.create_task(aio.wait_connected(server, 60))
            await asyncio.sleep(0.05)
            with lwmq.Channel(address, "client", linger=0):
                await asyncio.gather(mine, other)

        asyncio.run(main())
