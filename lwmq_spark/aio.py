"""Channels, readers and writers in asyncio, with time-outs.

    async for batch in lwmq_spark.open_reader("ipc://flights"): ...
    async for message in channel: ...
    message = await aio.receive(channel, timeout=1.0)     # or the next request of `Replies`
    messages = await aio.receive_many(channel, 256)
    buffer = await aio.receive_buffer(raw_channel)
    client = await aio.accept(listener, timeout=1.0)
    await aio.post(queue, b"cargo", timeout=1.0)
    await aio.wait_connected(channel, timeout=1.0)
    peer = await aio.wait_peer(channel, peer)
    await aio.write(writer, batch)

Messages of channels and clients of listeners are awaited on the event loop itself, through descriptors, so
that thousands of channels need no thread. Tasks that wait for a batch, a peer, a flush, room in a queue or a
free buffer share a thread per object, asleep in the library. That thread only waits. The task takes what has
come, so a cancelled `await` loses nothing: the next call gets it, in this loop, in another one, or without.
Every time-out is in seconds and None is no limit. One task at a time uses an object, but any number may post.

Many channels are served by a task for each, or by one task that awaits `Selector.receive_async`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from lwmq_spark import errors
from lwmq_spark._ffi import lib
from lwmq_spark._waiting import Waiter, check_timeout, on_a_thread, span
from lwmq_spark.message import Message, parts_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lwmq_spark.arrow import Endpoint, StreamReader, StreamWriter
    from lwmq_spark.channel import (
        Channel,
        Listener,
        Peer,
        ReceiveBuffer,
        Replies,
        Request,
        SendBuffer,
        SendQueue,
    )

T = TypeVar("T")


@overload
async def receive(channel: Channel, timeout: float | None = None) -> Message: ...
@overload
async def receive(channel: Replies, timeout: float | None = None) -> Request: ...
async def receive(channel: Channel | Replies, timeout: float | None = None) -> Message | Request:
    """Await the next message of a `Channel`, or the next request of `Replies`. TimeoutError."""
    take: Callable[[], Message | Request | None] = channel.try_receive
    return await _first(channel, take, timeout, "message")


async def receive_many(channel: Channel, limit: int = 256, timeout: float | None = None) -> list[Message]:
    """Await the next message, and return it with what has come behind it; see `Channel.receive_many`."""
    return await _first(channel, partial(_at_once, partial(channel.receive_many, limit)), timeout, "message")


async def receive_bytes(channel: Channel, limit: int = 256, timeout: float | None = None) -> list[bytes]:
    """The same, with each message as one bytes object; see `Channel.receive_bytes`."""
    return await _first(channel, partial(_at_once, partial(channel.receive_bytes, limit)), timeout, "message")


async def receive_buffer(channel: Channel, timeout: float | None = None) -> ReceiveBuffer:
    """Await the next buffer of a raw channel; see `Channel.receive_buffer`."""
    return await _first(channel, partial(_at_once, channel.receive_buffer), timeout, "buffer")


async def get_buffer(channel: Channel, timeout: float | None = None) -> SendBuffer:
    """Await a free send buffer of a raw channel; see `Channel.get_buffer`. Any number of tasks may wait."""
    check_timeout(timeout)

    def wait_free(seconds: float) -> None:
        channel.get_buffer(seconds).abandon()

    text = f"no send buffer got free within {span(timeout)} on {channel.address}"
    return await channel.waiter.first(partial(channel.get_buffer, 0), "buffer", wait_free, timeout, text)


async def accept(listener: Listener, timeout: float | None = None) -> Channel:
    """Await the next client of `listener`, and return its channel. TimeoutError: no client is lost."""
    try:
        return await _first(listener, listener.try_accept, timeout, "client")
    except errors.TimeoutError as exc:
        if not timeout:
            raise
        raise errors.TimeoutError(f"{exc}{listener._why_not()}", status=exc.status) from None


async def post(queue: SendQueue, frames: Any, *, tag: int = 0, timeout: float | None = None) -> None:
    """Post a message, and await room for it in a bounded queue; see `SendQueue.post`.

    Nothing is discarded. Any number of tasks may wait. TimeoutError, or cancelled: nothing was posted.
    """
    check_timeout(timeout)
    message = frames if isinstance(frames, Message) else Message(parts_of(frames, "post"))
    post_now = partial(queue.post, message, tag=tag, may_discard=False)
    try:
        await queue.waiter.first(post_now, "room", queue.wait_room, timeout, "")
    except errors.TimeoutError:
        raise queue._no_room(timeout) from None


async def wait_connected(channel: Channel, timeout: float | None = None) -> None:
    """Await a peer; see `Channel.wait_connected`. TimeoutError."""
    what = f"no peer came to {channel.address} within "
    await _outcome(channel.waiter, "peer", channel.wait_connected, timeout, what)


async def wait_peer(
    channel: Channel, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
) -> Peer:
    """Await a peer that comes or goes; see `Channel.wait_peer`. TimeoutError."""
    what = f"no peer came to or left {channel.address} within "
    wait = partial(channel.wait_peer, known, transport=transport)
    return await _outcome(channel.watcher, (known, transport), wait, timeout, what)


async def flush(channel: Channel, timeout: float | None = None) -> None:
    """Await that everything posted was shipped; see `Channel.flush`. TimeoutError."""
    what = f"not everything was shipped on {channel.address} within "
    await _outcome(channel.waiter, "flush", channel.flush, timeout, what)


async def read(reader: StreamReader, timeout: float | None = None) -> pa.RecordBatch | None:
    """Await the next batch of `reader`; None at the end of the stream.

    timeout: in place of the reader's; None keeps that. TimeoutError: the next call gets the batch.
    """
    check_timeout(timeout)
    return await reader.read_async(None if timeout is None else max(0.0, timeout))


async def write(
    writer: StreamWriter,
    data: Any,
    partition: int | None = None,
    *,
    key: str | Sequence[str] | None = None,
) -> None:
    """Write `data`, and await room for it; see `StreamWriter.write`.

    A task that is cancelled waits no more. What was written by then stays written.
    """
    await writer.waiter.run(lambda: writer.write(data, partition, key=key))


async def close(
    closable: Channel | StreamReader | StreamWriter | Endpoint, linger: float | str | None = None
) -> None:
    """Close a reader, writer or channel, and await its linger.

    A close waits for no call that was given up before. If the task is cancelled, the close goes on.
    """
    await on_a_thread(f"lwmq close of {closable.address}", partial(closable.close, linger))


async def _outcome(
    waiter: Waiter, what: object, wait: Callable[[float], T], timeout: float | None, text: str
) -> T:
    """The result of `wait`, which is tried at once, and then made on the thread of `waiter`."""
    check_timeout(timeout)
    with suppress(errors.TimeoutError):
        return wait(0.0)
    return await waiter.until(what, wait, timeout, text + span(timeout))


async def _first(
    of: Channel | Listener | Replies, take: Callable[[], T | None], timeout: float | None, what: str
) -> T:
    """What `take` returns once that is not None. TimeoutError names `what`."""
    if timeout is None:
        return await of.readiness.first(take)
    check_timeout(timeout)
    if timeout <= 0:
        await asyncio.sleep(0)  # others have the loop, however much there is
    await of.readiness.breathe()
    if (found := take()) is not None:
        return found
    try:
        async with asyncio.timeout(timeout):
            return await of.readiness.first(take)
    except TimeoutError as exc:
        if isinstance(exc, errors.LwmqError):
            raise
        text = f"no {what} within {span(timeout)} on {of.address}"
        raise errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT) from None


def _at_once(receive: Callable[[float], T]) -> T | None:
    try:
        return receive(0)
    except errors.TimeoutError:
        return None
