"""asyncio for channels, listeners, readers and writers: functions to await.

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

Messages of a channel and clients of a listener are awaited on the event loop itself, through descriptors:
thousands of channels need no thread. Readers and writers wait on a thread of their own, asleep in the
library; so do waits for a peer, for a flush, for room in a queue or for a free buffer. That thread only
waits; the task takes what has come. So a cancelled `await` loses nothing: the next call gets it, in this
event loop, in another one, or outside of any. One task at a time uses an object, except for `post` and
`get_buffer`.

For many channels, start a task for each, or one task that awaits `Selector.receive_async`, which takes the
channels in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import Waiter, check_timeout, lib, on_a_thread, span
from lwmq_spark.message import Message, parts_of

if TYPE_CHECKING:
    from lwmq_spark.channel.channel import Channel, Peer
    from lwmq_spark.channel.raw import ReceiveBuffer, SendBuffer
    from lwmq_spark.channel.readiness import Readiness

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class _Ready(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def readiness(self) -> Readiness: ...


class _Receiving(_Ready, Protocol[T_co]):
    def try_receive(self) -> T_co | None: ...


class _ReceivingMany(_Ready, Protocol):
    def receive_many(self, limit: int = 256, timeout: float | None = None) -> list[Message]: ...
    def receive_bytes(self, limit: int = 256, timeout: float | None = None) -> list[bytes]: ...


class _Raw(_Ready, Protocol):
    @property
    def waiter(self) -> Waiter: ...
    def get_buffer(self, timeout: float | None = None) -> SendBuffer: ...
    def receive_buffer(self, timeout: float | None = None) -> ReceiveBuffer: ...


class _Accepting(_Ready, Protocol):
    def try_accept(self) -> Channel | None: ...
    def _why_not(self) -> str: ...


class _Reading(Protocol[T_co]):
    async def read_async(self, timeout: float | None = None) -> T_co | None: ...


class _Writing(Protocol):
    @property
    def waiter(self) -> Waiter: ...
    def write(
        self, data: Any, partition: int | None = None, *, key: str | Sequence[str] | None = None
    ) -> Any: ...


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
    def address(self) -> str: ...
    def close(self, linger: float | str | None = None) -> None: ...


async def receive(channel: _Receiving[T], timeout: float | None = None) -> T:
    """The next message of a `Channel`, or request of `Replies`. TimeoutError after `timeout` seconds."""
    return await _first(channel, channel.try_receive, timeout, "message")


async def receive_many(
    channel: _ReceivingMany, limit: int = 256, timeout: float | None = None
) -> list[Message]:
    """`channel.receive_many(limit, timeout)`: the next message and those that have come behind it."""
    return await _first(channel, partial(_at_once, partial(channel.receive_many, limit)), timeout, "message")


async def receive_bytes(
    channel: _ReceivingMany, limit: int = 256, timeout: float | None = None
) -> list[bytes]:
    """`channel.receive_bytes(limit, timeout)`: as `receive_many`, but only the bytes of each message."""
    return await _first(channel, partial(_at_once, partial(channel.receive_bytes, limit)), timeout, "message")


async def receive_buffer(channel: _Raw, timeout: float | None = None) -> ReceiveBuffer:
    """`channel.receive_buffer(timeout)`: the next buffer of a raw channel."""
    return await _first(channel, partial(_at_once, channel.receive_buffer), timeout, "buffer")


async def get_buffer(channel: _Raw, timeout: float | None = None) -> SendBuffer:
    """`channel.get_buffer(timeout)`: a free send buffer of a raw channel. Any number of tasks."""
    check_timeout(timeout)

    def wait_free(seconds: float) -> None:
        channel.get_buffer(seconds).abandon()

    text = f"no send buffer got free within {span(timeout)} on {channel.address}"
    return await channel.waiter.first(partial(channel.get_buffer, 0), "buffer", wait_free, timeout, text)


async def accept(listener: _Accepting, timeout: float | None = None) -> Channel:
    """The channel of the listener's next client. After TimeoutError a later client is not lost."""
    try:
        return await _first(listener, listener.try_accept, timeout, "client")
    except errors.TimeoutError as exc:
        if not timeout:
            raise
        raise errors.TimeoutError(f"{exc}{listener._why_not()}", status=exc.status) from None


async def post(queue: _Posting, frames: Any, *, tag: int = 0, timeout: float | None = None) -> None:
    """`queue.post(frames, tag=tag, timeout=timeout, may_discard=False)` without blocking the event loop.

    Waits for room in a bounded queue, by default without limit. Any number of tasks. After TimeoutError or a
    cancellation nothing was posted.
    """
    check_timeout(timeout)
    message = frames if isinstance(frames, Message) else Message(parts_of(frames, "post"))
    post_now = partial(queue.post, message, tag=tag, may_discard=False)
    try:
        await queue.waiter.first(post_now, "room", queue.wait_room, timeout, "")
    except errors.TimeoutError:
        raise queue._no_room(timeout) from None


async def wait_connected(channel: _Connecting, timeout: float | None = None) -> None:
    """`channel.wait_connected(timeout)` without blocking the event loop."""
    what = f"no peer came to {channel.address} within "
    await _outcome(channel.waiter, "peer", channel.wait_connected, timeout, what)


async def wait_peer(
    channel: _Watching, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
) -> Peer:
    """`channel.wait_peer(known, timeout, transport=transport)` without blocking the event loop."""
    what = f"no peer came to or left {channel.address} within "
    wait = partial(channel.wait_peer, known, transport=transport)
    return await _outcome(channel.watcher, (known, transport), wait, timeout, what)


async def flush(channel: _Connecting, timeout: float | None = None) -> None:
    """`channel.flush(timeout)` without blocking the event loop."""
    what = f"not everything was shipped on {channel.address} within "
    await _outcome(channel.waiter, "flush", channel.flush, timeout, what)


async def read(reader: _Reading[T], timeout: float | None = None) -> T | None:
    """The next batch of `reader`; None at the end of the stream.

    timeout: seconds, overriding the reader's timeout. After TimeoutError the next call gets the batch, in
    this event loop, in another one, or outside of any.
    """
    check_timeout(timeout)
    return await reader.read_async(None if timeout is None else max(0.0, timeout))


async def write(
    writer: _Writing, data: Any, partition: int | None = None, *, key: str | Sequence[str] | None = None
) -> None:
    """`writer.write(data, partition, key=key)` without blocking the event loop while it waits for room.

    A cancellation ends the wait; what was written by then stays written.
    """
    await writer.waiter.run(lambda: writer.write(data, partition, key=key))


async def close(closable: _Closing, linger: float | str | None = None) -> None:
    """`close(linger)` of a reader, writer or channel, without blocking the event loop while it lingers.

    It does not wait behind calls that were given up. When cancelled, the close goes on by itself.
    """
    await on_a_thread(f"lwmq close of {closable.address}", partial(closable.close, linger))


async def _outcome(
    waiter: Waiter, what: object, wait: Callable[[float], T], timeout: float | None, text: str
) -> T:
    """What `wait` returns, at once or on the thread of `waiter`."""
    check_timeout(timeout)
    with suppress(errors.TimeoutError):
        return wait(0.0)
    return await waiter.until(what, wait, timeout, text + span(timeout))


async def _first(of: _Ready, take: Callable[[], T | None], timeout: float | None, what: str) -> T:
    """What `take` finds, as soon as it finds something."""
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
