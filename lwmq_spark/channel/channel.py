"""Channels: each is a conversation with one peer, in messages or in raw buffers.

    with lwmq_spark.Channel("ipc://orders") as channel:
        orders = channel.send_queue()
        orders.post(b"buy 100")
        answer = channel.receive(timeout=1.0)

Several threads may use a channel. A send queue, and the receiving side of a mono channel, serve one thread at
a time, in order of arrival. Senders and receivers do not wait for each other. `post` never waits, unless it
is asked to wait for room in a bounded queue.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import (
    CallCount,
    CallLock,
    CallLocks,
    Handle,
    Lingering,
    Waiter,
    anew_when_interrupted,
    check,
    exception_of,
    ffi,
    fields_of,
    lib,
    milliseconds,
    native_messages,
    on_a_thread,
    sized,
    span,
    text_of,
    wait,
)
from lwmq_spark.channel.raw import ReceiveBuffer, SendBuffer, Window
from lwmq_spark.channel.readiness import Readiness
from lwmq_spark.channel.send_queue import KINDS, Kind, NativeQueue, Priority, SendQueue, priority_of
from lwmq_spark.channel.settings import MOST_64, ReceiveKind, Settings, check_kind, read_settings
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
    spelled,
    whole,
)

if TYPE_CHECKING:
    from lwmq_spark.channel.selector import Selector

Received = TypeVar("Received", Message, bytes)
WEIGHT_MAX = (1 << 16) - 1
SIGNAL_MAX = (1 << 31) - 1
AT_ONCE_MAX = 1 << 16  # messages of one receive_many


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counters since the channel was made.

    `messages_lost`: shipped, and not known to be read when a peer was lost.
    `messages_passed`: of those shipped, the messages handed unchanged to a peer in this process.
    `shipped_full`, `shipped_idle`: why a buffer was closed: no room left in it, or nothing left to put in.
    `receive_queued`: now waiting in a receive queue that is not mono. `receive_discarded`: by its rule.
    `duplicates_dropped`: had come before over another redundant transport; not counted as received.
    `clients_refused`, of a server: another version, purpose or user, or numbers that do not fit ours.
    `messages_unread`: shipped to the present peers and not known to be read. A message of 4 KiB and more is
    read when its receiver has released it.
    With several transports the counters are sums, except `messages_posted`. `connected`: all transports are
    connected, or one of them if they are redundant.
    """

    connected: bool
    is_server: bool
    messages_posted: int
    messages_shipped: int
    messages_received: int
    messages_lost: int
    buffers_shipped: int
    shipped_full: int
    shipped_idle: int
    bytes_shipped: int
    bytes_received: int
    peers_lost: int
    buffers_free: int
    messages_passed: int
    receive_queued: int
    receive_discarded: int
    duplicates_dropped: int
    clients_refused: int
    messages_unread: int


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer at the other end now, or the last one. `instance` identifies its process, as in its own
    `identity().instance`.

    `connected`: as far as somebody has noticed. `number`: counts the peers over its transport, from 1.
    """

    connected: bool
    number: int
    pid: int
    uid: int
    instance: str

    @classmethod
    def _of(cls, raw: Any) -> Peer:
        instance = bytes(ffi.buffer(raw.instance)).hex()
        return cls(bool(raw.connected), int(raw.number), int(raw.pid), int(raw.uid), instance)


@dataclass(frozen=True, slots=True)
class FilterState:
    """One filter of a channel and what it has done: counts of extents, both ways, over all peers."""

    name: str
    settings: str
    seen: int
    dropped: int
    changed: int
    sourced: int
    held: int
    failed: int
    timed: int


class Channel(Lingering):
    """A conversation with one peer, open once constructed. `with` closes it; so does `async with`, without
    blocking the event loop.

    A server has one client at a time. Further clients wait until that one has gone, and then take turns. In
    another process they are not connected until then; in the same process they are connected, but not heard.
    To serve many clients at once, use a `Listener`, which gives each client a channel of its own.

    A post never waits, unless a bounded queue is asked to wait. Queues are unbounded by default: messages
    that nobody receives stay in memory, even before a peer is there (`send_queue` has other kinds). `close`
    waits at most `linger` for what was posted. At the end of the program, channels that are still open get
    the same time; a channel garbage-collected earlier loses what it had not sent. Both report what was
    lost in a RuntimeWarning.
    """

    @spelled
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
        """Binds `address` or starts to connect; does not wait for the peer.

        address: one address, or several for a channel with several transports: each post goes to the peer of
        each transport, and what any of the peers sends is received here, in turns. A peer that is slow or
        lost does not affect the others.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` keeps trying.
        buffer_bytes: size of each transport buffer (default 64 KiB), and so of the largest message.
        buffers: number of buffers per direction (default 32, whose memory is used as needed), or (send,
        receive). Over ipc, a peer that sends with more buffers than we receive with is refused: use the same
        number on both ends, or (send, 0) to accept as many as the peer has.
        retry: seconds between attempts to connect (default 0.1).
        raw: use buffers, through `get_buffer` and `receive_buffer`, instead of messages.
        secure_erase: buffers, and our copies of what passes, are zeroed as soon as nobody needs them.
        home_thread: the channel is made for the calling thread, which posts and receives without atomic
        operations; other threads pay more.
        linger: seconds that `close` waits until the peer has read what was posted (default 5).
        receive_queue: with `mono_unbounded`, messages stay in the transport until a thread receives them.
        With the other kinds, the library's own thread lands messages while nobody receives, and any number of
        threads receive at once; each message goes to one of them. These kinds are `multi_unbounded`,
        `bounded_discard_oldest` and `bounded_discard_newest`. Bounded queues hold at most `receive_capacity`
        messages (`statistics.receive_discarded` counts the rest).
        redundant: the addresses are several ways to one peer, which must say so too. Each message goes every
        way and is received once, in the order of its queue. As long as one way is left, losing another loses
        no message. `wait_connected` waits for one way; `flush` and `close` wait until one way has delivered
        everything.
        Arguments override options of the address, which override LWMQ_* variables and then the conf file.
        A further address may have its own `buffers` and `retry`. Other options apply to the whole channel and
        go into the first address.
        AddressError: the address is malformed, has an unknown scheme or an option that channels do not have,
        or somebody else has bound it. TypeError, ValueError: an argument is not valid.
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
        check(lib.lwmq_channel_open(self._handle.pointer, ROLES[self._role]))

    @classmethod
    def _accepted(cls, out: Any, settings: Settings) -> Self:
        """A channel on `out`, which a listener gave: it is open, and for one client only."""
        channel = cls.__new__(cls)
        channel._begin(out, settings)
        channel._role = "server"
        channel._is_accepted = True
        return channel

    def _begin(self, out: Any, settings: Settings) -> None:
        """Takes the native channel at `out`, and sets `out` to NULL."""
        self._address = settings.address.partition("?")[0]
        self._role: str = settings.role
        self._is_accepted = False
        self._transports = 1
        self._linger = settings.linger
        self._raw = settings.raw
        # Buffers of a raw channel lie in its window: each of them, and each view, holds this; the last
        # destroys.
        self._window = Window()
        pointer, out[0] = out[0], ffi.NULL  # a signal's handler may raise: it has one owner at a time
        pointer = ffi.gc(pointer, self._window.destroy)
        self._handle = Handle(pointer, lambda _: None, f"channel on {self._address}")
        self._connecting = CallLock()  # for those who wait for a peer: the others pass them
        self._watching = CallCount()
        self._receiving: CallLock | CallCount = CallLock() if settings.receives_in_turns else CallCount()
        self._shipping = CallLock()  # raw sends
        self._lent_to: object | None = None  # what alone receives
        self._queues: list[NativeQueue] = []  # not those that hold us
        self._common: NativeQueue | None = None  # one of them
        self.readiness = Readiness(self)
        self._is_called = False  # there is a call-back, which goes with us
        self._last: ChannelStatistics | None = None  # behind our close
        self._selectors: tuple[weakref.ref[Selector], ...] = ()  # which we leave when we are closed
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
        check(lib.lwmq_channel_add_transport(self._handle.pointer, other.text.encode(), its))

    # ---- Messages

    def send_queue(
        self,
        kind: Kind = "mono_unbounded",
        priority: Priority = Priority.NORMAL,
        capacity: int | None = None,
    ) -> SendQueue:
        """Add a send queue, which lives as long as the channel. Any number and mix of kinds and priorities.

        kind: `mono_unbounded`; `multi_unbounded`, for threads that should not wait for one another;
        `bounded_discard_oldest` and `bounded_discard_newest`, which hold at most `capacity` messages. The
        last three also exist as `..._tagged`: there a post with a tag replaces the unsent message with the
        same tag.
        ValueError: unknown kind or priority, or a capacity that is missing, out of range, or given for an
        unbounded kind. TypeError: the capacity is not an int.
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
        self._handle.check_open()
        out = ffi.new("lwmq_send_queue **")
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_channel_add_send_queue(self._handle.pointer, options, out))
            made = NativeQueue(out[0], kind, priority, capacity or 0)
            self._queues.append(made)
        flush_at_exit(self)
        return SendQueue(self, made)

    def _common_queue(self) -> SendQueue:
        """The queue shared by users that bring none of their own; it lives as long as the channel."""
        if self._common is None:
            queue = self.send_queue("multi_unbounded")  # a second one of another thread stays unused
            self._common = queue._native
        self._handle.check_open()
        return SendQueue(self, self._common)

    def set_weights(self, weights: Sequence[int]) -> None:
        """Set how many messages each of the five priorities HIGHEST to LOWEST may send per round.

        Default (16, 8, 4, 2, 1). A priority with weight 0 is served when those with a weight are empty.
        ValueError: a weight is over 65535, or there are not five weights.
        """
        shares = [whole("weight", weight, 0, WEIGHT_MAX) for weight in weights]
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            array = ffi.new("uint32_t[]", shares)
            check(lib.lwmq_channel_set_weights(self._handle.pointer, array, len(array)))

    def receive(self, timeout: float | None = None) -> Message:
        """The next message. Waits at most `timeout` seconds; None waits without limit.

        After the loss of the peer, messages that were committed come first, then PeerLostError once; a new
        peer may follow. TimeoutError, ClosedError (closed by us or by the peer, in order), CorruptError,
        VersionError. LwmqError: a `Requests` receives all that comes over this channel.
        """
        handle = self._handle
        self._check_not_lent()
        got = native_messages.receive_now(handle, self._receiving, Message)
        if got is None or (got == lib.LWMQ_E_EMPTY and timeout != 0):  # a wait costs as much before it begins
            got = wait(handle, self._receive_one, timeout, lock=self._receiving)
        return got if isinstance(got, Message) else self._no_message(got, timeout)

    def receive_many(self, limit: int = 256, timeout: float | None = None) -> list[Message]:
        """The next message and those that have come behind it, at most `limit`; waits only for the first.

        Much cheaper per message than `receive`, with the same errors. An error that ends the peer's
        conversation is raised by a separate call, after all messages. A limit over 65,536 counts as 65,536.
        ValueError: `limit` is below 1.
        """
        limit = _limit(limit)
        return self._receive_some(
            lambda ms: native_messages.receive_many(self._handle.address, limit, ms, Message), timeout
        )

    def receive_bytes(self, limit: int = 256, timeout: float | None = None) -> list[bytes]:
        """As `receive_many`, but returns only the bytes of each message: all its frames, concatenated.

        For messages of one frame this is the cheapest way to receive: messages that are there already are not
        turned into objects, and their bytes are copied once, out of the transport's buffer. Errors as for
        `receive_many`; after a MemoryError, the messages that had come are lost.
        """
        limit = _limit(limit)
        return self._receive_some(
            lambda ms: native_messages.receive_bytes(self._handle.address, limit, ms), timeout
        )

    def _receive_into(self, came: deque[Message | tuple[int, str]], timeout: float) -> None:
        """As `receive_many`, but appends to `came`: messages, or the status and text of an error to be
        raised.

        Whatever a signal handler raises, what was received is in `came`. This call itself raises TimeoutError
        and, after our own close, ClosedError.
        """
        status = wait(
            self._handle,
            lambda ms: native_messages.receive_into(self._handle.address, ms, Message, came),
            timeout,
            lock=self._receiving,
        )
        if status != lib.LWMQ_OK:
            self._no_message(status, timeout)

    def _receive_some(
        self, receive: Callable[[int], list[Received] | int], timeout: float | None
    ) -> list[Received]:
        def receive_ours(ms: int) -> list[Received] | int:
            self._check_not_lent()
            return receive(ms)

        self._check_not_lent()  # also where another thread has its lock
        got = wait(self._handle, receive_ours, timeout, lock=self._receiving)
        return got if isinstance(got, list) else self._no_message(got, timeout)

    def _receive_one(self, ms: int) -> Message | int:
        self._check_not_lent()
        return native_messages.receive(self._handle.address, ms, Message)

    # ---- Lending the receiving side

    def _lend(self, to: object) -> None:
        """From now on only `to` receives, by `_receive_into`; a thread that waits in a receive gets nothing.

        LwmqError: the messages go to another owner, a callback or a selector already.
        """
        from lwmq_spark.channel.selector import _lives

        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            self._check_not_lent()
            if self._is_called:
                raise errors.LwmqError(
                    f"what comes over {self._address} goes to a call-back: end that by on_message(None), "
                    "then make the Requests"
                )
            if any(_lives(known()) for known in self._selectors):
                raise errors.LwmqError(
                    f"what comes over {self._address} goes to a selector: remove it there, "
                    "then make the Requests"
                )
            self._lent_to = to
        if isinstance(self._receiving, CallCount):
            self._receiving.empty()
        else:
            with self._receiving:
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

    def _why_not(self) -> str:
        """The reason that a time-out adds to its text, if there is one. Any thread, without a lock."""
        pointer = self._handle.pointer
        if pointer is None or self._handle.forked:
            return ""
        raw = sized("lwmq_channel_statistics")
        alone = lib.lwmq_channel_query(pointer, raw) == lib.LWMQ_OK and not raw.connected
        return ": nobody is connected" if alone else ""

    def _no_message(self, status: int, timeout: float | None) -> NoReturn:
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY):
            why = self._why_not() if timeout else ""  # not for who polls
            text = f"no message within {span(timeout)} on {self._address}{why}"
            raise errors.TimeoutError(text, status=status)
        exc = exception_of(status, text_of())
        self._note_end(exc)
        raise exc

    def _is_over_with(self, exc: BaseException) -> bool:
        """Whether `exc`, from a receive, is final: no client follows the client of a listener's channel."""
        return self._is_accepted and isinstance(exc, errors.ENDS_OF_PEER)

    def _note_end(self, exc: errors.LwmqError) -> None:
        if self._is_over_with(exc):
            for known in self._selectors:
                if (selector := known()) is not None:
                    selector.remove(self)

    def try_receive(self) -> Message | None:
        """The next message, or None if there is none. Never waits."""
        try:
            return self.receive(0)
        except errors.TimeoutError:
            return None

    def __iter__(self) -> Iterator[Message]:
        """Messages as they come, until the channel is closed in order."""
        while True:
            try:
                message = self.receive()
            except errors.ClosedError:
                return
            yield message
            del message  # held no longer than the caller does

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Like `for`, in asyncio. A message is not lost when the task is cancelled."""
        while True:
            try:
                message = await self.receive_async()
            except errors.ClosedError:
                return
            yield message
            del message

    async def receive_async(self) -> Message:
        """Await the next message on the event loop itself, without a thread.

        If the task is cancelled, the next call gets the message. `lwmq_spark.aio` has calls with a time-out,
        for many messages at once, and for raw channels.
        """
        return await self.readiness.first(self.try_receive)

    def fileno(self) -> int:
        """A descriptor for select, poll, epoll and event loops, readable while there is something to receive.

        Poll it, call `try_receive` until it returns None, and poll again; what is not received keeps it
        readable. It is also readable when the peer is lost or the channel is closed. Lent until the close; do
        not read from it.
        """
        out = ffi.new("int32_t *")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_channel_descriptor(self._handle.pointer, out))
        return int(out[0])

    def on_message(
        self,
        callback: Callable[[Message], object] | None,
        on_end: Callable[[errors.LwmqError], object] | None = None,
    ) -> None:
        """From now on `callback` gets each message, in order, on a thread that all channels share.

        The callback may post, close the channel and end its own calls. While it runs, the calls of other
        channels wait. What it raises is logged. `on_end` gets, in order with the messages, what a receive
        would raise: ClosedError when a peer has closed, PeerLostError, and, once, an error that keeps the
        channel from receiving for long, such as an address that cannot be bound. The calls go on with the
        next peer. Without `on_end` these errors are logged. `on_message(None)` ends the calls: when it
        returns, none runs any more, except the one that made this call. TypeError: not a function. LwmqError:
        the channel is raw, or a `Requests` receives all that comes over it.
        """
        from lwmq_spark.channel.calls import CallBacks, calls

        if callback is None:
            self._is_called = False
            if not self._handle.forked:  # there is no thread here that would call
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
        calls.put(self, CallBacks(callback, on_end))
        self._is_called = True
        if self._handle.closed:  # meanwhile
            calls.drop(self)

    def signal_on_message(self, number: int) -> None:
        """From now on the real-time signal `number` is queued to this process when there is something to
        receive, and again when something comes after `try_receive` returned None. 0 ends that.

        ValueError: `number` is not a signal from SIGRTMIN to SIGRTMAX.
        """
        number = whole("signal", number, 0, SIGNAL_MAX)
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_channel_signal_on_message(self._handle.pointer, number, ffi.NULL))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything posted so far was shipped. TimeoutError if that takes longer."""
        status = wait(
            self._handle,
            lambda ms: lib.lwmq_channel_flush(self._handle.pointer, ms),
            timeout,
            lock=self._shipping,
        )
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(
                f"not everything was shipped within {span(timeout)} on {self._address}{self._why_not()}",
                status=status,
            )
        check(status)

    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until a peer is there. TimeoutError when nobody comes."""
        status = wait(
            self._handle,
            lambda ms: lib.lwmq_channel_wait_connected(self._handle.pointer, ms),
            timeout,
            lock=self._connecting,
        )
        if status == lib.LWMQ_E_TIMED_OUT:
            text = f"no peer came to {self._address} within {span(timeout)}"
            raise errors.TimeoutError(text, status=status)
        check(status)

    # ---- Raw buffers

    def get_buffer(self, timeout: float | None = None) -> SendBuffer:
        """Lends a free send buffer of a raw channel.

        Waits while none is free or nobody is connected. TimeoutError if none becomes free.
        """
        buffer = SendBuffer(self)
        raw = buffer._raw
        status = wait(
            self._handle,
            lambda ms: lib.lwmq_raw_get_buffer(self._handle.pointer, ms, raw),
            timeout,
            lock=self._shipping,
        )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            raise errors.TimeoutError(
                f"no send buffer got free within {span(timeout)} on {self._address}{self._why_not()}",
                status=status,
            )
        check(status)
        return buffer

    def receive_buffer(self, timeout: float | None = None) -> ReceiveBuffer:
        """Lends the next buffer received on a raw channel.

        Waits at most `timeout` seconds. TimeoutError if none comes.
        """
        buffer = ReceiveBuffer(self)
        raw = buffer._raw
        status = wait(
            self._handle,
            lambda ms: lib.lwmq_raw_receive_buffer(self._handle.pointer, ms, raw),
            timeout,
            lock=self._receiving,
        )
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY):
            raise errors.TimeoutError(
                f"no buffer came within {span(timeout)} on {self._address}{self._why_not()}", status=status
            )
        check(status)
        return buffer

    # ---- Filters

    def add_filter(self, filter: str, place: int | None = None) -> None:
        """Add a filter such as `loss=0.01,seed=7`; extents may pass meanwhile.

        place: 0 is nearest to the application; the default is nearest to the wire. The address must name
        filters (`filters+ipc://orders` starts without any). ValueError: unknown filter, setting or place.
        """
        if not isinstance(filter, str):
            raise TypeError(f"a filter is a str such as 'loss=0.01', not {type(filter).__name__}")
        text = check_text("filter", filter).encode()
        self._on_filter(lib.lwmq_channel_add_filter, text, self._place(place))

    def remove_filter(self, place: int | None = None) -> None:
        """Remove the filter at `place` (default: nearest to the wire). Extents that it held land at once."""
        self._on_filter(lib.lwmq_channel_remove_filter, self._place(place))

    @property
    def filters(self) -> list[FilterState]:
        """The filters of this channel, nearest to the application first; empty if there are none."""
        found: list[FilterState] = []
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            while True:
                raw = sized("lwmq_filter_view")
                status = lib.lwmq_channel_query_filter(self._handle.pointer, len(found), raw)
                if status in (lib.LWMQ_E_INVALID, lib.LWMQ_E_UNSUPPORTED):
                    return found
                check(status)
                name, settings = (ffi.string(text).decode() for text in (raw.name, raw.settings))
                found.append(FilterState(name=name, settings=settings, **fields_of(raw)))

    def latency(self, share: float, place: int = 0) -> float | None:
        """A quantile, in seconds, of the times that the filter `latency` at `place` has measured.

        share: 0.5 is the median, 1 the longest time. None if the filter has measured nothing yet.
        """
        out = ffi.new("uint64_t *")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            status = lib.lwmq_channel_query_times(self._handle.pointer, self._place(place), share, out)
        if status == lib.LWMQ_E_EMPTY:
            return None
        check(status)
        return int(out[0]) / 1e9

    @staticmethod
    def _place(place: int | None) -> int:
        last = int(lib.LWMQ_FILTER_LAST)
        return last if place is None else whole("place", place, 0, last - 1)

    def _on_filter(self, call: Any, *arguments: Any) -> None:
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(call(self._handle.pointer, *arguments))

    # ---- State

    @property
    def address(self) -> str:
        """The address without its options; with several transports, the first."""
        return self._address

    @property
    def role(self) -> str:
        """The role that was asked for; `statistics.is_server` says what `auto` became."""
        return self._role

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> ChannelStatistics:
        """Counters of this channel; after its close, the last ones. ClosedError while it is being closed."""
        if self._last is not None:
            return self._last
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            return self._query()

    def _query(self) -> ChannelStatistics:
        raw = sized("lwmq_channel_statistics")
        check(lib.lwmq_channel_query(self._handle.pointer, raw))
        fields = fields_of(raw)
        return ChannelStatistics(
            connected=bool(fields.pop("connected")), is_server=bool(fields.pop("is_server")), **fields
        )

    @property
    def peer(self) -> Peer | None:
        """The peer, or None if none has come yet; with several transports, the peer of the first."""
        return self._peer_over(0)

    @property
    def peers(self) -> list[Peer | None]:
        """The peer of each transport, in the order of the addresses."""
        return [self._peer_over(transport) for transport in range(self._transports)]

    def _peer_over(self, transport: int) -> Peer | None:
        raw = sized("lwmq_peer")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            status = lib.lwmq_channel_peer(self._handle.pointer, transport, raw)
        if status == lib.LWMQ_E_EMPTY:
            return None
        check(status)
        return Peer._of(raw)

    def wait_peer(
        self, known: Peer | None = None, timeout: float | None = None, *, transport: int = 0
    ) -> Peer:
        """Wait until a peer comes or goes: until the peer is not `known`, or is gone. Returns that peer.

            peer = None
            while True:
                peer = channel.wait_peer(peer)
                print(peer.pid, "has come" if peer.connected else "has gone")

        If peers come and go several times between two calls, the call returns the last event; `number` tells
        how many have come. Any number of threads. TimeoutError. ClosedError: no further peer can come.
        ValueError: there is no transport `transport` (they count from 0, in the order of the addresses).
        """
        transport = whole("transport", transport, 0, self._transports - 1)
        raw = sized("lwmq_peer")
        if known is not None:
            if not isinstance(known, Peer):
                raise TypeError(f"wait_peer() takes the Peer that it said last, or None, not {known!r}")
            raw.number, raw.connected = known.number, known.connected
        status = wait(
            self._handle,
            lambda ms: lib.lwmq_channel_wait_peer(self._handle.pointer, transport, ms, raw),
            timeout,
            lock=self._watching,
        )
        if status == lib.LWMQ_E_TIMED_OUT:
            text = f"no peer came to or left {self._address} within {span(timeout)}"
            raise errors.TimeoutError(text, status=status)
        check(status)
        return Peer._of(raw)

    def close(self, linger: float | str | None = None) -> None:
        """Wait at most `linger` seconds until the peer has read what was posted, then close.

        A message of 4 KiB and more counts as read when its receiver has released it. TimeoutError: the
        channel is closed, and the text has the number of messages that were dropped or not known to be read.
        Received messages stay valid, and raw buffers until they are given back. Closing twice has no further
        effect.
        """
        if self._is_called:
            self.on_message(None)
        seconds = self._linger if linger is None else parse_duration(linger)
        if not self._handle.begin_close():
            return
        try:
            locks = [self._handle.lock, self._connecting, self._shipping]
            # Those of now are all: a further queue finds the channel closed.
            locks += [lock for q in self._queues for lock in (q.lock, q.waiting)]
            if isinstance(self._receiving, CallLock):
                locks.append(self._receiving)
            if self._is_called:  # since another thread asked for calls just now
                self.on_message(None)
            self._watching.empty()
            if isinstance(self._receiving, CallCount):
                self._receiving.empty()
            self._close_behind(CallLocks(tuple(locks)), seconds)
        finally:
            if self._handle.pointer is not None:
                self._handle.take_close_back()

    def _close_behind(self, locks: CallLocks, seconds: float | None) -> None:
        with locks:
            for known in self._selectors:
                if (selector := known()) is not None:
                    selector._forget(self)
            try:
                check(
                    anew_when_interrupted(
                        lambda ms: lib.lwmq_channel_close(self._handle.pointer, ms), seconds
                    )
                )
            finally:
                self._last = self._query()
                for queue in self._queues:
                    queue.last = queue.query()
                self._handle.destroy()
                self.readiness.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None and handle.usable and self._queues:
            tell_of_unsent(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As `with`; the event loop is not blocked while close lingers."""
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
    """The limit of one call. ValueError: below 1. TypeError: not an int."""
    return min(whole("limit", limit, 1, sys.maxsize), AT_ONCE_MAX)


def _addresses_of(address: Any) -> list[Address]:
    """Parses one address or several. AddressError, TypeError. ValueError: there is none."""
    is_one = isinstance(address, (str, bytes)) or not isinstance(address, Iterable)
    texts = [address] if is_one else list(address)
    if not texts:
        raise ValueError("a channel without a transport: say at least one address")
    first = parse_address(texts[0], CHANNEL)
    return [first, *(parse_address(text, TRANSPORT) for text in texts[1:])]
