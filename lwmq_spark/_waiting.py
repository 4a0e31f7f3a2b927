"""Everything that waits: for a native call, on a thread for asyncio, or at a descriptor.

    wait            a native call, in slices: Ctrl-C and close() from another thread end it
    anew_when_interrupted   a native call that waits as a whole, repeated after each signal
    undisturbed     a native call that waits and cannot be repeated
    Lingering       `with` for an object whose close() waits
    Waiter          tasks of asyncio wait for a native call, which a thread of this module makes
    on_a_thread     a task of asyncio awaits one call, such as a close, on a thread of its own
    Readiness       tasks of asyncio wait for a descriptor; no thread is needed

A wait is cut into slices of `SLICE_S`, because a signal that arrives between Python's look for signals and
the sleep in the library would be handled only after the whole wait. A wait that lasts long is reported; see
`_notices`.

Locks that a signal's handler may meet are of `native_messages`: `Turn`, which threads pass in the order in
which they came, and `Condition`. Entering one is a single step of C, after which `with` always leaves it.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import math
import os
import queue
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from numbers import Real
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, OfOneProcess, Turn, lib, raise_status, text_of
from lwmq_spark._notices import Notices

SLICE_S = 0.2  # a close() from another thread, or a signal that came too early, is noticed within this time
TURNS = 16  # messages that one task takes from a channel before other tasks run

T = TypeVar("T")

# ---- Times --------------------------------------------------------------------------------------------


def span(seconds: float | None) -> str:
    """A time in a text, such as `0.3 s`, rounded."""
    return f"{round(seconds or 0, 4):g} s"


def milliseconds(seconds: float | None) -> int:
    """A `timeout_ms` of the library: rounded up; None is no limit."""
    if seconds is None or seconds >= lib.LWMQ_FOREVER / 1000:
        return int(lib.LWMQ_FOREVER)
    return max(0, math.ceil(seconds * 1000))


def check_timeout(timeout: float | None) -> None:
    """TypeError: not a number. ValueError: nan."""
    if timeout is None:
        return
    if not isinstance(timeout, Real):
        raise TypeError(f"a timeout is a number of seconds, or None for no limit, not {timeout!r}")
    if math.isnan(timeout):
        raise ValueError("a timeout of nan seconds: a number, or None for no limit")


def raise_timed_out(otherwise: str, waited: float | None) -> NoReturn:
    """Raise TimeoutError with the library's text of what was waited for, or `otherwise`, and the time."""
    raise_status(lib.LWMQ_E_TIMED_OUT, f"{text_of() or otherwise} (waited {span(waited)})")


# ---- Native calls -------------------------------------------------------------------------------------

_SLICE_MS = milliseconds(SLICE_S)
_NOT_YET = (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_INTERRUPTED)


def wait(
    handle: Handle,
    call: Callable[[Any, int], T],
    timeout: float | None,
    *,
    turn: Turn | None = None,
    notices: Notices | None = None,
) -> T | int:
    """Make `call(pointer, timeout_ms)` until it answers, or `timeout` seconds are over.

    call: a native call on the object of `handle`. LWMQ_E_TIMED_OUT and LWMQ_E_INTERRUPTED mean "not yet".
    turn: held during each call, where only one thread at a time may make it, and given up between two.
    notices: told of a wait that is long, with the library's text.
    Returns the last answer; LWMQ_E_TIMED_OUT when the time is over, also if the turn was not entered.
    Python's signal handlers run between two calls, and what they raise comes out of here. ClosedError: the
    handle is closed, perhaps by another thread meanwhile. GivenUp: see `Waiter`.
    """
    check_timeout(timeout)
    started = time.monotonic()

    def left() -> float | None:
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - started))

    while True:
        pointer = handle.lend()
        if (served := getattr(_serving, "wait", None)) is not None and not served.is_wanted:
            raise GivenUp
        why = ""
        with contextlib.nullcontext(True) if turn is None else turn.within(left()) as inside:
            if inside:
                handle.check_open()
                most = left()
                outcome = call(pointer, _SLICE_MS if most is None or most >= SLICE_S else milliseconds(most))
                if outcome not in _NOT_YET:
                    return outcome
                if notices is not None and outcome == lib.LWMQ_E_TIMED_OUT:
                    why = text_of()
        waited = time.monotonic() - started
        if timeout is not None and waited >= timeout:
            return int(lib.LWMQ_E_TIMED_OUT)
        if notices is not None and why:
            notices.hear()
            notices.tell(waited, why)


def anew_when_interrupted(call: Callable[[int], int], timeout: float | None) -> int:
    """The status of `call(timeout_ms)`, which is repeated after each signal for at most `timeout` seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    status = int(lib.LWMQ_E_INTERRUPTED)
    while status == lib.LWMQ_E_INTERRUPTED:
        status = call(milliseconds(None if end is None else max(0.0, end - time.monotonic())))
    return status


# Signals that Python programs handle for other purposes than to end a wait.
_BYSTANDERS = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGCHLD,
    signal.SIGIO,
    signal.SIGWINCH,
    signal.SIGCONT,
    signal.SIGURG,
)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Around a native call that cannot be repeated: only signals that are meant to end the program end it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _BYSTANDERS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def until_closed(take: Callable[[], T]) -> Iterator[T]:
    """What `take` returns, again and again, until it raises ClosedError."""
    while True:
        try:
            found = take()
        except errors.ClosedError:
            return
        yield found
        del found  # kept no longer than the caller keeps it


class Lingering(OfOneProcess):
    """`with` for an object whose `close` lingers.

    When an exception leaves the block, `close` neither waits nor raises an LwmqError of its own.
    """

    def close(self, linger: float | str | None = None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(errors.LwmqError):
            self.close(linger=0)


# ---- Threads ------------------------------------------------------------------------------------------


def background_thread(target: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:
    """A daemon thread of the library, not started yet.

    The thread blocks real-time signals. An application may have blocked one in order to wait for it
    (`signal.sigwaitinfo`); delivered to this thread it would end the process. Other signals stay as they are,
    because a thread that a call-back starts inherits the mask.
    """

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
        target(*arguments)

    return threading.Thread(target=run, name=name, daemon=True)


_Outcome = tuple[Any, BaseException | None]


def _result(outcome: _Outcome) -> Any:
    result, failure = outcome
    if failure is not None:
        raise failure
    return result


def _settle(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    def settle_here() -> None:
        if not future.done():
            future.set_result(outcome)

    with contextlib.suppress(RuntimeError):  # its loop was closed meanwhile, so nobody waits
        future.get_loop().call_soon_threadsafe(settle_here)


async def on_a_thread(name: str, call: Callable[[], T]) -> T:
    """Await `call()`, which runs on a daemon thread of its own and goes on when the task is cancelled."""
    future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            outcome: _Outcome = call(), None
        except BaseException as exc:
            outcome = None, exc
        _settle(future, outcome)

    background_thread(run, name).start()
    return _result(await future)  # type: ignore[no-any-return]


class GivenUp(BaseException):
    """No task awaits the call that a thread of `Waiter` makes any more. Raised there by `wait` alone."""


class Waiter:
    """Waits on a daemon thread, asleep in the library, for tasks of any event loops.

    The thread only waits. What it waits for stays where it is until a task takes it on its own loop, so a
    task that is cancelled loses nothing. Tasks that await the same share one wait. A wait that no task awaits
    any more ends within a slice. The thread starts with the first wait, sleeps while there is none, and ends
    with this object, which it does not know.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = Turn()  # guards the waits and those that await them
        self._waits: dict[object, _Wait] = {}
        self._next: queue.SimpleQueue[_Wait | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def first(
        self,
        take: Callable[[], T],
        what: object,
        wait: Callable[[float], object],
        timeout: float | None,
        text: str,
        notices: Notices | None = None,
    ) -> T:
        """What `take` returns once it raises no TimeoutError. Meanwhile the thread waits for `what`.

        From any number of tasks. TimeoutError with `text`: nothing was taken within `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        await asyncio.sleep(0)  # other tasks run, however much there is to take
        while True:
            with contextlib.suppress(errors.TimeoutError):
                return take()
            left = None if end is None else end - time.monotonic()
            await self.until(what, wait, left, text, notices)  # another task may be first

    async def until(
        self,
        what: object,
        wait: Callable[[float], T],
        timeout: float | None,
        text: str,
        notices: Notices | None = None,
    ) -> T:
        """What `wait(seconds)` returns on the thread, which repeats it while it raises TimeoutError.

        Tasks that give the same `what` share the wait, each with its own time-out. TimeoutError with `text`.
        notices: told of a long wait, with the text of the last TimeoutError of `wait`.
        """
        if timeout is not None and timeout <= 0:
            raise errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT)
        future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        joined = self._join(what, wait, future, notices)
        try:
            async with asyncio.timeout(timeout):
                outcome = await future
        except builtins.TimeoutError:
            raise errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT) from None
        finally:
            with self._turn, contextlib.suppress(ValueError):
                joined.awaiting.remove(future)
        return _result(outcome)  # type: ignore[no-any-return]

    async def run(self, call: Callable[[], T]) -> T:
        """Await `call()`, which the thread makes after the calls before it.

        When the task is cancelled, a wait inside `call` ends within a slice, and the task hears of that.
        """

        def once(_: float) -> _Outcome:
            try:
                return call(), None
            except errors.TimeoutError as exc:  # of the call, and not the end of a slice
                return None, exc

        future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        joined = self._join(object(), once, future)
        try:
            outcome = await asyncio.shield(future)
        except asyncio.CancelledError:
            joined.given_up = True
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((future,))
            raise
        return _result(_result(outcome))  # type: ignore[no-any-return]

    def _join(
        self,
        what: object,
        call: Callable[[float], Any],
        future: asyncio.Future[_Outcome],
        notices: Notices | None = None,
    ) -> _Wait:
        with self._turn:
            wait = self._waits.get(what)
            if wait is None:
                wait = self._waits[what] = _Wait(what, call, notices)
                self._next.put(wait)
            wait.awaiting.append(future)
            if self._thread is None:
                arguments = self._turn, self._waits, self._next
                self._thread = background_thread(_serve_waits, self._name, *arguments)
                self._thread.start()
        return wait

    def __del__(self) -> None:
        self._next.put(None)


_serving = threading.local()  # `.wait`: the wait that this thread of a `Waiter` is in


class _Wait:
    """One wait and the tasks that await it."""

    def __init__(self, what: object, call: Callable[[float], Any], notices: Notices | None) -> None:
        self.what = what
        self.call = call
        self._notices = notices
        self._began = time.monotonic()
        self.awaiting: list[asyncio.Future[_Outcome]] = []
        self.given_up = False

    @property
    def is_wanted(self) -> bool:
        """Whether a task awaits it whose loop was not closed meanwhile."""
        return not self.given_up and any(not future.get_loop().is_closed() for future in self.awaiting)

    def go_on(self, seconds: float) -> _Outcome | None:
        """Wait for one slice. None: not yet."""
        _serving.wait = self
        try:
            return self.call(seconds), None
        except errors.TimeoutError as exc:
            if self._notices is not None:
                self._notices.tell(time.monotonic() - self._began, str(exc))
            return None
        except GivenUp:
            return None
        except BaseException as exc:
            return None, exc
        finally:
            _serving.wait = None


def _serve_waits(turn: Turn, waits: dict[object, _Wait], pending: queue.SimpleQueue[_Wait | None]) -> None:
    """The life of a Waiter's thread: a slice of each wait in turns, until None comes."""
    while (wait := pending.get()) is not None:
        outcome = wait.go_on(SLICE_S / (pending.qsize() + 1)) if wait.is_wanted else None
        with turn:
            if outcome is None and wait.is_wanted:
                pending.put(wait)
                continue
            del waits[wait.what]
            to_tell, wait.awaiting = wait.awaiting, []
        for future in to_tell:
            _settle(future, outcome or (None, None))
        del wait, outcome, to_tell  # a thread that sleeps keeps nothing alive


# ---- Descriptors --------------------------------------------------------------------------------------


class Readiness:
    """Tasks on any event loops that wait for one descriptor: thousands of channels need no thread.

    A loop watches a duplicate of the descriptor, and only while a task waits. So a close in the middle leaves
    no number behind that another file may get.
    """

    def __init__(self, descriptor: Callable[[], int]) -> None:
        self._descriptor = descriptor
        # Held for no call that may wait; a signal's handler may come in, and close, on its thread.
        self._lock = threading.RLock()
        self._fd = -1
        self._closed = False
        self._waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        self._taken = 0

    async def first(self, take: Callable[[], T | None]) -> T:
        """What `take` returns once that is not None. A task that is cancelled leaves it to the next one."""
        await self.breathe()
        while (found := take()) is None:
            await self.wait()
        return found

    async def until_closed(self, take: Callable[[], T | None]) -> AsyncIterator[T]:
        """What `take` returns if that is not None, again and again, until it raises ClosedError."""
        while True:
            try:
                found = await self.first(take)
            except errors.ClosedError:
                return
            yield found
            del found

    async def breathe(self) -> None:
        """Let other tasks run now and then, while messages keep coming."""
        self._taken += 1
        if self._taken >= TURNS:
            self._taken = 0
            await asyncio.sleep(0)

    async def wait(self) -> None:
        """Wait until the descriptor is readable, or closed. It may be for nothing: look again."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._open_descriptor()
        with self._lock:
            for gone in [known for known in self._waiting if known.is_closed()]:
                self._leave(gone)
            waiting = self._waiting.setdefault(loop, [])  # a close leaves the descriptor open for it
            waiting.append(future)
            if len(waiting) == 1 and not self._closed:
                loop.add_reader(self._fd, self._wake, loop)
            if self._closed:
                self._wake(loop)
        self._taken = 0
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                if future in (left := self._waiting.get(loop, [])):
                    left.remove(future)
                    if not left:
                        self._leave(loop)
            raise

    def _open_descriptor(self) -> None:
        """Without the lock, because the owner may be about to close, which wants it."""
        if self._fd >= 0 or self._closed:
            return
        try:
            made = os.dup(self._descriptor())
        except OSError:  # closed in between: the second look says so
            made = os.dup(self._descriptor())
        with self._lock:
            if self._fd < 0 and not self._closed:
                self._fd, made = made, -1
        if made >= 0:
            os.close(made)

    def close(self) -> None:
        """Wake every task that waits, on its loop. Any thread."""
        with self._lock:
            self._closed = True
            loops = list(self._waiting)
            self._close_if_unused()
        for loop in loops:
            with contextlib.suppress(RuntimeError):  # the loop was closed: no task waits there
                loop.call_soon_threadsafe(self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            futures = self._waiting.get(loop, [])
            self._leave(loop)
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """With the lock: no task waits on `loop` any more."""
        if self._waiting.pop(loop, None) is not None and not loop.is_closed() and self._fd >= 0:
            loop.remove_reader(self._fd)
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._closed and not self._waiting and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
