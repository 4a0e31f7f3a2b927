"""Tasks that are cancelled at any moment: what they waited for comes to the next one, in order, and once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa

import lwmq_spark as lwmq
from lwmq_spark import aio
from tests.python.pairs import pair

T = TypeVar("T")
SECONDS = 0.8
SCHEMA = pa.schema([("n", pa.int64())])


async def _storm(make: Callable[[], Awaitable[T]]) -> list[T]:
    """What came of `make`, again and again for SECONDS, while most of it is cancelled; at least 20 were."""
    chance = random.Random(7)
    got, cancelled = [], 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or cancelled < 20:
        task = asyncio.ensure_future(make())
        await asyncio.sleep(chance.choice([0, 0, 1e-5, 1e-4, 5e-4]) * chance.random())
        if chance.random() < 0.7:
            task.cancel()
        try:
            got.append(await task)
        except asyncio.CancelledError:
            cancelled += 1
    return got


async def _beside(
    do: Callable[[int], Awaitable[None] | None], make: Callable[[], Awaitable[T]]
) -> tuple[list[T], int]:
    """What a storm of `make` got, while `do` was called with 0, 1, 2...; how often it was."""
    chance, count, done = random.Random(11), 0, False

    async def call() -> None:
        nonlocal count
        while not done:
            for _ in range(chance.randrange(5)):
                if (waits := do(count)) is not None:
                    await waits
                count += 1
            await asyncio.sleep(chance.random() * 0.0005)

    calling = asyncio.create_task(call())
    got = await _storm(make)
    done = True
    while not calling.done():  # it may wait for room, which `make` makes
        with suppress(TimeoutError):
            got.append(await asyncio.wait_for(make(), 0.01))
    await calling
    return got, count


def test_messages(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client):
            queue = server.send_queue()
            got, count = await _beside(lambda n: queue.post(b"%d" % n), client.receive_async)
            while (message := client.try_receive()) is not None:
                got.append(message)
            assert [int(bytes(message)) for message in got] == list(range(count))

    asyncio.run(main())


def test_messages_by_a_thread_of_their_own(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client):
            queue = server.send_queue()
            got, count = await _beside(lambda n: queue.post(b"%d" % n), lambda: aio.receive(client))
            while len(got) < count:
                got.append(await aio.receive(client, timeout=60))
            assert [int(bytes(message)) for message in got] == list(range(count))

    asyncio.run(main())


def test_batches_of_messages(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client):
            queue = server.send_queue()
            some, count = await _beside(lambda n: queue.post(b"%d" % n), lambda: aio.receive_many(client, 3))
            got = [message for batch in some for message in batch]
            while len(got) < count:
                got += await aio.receive_many(client, timeout=60)
            assert [int(bytes(message)) for message in got] == list(range(count))

    asyncio.run(main())


def test_raw_buffers(address: str) -> None:
    async def main() -> None:
        with pair(address, raw=True, buffer_bytes=4096, buffers=4) as (server, client):

            async def send(n: int) -> None:
                buffer = await aio.get_buffer(server, 60)
                buffer.data[:8] = n.to_bytes(8, "little")
                buffer.send(8)

            async def take() -> int:
                with await aio.receive_buffer(client) as buffer:
                    return int.from_bytes(buffer.data, "little")

            got, count = await _beside(send, take)
            while len(got) < count:
                got.append(await asyncio.wait_for(take(), 60))
            assert got == list(range(count))

    asyncio.run(main())


def test_batches(address: str) -> None:
    async def main() -> None:
        writer = lwmq.open_writer(address, SCHEMA, role="server")
        reader = lwmq.open_reader(address, role="client")

        def write(n: int) -> Awaitable[None]:
            return aio.write(writer, pa.record_batch({"n": [n]}))

        got, count = await _beside(write, lambda: aio.read(reader))
        closing = asyncio.create_task(aio.close(writer))
        got += [batch async for batch in reader]
        await closing
        assert [batch["n"][0].as_py() for batch in got if batch is not None] == list(range(count))
        await aio.close(reader)

    asyncio.run(main())


def test_requests(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client), lwmq.Requests(client) as requests:
            replies = lwmq.Replies(server)

            async def answer() -> None:
                while True:
                    request = await replies.receive_async()
                    request.reply(request.frames)

            answering = asyncio.create_task(answer())
            asked = 0

            async def ask() -> bool:
                nonlocal asked
                asked += 1
                said = b"%d" % asked
                return bytes(await requests.submit(said)) == said

            assert all(await _storm(ask))
            assert bytes(await requests.submit(b"last")) == b"last"
            state = requests.statistics
            assert (state.outstanding, state.asked) == (0, state.answered + state.given_up)
            answering.cancel()

    asyncio.run(main())
