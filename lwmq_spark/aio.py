"""The awaitable face of channels, readers and writers.

    async for batch in lwmq_spark.open_reader("ipc://flights"): ...
    async for message in channel: ...
    message = await aio.receive(channel, timeout=1.0)
    await aio.post(queue, b"cargo", timeout=1.0)
    await aio.wait_connected(channel, timeout=1.0)
    peer = await aio.wait_peer(channel, peer)
    await aio.write(writer, batch)

Messages are awaited on the event loop itself, through descriptors: thousands of channels need no thread.
Readers and writers, and who waits for a peer, a flush or room in a queue, wait on a thread of their own,
asleep in the library. A cancelled `await` does not lose what arrives: the next one gets it. One task at a
time per object, but for posts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import SLICE_S, Waiter, check_timeout, span
from lwmq_spark.message import Message, parts_of

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Peer

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class _Receiving(Protocol):
    @property
    def address(self) -> str: ...
    async def receive_async(self) -> Message: ...
    async def receive_ready_async(self) -> Message | None: ...


class _Reading(Protocol[T_co]):
    async def read_async(self) -> T_co | None: ...


class _Writing(Protocol):
    @property
    def waiter(self) -> Waiter: ...
    def write(self, data: Any, partition: int | None = None) -> Any: ...


class _Connecting(Protocol):
    @property
    def waiter(self) -> Waiter: ...
    @property
    def address(self) -> str: ...
    def wait_connected(self, timeout: float | None = None) -> None: ...
    def flush(self, timeout: float | None = None) -> None: ...


class _Watching(Protocol):
    @property
    def watcher(self) -> Waiter: ...
    @property
    def address(self) -> str: ...
    def wait_peer(
        self, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
    ) -> Peer: ...


class _Posting(Protocol):
    @property
    def waiter(self) -> Waiter: ...
    def post(
        self, frames: Any, *, tag: int = 0, timeout: float | None = 0, may_discard: bool = True
    ) -> None: ...
    def wait_room(self, timeout: float | None = None) -> None: ...
    def _no_room(self, timeout: float | None) -> errors.TimeoutError: ...


class _Closing(Protocol):
    @property
    def waiter(self) -> Waiter: ...
    def close(self) -> None: ...


async def receive(channel: _Receiving, timeout: float | None = None) -> Message:
    """The next message of `channel`. TimeoutError after `timeout` seconds; the message is not lost."""
    if timeout is None:
        return await channel.receive_async()
    check_timeout(timeout)
    if timeout <= 0:
        await asyncio.sleep(0)  # others have the loop, however many messages there are
    if (message := await channel.receive_ready_async()) is not None:
        return message
    return await _within(channel.receive_async(), timeout, f"no message within {{}} on {channel.address}")


async def post(queue: _Posting, frames: Any, *, tag: int = 0, timeout: float | None = None) -> None:
    """`queue.post(frames, tag=tag, timeout=timeout, may_discard=False)`; the event loop goes on meanwhile.

    Waits for room in a bounded queue, for ever by default; any number of tasks may. TimeoutError, or
    cancelled: nothing was posted.
    """
    check_timeout(timeout)
    message = frames if isinstance(frames, Message) else Message(parts_of(frames, "post"))
    end = None if timeout is None else time.monotonic() + timeout
    await asyncio.sleep(0)  # others have the loop, however much room there is
    while True:
        try:
            return queue.post(message, tag=tag, may_discard=False)
        except errors.TimeoutError:
            left = None if end is None else max(0.0, end - time.monotonic())
            if left == 0:
                raise queue._no_room(timeout) from None
        with suppress(errors.TimeoutError):
            await _shared(queue.waiter, "room", queue.wait_room, left, "{}")


async def wait_connected(channel: _Connecting, timeout: float | None = None) -> None:
    """`channel.wait_connected(timeout)`; the event loop goes on meanwhile."""
    what = f"no peer came to {channel.address} within {{}}"
    await _shared(channel.waiter, "peer", channel.wait_connected, timeout, what)


async def wait_peer(
    channel: _Watching, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
) -> Peer:
    """`channel.wait_peer(known, timeout, transport=transport)`; the event loop goes on meanwhile."""
    what = f"no peer came to or left {channel.address} within {{}}"
    wait = partial(channel.wait_peer, known, transport=transport)
    return await _shared(channel.watcher, (known, transport), wait, timeout, what)


async def flush(channel: _Connecting, timeout: float | None = None) -> None:
    """`channel.flush(timeout)`; the event loop goes on meanwhile."""
    what = f"not everything was shipped within {{}} on {channel.address}"
    await _shared(channel.waiter, "flush", channel.flush, timeout, what)


async def read(reader: _Reading[T], timeout: float | None = None) -> T | None:
    """The next batch of `reader`; None at the end of the stream. TimeoutError; the batch is not lost."""
    check_timeout(timeout)
    return await _within(reader.read_async(), timeout, "no batch within {}")


async def write(writer: _Writing, data: Any, partition: int | None = None) -> None:
    """`writer.write(data, partition)`; the event loop goes on while that waits for room."""
    await writer.waiter.run(lambda: writer.write(data, partition))


async def close(closable: _Closing) -> None:
    """`close()` of a reader, writer or channel; the event loop goes on while that lingers."""
    await closable.waiter.run(closable.close)


async def _shared(
    waiter: Waiter, what: object, call: Callable[[float], T], timeout: float | None, text: str
) -> T:
    """`call` waits, a slice at a time, on the waiter's thread: for all tasks that want `what` at once.

    Each has a time-out of its own, and the thread is free soon when nobody waits any more: a close needs it.
    """
    check_timeout(timeout)
    started = time.monotonic()
    try:
        return call(0.0)
    except errors.TimeoutError as exc:
        failure = exc
    while (left := None if timeout is None else timeout - (time.monotonic() - started)) is None or left > 0:
        outcome = waiter.shared(what, partial(call, SLICE_S))
        done, _ = await asyncio.wait({outcome}, timeout=left)
        try:
            if done:
                return outcome.result()
        except errors.TimeoutError as exc:
            failure = exc
    assert timeout is not None
    raise errors.TimeoutError(text.format(span(timeout)), status=failure.status) from None


async def _within(awaitable: Awaitable[T], timeout: float | None, text: str) -> T:
    try:
        return await asyncio.wait_for(awaitable, timeout)
    except TimeoutError as exc:
        if timeout is None or isinstance(exc, errors.LwmqError):
            raise
        raise errors.TimeoutError(text.format(span(timeout))) from None
