"""Channels: a conversation with one peer, in messages or in raw buffers.

    with lwmq_spark.Channel("ipc://orders") as channel:
        orders = channel.send_queue()
        orders.post(b"buy 100")
        answer = channel.receive(timeout=1.0)

Any number of threads may use a channel. Threads that post to one queue take turns, and so do threads that
receive, in the order in which they come. `post` never waits, unless it is asked to wait for room in a bounded
queue.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, Turn, check, exception_of, ffi, lib, native_messages, sized, text_of
from lwmq_spark._waiting import (
    Lingering,
    Readiness,
    Waiter,
    anew_when_interrupted,
    milliseconds,
    on_a_thread,
    span,
    until_closed,
    wait,
)
from lwmq_spark.channel.calls import CallBacks, calls
from lwmq_spark.channel.raw import RawSide, ReceiveBuffer, SendBuffer
from lwmq_spark.channel.send_queue import KINDS, Kind, Priority, SendQueue, priority_of
from lwmq_spark.channel.settings import MOST_64, ReceiveKind, Settings, check_kind, read_settings
from lwmq_spark.channel.state import ChannelStatistics, FilterState, Peer
from lwmq_spark.channel.unclosed import flush_at_exit, tell_of_unsent
from lwmq_spark.message import Message
from lwmq_spark.options import (
    CHANNEL,
    ROLES,
    TRANSPORT,
    Address,
    Role,
    check_text,
    parse_address,
    parse_duration,
    whole,
)

T = TypeVar("T")
WEIGHT_MAX = (1 << 16) - 1
SIGNAL_MAX = (1 << 31) - 1
AT_ONCE_MAX = 1 << 16  # messages of one receive_many
_NOTHING = (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY, lib.LWMQ_E_FULL)


class Member(Protocol):
    """A selector that receives from the channel, as far as the channel knows it."""

    def lives(self) -> bool: ...
    def forget(self, channel: Channel) -> None: ...


class Channel(Lingering):
    """A conversation with one peer. Opened when made. `with` closes it; `async with` does so beside the loop.

    A server has one client at a time. Further clients wait until it has gone and come in turns; in another
    process they are not connected until then, in the same process they are, and are not heard. For many
    clients at once there is `Listener`, which gives each a channel of its own.

    A post does not wait. Without bounds, as by default, messages that nobody receives are kept in memory,
    also before a peer is there; `send_queue` has kinds with bounds. `close` waits for what was posted
    (`linger`). The end of a program waits as long for a channel that is still open; a channel that the
    program drops does not. In both cases a RuntimeWarning says how many messages were lost.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        role: Role | None = None,
        *,
        buffer_bytes: int | str | None = None,
        buffers: int | tuple[int, int] | None = None,
        retry: float | str | None = None,
        raw: bool | None = None,
        secure_erase: bool | None = None,
        home_thread: bool | None = None,
        linger: float | str | None = None,
        receive_queue: ReceiveKind = "mono_unbounded",
        receive_capacity: int | None = None,
        redundant: bool = False,
    ) -> None:
        """Bind `address` or begin to connect. Does not wait for the peer.

        address: one address; or several, for a channel of several transports. What is posted then goes to the
            peer of each, and what any of them sends is received here, in turns. A peer that is slow or lost
            does not disturb the others.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` connects and
            keeps trying.
        buffer_bytes: size of each transport buffer, and so of the largest message (default 64 KiB).
        buffers: buffers in each direction (default 32; memory is used when they are), or (send, receive).
            Over ipc, a peer that sends with more buffers than this side receives with is refused. Give both
            ends the same number, or (send, 0), which receives with as many buffers as the peer sends.
        retry: seconds between attempts to connect (default 0.1).
        raw: buffers by `get_buffer` and `receive_buffer` instead of messages.
        secure_erase: zero buffers, and the library's copies of messages, as soon as nobody needs them.
        home_thread: the channel is made for this thread, which posts and receives without atomic operations;
            other threads pay more.
        linger: seconds for which `close` waits until the peer has read what was posted (default 5).
        receive_queue: `mono_unbounded`: messages stay in the transport until a thread receives them. With the
            other kinds a thread of the library moves them into a queue while nobody receives:
            `multi_unbounded`, `bounded_discard_oldest` and `bounded_discard_newest`. The last two hold at
            most `receive_capacity` messages; `statistics.receive_discarded` counts those discarded.
        redundant: the addresses are several ways to one peer, which must say so, too. Each message goes every
            way and is received once, in the order of its queue. The loss of a way loses nothing while another
            is left. `wait_connected` waits for one way; `flush` and `close` until one has brought everything.
        Arguments win over options of the address, those over LWMQ_* of the environment and the conf file.
        Further addresses may have their own `buffers` and `retry`; the other options stand in the first one.
        AddressError: malformed, no such scheme, an option that channels do not have, or bound by another
        process or channel. TypeError, ValueError: a wrong argument.
        """
        parsed, *further = _addresses_of(address)
        if redundant and not further:
            raise ValueError(
                f"redundant=True with one address, {parsed.text}: say the other ways to the peer"
            )

        settings = read_settings(
            parsed,
            role=role,
            buffer_bytes=buffer_bytes,
            buffers=buffers,
            retry=retry,
            raw=raw,
            secure_erase=secure_erase,
            home_thread=home_thread,
            linger=linger,
            receive_queue=receive_queue,
            receive_capacity=receive_capacity,
        )
        out = ffi.new("lwmq_channel **")
        check(lib.lwmq_channel_create(settings.address.encode(), settings.options, out))
        self._begin(out, settings)
        for other in further:
            self._add_transport(other, settings, redundant=redundant)
        self._transports += len(further)
        check(lib.lwmq_channel_open(self._handle.lend(), ROLES[self._role]))
        self._learn_address()

    @classmethod
    def _accepted(cls, out: Any, settings: Settings) -> Self:
        """The channel of a listener's client: open, and for this client alone. Takes what is at `out`."""
        channel = cls.__new__(cls)
        channel._begin(out, settings)
        channel._role = "server"
        channel._is_accepted = True
        return channel

    def _begin(self, out: Any, settings: Settings) -> None:
        """Take the native channel at `out`, and set that to NULL."""
        self._address = settings.address
        self._role: str = settings.role
        self._is_accepted = False
        self._transports = 1
        self._linger = settings.linger
        self._raw = settings.raw
        self._raw_side = RawSide()
        pointer, out[0] = out[0], ffi.NULL  # a signal's handler may raise: it has one owner at a time
        pointer = ffi.gc(pointer, self._raw_side.destroy)
        self._handle = Handle(pointer, f"channel on {self._address}")
        self._raw_side.handle, self._raw_side.address = self._handle, self._address
        self._receiving = Turn()
        self._lent_to: object | None = None  # alone receives
        self._queues: list[SendQueue] = []
        self._common: SendQueue | None = None  # one of them
        self._is_called = False  # it has a call-back
        self._members: tuple[weakref.ref[Member], ...] = ()  # selectors that receive
        self._last: ChannelStatistics | None = None  # after the close
        self.readiness = Readiness(self.fileno)
        self.waiter = Waiter(f"lwmq {self._address}")
        self.watcher = Waiter(f"lwmq peers of {self._address}")

    def _add_transport(self, other: Address, settings: Settings, *, redundant: bool) -> None:
        its = sized("lwmq_transport_options")
        its.buffers_send = settings.options.buffers_send
        its.buffers_receive = settings.options.buffers_receive
        its.retry_ms = settings.options.retry_ms
        for way in ("send", "receive"):
            for key in ("buffers", f"buffers_{way}"):
                if key in other.options:
                    setattr(its, f"buffers_{way}", other.options[key])
        if "retry" in other.options:
            its.retry_ms = milliseconds(other.options["retry"])
        its.buffer_bytes = other.options.get("buffer_bytes", 0)
        its.redundant = redundant
        check(lib.lwmq_channel_add_transport(self._handle.lend(), other.text.encode(), its))

    # ---- Posting

    def send_queue(
        self,
        kind: Kind = "mono_unbounded",
        priority: Priority = Priority.NORMAL,
        capacity: int | None = None,
    ) -> SendQueue:
        """Add a send queue, which lives as long as the channel. Any number and mix of kinds and priorities.

        kind: `mono_unbounded`; `multi_unbounded`, whose posting threads do not wait for each other;
            `bounded_discard_oldest` and `bounded_discard_newest`, which hold at most `capacity` messages. The
            last three exist as `..._tagged`, too: a post with a tag replaces the unsent message of that tag.
        ValueError: no such kind or priority; a capacity that is missing, out of range, or of an unbounded
        kind. TypeError: a capacity that is no int. ClosedError.
        """
        check_kind("kind", kind, KINDS)
        priority = priority_of(priority)
        is_bounded = kind.startswith("bounded")
        if is_bounded and capacity in (None, 0):
            raise ValueError(f"capacity {capacity} of a {kind} queue: say how many messages it may hold")
        if is_bounded:
            capacity = whole(f"capacity of a {kind} queue,", capacity, 1, MOST_64)
        if not is_bounded and capacity is not None:
            raise ValueError(f"capacity {capacity} of a {kind} queue: only bounded kinds have one")
        options = sized("lwmq_send_queue_options")
        options.kind, options.priority, options.capacity = KINDS[kind], priority, capacity or 0
        out = ffi.new("lwmq_send_queue **")
        check(lib.lwmq_channel_add_send_queue(self._handle.lend(), options, out))
        queue = SendQueue(self, self._handle, self._address, out[0], kind, priority, capacity or 0)
        self._queues.append(queue)
        flush_at_exit(self)
        return queue

    def _common_queue(self) -> SendQueue:
        """One queue for all users that bring none of their own: it outlives them."""
        if self._common is None:
            self._common = self.send_queue("multi_unbounded")  # a second one of another thread stays unused
        self._handle.check_open()
        return self._common

    def set_weights(self, weights: Sequence[int]) -> None:
        """Share the channel between the five priorities HIGHEST to LOWEST.

        weights: messages of each priority in a round, 0 to 65,535 (default 16, 8, 4, 2, 1). A priority of
            weight 0 is served when those that have a weight are empty.
        ValueError: a weight out of range, or not five of them. ClosedError.
        """
        shares = [whole("weight", weight, 0, WEIGHT_MAX) for weight in weights]
        array = ffi.new("uint32_t[]", shares)
        check(lib.lwmq_channel_set_weights(self._handle.lend(), array, len(array)))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything posted so far was shipped. TimeoutError, ClosedError."""
        status = wait(self._handle, lib.lwmq_channel_flush, timeout, turn=self._raw_side.shipping)
        self._check_in_time(status, f"not everything was shipped within {span(timeout)} on {self._address}")

    # ---- Receiving

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for the next message, at most `timeout` seconds (None: without limit), and return it.

        After the loss of the peer the messages that it had committed come first, then PeerLostError once. A
        new peer may follow. TimeoutError, ClosedError (this side, or the peer in order), CorruptError,
        VersionError. LwmqError: a `Requests` receives from this channel.
        """
        self._check_not_lent()
        got = native_messages.receive_now(self._handle, self._receiving, Message)
        if got is None or (got == lib.LWMQ_E_EMPTY and timeout != 0):  # a wait costs as much before it begins
            address = self._handle.address
            got = self._receive(lambda ms: native_messages.receive(address, ms, Message), timeout)
        return got if isinstance(got, Message) else self._no_message(got, timeout)

    def receive_many(self, limit: int = 256, timeout: float | None = None) -> list[Message]:
        """Wait for the next message, and return it and what has come behind it, at most `limit` messages.

        Costs much less per message than `receive`, and raises the same. The end of a conversation is raised
        by a call of its own, after every message. limit: at least 1; more than 65,536 is 65,536.
        """
        limit = _limit(limit)
        got = self._receive(
            lambda ms: native_messages.receive_many(self._handle.address, limit, ms, Message), timeout
        )
        return got if isinstance(got, list) else self._no_message(got, timeout)

    def receive_bytes(self, limit: int = 256, timeout: float | None = None) -> list[bytes]:
        """As `receive_many`, but each message is one bytes object: all its frames, joined.

        The cheapest way to receive messages of one frame: their bytes are copied once, out of the transport's
        buffer. A MemoryError loses what had come.
        """
        limit = _limit(limit)
        got = self._receive(
            lambda ms: native_messages.receive_bytes(self._handle.address, limit, ms), timeout
        )
        return got if isinstance(got, list) else self._no_message(got, timeout)

    def _receive(self, call: Callable[[int], T], timeout: float | None) -> T | int:
        """`call(timeout_ms)`, a native receive, as soon as it answers, unless the receiving side is lent."""

        def receive(_: Any, ms: int) -> T:
            self._check_not_lent()
            return call(ms)

        self._check_not_lent()  # also while another thread has its turn
        return wait(self._handle, receive, timeout, turn=self._receiving)

    def _no_message(self, status: int, timeout: float | None) -> NoReturn:
        if status in _NOTHING:
            why = self._why_not() if timeout else ""  # not for a caller that polls
            text = f"no message within {span(timeout)} on {self._address}{why}"
            raise errors.TimeoutError(text, status=status)
        exc = exception_of(status, text_of())
        self._note_end(exc)
        raise exc

    def try_receive(self) -> Message | None:
        """The next message if there is one, else None. Never waits. Raises what `receive` does."""
        try:
            return self.receive(0)
        except errors.TimeoutError:
            return None

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until this side or the peer closes the channel."""
        return until_closed(self.receive)

    def __aiter__(self) -> AsyncIterator[Message]:
        """As `for`, in asyncio. A task that is cancelled loses no message."""
        return self.readiness.until_closed(self.try_receive)

    async def receive_async(self) -> Message:
        """Await the next message on the event loop itself; no thread waits for it.

        If the task is cancelled, the next call gets the message. `lwmq_spark.aio` has a time-out, many
        messages at once, and raw buffers.
        """
        return await self.readiness.first(self.try_receive)

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops: readable while there is something to receive.

        Poll it; call `try_receive` until that returns None; poll again. It is also readable when the peer is
        lost or the channel is closed. It belongs to the channel and ends with it. Do not read from it.
        """
        out = ffi.new("int32_t *")
        check(lib.lwmq_channel_descriptor(self._handle.lend(), out))
        return int(out[0])

    def on_message(
        self,
        callback: Callable[[Message], object] | None,
        on_end: Callable[[errors.LwmqError], object] | None = None,
    ) -> None:
        """From now on call `callback` with each message, in order, on a thread that all channels share.

        A call-back may post, close the channel and end its own calls. While it runs, those of other channels
        wait. What it raises is logged.
        on_end: called, in its place among the messages, with what `receive` would raise: ClosedError when a
            peer has closed, PeerLostError, and once what keeps the channel from receiving, such as an address
            that cannot be bound. The calls go on with the next peer. Without `on_end` this is logged.
        callback None ends the calls: when this returns, none runs any more except one that asks for it.
        TypeError: no function. LwmqError: a raw channel, or a `Requests` receives from this channel.
        """
        if callback is None:
            self._is_called = False
            if not self._handle.forked:  # in a child there is no thread that calls
                calls.drop(self)
            return
        self._handle.check_open()
        for what, of in ((callback, "one message"), (on_end, "one LwmqError, as on_end")):
            if what is not None and not callable(what):
                raise TypeError(f"on_message() takes a function of {of}, or None, not {type(what).__name__}")
            if inspect.iscoroutinefunction(what):
                raise TypeError(
                    "on_message() calls from a thread: in asyncio, `async for message in channel`"
                )
        if self._raw:
            raise errors.ArgumentError(
                f"a raw channel has buffers, not messages: call receive_buffer() ({self._address})",
                status=lib.LWMQ_E_INVALID,
            )
        with self._handle.turn:
            self._check_not_lent()
            calls.put(self, CallBacks(callback, on_end))
            self._is_called = True
        if self._handle.closed:  # meanwhile
            calls.drop(self)

    def signal_on_message(self, number: int) -> None:
        """From now on queue the real-time signal `number` to this process when there is something to receive.

        It is queued again when something comes after `try_receive` has returned None. 0 ends this.
        ValueError: not 0, nor from SIGRTMIN to SIGRTMAX. ClosedError.
        """
        number = whole("signal", number, 0, SIGNAL_MAX)
        check(lib.lwmq_channel_signal_on_message(self._handle.lend(), number, ffi.NULL))

    # ---- Who receives. `self._handle.turn` guards the change from one way to another.

    def _lend(self, to: object) -> None:
        """From now on `to` alone receives. A thread that waits in a receive gets nothing more.

        LwmqError: somebody else receives, by call-back or by selector.
        """
        with self._handle.turn:
            self._handle.check_open()
            self._check_not_lent()
            if self._is_called:
                raise errors.LwmqError(
                    f"what comes over {self._address} goes to a call-back: end that by on_message(None), "
                    "then make the Requests"
                )
            if self._living():
                raise errors.LwmqError(
                    f"what comes over {self._address} goes to a selector: remove it there, "
                    "then make the Requests"
                )
            self._lent_to = to
        with self._receiving:  # nobody is in a receive any more
            pass

    def _take_back(self, lent_to: object) -> None:
        """`lent_to` receives no more."""
        if self._lent_to is lent_to:
            self._lent_to = None

    def _check_not_lent(self) -> None:
        if self._lent_to is not None:
            raise errors.LwmqError(
                f"a Requests has what comes over {self._address}, and would miss what another one takes: "
                "ask with that one from all threads, close it first, or open a further channel"
            )

    def _living(self) -> list[Member]:
        return [member for known in self._members if (member := known()) is not None and member.lives()]

    def _join(self, member: Member) -> None:
        """`member` receives, too. With the turn of the handle."""
        self._members = tuple(map(weakref.ref, (*self._living(), member)))

    def _leave(self, member: Member) -> None:
        self._members = tuple(weakref.ref(one) for one in self._living() if one is not member)

    def _is_over_with(self, exc: BaseException) -> bool:
        """Whether `exc`, of a receive, is the last word: no peer follows the client of a listener."""
        return self._is_accepted and isinstance(exc, errors.ENDS_OF_PEER)

    def _note_end(self, exc: errors.LwmqError) -> None:
        if self._is_over_with(exc):
            for member in self._living():
                member.forget(self)

    # ---- Peers

    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until a peer is there. TimeoutError, ClosedError, or what keeps the peer away."""
        status = wait(self._handle, lib.lwmq_channel_wait_connected, timeout)
        why = text_of() if status == lib.LWMQ_E_TIMED_OUT else ""
        text = f"no peer came to {self._address} within {span(timeout)}"
        self._check_in_time(status, f"{text}: {why}" if why else text, says_why=False)

    @property
    def peer(self) -> Peer | None:
        """The present or last peer; None if none has come yet. Of several transports, the first one's."""
        return self._peer_over(0)

    @property
    def peers(self) -> list[Peer | None]:
        """The same of each transport, in the order of the addresses."""
        return [self._peer_over(transport) for transport in range(self._transports)]

    def _peer_over(self, transport: int) -> Peer | None:
        raw = sized("lwmq_peer")
        status = lib.lwmq_channel_peer(self._handle.lend(), transport, raw)
        if status == lib.LWMQ_E_EMPTY:
            return None
        check(status)
        return Peer._of(raw)

    def wait_peer(
        self, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
    ) -> Peer:
        """Wait until a peer comes or goes, and return it: another one than `known`, or `known` gone.

            peer = None
            while True:
                peer = channel.wait_peer(peer)
                print(peer.pid, "has come" if peer.connected else "has gone")

        Of several changes between two calls it returns the last; `number` tells how many peers have come. Any
        number of threads may wait. TimeoutError. ClosedError: no peer comes any more. ValueError:
        `transport`, counted from 0 in the order of the addresses, is none of them.
        """
        transport = whole("transport", transport, 0, self._transports - 1)
        raw = sized("lwmq_peer")
        if known is not None:
            if not isinstance(known, Peer):
                raise TypeError(f"wait_peer() takes the Peer that it said last, or None, not {known!r}")
            raw.number, raw.connected = known.number, known.connected
        status = wait(
            self._handle,
            lambda channel, ms: lib.lwmq_channel_wait_peer(channel, transport, ms, raw),
            timeout,
        )
        text = f"no peer came to or left {self._address} within {span(timeout)}"
        self._check_in_time(status, text, says_why=False)
        return Peer._of(raw)

    def _check_in_time(self, status: int, text: str, *, says_why: bool = True) -> None:
        """TimeoutError with `text` if the time is over."""
        if status in _NOTHING:
            raise errors.TimeoutError(text + (self._why_not() if says_why else ""), status=status)
        check(status)

    def _why_not(self) -> str:
        """What a time-out adds where it knows more. Any thread."""
        pointer = self._handle.pointer
        if pointer is None or self._handle.forked:
            return ""
        raw = sized("lwmq_channel_statistics")
        is_alone = lib.lwmq_channel_query(pointer, raw) == lib.LWMQ_OK and not raw.connected
        return ": nobody is connected" if is_alone else ""

    # ---- Raw buffers

    def get_buffer(self, timeout: float | None = None) -> SendBuffer:
        """Wait until a send buffer of a raw channel is free and a peer is connected, and return the buffer.

        It is lent until it is sent or abandoned. TimeoutError, ClosedError.
        """
        buffer = SendBuffer(self._raw_side)
        raw = buffer._raw
        status = wait(
            self._handle,
            lambda channel, ms: lib.lwmq_raw_get_buffer(channel, ms, raw),
            timeout,
            turn=self._raw_side.shipping,
        )
        self._check_in_time(status, f"no send buffer got free within {span(timeout)} on {self._address}")
        return buffer

    def receive_buffer(self, timeout: float | None = None) -> ReceiveBuffer:
        """Wait for the next buffer that the peer of a raw channel sends. It is lent until it is disposed of.

        TimeoutError; otherwise as `receive`.
        """
        buffer = ReceiveBuffer(self._raw_side)
        raw = buffer._raw
        status = wait(
            self._handle,
            lambda channel, ms: lib.lwmq_raw_receive_buffer(channel, ms, raw),
            timeout,
            turn=self._receiving,
        )
        self._check_in_time(status, f"no buffer came within {span(timeout)} on {self._address}")
        return buffer

    # ---- Filters

    def add_filter(self, filter: str, place: int | None = None) -> None:
        """Add a filter such as `loss=0.01,seed=7`, also while messages pass.

        place: 0 is nearest to the application; the default is nearest to the wire. The address must name
            filters; `filters+ipc://orders` begins without any.
        ValueError: no such filter, setting or place.
        """
        if not isinstance(filter, str):
            raise TypeError(f"a filter is a str such as 'loss=0.01', not {type(filter).__name__}")
        text = check_text("filter", filter).encode()
        check(lib.lwmq_channel_add_filter(self._handle.lend(), text, _place(place)))

    def remove_filter(self, place: int | None = None) -> None:
        """Remove the filter at `place`, by default the nearest to the wire. What it held lands at once."""
        check(lib.lwmq_channel_remove_filter(self._handle.lend(), _place(place)))

    @property
    def filters(self) -> list[FilterState]:
        """The filters of this channel, the nearest to the application first."""
        channel = self._handle.lend()
        found: list[FilterState] = []
        while True:
            raw = sized("lwmq_filter_view")
            status = lib.lwmq_channel_query_filter(channel, len(found), raw)
            if status in (lib.LWMQ_E_INVALID, lib.LWMQ_E_UNSUPPORTED):
                return found
            check(status)
            found.append(FilterState._of(raw))

    def latency(self, share: float, place: int = 0) -> float | None:
        """The seconds within which `share` of what the filter `latency` at `place` has timed was on its way.

        share: 0.5 gives the median, 1 the longest time. None: nothing was timed yet.
        """
        out = ffi.new("uint64_t *")
        status = lib.lwmq_channel_query_times(self._handle.lend(), _place(place), share, out)
        if status == lib.LWMQ_E_EMPTY:
            return None
        check(status)
        return int(out[0]) / 1e9

    # ---- State

    def _learn_address(self) -> None:
        """Whoever serves at port 0 hears of the port only now."""
        self._address = ffi.string(lib.lwmq_channel_address(self._handle.lend(), 0)).decode()

    @property
    def address(self) -> str:
        """The address without its options; of several transports the first. Of an end that serves at port 0:
        with the port that the system has chosen."""
        return self._address

    @property
    def role(self) -> str:
        """The role that was asked for. `statistics.is_server` says what `auto` became."""
        return self._role

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> ChannelStatistics:
        """Counters of this channel; after its close the last. ClosedError while it closes."""
        return self._last or self._query(self._handle.lend())

    @staticmethod
    def _query(channel: Any) -> ChannelStatistics:
        raw = sized("lwmq_channel_statistics")
        check(lib.lwmq_channel_query(channel, raw))
        return ChannelStatistics._of(raw)

    def close(self, linger: float | str | None = None) -> None:
        """Wait at most `linger` seconds until the peer has read what was posted, then close.

        A message of 4 KiB or more has been read when its receiver has let go of it. Over a network this is
        known a few milliseconds later, so that a close with `linger=0` sees little of it; what was shipped
        reaches the peer all the same. Messages that were received live on, and so do raw buffers until they
        go back. TimeoutError has the number of messages that were dropped or not seen read; the channel is
        closed all the same. A second call does nothing.
        """
        seconds = self._linger if linger is None else parse_duration(linger)
        channel = self._handle.pointer
        if self._is_called:  # before, because a call-back may still post
            self.on_message(None)
        if not self._handle.begin_close():
            return
        try:
            if self._is_called:  # since another thread asked for calls just now
                self.on_message(None)
            for member in self._living():
                member.forget(self)
            check(anew_when_interrupted(lambda ms: lib.lwmq_channel_close(channel, ms), seconds))
        finally:
            self._last = self._query(channel)
            for queue in self._queues:
                queue._keep_last()
            self._handle.destroy()
            self.readiness.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and handle.usable and self._queues and self._raw_side.exists:
            tell_of_unsent(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As `with`; the event loop goes on while close lingers."""
        await on_a_thread(f"lwmq close of {self._address}", lambda: self.__exit__(kind, exc, trace))

    def __repr__(self) -> str:
        if not self._handle.usable:
            return f"<Channel {self._address} {'of another process' if self._handle.forked else 'closed'}>"
        try:
            state = self.statistics
        except errors.ClosedError:  # meanwhile
            return f"<Channel {self._address} closed>"
        side = "server" if state.is_server else "client"
        alone = "its client has gone" if self._is_accepted else "waiting for a peer"
        peer = "connected" if state.connected else alone
        kind = "raw " if self._raw else ""
        return (
            f"<Channel {self._address} {kind}{side}, {peer}, "
            f"{state.messages_posted} posted, {state.messages_received} received>"
        )


def _limit(limit: int) -> int:
    """Messages of one call. ValueError: below 1. TypeError: no int."""
    return min(whole("limit", limit, 1, sys.maxsize), AT_ONCE_MAX)


def _place(place: int | None) -> int:
    last = int(lib.LWMQ_FILTER_LAST)
    return last if place is None else whole("place", place, 0, last - 1)


def _addresses_of(address: Any) -> list[Address]:
    """One address or several, read. AddressError, TypeError. ValueError: none at all."""
    is_one = isinstance(address, (str, bytes)) or not isinstance(address, Iterable)
    texts = [address] if is_one else list(address)
    if not texts:
        raise ValueError("a channel without a transport: say at least one address")
    first = parse_address(texts[0], CHANNEL)
    return [first, *(parse_address(text, TRANSPORT) for text in texts[1:])]
