"""What asyncio awaits of channels: batches, raw buffers, requests and clients, with time-outs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from tests.patience import HANG_S
from tests.python.pairs import pair

RAW = {"raw": True, "buffer_bytes": 4096, "buffers": 2}
Take = Callable[[lwmq.Channel, float | None], Awaitable[list[bytes]]]


async def _messages(channel: lwmq.Channel, timeout: float | None) -> list[bytes]:
    return [bytes(message) for message in await aio.receive_many(channel, 100, timeout)]


async def _bytes(channel: lwmq.Channel, timeout: float | None) -> list[bytes]:
    return await aio.receive_bytes(channel, 100, timeout)


@pytest.mark.parametrize("take", [_messages, _bytes])
@pytest.mark.parametrize("timeout", [None, 10])
def test_many_messages_are_awaited_at_once(address: str, take: Take, timeout: float | None) -> None:
    async def main() -> None:
        with pair(address) as (server, client):
            waiting = asyncio.create_task(take(client, timeout))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            server.send_queue().post_many([b"%d" % n for n in range(250)])
            got = await waiting
            while len(got) < 250:
                some = await take(client, timeout)
                assert 1 <= len(some) <= 100
                got += some
            assert got == [b"%d" % n for n in range(250)]

    asyncio.run(main())


@pytest.mark.parametrize("what", ["receive_many", "receive_bytes", "receive", "receive_buffer"])
def test_a_time_out_is_told_with_its_length(address: str, what: str) -> None:
    async def main() -> None:
        with pair(address, **(RAW if what == "receive_buffer" else {})) as (_, client):
            before = time.monotonic()
            with pytest.raises(lwmq.TimeoutError, match=r"no (message|buffer) within 0\.3 s on "):
                await getattr(aio, what)(client, timeout=0.3)
            assert 0.25 < time.monotonic() - before < HANG_S
            with pytest.raises(lwmq.TimeoutError):
                await getattr(aio, what)(client, timeout=0)
            with pytest.raises(TypeError, match="a timeout is a number of seconds"):
                await getattr(aio, what)(client, timeout="soon")

    asyncio.run(main())


def test_the_limit_of_a_batch_is_checked(address: str) -> None:
    async def main() -> None:
        with pair(address) as (_, client):
            for limit, error in ((0, ValueError), ("many", TypeError)):
                with pytest.raises(error, match="limit"):
                    await aio.receive_many(client, limit)  # type: ignore[arg-type]

    asyncio.run(main())


def test_raw_buffers_pass_between_tasks(address: str) -> None:
    """More of them than there are buffers: who fills waits for who reads, and the event loop for neither."""

    async def fill(channel: lwmq.Channel) -> None:
        for number in range(200):
            with await aio.get_buffer(channel, 60) as buffer:
                text = b"%d" % number
                buffer.data[: len(text)] = text
                buffer.send(len(text))

    async def read(channel: lwmq.Channel) -> list[int]:
        got = []
        for _ in range(200):
            with await aio.receive_buffer(channel) as buffer:
                got.append(int(bytes(buffer.data)))
        return got

    async def main() -> None:
        with pair(address, **RAW) as (server, client):
            _, got = await asyncio.gather(fill(server), read(client))
            assert got == list(range(200))

    asyncio.run(main())


def test_every_task_that_awaits_a_free_buffer_gets_one_in_the_end(address: str) -> None:
    async def send(channel: lwmq.Channel, number: int) -> None:
        with await aio.get_buffer(channel, 60) as buffer:
            buffer.data[0] = number
            buffer.send(1)

    async def main() -> None:
        with pair(address, **RAW) as (server, client):
            sending = [asyncio.create_task(send(server, number)) for number in range(20)]
            got = []
            for _ in range(20):
                await asyncio.sleep(0.01)
                with await aio.receive_buffer(client, 60) as buffer:
                    got.append(buffer.data[0])
            await asyncio.gather(*sending)
            assert sorted(got) == list(range(20))

    asyncio.run(main())


def test_no_buffer_gets_free_within_a_time_out_and_none_is_lost_by_it(address: str) -> None:
    async def main() -> None:
        with pair(address, **RAW) as (server, client):
            sent = 0
            while (held := await _free_or_none(server)) is not None:
                held.send(1)
                sent += 1
            assert sent > 0
            with pytest.raises(lwmq.TimeoutError, match=r"no send buffer got free within 0\.3 s on "):
                await aio.get_buffer(server, 0.3)
            waiting = asyncio.create_task(aio.get_buffer(server))
            await asyncio.sleep(0.3)
            waiting.cancel()
            for _ in range(sent):
                (await aio.receive_buffer(client, 60)).dispose()
            lent = [await aio.get_buffer(server, 60) for _ in range(2)]
            for buffer in lent:
                buffer.abandon()

    asyncio.run(main())


async def _free_or_none(channel: lwmq.Channel) -> Any:
    try:
        return await aio.get_buffer(channel, 0)
    except lwmq.TimeoutError:
        return None


def test_requests_are_awaited_with_a_time_out(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client), lwmq.Requests(client) as requests:
            replies = lwmq.Replies(server)
            with pytest.raises(lwmq.TimeoutError, match=r"no message within 0\.2 s"):
                await aio.receive(replies, 0.2)
            assert replies.try_receive() is None
            client.send_queue().post(b"no request")
            asked = requests.submit(b"7")
            request = await aio.receive(replies, 60)
            request.reply(request.frames)
            assert bytes(await asked) == b"7"
            assert replies.statistics.malformed == 1

    asyncio.run(main())


def test_clients_are_awaited_with_a_time_out(address: str) -> None:
    async def main() -> None:
        with lwmq.Listener(address) as listener:
            with pytest.raises(lwmq.TimeoutError, match=r"no client within 0\.2 s"):
                await aio.accept(listener, 0.2)
            with lwmq.Channel(address, "client", linger=0), await aio.accept(listener, 60) as channel:
                assert channel.peer is not None

    asyncio.run(main())


def test_what_ends_a_conversation_is_raised_to_who_awaits(address: str) -> None:
    async def main() -> None:
        with pair(address) as (server, client):
            waiting = asyncio.create_task(aio.receive_many(client))
            await asyncio.sleep(0.05)
            server.close()
            with pytest.raises(lwmq.ClosedError):
                await waiting

    asyncio.run(main())
