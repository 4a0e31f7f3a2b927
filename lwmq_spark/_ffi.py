"""The one module that touches the native library.

    check       where a status becomes an exception
    CallLock, CallLocks, CallCount, Condition   who is inside: no signal's handler leaves one of them closed
    Handle      a native handle: closed once, destroyed once, refused in a forked child
    Lingering   `with` for what lingers when it is closed
    wait        a native call that may wait, in slices: Ctrl-C and close() from another thread are heard
    anew_when_interrupted   one that may wait whole, and goes on behind each signal
    Waiter      the same for asyncio: a thread that waits, while tasks take what has come
    on_a_thread     a call of its own for asyncio, such as a close

A wait that is long says so: see `_notices`.

The GIL is released in every native call. A wait is cut into slices of `SLICE_S`: a signal that arrives
between Python's look at its signals and the sleep in the library would otherwise be heard only after the
whole wait.
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
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar

from lwmq_spark import errors
from lwmq_spark._interpreter import check_main_interpreter
from lwmq_spark._notices import Notices

check_main_interpreter()

try:
    from lwmq_spark import _native_messages as native_messages
    from lwmq_spark._native import ffi, lib
    from lwmq_spark._native_messages import CallCount, CallLock, CallLocks, Condition
except ImportError as exc:
    raise ImportError(
        f"the native part of lwmq_spark is missing or does not load ({exc}): "
        "install the wheel with `pip install .`, or run `make dev` in a checkout"
    ) from exc

__all__ = [
    "SLICE_S",
    "CallCount",
    "CallLock",
    "CallLocks",
    "Condition",
    "Handle",
    "Lingering",
    "Waiter",
    "anew_when_interrupted",
    "check",
    "ffi",
    "lib",
    "native_messages",
    "on_a_thread",
    "raise_status",
    "raise_timed_out",
    "text_of",
    "wait",
]

SLICE_S = 0.2  # how long close() from another thread, or a signal that came too early, may go unheard

_CLASS_OF: dict[int, type[errors.LwmqError]] = {
    lib.LWMQ_E_TIMED_OUT: errors.TimeoutError,
    lib.LWMQ_E_INVALID: errors.ArgumentError,
    lib.LWMQ_E_ADDRESS: errors.AddressError,
    lib.LWMQ_E_CLOSED: errors.ClosedError,
    lib.LWMQ_E_PEER_LOST: errors.PeerLostError,
    lib.LWMQ_E_STALLED: errors.PeerLostError,
    lib.LWMQ_E_TOO_BIG: errors.MessageTooBigError,
    lib.LWMQ_E_SCHEMA: errors.SchemaError,
    lib.LWMQ_E_ABORTED: errors.AbortedError,
    lib.LWMQ_E_DATA_LOSS: errors.DataLossError,
    lib.LWMQ_E_SUPERSEDED: errors.DataLossError,
    lib.LWMQ_E_CORRUPT: errors.CorruptError,
    lib.LWMQ_E_VERSION: errors.VersionError,
    lib.LWMQ_E_HANDLER: errors.HandlerError,
}


def text_of() -> str:
    """The library's text of the last failure on this thread."""
    return str(ffi.string(lib.lwmq_last_error()).decode("utf-8", "replace"))


def advice_of() -> str:
    """What that text says behind its first semicolon, the semicolon included; empty where there is none."""
    return "".join(text_of().partition("; ")[1:])


def exception_of(status: int, text: str) -> errors.LwmqError:
    """What a failure is raised as; without a text it has the name of its status."""
    text = text or ffi.string(lib.lwmq_status_name(status)).decode()
    return _CLASS_OF.get(status, errors.LwmqError)(text, status=status)


def raise_status(status: int, text: str | None = None) -> NoReturn:
    """Raise the exception of `status`, with the library's text or the one given."""
    raise exception_of(status, text or text_of())


def check(status: int) -> None:
    """Raise what `status` stands for; return on LWMQ_OK."""
    if status != lib.LWMQ_OK:
        raise_status(status)


def span(seconds: float | None) -> str:
    """A time-out as texts have it, such as `0.3 s`: what is left of one is no round number."""
    return f"{round(seconds or 0, 4):g} s"


def raise_timed_out(otherwise: str, waited: float | None) -> NoReturn:
    """Raise TimeoutError: the library's text of what was waited for, or else `otherwise`, and how long."""
    text = f"{text_of() or otherwise} (waited {span(waited)}). `timeout` bounds this wait"
    raise_status(lib.LWMQ_E_TIMED_OUT, text)


class Handle:
    """A native handle and whoever destroys it. `what` names it in errors: `writer of ipc://flights`.

    `pointer`, or its `address`, is for calls made inside `with handle.lock:` after `check_open()`. It is
    destroyed by `destroy()`, or when the last reference goes; both are safe from any thread.
    """

    __slots__ = (
        "__weakref__",
        "_destroy",
        "_pid",
        "address",
        "closed",
        "forked",
        "lock",
        "pointer",
        "usable",
        "what",
    )

    def __init__(self, pointer: Any, destroy: Callable[[Any], object], what: str) -> None:
        self.pointer: Any = pointer
        self.address = address_of(pointer)
        self._destroy = destroy
        self.what = what
        self.lock = CallLock()
        self.closed = False
        self.forked = False  # we are a child of the process that opened it: nothing here is ours to close
        self.usable = True  # neither closed nor forked
        self._pid = os.getpid()
        _handles.add(self)

    def check_open(self) -> None:
        """ClosedError when closed, and in a forked child, where no lock may be taken either."""
        if self.usable:
            return
        if self.forked:
            raise errors.ClosedError(
                f"forked: the {self.what} belongs to process {self._pid}; "
                "start workers with the multiprocessing method 'spawn' and open it there",
                status=lib.LWMQ_E_CLOSED,
            )
        raise errors.ClosedError(f"the {self.what} is closed", status=lib.LWMQ_E_CLOSED)

    def begin_close(self) -> bool:
        """Turn everybody away from now on. False: somebody else has closed it, or we are a forked child."""
        if not self.usable:
            return False
        self.usable = False  # no call since the look: Python changes threads at calls, so that one is first
        self.closed = True
        return True

    def take_close_back(self) -> None:
        """The close that began was ended by an exception before it did anything."""
        self.closed = False
        self.usable = not self.forked

    def _close(self) -> None:
        self.usable = False
        self.closed = True

    def destroy(self) -> None:
        """Give the handle back. The second call does nothing."""
        pointer, self.pointer = self.pointer, None
        self._close()
        if pointer is not None and not self.forked:
            self._destroy(pointer)

    def forget(self) -> None:
        """For calls that take the handle themselves."""
        self.pointer = None
        self._close()

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.destroy()


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


def _disown() -> None:
    """In a forked child: what the parent has open is not ours."""
    for handle in _handles:
        handle.forked = True
        handle.usable = False


os.register_at_fork(after_in_child=_disown)


T = TypeVar("T")


def address_of(pointer: Any) -> int:
    """For `native_messages`."""
    return int(ffi.cast("uintptr_t", pointer))


def milliseconds(seconds: float | None) -> int:
    """For `timeout_ms` of the library: rounded up, None is no limit."""
    if seconds is None or seconds >= lib.LWMQ_FOREVER / 1000:
        return int(lib.LWMQ_FOREVER)
    return max(0, math.ceil(seconds * 1000))


def check_timeout(timeout: float | None) -> None:
    """TypeError: it is no number. ValueError: nan."""
    if timeout is None:
        return
    if not isinstance(timeout, Real):
        raise TypeError(f"a timeout is a number of seconds, or None for no limit, not {timeout!r}")
    if math.isnan(timeout):
        raise ValueError("a timeout of nan seconds: a number, or None for no limit")


_SLICE_MS = milliseconds(SLICE_S)
_NOT_YET = (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_INTERRUPTED)


class OfOneProcess:
    """What only the process that made it can use: neither pickled nor copied."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{self!r} is of the process that made it, and is neither pickled nor copied: make one where it "
            "is used, such as inside the function that Spark or a pool of processes runs"
        )


class Lingering(OfOneProcess):
    """What `with` does for a handle whose `close` lingers.

    Beside an exception that is under way, what was not taken is nothing: close neither waits nor fails.
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


def wait(
    handle: Handle,
    call: Callable[[int], T],
    timeout: float | None,
    *,
    lock: CallLock | CallCount | None = None,
    notices: Notices | None = None,
) -> T | int:
    """Make `call(timeout_ms)` until it answers something else than "not yet", or `timeout` seconds are over.

    Gives up the handle's lock between slices, so that other threads get in, and raises ClosedError when one
    of them closes it. Where they do not let us in, that is "not yet", too. Python's signal handlers run
    between slices: KeyboardInterrupt comes out of here.
    `notices` are told of a wait that is long, with the library's text of what it waits for.
    Returns what it answered last; LWMQ_E_TIMED_OUT when the time is over.
    GivenUp: nobody awaits any more what the thread of a `Waiter` does here.
    """
    check_timeout(timeout)
    lock = handle.lock if lock is None else lock
    started = time.monotonic()

    def left() -> float | None:
        return None if timeout is None else max(0.0, timeout - (time.monotonic() - started))

    while True:
        handle.check_open()
        if (served := getattr(_serving, "wait", None)) is not None and not served.is_wanted:
            raise GivenUp
        why = ""
        with lock.within(left()) as inside:
            if inside:
                handle.check_open()
                most = left()
                outcome = call(_SLICE_MS if most is None or most >= SLICE_S else milliseconds(most))
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
    """`call(timeout_ms)`, again whenever a signal has ended it; all together they wait `timeout` seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    status = int(lib.LWMQ_E_INTERRUPTED)
    while status == lib.LWMQ_E_INTERRUPTED:
        status = call(milliseconds(None if end is None else max(0.0, end - time.monotonic())))
    return status


# What Python programs handle for other purposes than to end a wait.
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
    """For a native call that waits but cannot be repeated: only signals meant to end the program end it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _BYSTANDERS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def background_thread(target: Callable[..., object], name: str, *arguments: Any) -> threading.Thread:
    """A daemon of ours, to be started.

    It blocks real-time signals: one that the application has blocked to wait for it (`signal.sigwaitinfo`)
    would else come to our thread, and end the process. The others stay as they are, for what a call-back
    starts inherits them.
    """

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
        target(*arguments)

    return threading.Thread(target=run, name=name, daemon=True)


class GivenUp(BaseException):
    """Nobody awaits any more what a thread of `Waiter` does: raised there by `wait`, and told to nobody."""


class Waiter:
    """Waits on a daemon thread, asleep in the library, for tasks of any event loops.

    What has come stays where it is until a task takes it, on its own loop (`first`): what comes for a task
    that has gone is there for whoever looks next, with a loop or without. Tasks that await the same share one
    wait. One that nobody awaits any more ends within a slice, and so does the wait inside a `run`. The thread
    starts with the first of them, sleeps while there is none, and ends with the object.
    """

    def __init__(self, name: str) -> None:
        self._rota = _Rota(name)

    async def first(
        self,
        take: Callable[[], T],
        what: object,
        wait: Callable[[float], object],
        timeout: float | None,
        text: str,
        notices: Notices | None = None,
    ) -> T:
        """What `take` answers as soon as it raises no TimeoutError; the thread waits for `what` meanwhile.

        From any number of tasks. TimeoutError with `text`: nothing was taken. `notices`: as in `until`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        await asyncio.sleep(0)  # others have the loop, however much there is to take
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
        """What `wait(seconds)` answers on the thread, called again for as long as it raises TimeoutError.

        Any number of tasks may await the same `what`, each as long as it likes. TimeoutError with `text`.
        `notices` are told of a wait that is long, with the text of the last TimeoutError of `wait`.
        """
        if timeout is not None and timeout <= 0:
            raise errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT)
        future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        joined = self._rota.join(what, wait, future, notices)
        try:
            async with asyncio.timeout(timeout):
                outcome = await future
        except builtins.TimeoutError:
            raise errors.TimeoutError(text, status=lib.LWMQ_E_TIMED_OUT) from None
        finally:
            self._rota.leave(joined, future)
        return _result(outcome)  # type: ignore[no-any-return]

    async def run(self, call: Callable[[], T]) -> T:
        """Await `call()`, made on the thread behind those before it.

        A task that is cancelled ends the wait inside it, and is told behind that: within a slice.
        """

        def once(_: float) -> _Outcome:
            try:
                return call(), None
            except errors.TimeoutError as exc:  # its own, and not the end of a slice
                return None, exc

        future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        joined = self._rota.join(object(), once, future)
        try:
            outcome = await asyncio.shield(future)
        except asyncio.CancelledError:
            joined.given_up = True
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((future,))
            raise
        return _result(_result(outcome))  # type: ignore[no-any-return]

    def __del__(self) -> None:
        self._rota.end()


_Outcome = tuple[Any, BaseException | None]


def _result(outcome: _Outcome) -> Any:
    result, failure = outcome
    if failure is not None:
        raise failure
    return result


_serving = threading.local()  # `.wait`: whose slice it is, on a thread of a `Waiter`


class _Wait:
    """What tasks await together."""

    def __init__(self, what: object, call: Callable[[float], Any], notices: Notices | None) -> None:
        self.what = what
        self.call = call
        self._notices = notices
        self._began = time.monotonic()
        self.awaiting: list[asyncio.Future[_Outcome]] = []
        self.given_up = False  # by those who await its end

    @property
    def is_wanted(self) -> bool:
        """By a task of a loop that was not closed in the middle."""
        return not self.given_up and any(not future.get_loop().is_closed() for future in self.awaiting)

    def go_on(self, seconds: float) -> _Outcome | None:
        """One slice of it; None: not yet."""
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


class _Rota:
    """The waits of a Waiter, a slice each in turns. Its thread knows no more, so that the Waiter can end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = CallLock()
        self._waits: dict[object, _Wait] = {}
        self._next: queue.SimpleQueue[_Wait | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def join(
        self,
        what: object,
        call: Callable[[float], Any],
        future: asyncio.Future[_Outcome],
        notices: Notices | None = None,
    ) -> _Wait:
        with self._lock:
            wait = self._waits.get(what)
            if wait is None:
                wait = self._waits[what] = _Wait(what, call, notices)
                self._next.put(wait)
            wait.awaiting.append(future)
            if self._thread is None:
                self._thread = background_thread(self._serve, self._name)
                self._thread.start()
        return wait

    def leave(self, wait: _Wait, future: asyncio.Future[_Outcome]) -> None:
        with self._lock, contextlib.suppress(ValueError):
            wait.awaiting.remove(future)

    def end(self) -> None:
        self._next.put(None)

    def _serve(self) -> None:
        while (wait := self._next.get()) is not None:
            outcome = wait.go_on(SLICE_S / (self._next.qsize() + 1)) if wait.is_wanted else None
            with self._lock:
                if outcome is None and wait.is_wanted:
                    self._next.put(wait)
                    continue
                del self._waits[wait.what]
                to_tell, wait.awaiting = wait.awaiting, []
            for future in to_tell:
                with contextlib.suppress(RuntimeError):  # its loop was closed meanwhile: nobody is there
                    future.get_loop().call_soon_threadsafe(_settle, future, outcome or (None, None))
            del wait, outcome, to_tell  # kept by nobody while this sleeps


def _settle(future: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


async def on_a_thread(name: str, call: Callable[[], T]) -> T:
    """Await `call()`, made at once on a daemon thread of its own. It goes on when the task is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Outcome] = loop.create_future()

    def run() -> None:
        try:
            outcome: _Outcome = call(), None
        except BaseException as exc:
            outcome = None, exc
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(_settle, future, outcome)

    background_thread(run, name).start()
    return _result(await future)  # type: ignore[no-any-return]


# ---- What the library knows of itself ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """Who and where this process is, as peers see it."""

    host: str
    boot_id: str
    netns: int
    instance: str
    pid: int
    uid: int


def identity_from(raw: Any) -> Identity:
    """An `lwmq_identity` as values of Python."""
    return Identity(
        host=ffi.string(raw.host).decode("utf-8", "replace"),
        boot_id=ffi.string(raw.boot_id).decode("utf-8", "replace"),
        netns=int(raw.netns),
        instance=bytes(ffi.buffer(raw.instance)).hex(),
        pid=int(raw.pid),
        uid=int(raw.uid),
    )


def sized(name: str) -> Any:
    """A zeroed structure of the library whose `size` says how large we know it to be."""
    raw = ffi.new(f"{name} *")
    raw.size = ffi.sizeof(name)
    return raw


def fields_of(raw: Any) -> dict[str, int]:
    """The numbers of a structure by name, but `size`."""
    kinds = ffi.typeof(raw[0]).fields
    return {
        name: int(getattr(raw, name))
        for name, kind in kinds
        if name != "size" and kind.type.kind == "primitive"
    }


def identity() -> Identity:
    """Who and where this process is."""
    raw = sized("lwmq_identity")
    check(lib.lwmq_identify(raw))
    return identity_from(raw)


def library_version() -> str:
    """`major.minor.patch` of the native library."""
    return str(ffi.string(lib.lwmq_version()).decode())


def statistics() -> dict[str, int]:
    """Counters of this process since the library was loaded; names and units as in lwmq_statistics."""
    raw = sized("lwmq_statistics")
    check(lib.lwmq_query_statistics(raw))
    return fields_of(raw)
