"""Requests and their replies over a channel: thousands outstanding, each with a time-out of its own.

    # one process                                      # another
    with (lwmq.Channel("ipc://square") as channel,     with lwmq.Channel("ipc://square") as channel:
          lwmq.Requests(channel) as requests):             lwmq.Replies(channel).serve(square)
        frames = requests.request(b"7", timeout=1.0)
        reply = requests.submit(b"8", timeout=1.0)     # goes on at once; reply.result(), or await reply

A request is a message whose first frame is a head of 24 bytes, little-endian, and whose other frames are the
application's. The reply has the head of its request, but for the kind.

    0         4         5       6      8                 16                24
    +---------+---------+-------+------+-----------------+-----------------+
    | "lwrq"  | format  | kind  |  0   |      asker      |     number      |
    +---------+---------+-------+------+-----------------+-----------------+

format: 1. kind: 1 request, 2 reply, 3 failure, which has two frames more: the name of the exception's class
and its text, UTF-8, at most 1000 bytes each. asker: 64 random bits of one `Requests`, so that nobody takes
the reply to another one for his own: not on a channel of several transports, where all peers see it, and not
the successor of a peer that was lost. number: 1, 2, 3... of that asker.

A request may be executed although its requester was told that the time is over or the peer is lost; nothing
is asked twice by itself.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from lwmq_spark import errors
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.send_queue import SendQueue
from lwmq_spark.message import Frame, Message, parts_of

HEAD = struct.Struct("<4sBBHQQ")
MAGIC, FORMAT = b"lwrq", 1
REQUEST, REPLY, FAILURE = 1, 2, 3
OUTSTANDING_MAX = 1 << 20
TEXT_BYTES_MAX = 1000  # of a failure's class and of its text
RECEIVED_AT_ONCE = 256
DEADLINES_KEPT = 64  # of requests that are settled, beside as many as are outstanding

# What ends the conversation with one peer: said once, the next one may come.
_ENDS_OF_PEER = (errors.ClosedError, errors.PeerLostError, errors.CorruptError)


class Frames(tuple[Frame, ...]):
    """What was asked or answered, without the head. `bytes(frames)` is a copy of all, one after the other."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        return b"".join(self)


class Reply(Future[Frames]):
    """The frames that will come, or the error: `result()`, or `await` on any event loop.

    `result` also raises HandlerError, where the peer's handler raised. `cancel` gives up: what comes is late.
    Callbacks run on the thread of its `Requests`, or at once where it is settled already; none should wait.
    """

    def __init__(self, desk: _Desk, number: int) -> None:
        super().__init__()
        self._desk = desk
        self._number = number

    def result(self, timeout: float | None = None) -> Frames:
        """Waits, at most `timeout` seconds; the request stays outstanding when that was too short."""
        if self._desk.thread == threading.get_ident() and not self.done():
            raise errors.LwmqError(
                f"request {self._number} awaited in a callback on the thread that would receive its reply: "
                "add a callback to it, or wait on a thread of your own"
            )
        try:
            return super().result(timeout)
        except TimeoutError as exc:
            if isinstance(exc, errors.LwmqError):
                raise
            raise errors.TimeoutError(f"no reply to request {self._number} within {timeout} s") from None

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        self._desk.forget(self._number)
        return True

    def __await__(self) -> Generator[Any, None, Frames]:
        return asyncio.wrap_future(self).__await__()


@dataclass(frozen=True, slots=True)
class RequestsStatistics:
    """`asked` is the sum of `outstanding` and what follows up to `given_up`.

    `lost`: failed because the peer was lost or closed, or these requests were; `given_up`: cancelled, or
    never posted.
    Dropped: `late`, replies to what was settled before; `foreign`, those to another asker; `malformed`, what
    is no reply to anything.
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


class _Desk:
    """What is outstanding, by number and by time. Any thread; nobody is told anything with the lock held."""

    def __init__(self, address: str, most: int) -> None:
        self.address = address
        self.asker = int.from_bytes(os.urandom(8), "little")
        self.thread = 0
        self.ended: errors.LwmqError | None = None
        self._most = most
        self._lock = threading.RLock()  # collecting garbage while it is held may end a Requests
        self._replies: dict[int, Reply] = {}
        self._deadlines: list[tuple[float, int, float]] = []  # a heap; what is settled leaves it later
        self._asked = 0
        self._count = dict.fromkeys(
            ("answered", "failed", "timed_out", "lost", "given_up", "late", "foreign", "malformed"), 0
        )
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def enlist(self, timeout: float | None) -> Reply:
        with self._lock:
            if self.ended is not None:
                raise _again(self.ended)
            if len(self._replies) >= self._most:
                raise errors.LwmqError(
                    f"{self._most} requests are outstanding on {self.address}, as many as outstanding_max "
                    "allows: give them a timeout, or wait for replies"
                )
            self._asked += 1
            number = self._asked
            reply = self._replies[number] = Reply(self, number)
            if timeout is not None:
                heapq.heappush(self._deadlines, (time.monotonic() + timeout, number, timeout))
                if len(self._deadlines) > DEADLINES_KEPT + 2 * len(self._replies):
                    self._deadlines = [due for due in self._deadlines if due[1] in self._replies]
                    heapq.heapify(self._deadlines)
                if self._deadlines[0][1] == number:
                    self._wake()
            return reply

    def forget(self, number: int) -> None:
        with self._lock:
            if self._replies.pop(number, None) is not None:
                self._count["given_up"] += 1

    def settle(self, message: Message) -> None:
        """Gives a message that came to whom it answers."""
        head = _head_of(message)
        with self._lock:
            if head is None or head[0] not in (REPLY, FAILURE):
                self._count["malformed"] += 1
                return
            kind, asker, number = head
            if asker != self.asker:
                self._count["foreign"] += 1
                return
            failure = _failure_of(message, self.address) if kind == FAILURE else None
            if not 0 < number <= self._asked or (kind == FAILURE and failure is None):
                self._count["malformed"] += 1
                return
            reply = self._replies.pop(number, None)
            if reply is None:
                self._count["late"] += 1
                return
            self._count["answered" if failure is None else "failed"] += 1
        if failure is not None:
            _fail(reply, failure)
        elif reply.set_running_or_notify_cancel():
            reply.set_result(Frames(message.frames[1:]))

    def expire(self) -> float | None:
        """Fails what is due; seconds until the next is, None where none has a time-out."""
        due: list[tuple[Reply, float]] = []
        left = None
        now = time.monotonic()
        with self._lock:
            while self._deadlines:
                end, number, timeout = self._deadlines[0]
                if number in self._replies and end > now:
                    left = end - now
                    break
                heapq.heappop(self._deadlines)
                if (reply := self._replies.pop(number, None)) is not None:
                    self._count["timed_out"] += 1
                    due.append((reply, timeout))
        for reply, timeout in due:
            text = f"no reply to request {reply._number} within {timeout} s on {self.address}"
            _fail(reply, errors.TimeoutError(text))
        return 0.0 if due else left  # a callback may have taken its time, or asked anew

    def lose(self, exc: errors.LwmqError, *, for_good: bool = False) -> None:
        """Fails all that is outstanding; `for_good`: and whatever is asked from now on."""
        with self._lock:
            if for_good:
                self.ended = self.ended or exc
                self._wake()
            replies, self._replies = self._replies, {}
            self._deadlines.clear()
            self._count["lost"] += len(replies)
        for reply in replies.values():
            _fail(reply, _again(exc))

    def wake(self) -> None:
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        if self.wake_fd >= 0:
            os.eventfd_write(self.wake_fd, 1)

    def leave(self) -> None:
        """The thread's last word."""
        with self._lock:
            os.close(self.wake_fd)
            self.wake_fd = -1

    def statistics(self) -> RequestsStatistics:
        with self._lock:
            return RequestsStatistics(asked=self._asked, outstanding=len(self._replies), **self._count)


class Requests:
    """The asking side of a channel. Any number of threads and event loops ask.

    A thread of its own receives the replies and keeps the time, asleep while there is neither. The channel is
    lent: its receiving side is ours until `close`, which leaves the channel open; its send queues are not.
    """

    def __init__(
        self, channel: Channel, *, queue: SendQueue | None = None, outstanding_max: int = OUTSTANDING_MAX
    ) -> None:
        """queue: where requests are posted; by default a new one, which lives as long as the channel.

        outstanding_max: more than these are refused (LwmqError); each takes some 2 KiB until it is settled.
        ValueError: a bound below 1, or the queue of another channel. ClosedError.
        """
        if outstanding_max < 1:
            raise ValueError(f"outstanding_max {outstanding_max}: at least 1 is possible")
        self._channel = channel
        self._queue = _queue_of(channel, queue)
        self._desk = _Desk(channel.address, outstanding_max)
        try:
            fd = os.dup(channel.fileno())
        except BaseException:
            self._desk.leave()
            raise
        channel._readiness.tell_when_closed(self._desk.wake)
        self._thread = threading.Thread(
            target=_receive_replies, args=(channel, self._desk, fd), name="lwmq-requests", daemon=True
        )
        self._thread.start()

    def request(self, frames: Any, timeout: float | None = None) -> Frames:
        """Asks and waits for the reply, at most `timeout` seconds; arguments and errors as of `submit`."""
        reply = self.submit(frames, timeout)
        try:
            return reply.result()
        except BaseException:
            reply.cancel()  # where a signal ended the wait
            raise

    def submit(self, frames: Any, timeout: float | None = None) -> Reply:
        """Asks and goes on: bytes or a buffer for one frame, or a list of them. Never waits for the peer.

        The reply comes, or fails with TimeoutError after `timeout` seconds (None: waits as long as the peer
        lives), HandlerError, PeerLostError or ClosedError (the peer was lost or has closed, or we have). On a
        channel of several transports every peer is asked, the first reply counts, and the end of any of
        them fails what is outstanding. Without a peer a request waits for one.
        Raises what `post` does; and LwmqError when too many are outstanding.
        """
        self._channel._handle.check_open()
        parts = parts_of(frames, "submit")
        reply = self._desk.enlist(timeout)
        try:
            self._queue.post([HEAD.pack(MAGIC, FORMAT, REQUEST, 0, self._desk.asker, reply._number), *parts])
        except BaseException:
            self._desk.forget(reply._number)
            raise
        return reply

    @property
    def statistics(self) -> RequestsStatistics:
        return self._desk.statistics()

    def close(self) -> None:
        """What is outstanding fails with ClosedError. The channel stays open. Twice is once."""
        self._channel._readiness.tell_no_more(self._desk.wake)
        self._end()
        if threading.get_ident() != self._desk.thread:
            self._thread.join()

    def _end(self) -> None:
        if self._channel._handle.forked:  # the thread, and whoever held the lock, are our parent's
            return
        self._desk.lose(errors.ClosedError(f"the requests on {self._desk.address} are closed"), for_good=True)

    def __enter__(self) -> Requests:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._end()

    def __repr__(self) -> str:
        return f"<Requests on {self._desk.address}, {self.statistics.outstanding} outstanding>"


def _receive_replies(channel: Channel, desk: _Desk, fd: int) -> None:
    """The thread of a Requests; knows not the object itself, so that it does not keep it alive."""
    desk.thread = threading.get_ident()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(desk.wake_fd, select.POLLIN)
    try:
        while desk.ended is None:
            try:
                for message in channel.receive_many(RECEIVED_AT_ONCE, 0):
                    desk.settle(message)
                    del message
                desk.expire()
                continue
            except errors.TimeoutError:
                pass
            except errors.LwmqError as exc:
                desk.lose(exc, for_good=channel.closed or not isinstance(exc, _ENDS_OF_PEER))
                continue
            left = desk.expire()
            for ready, _ in poll.poll(None if left is None else math.ceil(left * 1000)):
                if ready == desk.wake_fd:
                    os.eventfd_read(ready)
    finally:
        desk.leave()
        os.close(fd)


class Request:
    """One that came, to be answered once, by any thread, at any time, or never."""

    __slots__ = ("_head", "_lock", "_open", "_queue", "_replies", "frames")

    def __init__(self, replies: Replies, head: tuple[int, int], frames: Frames) -> None:
        self._replies = replies
        self._head = head
        self._lock = threading.Lock()
        self._open = True
        self.frames = frames

    def reply(self, frames: Any = ()) -> None:
        """Answers. Never waits. Raises what `post` does, and the request is still to be answered."""
        self._answer(REPLY, parts_of(frames, "reply"))
        self._replies._count("answered")

    def fail(self, exc: BaseException | str) -> None:
        """Answers with a failure: HandlerError there, with the class and the text of `exc`."""
        kind, text = ("", exc) if isinstance(exc, str) else (type(exc).__qualname__, str(exc))
        self._answer(FAILURE, [_shortened(part) for part in (kind, text)])
        self._replies._count("failed")

    def _answer(self, kind: int, frames: list[Any]) -> None:
        with self._lock:
            if not self._open:
                raise errors.LwmqError(f"request {self._head[1]} was answered before")
            self._replies._queue.post([HEAD.pack(MAGIC, FORMAT, kind, 0, *self._head), *frames])
            self._open = False

    def __repr__(self) -> str:
        return f"<Request {self._head[1]}, {'to be answered' if self._open else 'answered'}>"


@dataclass(frozen=True, slots=True)
class RepliesStatistics:
    """`malformed`: messages that are no requests, dropped."""

    received: int
    answered: int
    failed: int
    malformed: int


class Replies:
    """The answering side of a channel. Threads as for `receive`: on a mono receiving side in turns."""

    def __init__(self, channel: Channel, *, queue: SendQueue | None = None) -> None:
        """queue: where replies are posted; by default one of our own, unbounded, of normal priority.

        A requester that asks and takes no replies lets that grow: a bounded queue stands that.
        """
        self._channel = channel
        self._queue = _queue_of(channel, queue)
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("received", "answered", "failed", "malformed"), 0)

    def receive(self, timeout: float | None = None) -> Request:
        """The next request; errors as of `Channel.receive`. What is no request is counted and dropped."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            if (request := self._request_of(self._channel.receive(left))) is not None:
                return request

    async def receive_async(self) -> Request:
        """Await the next request, as `Channel.receive_async`."""
        while (request := self._request_of(await self._channel.receive_async())) is None:
            pass
        return request

    def serve(self, handler: Callable[[Frames], Any], *, forever: bool = True) -> None:
        """Answer each request with what `handler(frames)` returns: bytes, a buffer or a list of them.

        An exception of the handler, and a reply that is none or too big, become HandlerError there; its text
        is sent.
        forever: peers come and go, until the channel is closed on this side. Otherwise until the peer has
        closed; PeerLostError, CorruptError.
        """
        while True:
            try:
                request = self.receive()
            except _ENDS_OF_PEER as exc:
                if self._channel.closed:
                    return
                if forever:
                    continue
                if isinstance(exc, errors.ClosedError):
                    return
                raise
            try:
                try:
                    request.reply(handler(request.frames))
                except Exception as exc:
                    if self._channel.closed:
                        return
                    request.fail(exc)
            except errors.ClosedError:
                return
            del request  # held no longer than the handler does

    @property
    def statistics(self) -> RepliesStatistics:
        with self._lock:
            return RepliesStatistics(**self._counts)

    def _request_of(self, message: Message) -> Request | None:
        head = _head_of(message)
        if head is None or head[0] != REQUEST:
            self._count("malformed")
            return None
        self._count("received")
        return Request(self, head[1:], Frames(message.frames[1:]))

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def __repr__(self) -> str:
        return f"<Replies on {self._channel.address}, {self.statistics.received} received>"


def _queue_of(channel: Channel, queue: SendQueue | None) -> SendQueue:
    if queue is None:
        return channel.send_queue("multi_unbounded")
    if queue._channel is not channel:
        raise ValueError(f"a send queue of {queue._channel.address}, not of the channel on {channel.address}")
    return queue


def _head_of(message: Message) -> tuple[int, int, int] | None:
    """Kind, asker and number; None where the first frame is no head."""
    if len(message) == 0 or (first := message[0]).nbytes != HEAD.size:
        return None
    magic, format, kind, zero, asker, number = HEAD.unpack(first)
    return (kind, asker, number) if (magic, format, zero) == (MAGIC, FORMAT, 0) else None


def _failure_of(message: Message, address: str) -> errors.HandlerError | None:
    frames = message.frames[1:]
    if len(frames) != 2 or any(frame.nbytes > TEXT_BYTES_MAX for frame in frames):
        return None
    kind, text = (bytes(frame).decode("utf-8", "replace") for frame in frames)
    said = ": ".join(filter(None, (kind, text)))
    return errors.HandlerError(f"the peer's handler failed: {said} ({address})", kind=kind)


def _shortened(text: str) -> bytes:
    cut = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
    return cut.decode("utf-8", "ignore").encode()


def _fail(reply: Reply, exc: errors.LwmqError) -> None:
    if reply.set_running_or_notify_cancel():
        reply.set_exception(exc)


def _again(exc: errors.LwmqError) -> errors.LwmqError:
    """One of its own for each: a traceback grows with every raise."""
    return type(exc)(str(exc), status=exc.status)
