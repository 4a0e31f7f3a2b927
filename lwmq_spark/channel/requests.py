"""Requests and their replies over a channel: thousands outstanding, each with a time-out of its own.

    # one process                                      # another
    with (lwmq.Channel("ipc://square") as channel,     with lwmq.Channel("ipc://square") as channel:
          lwmq.Requests(channel) as requests):             lwmq.Replies(channel).serve(square)
        frames = requests.request(b"7", timeout=1.0)
        reply = requests.submit(b"8", timeout=1.0)     # goes on at once; reply.result(), or await reply

A request is a message whose first frame is a head and whose other frames are the application's; its reply is
alike. `WIRE.md` has the format, which C and Java speak as well. No request is sent twice by the library. A
request may be executed although its requester was told that the time is over or the peer is lost.

The C library numbers the requests, keeps their deadlines and counters, and decides which thread receives. A
thread that waits for the only reply outstanding receives that reply by itself, so one thread wakes and not
two. The thread `lwmq-requests` of each `Requests` is told of everything else.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Condition,
    Handle,
    OfOneProcess,
    Turn,
    address_of,
    check,
    exception_of,
    ffi,
    fields_of,
    lib,
    native_messages,
    sized,
)
from lwmq_spark._waiting import (
    Readiness,
    background_thread,
    check_timeout,
    milliseconds,
    on_a_thread,
    span,
)
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.send_queue import SendQueue
from lwmq_spark.message import Frame, Message, parts_of
from lwmq_spark.options import whole

_log = logging.getLogger("lwmq_spark")
OUTSTANDING_MAX = 1 << 20
RECEIVE_S = 0.02  # how long a thread receives its own reply, before it leaves that to `lwmq-requests`
NO_MEMORY_PAUSE_S = 0.01

# What native_messages.requests_next and requests_wait tell: the reply; or status, text and failure, which is
# the message of a handler that has failed.
Outcome = Message | tuple[int, str, Message | None]


class Frames(tuple[Frame, ...]):
    """The frames of a request or a reply, without the head. `bytes(frames)` is a copy of all, joined."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        return b"".join(self)


class Reply(Future[Frames]):
    """A reply that will come: `result()` waits for its frames, `await reply` does on any event loop.

    Both raise what ended the request: TimeoutError, HandlerError (the peer's handler raised), PeerLostError,
    ClosedError. `cancel` gives the request up; a reply that comes later is dropped and counted as late.
    Call-backs run on the thread that settles the reply, mostly `lwmq-requests`, or at once where the reply is
    settled already. They should be short: other replies wait meanwhile.
    """

    def __init__(self, requests: Requests, timeout: float | None) -> None:
        super().__init__()
        # An exception of a signal's handler may leave Future's own condition locked.
        self._condition = Condition()  # type: ignore[assignment]
        self._outstanding = requests._outstanding
        self._requests: Requests | None = requests  # kept alive until this is settled
        self._number = 0  # until it is posted
        self._timeout = timeout
        self._came: list[Outcome] = []  # received by the thread in `result`
        self._calls_back = False

    def result(self, timeout: float | None = None) -> Frames:
        """Wait for the frames, at most `timeout` seconds (None: without limit).

        TimeoutError: the reply has not come; the request stays outstanding unless its own time is over.
        LwmqError: on the thread that would receive the reply, in a call-back or a signal's handler.
        """
        check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        outstanding = self._outstanding
        outstanding.check_process()
        if not self.done():
            with outstanding.waiting_for(self):
                outstanding.receive_own(self, timeout)
                return self._wait(end, timeout)
        return super().result(0)

    def _wait(self, end: float | None, timeout: float | None) -> Frames:
        try:
            return super().result(None if end is None else max(0.0, end - time.monotonic()))
        except TimeoutError as exc:
            if isinstance(exc, errors.LwmqError):
                raise
            raise self._timed_out(timeout, "") from None

    def _timed_out(self, seconds: float | None, where: str) -> errors.TimeoutError:
        why = self._outstanding.why_not()
        text = f"no reply to request {self._number} within {span(seconds)}{where}{why}"
        return errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT)

    def add_done_callback(self, fn: Callable[[Future[Frames]], object]) -> None:
        self._outstanding.check_process()
        if getattr(fn, "__module__", None) == "asyncio.tasks":  # of asyncio.wait, which would not wake
            raise TypeError("a reply is no future of an event loop: asyncio.wrap_future(reply) makes one")
        self._calls_back = True
        super().add_done_callback(partial(self._call, fn))

    def _call(self, fn: Callable[[Future[Frames]], object], future: Future[Frames]) -> None:
        """Future catches an Exception; sys.exit() would end the thread that serves all replies."""
        try:
            fn(future)
        except Exception:
            raise
        except BaseException:
            if threading.get_ident() != self._outstanding.thread:
                raise
            _log.exception("a callback of request %d on %s has failed", self._number, self._outstanding.where)

    def cancel(self) -> bool:
        self._outstanding.check_process()
        if not super().cancel():
            return False
        self._outstanding.forget(self)
        self._requests = None
        return True

    def _settle(self, outcome: Outcome) -> None:
        """A second call does nothing."""
        with suppress(InvalidStateError):  # cancelled, or settled before
            if isinstance(outcome, Message):
                self.set_result(Frames(outcome._frames(1)))
            else:
                self.set_exception(self._failure_of(*outcome))
        self._requests = None

    def _failure_of(self, status: int, text: str, failure: Message | None) -> errors.LwmqError:
        outstanding = self._outstanding
        if status == lib.LWMQ_E_TIMED_OUT:
            return self._timed_out(self._timeout, f" on {outstanding.where}")
        if failure is None:
            return outstanding.exception_of(status, text)
        kind, said = (bytes(frame).decode("utf-8", "replace") for frame in failure._frames(1))
        both = ": ".join(filter(None, (kind, said)))
        text = f"the peer's handler failed: {both} ({outstanding.where})"
        return errors.HandlerError(text, status=status, kind=kind)

    def __await__(self) -> Generator[Any, None, Frames]:
        return asyncio.wrap_future(self).__await__()


@dataclass(frozen=True, slots=True)
class RequestsStatistics:
    """Counters of one `Requests`. `asked` is the sum of `outstanding` and the five that follow it.

    `answered`: replied to. `failed`: the peer's handler raised. `timed_out`: no reply in time. `lost`: the
    peer was lost or closed, or the requests were closed. `given_up`: cancelled, or refused by the post.
    Messages that were dropped: `late`, replies to requests that were settled before; `foreign`, replies to
    another requester; `malformed`, messages that are no reply to any request.
    """

    asked: int
    outstanding: int
    answered: int
    failed: int
    timed_out: int
    lost: int
    given_up: int
    late: int
    foreign: int
    malformed: int


class _ThreadsTurn(threading.local):
    """`turn` of each thread, which it holds while it waits for a reply."""

    def __init__(self) -> None:
        self.turn = Turn()


class _Outstanding:
    """The native requests, and the replies by number. Any thread.

    `lwmq-requests` knows this object alone, so that a program can forget the `Requests` while it runs.
    """

    def __init__(self, channel: Channel, queue: SendQueue, most: int) -> None:
        options = sized("lwmq_requests_options")
        options.queue, options.outstanding_max, options.keep_failures = queue._pointer, most, 1
        out = ffi.new("lwmq_requests **")
        check(lib.lwmq_requests_create(channel._handle.lend(), options, out))
        self._native = Handle(out[0], f"requests on {channel.address}", lib.lwmq_requests_destroy)
        self.address = self._native.address
        self.where = channel.address
        self.replies: dict[int, Reply] = {}
        self.thread = 0  # the identity of `lwmq-requests`
        self._waits = _ThreadsTurn()
        self._handle = channel._handle
        self._channel: Channel | None = channel  # until the thread ends
        self._is_closed = False

    @property
    def pointer(self) -> Any:
        return self._native.pointer

    def check_process(self) -> None:
        """ClosedError in a forked child, where no thread receives and locks may be the parent's."""
        if self._handle.forked:
            self._handle.check_open()

    def waiting_for(self, reply: Reply) -> Turn:
        """For `with`. LwmqError: this thread waits further down its stack, or is the one that settles."""
        waits = self._waits.turn
        if self.thread == threading.get_ident() or waits.held_here():
            raise errors.LwmqError(
                f"request {reply._number} awaited in a callback, or a signal's handler, on the thread "
                "that would receive its reply: add a callback to it, or wait on a thread of your own"
            )
        return waits

    def receive_own(self, reply: Reply, timeout: float | None) -> None:
        """Receive the reply on this thread, unless others receive or somebody else is to settle it."""
        if reply._calls_back or reply._waiters:  # type: ignore[attr-defined]
            return
        ms = milliseconds(RECEIVE_S if timeout is None else min(RECEIVE_S, timeout))
        came = reply._came
        try:
            if not came:
                native_messages.requests_wait(self.address, reply._number, ms, Message, came)
        finally:  # a signal's handler may raise right after that
            if came:
                self.replies.pop(reply._number, None)
                reply._settle(came[0])

    def forget(self, reply: Reply) -> None:
        if self.replies.pop(reply._number, None) is not None:
            lib.lwmq_requests_cancel(self.pointer, reply._number)

    def exception_of(self, status: int, text: str) -> errors.LwmqError:
        if status == lib.LWMQ_E_CLOSED and self._handle.closed:
            text = f"the {self._handle.what} is closed"
        return exception_of(status, text)

    def why_not(self) -> str:
        """What the text of a time-out adds, or nothing."""
        channel = self._channel
        return "" if channel is None else channel._why_not()

    def close(self) -> None:
        """Fail what is outstanding, and whatever is asked from now on."""
        pointer = self.pointer  # None: the garbage collector has finalized the native requests first
        if not self._handle.forked and pointer is not None:
            self._is_closed = True
            lib.lwmq_requests_close(pointer)

    def serve(self) -> None:
        """The life of the thread: settles replies until the requests or their channel are closed."""
        self.thread = threading.get_ident()
        try:
            while self._tell_next(lib.LWMQ_FOREVER):
                pass
        finally:
            channel, self._channel = self._channel, None
            assert channel is not None
            if not channel._is_accepted or channel.closed:  # else a request says why the client has gone
                self.close()
            while self._tell_next(0):
                pass
            channel._take_back(self)

    def _tell_next(self, timeout_ms: int) -> bool:
        """Settle the replies whose outcomes come next. False: none will come any more."""
        came: list[tuple[int, Outcome]] = []
        native_messages.requests_next(self.address, timeout_ms, Message, came)
        for number, outcome in came:
            reply = self.replies.pop(number, None)
            if reply is not None:
                reply._settle(outcome)
            elif number == 0 and not isinstance(outcome, Message) and self._is_over(*outcome):
                return False
        return timeout_ms != 0 or bool(came)

    def _is_over(self, status: int, text: str, _: object) -> bool:
        if status == lib.LWMQ_E_NO_MEMORY:  # nothing is lost
            time.sleep(NO_MEMORY_PAUSE_S)
        channel = self._channel
        if self._is_closed or channel is None or channel.closed:
            return True
        return channel._is_over_with(exception_of(status, text))


class Requests(OfOneProcess):
    """The asking side of a channel. Any number of threads and event loops ask.

    The channel is lent: until `close`, which leaves the channel open, what comes over it belongs to the
    requests. A second `Requests` on the same channel, and every other way to receive from it, is refused
    meanwhile; its send queues are free. A request that is outstanding keeps this object alive.
    """

    def __init__(
        self, channel: Channel, *, queue: SendQueue | None = None, outstanding_max: int = OUTSTANDING_MAX
    ) -> None:
        """Begin to receive from `channel`.

        queue: where requests are posted; by default an unbounded one that the channel has for this.
        outstanding_max: further requests are refused with LwmqError; each takes some 2 KiB until it is
            settled.
        ValueError: a bound below 1, or the queue of another channel. LwmqError: what comes over the channel
        goes to another `Requests`, a call-back or a selector. ClosedError.
        """
        _check_channel(channel, "Requests")
        outstanding_max = whole("outstanding_max", outstanding_max, 1, sys.maxsize)
        self._channel = channel
        self._queue = _queue_of(channel, queue)
        channel.fileno()  # so that a channel that cannot receive is refused now
        self._outstanding = _Outstanding(channel, self._queue, outstanding_max)
        channel._lend(self._outstanding)
        try:
            thread = background_thread(self._outstanding.serve, "lwmq-requests")
            thread.start()
        except BaseException:
            channel._take_back(self._outstanding)
            raise
        self._thread = thread

    def request(self, frames: Any, timeout: float | None = None) -> Frames:
        """Ask, and wait for the reply at most `timeout` seconds. Arguments and errors as of `submit`."""
        reply = Reply(self, timeout)
        try:
            self._submit(reply, frames, will_wait=True)
            return reply.result()
        finally:
            reply.cancel()  # where a signal's handler has ended the wait

    def submit(self, frames: Any, timeout: float | None = None) -> Reply:
        """Ask and go on. `frames`: bytes or a buffer for one frame, or a list of them. Never waits.

        The reply comes, or fails with TimeoutError after `timeout` seconds (None: waits as long as the peer
        lives), HandlerError, PeerLostError or ClosedError (the peer was lost or has closed, or we have). On a
        channel of several transports every peer is asked, the first reply counts, and the end of any of
        them fails what is outstanding. Without a peer a request waits for one. Where what keeps the peer away
        has to be mended (VersionError, LwmqError and the like), what is outstanding fails with that, and
        until it is mended this raises it. Raises what `post` does, and LwmqError when too many are
        outstanding.
        """
        reply = Reply(self, timeout)
        try:
            self._submit(reply, frames, will_wait=False)
        except BaseException:
            reply.cancel()
            raise
        return reply

    def _submit(self, reply: Reply, frames: Any, *, will_wait: bool) -> None:
        check_timeout(reply._timeout)
        outstanding = self._outstanding
        self._channel._handle.check_open()
        ms = milliseconds(reply._timeout)

        def submit(what: object) -> int | None:
            with self._queue._turn:
                return native_messages.requests_submit(
                    outstanding.address, ms, will_wait, what, outstanding.replies, reply
                )

        status = submit(frames)
        if status is None:  # long frames, or none
            status = submit(Message([self._head(), *parts_of(frames, "submit")]))
        if status == lib.LWMQ_E_FULL:
            most = f"{len(outstanding.replies)} requests are outstanding on {self._channel.address}"
            raise errors.LwmqError(
                f"{most}, as many as outstanding_max allows: give them a timeout, or wait for replies"
            )
        check(lib.LWMQ_E_INVALID if status is None else status)

    def _head(self) -> bytes:
        """The first frame of the next request."""
        out = ffi.new("lwmq_message **")
        check(lib.lwmq_requests_make(self._outstanding.pointer, out))
        return bytes(_message_at(out)[0])

    @property
    def statistics(self) -> RequestsStatistics:
        self._outstanding.check_process()
        raw = sized("lwmq_requests_statistics")
        check(lib.lwmq_requests_query(self._outstanding.pointer, raw))
        figures = fields_of(raw)
        del figures["due_ms"]
        return RequestsStatistics(**figures)

    def close(self) -> None:
        """Fail what is outstanding with ClosedError. The channel stays open. Twice is once."""
        self._outstanding.close()
        if not self._channel._handle.forked and threading.get_ident() != self._outstanding.thread:
            self._thread.join()

    def __enter__(self) -> Requests:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """As `with`; the event loop goes on while the thread ends."""
        await on_a_thread(f"lwmq close of the requests on {self._channel.address}", self.close)

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._outstanding.close()

    def __repr__(self) -> str:
        if self._channel._handle.forked:
            return f"<Requests on {self._channel.address}, of another process>"
        return f"<Requests on {self._channel.address}, {self.statistics.outstanding} outstanding>"


class Request(OfOneProcess):
    """A request that came, to be answered once, by any thread, at any time, or never.

    `frames` are read-only memoryviews of the message, which live as long as they are referred to.
    """

    __slots__ = ("_head", "_lock", "_message", "_open", "_replies", "frames")

    def __init__(self, replies: Replies, message: Message, head: bytes) -> None:
        self._replies = replies
        self._message = message
        self._head = head  # of the reply
        self._lock = threading.RLock()  # a signal's handler may answer, too
        self._open = True
        self.frames = Frames(message._frames(1))

    def reply(self, frames: Any = ()) -> None:
        """Answer with `frames`, as `post` takes them. Never waits.

        Raises what `post` does; then the request is still to be answered.
        """
        self._answer([self._head, *parts_of(frames, "reply")])
        self._replies._count("answered")

    def fail(self, exc: BaseException | str) -> None:
        """Answer with a failure: HandlerError at the requester, with the class and the text of `exc`.

        Of each, 1,000 bytes travel.
        """
        kind, text = ("", exc) if isinstance(exc, str) else (type(exc).__qualname__, str(exc))
        kind_bytes, text_bytes = (one.encode("utf-8", "replace").replace(b"\0", b" ") for one in (kind, text))
        out = ffi.new("lwmq_message **")
        check(lib.lwmq_reply_make_failure(self._message._handle, kind_bytes, text_bytes, out))
        self._answer(_message_at(out))
        self._replies._count("failed")

    def _answer(self, frames: Any) -> None:
        with self._lock:
            if not self._open:
                raise errors.LwmqError(f"request {self._number} was answered before")
            self._open = False
            try:
                self._replies._queue.post(frames)
            except BaseException:
                self._open = True
                raise

    @property
    def _number(self) -> int:
        """As its requester counts (WIRE.md)."""
        return int.from_bytes(self._head[16:24], "little")

    def __repr__(self) -> str:
        return f"<Request {self._number}, {'to be answered' if self._open else 'answered'}>"


@dataclass(frozen=True, slots=True)
class RepliesStatistics:
    """`malformed`: messages that are no requests, dropped."""

    received: int
    answered: int
    failed: int
    malformed: int


class Replies(OfOneProcess):
    """The answering side of a channel. Threads as for `receive`: on a mono receiving side in turns."""

    def __init__(self, channel: Channel, *, queue: SendQueue | None = None) -> None:
        """queue: where replies are posted; by default one that the channel has for this, unbounded, of
        normal priority.

        A requester that asks and takes no replies lets that grow: a bounded queue stands that.
        """
        _check_channel(channel, "Replies")
        self._channel = channel
        self._queue = _queue_of(channel, queue)
        self._lock = threading.RLock()  # a signal's handler may count, and look
        self._counts = dict.fromkeys(("received", "answered", "failed", "malformed"), 0)

    def receive(self, timeout: float | None = None) -> Request:
        """The next request; errors as of `Channel.receive`. Other messages are counted and dropped."""
        check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        left = timeout  # as it is, so that a time-out names what was asked for
        while (request := self.request_of(self._channel.receive(left))) is None:
            left = None if end is None else max(0.0, end - time.monotonic())
        return request

    def try_receive(self) -> Request | None:
        """The next request if one is there. Never waits."""
        try:
            return self.receive(0)
        except errors.TimeoutError:
            return None

    async def receive_async(self) -> Request:
        """Await the next request, as `Channel.receive_async`; `lwmq_spark.aio.receive` takes a time-out."""
        return await self.readiness.first(self.try_receive)

    @property
    def address(self) -> str:
        """That of the channel."""
        return self._channel.address

    @property
    def readiness(self) -> Readiness:
        """By which an event loop awaits what comes over the channel."""
        return self._channel.readiness

    def serve(self, handler: Callable[[Frames], Any], *, forever: bool = True) -> None:
        """Answer each request with what `handler(frames)` returns: bytes, a buffer or a list of them.

        An exception of the handler, and a reply that is none or too big, become HandlerError there; its text
        is sent.
        forever: peers come and go, until the channel is closed on this side. Otherwise, and where the channel
        is a `Listener`'s, until the peer has closed; PeerLostError, CorruptError. TypeError: a coroutine
        function, as in asyncio a task that takes what `receive_async` gives answers by itself.
        """
        if inspect.iscoroutinefunction(handler):
            raise TypeError("serve() calls on this thread: in asyncio, `await replies.receive_async()`")
        while not self._channel.closed:
            try:
                self.serve_one(handler)
            except errors.ENDS_OF_PEER as exc:
                if self._channel.closed:
                    return
                if forever and not self._channel._is_accepted and not self._channel._handle.forked:
                    continue
                if isinstance(exc, errors.ClosedError):
                    return
                raise

    def serve_one(self, handler: Callable[[Frames], Any], timeout: float | None = None) -> None:
        """Answer the next request as `serve` does, from any peer.

        TimeoutError when none comes; errors of `receive`. Where its peer has gone before the answer, it was
        in vain. What ends a program (SystemExit, KeyboardInterrupt) fails the request, and goes on.
        """
        request = self.receive(timeout)
        try:
            request.reply(handler(request.frames))
        except BaseException as exc:
            if request._open and not self._channel.closed:
                with suppress(errors.ClosedError):  # the client of a listener, which may have left more
                    request.fail(exc)
            if not isinstance(exc, Exception):
                raise

    @property
    def statistics(self) -> RepliesStatistics:
        with self._lock:
            return RepliesStatistics(**self._counts)

    def request_of(self, message: Message) -> Request | None:
        """The request in `message`, for a program that receives by a selector or a call-back.

        None: `message` is no request. It is counted as malformed.
        """
        head = native_messages.reply_head(message)
        self._count("malformed" if head is None else "received")
        return None if head is None else Request(self, message, head)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def __repr__(self) -> str:
        return f"<Replies on {self._channel.address}, {self.statistics.received} received>"


def _check_channel(channel: object, who: str) -> None:
    if not isinstance(channel, Channel):
        raise TypeError(f"{who} takes a channel, not {type(channel).__name__}")


def _queue_of(channel: Channel, queue: SendQueue | None) -> SendQueue:
    if queue is None:
        return channel._common_queue()
    if not isinstance(queue, SendQueue):
        raise TypeError(f"queue is a send queue of the channel, not {type(queue).__name__}")
    if queue._channel is not channel:
        raise ValueError(f"a send queue of {queue._where}, not of the channel on {channel.address}")
    return queue


def _message_at(out: Any) -> Message:
    """The native message at `out` as a `Message`, which takes it."""
    message = Message.__new__(Message)
    message._take(address_of(out[0]))
    return message
