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
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, OfOneProcess, check, ffi, fields_of, lib, sized
from lwmq_spark._waiting import Readiness, span, until_closed, wait
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.settings import ReceiveKind, read_settings
from lwmq_spark.options import LISTENER, parse_address


class ListenerMember(Protocol):
    """A selector that accepts clients of the listener, as far as the listener knows it."""

    def forget_listener(self, listener: Listener) -> None: ...


@dataclass(frozen=True, slots=True)
class ListenerStatistics:
    """Counters since the listener was made. `accepted` clients; `waiting`: connected and not accepted, now.

    `refused`: attempts to connect of another version, purpose or user, with numbers that do not fit this
    listener's, or for which it had neither descriptors nor memory. `refusal`: why the last one was refused.
    """

    accepted: int
    waiting: int
    refused: int
    refusal: str


class Listener(OfOneProcess):
    """Takes every client that connects to an address. Any number of threads accept. `with` closes it."""

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
        """Bind `address`. Does not wait for clients. The arguments are as of `Channel`, for each client's.

        home_thread: the thread that accepts the client. Filters that the address names are one list for all
        channels. Each transport of a client counts as a client, so one with redundant transports would be
        heard twice. AddressError: malformed, no such scheme, an option that channels do not have, or bound by
        another process or channel. TypeError, ValueError: a wrong argument.
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
        bound = ffi.string(lib.lwmq_listener_address(out[0])).decode()
        self._settings = replace(self._settings, address=bound)
        self._handle = Handle(ffi.gc(out[0], lib.lwmq_listener_destroy), f"listener on {self.address}")
        self._refused_told = 0
        self.readiness = Readiness(self.fileno)
        self._members: tuple[weakref.ref[ListenerMember], ...] = ()
        self._last: ListenerStatistics | None = None  # after the close

    def accept(self, timeout: float | None = None) -> Channel:
        """Wait for the next client, at most `timeout` seconds (None: without limit), and return its channel.

        The channel is for that client alone and outlives the listener. When the client has gone, what it sent
        can still be received; then comes ClosedError or PeerLostError, and from then on ClosedError, which
        posts raise at once. What a client sends before it is accepted waits for it. Up to 128 clients wait to
        be accepted, and perhaps 64 more; others keep trying to connect. TimeoutError, ClosedError.
        """
        out = ffi.new("lwmq_channel **")
        try:
            status = wait(
                self._handle, lambda listener, ms: lib.lwmq_listener_accept(listener, ms, out), timeout
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
        """What a time-out adds: how many clients were refused since the last one."""
        state = self.statistics
        news, self._refused_told = state.refused - self._refused_told, state.refused
        return f"; {news} were refused, the last because: {state.refusal}" if news > 0 else ""

    def try_accept(self) -> Channel | None:
        """The channel of a client that waits, or None. Never waits."""
        try:
            return self.accept(0)
        except errors.TimeoutError:
            return None

    def __iter__(self) -> Iterator[Channel]:
        """Channels as clients come, until the listener is closed."""
        return until_closed(self.accept)

    async def accept_async(self) -> Channel:
        """Await the next client, on the event loop itself. A task that is cancelled loses none.

        `lwmq_spark.aio.accept` does so with a time-out.
        """
        return await self.readiness.first(self.try_accept)

    def __aiter__(self) -> AsyncIterator[Channel]:
        """As `for`, in asyncio."""
        return self.readiness.until_closed(self.try_accept)

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops: readable while a client waits.

        It belongs to the listener and ends with it. Do not read from it.
        """
        out = ffi.new("int32_t *")
        check(lib.lwmq_listener_descriptor(self._handle.lend(), out))
        return int(out[0])

    @property
    def address(self) -> str:
        """The address without its options. At a network address with port 0: with the port that the system
        has chosen."""
        return self._settings.address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> ListenerStatistics:
        """Counters of this listener; after its close the last ones."""
        return self._last or self._query(self._handle.lend())

    @staticmethod
    def _query(listener: Any) -> ListenerStatistics:
        raw = sized("lwmq_listener_statistics")
        check(lib.lwmq_listener_query(listener, raw))
        refusal = ffi.string(raw.refusal).decode("utf-8", "replace")
        return ListenerStatistics(refusal=refusal, **fields_of(raw))

    def _join(self, member: ListenerMember) -> None:
        living = [one for known in self._members if (one := known()) is not None and one is not member]
        self._members = tuple(map(weakref.ref, (*living, member)))

    def close(self) -> None:
        """Free the address. Threads that wait in `accept` get ClosedError. Never waits for a client.

        Channels that it gave live on. A client that was not accepted sees its peer close. A second call does
        nothing.
        """
        listener = self._handle.pointer
        if not self._handle.begin_close():
            return
        lib.lwmq_listener_close(listener)  # wakes the threads that wait
        self._last = self._query(listener)
        for known in self._members:
            if (member := known()) is not None:
                member.forget_listener(self)
        self.readiness.close()
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
