"""One address, many clients: each that comes is given a channel of its own.

    with lwmq_spark.Listener("ipc://orders") as listener:
        for channel in listener:
            threading.Thread(target=serve, args=(channel,)).start()

Or all of them by one thread, in turns:

    with lwmq_spark.Listener("ipc://orders") as listener, lwmq_spark.Selector() as selector:
        queues = {}
        selector.add(listener, on_client=lambda channel: queues.update({channel: channel.send_queue()}))
        while True:
            try:
                channel, message = selector.receive()
                queues[channel].post(answer(message))
            except lwmq_spark.ClosedError as end:  # of one client, by its receive or by our post
                if end.channel is not None:
                    del queues[end.channel]

Or on an event loop: `async for channel in listener`. Clients are ordinary channels.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lwmq_spark import errors
from lwmq_spark._ffi import CallCount, Handle, OfOneProcess, check, ffi, fields_of, lib, sized, span, wait
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.readiness import Readiness
from lwmq_spark.channel.settings import ReceiveKind, read_settings
from lwmq_spark.options import LISTENER, parse_address, spelled

if TYPE_CHECKING:
    from lwmq_spark.channel.selector import Selector


@dataclass(frozen=True, slots=True)
class ListenerStatistics:
    """`waiting`: connected and not accepted, now.

    `refused`: attempts, of another version, purpose or user, with numbers that do not fit ours, or for want
    of descriptors or memory here; `refusal` says why the last of them was.
    """

    accepted: int
    waiting: int
    refused: int
    refusal: str


class Listener(OfOneProcess):
    """Takes every client that connects to an address. Any threads accept; `with` closes it."""

    @spelled
    def __init__(
        self,
        address: str,
        *,
        buffer_bytes: int | str | None = None,
        buffers: int | tuple[int, int] | None = None,
        raw: bool | None = None,
        secure_erase: bool | None = None,
        home_thread: bool | None = None,
        linger: float | str | None = None,
        receive_queue: ReceiveKind = "mono_unbounded",
        receive_capacity: int | None = None,
    ) -> None:
        """Binds `address`; does not wait for clients. The rest is as of `Channel`, for each that it gives.

        home_thread: that of the thread which accepts. Filters of the address are one list for all channels.
        Each transport of a client is a client here: one with redundant transports would be heard twice.
        AddressError: malformed, no such scheme, an option that channels do not have, or bound by somebody
        else. TypeError, ValueError: an argument that is none.
        """
        self._settings = read_settings(
            parse_address(address, LISTENER),
            buffer_bytes=buffer_bytes,
            buffers=buffers,
            raw=raw,
            secure_erase=secure_erase,
            home_thread=home_thread,
            linger=linger,
            receive_queue=receive_queue,
            receive_capacity=receive_capacity,
        )
        out = ffi.new("lwmq_listener **")
        check(lib.lwmq_listener_open(self._settings.address.encode(), self._settings.options, out))
        bound = ffi.new("const char **")
        check(lib.lwmq_listener_address(out[0], bound))
        self._address = ffi.string(bound[0]).decode()
        self._handle = Handle(out[0], lib.lwmq_listener_destroy, f"listener on {self.address}")
        self._accepting = CallCount()
        self._refused_told = 0
        self.readiness = Readiness(self)
        self._selectors: tuple[weakref.ref[Selector], ...] = ()  # which we leave when we are closed
        self._last: ListenerStatistics | None = None  # behind our close

    def accept(self, timeout: float | None = None) -> Channel:
        """The channel of the next client; waits at most `timeout` seconds, None without limit.

        It is for that client alone: what the client has left can be received when it has gone, then comes
        ClosedError, or PeerLostError, and from then on, as for posts at once, ClosedError. It lives on when
        the listener is closed. What a client sends before it is accepted waits; 128 clients wait so, and
        perhaps 64 more, others in their attempts to connect. TimeoutError, ClosedError.
        """
        out = ffi.new("lwmq_channel **")
        try:
            status = wait(
                self._handle,
                lambda ms: lib.lwmq_listener_accept(self._handle.pointer, ms, out),
                timeout,
                lock=self._accepting,
            )
            if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY):
                text = f"no client came to {self.address} within {span(timeout)}"
                raise errors.TimeoutError(text + (self._why_not() if timeout else ""), status=status)
            check(status)
            return Channel._accepted(out, self._settings)
        finally:
            if out[0] != ffi.NULL:  # a signal's handler came between
                lib.lwmq_channel_destroy(out[0])

    def _why_not(self) -> str:
        """Of those who were refused since this was asked last."""
        state = self.statistics
        news, self._refused_told = state.refused - self._refused_told, state.refused
        return f"; {news} were refused, the last because: {state.refusal}" if news > 0 else ""

    def try_accept(self) -> Channel | None:
        """The channel of a client that is there. Never waits."""
        try:
            return self.accept(0)
        except errors.TimeoutError:
            return None

    def __iter__(self) -> Iterator[Channel]:
        """Channels as clients come, until the listener is closed."""
        while True:
            try:
                channel = self.accept()
            except errors.ClosedError:
                return
            yield channel
            del channel  # held no longer than the caller does

    async def accept_async(self) -> Channel:
        """Await the next client, on the event loop itself. A task that is cancelled loses none.

        `lwmq_spark.aio.accept` does so with a time-out.
        """
        return await self.readiness.first(self.try_accept)

    async def __aiter__(self) -> AsyncIterator[Channel]:
        """As `for`, in asyncio."""
        while True:
            try:
                channel = await self.accept_async()
            except errors.ClosedError:
                return
            yield channel
            del channel

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops: readable while a client waits.

        Lent until close; not to be read from.
        """
        out = ffi.new("int32_t *")
        self._handle.check_open()
        with self._accepting:
            self._handle.check_open()
            check(lib.lwmq_listener_descriptor(self._handle.pointer, out))
        return int(out[0])

    @property
    def address(self) -> str:
        """Where clients reach it, without options: with the port, say, that was left to the provider."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> ListenerStatistics:
        """Counters of this listener; after its close the last ones."""
        if self._last is not None:
            return self._last
        self._handle.check_open()
        with self._accepting:
            self._handle.check_open()
            return self._query()

    def _query(self) -> ListenerStatistics:
        raw = sized("lwmq_listener_statistics")
        check(lib.lwmq_listener_query(self._handle.pointer, raw))
        refusal = ffi.string(raw.refusal).decode("utf-8", "replace")
        return ListenerStatistics(refusal=refusal, **fields_of(raw))

    def close(self) -> None:
        """Free the address. Channels that it gave live on; who waits in `accept` gets ClosedError.

        Clients that nobody has accepted see their peer close. Never waits for one. Twice is once.
        """
        if not self._handle.begin_close():
            return
        lib.lwmq_listener_close(self._handle.pointer)  # those who wait leave
        self._last = self._query()
        for known in self._selectors:
            if (selector := known()) is not None:
                selector._forget_listener(self)
        self.readiness.close()
        if not self._accepting.has_caller():  # a signal's handler: whom it has interrupted is inside still
            self._accepting.empty()
            self._handle.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._handle.usable:
            return f"<Listener {self.address} closed>"
        state = self.statistics
        return f"<Listener {self.address}, {state.accepted} accepted, {state.waiting} waiting>"
