"""Requests and their replies over a channel: thousands outstanding, each with a time-out of its own.

    # one process                                      # another
    with (lwmq.Channel("ipc://square") as channel,     with lwmq.Channel("ipc://square") as channel:
          lwmq.Requests(channel) as requests):             lwmq.Replies(channel).serve(square)
        frames = requests.request(b"7", timeout=1.0)
        reply = requests.submit(b"8", timeout=1.0)     # goes on at once; reply.result(), or await reply

A request is a message whose first frame is a head, and whose other frames are the application's; the reply
has the head of its request, but for the kind (`WIRE.md`). C and Java speak the same.

A request may be executed although its requester was told that the time is over or the peer is lost; nothing
is asked twice by itself.

Who receives: a thread of the `Requests`, the *keeper*, which also keeps the time; but while somebody waits
for the only reply outstanding, he does (he *leads*), so that it wakes one thread and not two. The keeper
stands aside then, and a moment longer. The leader may be the main thread, where a signal's handler may raise
between any two steps: he settles his own reply alone, in steps that can be taken again. What is received is
in `_came` in the same moment, from where the keeper settles the rest; and the lock `here` says whether a
leader is there still.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import math
import os
import select
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Condition,
    OfOneProcess,
    background_thread,
    check_timeout,
    exception_of,
    lib,
    on_a_thread,
    span,
)
from lwmq_spark.channel.channel import Channel
from lwmq_spark.channel.readiness import Readiness
from lwmq_spark.channel.send_queue import SendQueue
from lwmq_spark.message import Frame, Message, parts_of
from lwmq_spark.options import whole

_log = logging.getLogger("lwmq_spark")
HEAD = struct.Struct("<4sBBHQQ")
MAGIC, FORMAT = b"lwrq", 1
REQUEST, REPLY, FAILURE = 1, 2, 3
OUTSTANDING_MAX = 1 << 20
TEXT_BYTES_MAX = 1000  # of a failure's class and of its text
LEADER_WAIT_S = 0.02  # in the channel, where it sees soonest what comes; then where others can wake it
KEEPER_ASIDE_S = 0.01  # behind a leader: the next one may come soon
KEEPER_LOOKS_S = 1.0  # while one leads, at most: a signal's handler may have ended that between two steps
POLL_MAX_MS = 2**31 - 1
DEADLINES_KEPT = 64  # of requests that are settled, beside as many as are outstanding

# Of a receive that failed: its status, and its text.
Ended = tuple[int, str]


class Frames(tuple[Frame, ...]):
    """What was asked or answered, without the head. `bytes(frames)` is a copy of all, one after the other."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        return b"".join(self)


Outcome = Frames | errors.LwmqError


class Reply(OfOneProcess, Future[Frames]):
    """The frames that will come, or the error: `result()`, or `await` on any event loop.

    `result` also raises HandlerError, where the peer's handler raised. `cancel` gives up: what comes is late.
    Callbacks run on the thread of its `Requests`, or at once where it is settled already; none should wait.
    """

    def __init__(self, pending: _PendingRequests, number: int) -> None:
        super().__init__()
        # Future's own may stay closed where a signal's handler raises, and the keeper would wait for ever.
        self._condition = Condition()  # type: ignore[assignment]
        self._pending = pending
        self._number = number
        self._calls_back = False  # then the keeper settles it
        self._requests: Requests | None = None  # lives until we are settled

    def result(self, timeout: float | None = None) -> Frames:
        """Waits, at most `timeout` seconds; the request stays outstanding when that was too short."""
        check_timeout(timeout)
        end = math.inf if timeout is None else time.monotonic() + timeout
        self._pending.check_process()
        if not self.done():
            if self._pending.is_receiving_here():
                raise errors.LwmqError(
                    f"request {self._number} awaited in a callback, or a signal's handler, on the thread "
                    "that would receive its reply: add a callback to it, or wait on a thread of your own"
                )
            self._pending.lead(self, end)
        try:
            return super().result(None if timeout is None else max(0.0, end - time.monotonic()))
        except TimeoutError as exc:
            if isinstance(exc, errors.LwmqError):
                raise
            raise errors.TimeoutError(
                f"no reply to request {self._number} within {span(timeout)}{self._pending.why_not()}"
            ) from None

    def add_done_callback(self, fn: Callable[[Future[Frames]], object]) -> None:
        self._pending.check_process()
        if getattr(fn, "__module__", None) == "asyncio.tasks":  # of asyncio.wait, which would not wake
            raise TypeError("a reply is no future of an event loop: asyncio.wrap_future(reply) makes one")
        with self._pending._lock:  # not between a leader's look at this and its end of the reply
            self._calls_back = True
        super().add_done_callback(partial(self._call, fn))

    def _call(self, fn: Callable[[Future[Frames]], object], future: Future[Frames]) -> None:
        """Future looks after what is an Exception; sys.exit() of one would end the keeper of all."""
        try:
            fn(future)
        except Exception:
            raise
        except BaseException:
            if threading.get_ident() != self._pending.thread:
                raise
            _log.exception("a callback of request %d on %s has failed", self._number, self._pending.address)

    def cancel(self) -> bool:
        self._pending.check_process()
        if not super().cancel():
            return False
        self._requests = None
        self._pending.forget(self)
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


class _Leader:
    """A thread that waits for `reply`, and receives."""

    __slots__ = ("here", "reply", "thread")

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.thread = threading.get_ident()
        self.here = threading.Lock()  # held by it


class _PendingRequests:
    """What is outstanding, by number and by time, and who receives. Any thread."""

    def __init__(self, channel: Channel, most: int) -> None:
        self.address = channel.address
        self.asker = int.from_bytes(os.urandom(8), "little")
        self.thread = 0  # the keeper
        self.ended: errors.LwmqError | None = None
        self.is_kept_away = True  # perhaps, the peer, by what somebody has to mend: that is told once
        self._most = most
        self._lock = threading.RLock()  # collecting garbage while it is held may end a Requests
        self._replies: dict[int, Reply] = {}
        self._deadlines: list[tuple[float, int, float]] = []  # a heap; what is settled leaves it later
        self._asked = 0
        self._count = dict.fromkeys(
            ("answered", "failed", "timed_out", "lost", "late", "foreign", "malformed"), 0
        )
        self._came: deque[Message | Ended] = deque()  # received, and not settled
        self._leader: _Leader | None = None
        self._aside_until = 0.0  # the keeper, behind a leader
        self._sleeps_until = 0.0  # the keeper, by itself
        self._leader_seen: _Leader | None = None  # by the keeper
        self._looks_within = KEEPER_ASIDE_S  # seconds, of the keeper while that one leads
        self._receiving = threading.Lock()  # guards what follows; the keeper holds it for moments alone
        self._channel = channel
        self._handle = channel._handle  # that alone, when the keeper has let go
        self._wake_fd = self._lead_fd = -1
        self._fd = os.dup(channel.fileno())
        try:
            self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._lead_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except BaseException:
            self._close_files()
            raise

    def enlist(self, timeout: float | None, made: list[Reply], *, leads: bool) -> Reply:
        """made: has it, too, before it is outstanding. leads: who asks will wait for it at once."""
        check_timeout(timeout)
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
            reply = Reply(self, number)
            made.append(reply)
            self._replies[number] = reply
            if timeout is not None:
                due = time.monotonic() + timeout
                heapq.heappush(self._deadlines, (due, number, timeout))
                if len(self._deadlines) > DEADLINES_KEPT + 2 * len(self._replies):
                    self._deadlines = [due for due in self._deadlines if due[1] in self._replies]
                    heapq.heapify(self._deadlines)
                if due < self._sleeps_until:
                    self._wake()
            if not leads:
                self._call_keeper()
            return reply

    def forget(self, reply: Reply) -> None:
        with self._lock:
            self._replies.pop(reply._number, None)
            self._tell_leader(reply)

    def end(self, exc: errors.LwmqError) -> None:
        """What is outstanding fails, and whatever is asked from now on."""
        with self._lock:
            self.ended = self.ended or exc
        self.wake()

    def wake(self) -> None:
        """Everybody who receives shall look at the channel."""
        with self._lock:
            self._wake()
            self._tell_leader()

    def why_not(self) -> str:
        """What a time-out says more."""
        channel = getattr(self, "_channel", None)  # the keeper lets go of it
        return "" if channel is None else channel._why_not()

    def check_process(self) -> None:
        """ClosedError in a forked child, where nobody receives, and the locks may be the parent's."""
        if self._handle.forked:
            self._handle.check_open()

    def statistics(self) -> RequestsStatistics:
        self.check_process()
        with self._lock:
            count, outstanding = self._count, len(self._replies)
            settled = sum(count[how] for how in ("answered", "failed", "timed_out", "lost"))
            given_up = self._asked - outstanding - settled
            return RequestsStatistics(asked=self._asked, outstanding=outstanding, given_up=given_up, **count)

    def is_receiving_here(self) -> bool:
        """Whether the calling thread is the keeper, or leads, further down its stack."""
        leader = self._leader
        here = threading.get_ident()
        return self.thread == here or (leader is not None and leader.thread == here and leader.here.locked())

    def _close_files(self) -> None:
        fds = self._fd, self._wake_fd, self._lead_fd
        self._fd = self._wake_fd = self._lead_fd = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def _wake(self) -> None:
        if self._wake_fd >= 0:
            os.eventfd_write(self._wake_fd, 1)

    def _tell_leader(self, reply: Reply | None = None) -> None:
        """It sleeps, and somebody else has settled what it waits for."""
        leader = self._leader
        if leader is not None and reply in (None, leader.reply) and self._lead_fd >= 0:
            os.eventfd_write(self._lead_fd, 1)

    # ---- Who waits ---------------------------------------------------------------------------------------

    def lead(self, reply: Reply, end: float) -> None:
        """Receives until `reply` is settled or `end` has come.

        Returns at once where another one does, and where more is outstanding: then the keeper is the quicker.
        """
        leader = _Leader(reply)
        with leader.here:
            try:
                with self._lock:
                    if self._is_led() or len(self._replies) > 1:
                        self._call_keeper()
                        return
                    self._leader = leader
                with self._receiving:
                    self._lead(reply, end)
            finally:
                self._leave(leader)

    def _lead(self, reply: Reply, end: float) -> None:
        poll = None
        with self._lock:  # what the keeper has received, it settles; we hear of it where others can wake us
            is_open = reply._number in self._replies and not self._came
            due = self._deadlines[0][0] - time.monotonic() if self._deadlines else math.inf
            wait = max(0.0, min(LEADER_WAIT_S, due)) if is_open else 0.0
        while not reply.done() and self.ended is None and (left := end - time.monotonic()) > 0:
            if self._receive(min(wait, left)):
                if not self._settle_own(reply):
                    wait = 0.0  # the keeper settles it; that may be what we wait for
                continue
            if wait > 0 or poll is None:  # a look that does not wait makes the descriptor tell of what comes
                wait = 0.0
                poll = _poll_of(self._fd, self._lead_fd)
                continue
            for ready, _ in poll.poll(_poll_ms(end - time.monotonic())):
                if ready == self._lead_fd:
                    os.eventfd_read(ready)

    def _settle_own(self, reply: Reply) -> bool:
        """What has come, if it is a message for `reply` and nothing else; else it is the keeper's."""
        with self._lock:
            came = self._came[0] if len(self._came) == 1 else None
            if (
                not isinstance(came, Message)
                or (head := _head_of(came)) is None
                or head[1:] != (self.asker, reply._number)
                or reply._calls_back
                or reply._waiters  # of concurrent.futures.wait
            ):
                self._wake()
                return False
            if (found := self._find(came)) is not None:
                _set(*found)
                self._take(*found)
            self._came.clear()
            return True

    def _leave(self, leader: _Leader) -> None:
        with self._lock:
            if self._leader is leader:
                self._leader = None
                self._aside_until = time.monotonic() + KEEPER_ASIDE_S
                if self._replies or self._came:
                    self._call_keeper()
                elif self._sleeps_until > self._aside_until:
                    self._wake()

    def _is_led(self) -> bool:
        leader = self._leader
        return leader is not None and leader.here.locked()

    def _receive(self, timeout: float) -> bool:
        """False where nothing came. With _receiving in hand."""
        try:
            self._channel._receive_into(self._came, timeout)
        except errors.TimeoutError:
            return False
        except errors.LwmqError as exc:  # our own end: the channel is closed
            self.end(exc)
        return True

    # ---- The keeper --------------------------------------------------------------------------------------

    def keep(self) -> None:
        """The life of the keeper."""
        self.thread = threading.get_ident()
        try:
            self._keep()
        finally:
            with self._lock:
                self.ended = self.ended or errors.LwmqError(
                    f"the thread of the requests on {self.address} has failed"
                )
            self._settle_all()
            self._lose(self.ended)
            with self._receiving, self._lock:  # a leader has been told
                self._close_files()
                self._channel.readiness.tell_no_more(self.wake)
                self._channel._take_back(self)
                del self._channel

    def _keep(self) -> None:
        aside, at_the_channel = _poll_of(self._wake_fd), _poll_of(self._wake_fd, self._fd)
        while self.ended is None:
            looked = not self._is_aside() and self._receive_as_keeper()
            if self._settle_all() or self._expire():
                continue  # a callback may have taken its time, or asked anew
            with self._lock:
                is_aside = self._is_aside()
                if not is_aside and not looked:
                    continue
                due = self._deadlines[0][0] if self._deadlines else math.inf
                self._sleeps_until = min(due, self._aside_end() if is_aside else math.inf)
            poll = aside if is_aside else at_the_channel
            for ready, _ in poll.poll(_poll_ms(self._sleeps_until - time.monotonic())):
                if ready == self._wake_fd:
                    os.eventfd_read(ready)

    def _is_aside(self) -> bool:
        """Whether somebody else receives, or soon may."""
        return self._is_led() or time.monotonic() < self._aside_until

    def _aside_end(self) -> float:
        """When to look again: soon while leaders come and go, ever later while one stays."""
        if not self._is_led():
            self._leader_seen = None
            return self._aside_until
        stays = self._leader is self._leader_seen
        self._looks_within = min(2 * self._looks_within, KEEPER_LOOKS_S) if stays else KEEPER_ASIDE_S
        self._leader_seen = self._leader
        return time.monotonic() + self._looks_within

    def _call_keeper(self) -> None:
        """Somebody has to receive what nobody waits for."""
        if self._aside_until > 0 and not self._is_led():
            self._aside_until = 0.0
            self._wake()

    def _receive_as_keeper(self) -> bool:
        """False where somebody leads since it looked."""
        if not self._receiving.acquire(blocking=False):
            return False
        try:
            self._receive(0)
            return True
        finally:
            self._receiving.release()

    def _settle_all(self) -> bool:
        """What has come; False where nothing has but, again and again, what keeps the peer away."""
        some = False
        while self._came:
            with self._lock:
                if not self._came:  # a leader was quicker
                    break
                came = self._came.popleft()
                found = self._find(came) if isinstance(came, Message) else None
                if found is not None:
                    self._take(*found)
            if found is not None:
                self._conclude(*found)
            elif isinstance(came, tuple) and came[0] == lib.LWMQ_E_NO_MEMORY:
                time.sleep(KEEPER_ASIDE_S)  # what has come waits, and nobody is lost
                continue
            elif not isinstance(came, Message):
                exc = exception_of(*came)
                self.is_kept_away = not isinstance(exc, errors.ENDS_OF_PEER)
                if self._channel._is_over_with(exc):
                    self.end(exc)
                else:
                    self._lose(exc)
            some = some or isinstance(came, Message) or not self.is_kept_away
            del came, found
        return some

    def _expire(self) -> bool:
        """Fails what is due; False where nothing is."""
        due: list[tuple[Reply, float]] = []
        now = time.monotonic()
        with self._lock:
            while self._deadlines:
                end, number, timeout = self._deadlines[0]
                if number in self._replies and end > now:
                    break
                heapq.heappop(self._deadlines)
                if (reply := self._replies.pop(number, None)) is not None:
                    self._count["timed_out"] += 1
                    due.append((reply, timeout))
        for reply, timeout in due:
            number, within = reply._number, span(timeout)
            text = f"no reply to request {number} within {within} on {self.address}{self.why_not()}"
            self._conclude(reply, errors.TimeoutError(text))
        return bool(due)

    def _lose(self, exc: errors.LwmqError) -> None:
        """Fails all that is outstanding."""
        with self._lock:
            replies, self._replies = self._replies, {}
            self._deadlines.clear()
            self._count["lost"] += len(replies)
        for reply in replies.values():
            self._conclude(reply, _again(exc))

    def _conclude(self, reply: Reply, outcome: Outcome) -> None:
        _set(reply, outcome)
        with self._lock:
            self._tell_leader(reply)

    # ---- What a message answers, with the lock in hand ---------------------------------------------------

    def _find(self, message: Message) -> tuple[Reply, Outcome] | None:
        """The reply that it settles, and how; None where it settles none, and is counted."""
        head = _head_of(message)
        if head is None or head[0] not in (REPLY, FAILURE):
            self._count["malformed"] += 1
            return None
        kind, asker, number = head
        if asker != self.asker:
            self._count["foreign"] += 1
            return None
        failure = _failure_of(message, self.address) if kind == FAILURE else None
        if not 0 < number <= self._asked or (kind == FAILURE and failure is None):
            self._count["malformed"] += 1
            return None
        reply = self._replies.get(number)
        if reply is None:
            self._count["late"] += 1
            return None
        return reply, failure or Frames(message._frames(1))

    def _take(self, reply: Reply, outcome: Outcome) -> None:
        if self._replies.pop(reply._number, None) is not None:
            self._count["answered" if isinstance(outcome, Frames) else "failed"] += 1


class Requests(OfOneProcess):
    """The asking side of a channel. Any number of threads and event loops ask.

    Who waits for the only reply outstanding receives it himself; a thread of its own receives the others
    and keeps the time, asleep while there is neither. The channel is lent: its receiving side is ours until
    `close`, which leaves the channel open; its send queues are not. A second one on the same channel, and
    whatever else would receive from it, is refused meanwhile. What is outstanding keeps it alive.
    """

    def __init__(
        self, channel: Channel, *, queue: SendQueue | None = None, outstanding_max: int = OUTSTANDING_MAX
    ) -> None:
        """queue: where requests are posted; by default one that the channel has for this, unbounded.

        outstanding_max: more than these are refused (LwmqError); each takes some 2 KiB until it is settled.
        ValueError: a bound below 1, or the queue of another channel. LwmqError: what comes over the channel
        goes to another `Requests`, a call-back or a selector. ClosedError.
        """
        _check_channel(channel, "Requests")
        outstanding_max = whole("outstanding_max", outstanding_max, 1, sys.maxsize)
        self._channel = channel
        self._pending = _PendingRequests(channel, outstanding_max)
        try:
            channel._lend(self._pending)
            self._queue = _queue_of(channel, queue)
            channel.readiness.tell_when_closed(self._pending.wake)
            # It knows not this object itself, so that it does not keep it alive.
            thread = background_thread(self._pending.keep, "lwmq-requests")
            thread.start()
        except BaseException:
            channel.readiness.tell_no_more(self._pending.wake)
            channel._take_back(self._pending)
            self._pending._close_files()
            raise
        self._thread = thread

    def request(self, frames: Any, timeout: float | None = None) -> Frames:
        """Asks and waits for the reply, at most `timeout` seconds; arguments and errors as of `submit`."""
        made: list[Reply] = []
        try:
            return self._submit(frames, timeout, made, leads=True).result()
        finally:
            for reply in made:  # where a signal's handler ended it
                reply.cancel()

    def submit(self, frames: Any, timeout: float | None = None) -> Reply:
        """Asks and goes on: bytes or a buffer for one frame, or a list of them. Never waits for the peer.

        The reply comes, or fails with TimeoutError after `timeout` seconds (None: waits as long as the peer
        lives), HandlerError, PeerLostError or ClosedError (the peer was lost or has closed, or we have). On a
        channel of several transports every peer is asked, the first reply counts, and the end of any of
        them fails what is outstanding. Without a peer a request waits for one; where what keeps it away
        has to be mended (VersionError, LwmqError and the like), what is outstanding fails with it, and until
        it is mended this raises it. Raises what `post` does; and LwmqError when too many are outstanding.
        """
        made: list[Reply] = []
        try:
            return self._submit(frames, timeout, made, leads=False)
        except BaseException:
            for reply in made:
                reply.cancel()
            raise

    def _submit(self, frames: Any, timeout: float | None, made: list[Reply], *, leads: bool) -> Reply:
        self._channel._handle.check_open()
        parts = parts_of(frames, "submit")
        reply = self._pending.enlist(timeout, made, leads=leads)
        if self._pending.is_kept_away:  # behind the enlisting: what is noted later fails all on the list
            self._check_not_kept_away()
        reply._requests = self
        if reply.done():  # settled before that
            reply._requests = None
        self._queue.post([HEAD.pack(MAGIC, FORMAT, REQUEST, 0, self._pending.asker, reply._number), *parts])
        return reply

    def _check_not_kept_away(self) -> None:
        """Raises what keeps the peer away, where it does still."""
        self._pending.is_kept_away = False
        try:
            self._channel.wait_connected(0)
        except errors.TimeoutError:  # no peer yet, who may come by itself
            pass
        except errors.LwmqError:
            self._pending.is_kept_away = True
            raise

    @property
    def statistics(self) -> RequestsStatistics:
        return self._pending.statistics()

    def close(self) -> None:
        """What is outstanding fails with ClosedError. The channel stays open. Twice is once."""
        self._channel.readiness.tell_no_more(self._pending.wake)
        self._end()
        if not self._pending.is_receiving_here():  # else it ends behind us
            self._thread.join()

    def _end(self) -> None:
        if self._channel._handle.forked:  # the thread, and whoever held the lock, are our parent's
            return
        self._pending.end(errors.ClosedError(f"the requests on {self._pending.address} are closed"))

    def __enter__(self) -> Requests:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """As `with`; the event loop goes on while the thread ends."""
        await on_a_thread(f"lwmq close of the requests on {self._pending.address}", self.close)

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._end()

    def __repr__(self) -> str:
        if self._channel._handle.forked:
            return f"<Requests on {self._pending.address}, of another process>"
        return f"<Requests on {self._pending.address}, {self.statistics.outstanding} outstanding>"


class Request(OfOneProcess):
    """One that came, to be answered once, by any thread, at any time, or never."""

    __slots__ = ("_head", "_lock", "_open", "_queue", "_replies", "frames")

    def __init__(self, replies: Replies, head: tuple[int, int], frames: Frames) -> None:
        self._replies = replies
        self._head = head
        self._lock = threading.RLock()  # a signal's handler may answer, too
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
            self._open = False
            try:
                self._replies._queue.post([HEAD.pack(MAGIC, FORMAT, kind, 0, *self._head), *frames])
            except BaseException:
                self._open = True
                raise

    def __repr__(self) -> str:
        return f"<Request {self._head[1]}, {'to be answered' if self._open else 'answered'}>"


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
        """The next request; errors as of `Channel.receive`. What is no request is counted and dropped."""
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
        """Answer the next request as `serve` does, of whichever peer.

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
        """The request that `message` of this channel is, for who receives by a selector or a call-back.

        None: it is none, and counted as malformed.
        """
        head = _head_of(message)
        if head is None or head[0] != REQUEST:
            self._count("malformed")
            return None
        self._count("received")
        return Request(self, head[1:], Frames(message._frames(1)))

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
        raise ValueError(f"a send queue of {queue._channel.address}, not of the channel on {channel.address}")
    return queue


def _head_of(message: Message) -> tuple[int, int, int] | None:
    """Kind, asker and number; None where the first frame is no head."""
    if len(message) == 0 or (first := message[0]).nbytes != HEAD.size:
        return None
    magic, format, kind, zero, asker, number = HEAD.unpack(first)
    return (kind, asker, number) if (magic, format, zero) == (MAGIC, FORMAT, 0) else None


def _failure_of(message: Message, address: str) -> errors.HandlerError | None:
    frames = message._frames(1)
    if len(frames) != 2 or any(frame.nbytes > TEXT_BYTES_MAX for frame in frames):
        return None
    kind, text = (bytes(frame).decode("utf-8", "replace") for frame in frames)
    said = ": ".join(filter(None, (kind, text)))
    return errors.HandlerError(f"the peer's handler failed: {said} ({address})", kind=kind)


def _shortened(text: str) -> bytes:
    cut = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
    return cut.decode("utf-8", "ignore").encode()


def _set(reply: Reply, outcome: Outcome) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        if isinstance(outcome, Frames):
            reply.set_result(outcome)
        else:
            reply.set_exception(outcome)
    reply._requests = None


def _poll_of(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll


def _poll_ms(seconds: float) -> int | None:
    return None if seconds == math.inf else max(0, min(math.ceil(seconds * 1000), POLL_MAX_MS))


def _again(exc: errors.LwmqError) -> errors.LwmqError:
    """One of its own for each: a traceback grows with every raise."""
    return type(exc)(str(exc), status=exc.status)
