"""Messages: one or more frames, sent whole or not at all.

A `Message` is built once and may be posted any number of times, to any channels; posting adds a reference,
not a copy. A frame is a read-only `memoryview` that keeps its message alive: it may outlive the
channel that it came from.

Frames up to `COPY_BYTES_MAX` are copied into the message. Larger ones stay where they are, and the object
that owns them is kept until the last message that shows them is gone; who changes such a buffer meanwhile
changes the message. `on_release` says when they may be used anew:

    queue.post(lwmq.Message([picture], on_release=free.put_nowait))

A frame may have a timestamp, which travels with it: ticks of 100 ns since 1601-01-01 UTC. `ticks_to_ns` and
`ticks_to_datetime` translate them.
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Literal, NoReturn, SupportsIndex, TypeAlias

from lwmq_spark._ffi import address_of, background_thread, check, ffi, lib, native_messages

_log = logging.getLogger("lwmq_spark")
COPY_BYTES_MAX = 64 * 1024
_PLAIN = frozenset((bytes, bytearray, memoryview))  # nothing to be checked
_NAMES_OF_FIELDS = re.compile(":[^:]*:")  # in a format of PEP 3118

Frame: TypeAlias = memoryview
"""One piece of a message: a read-only memoryview that keeps its message alive."""

Timestamp: TypeAlias = Literal["system", "precise"] | int | datetime.datetime | None
"""Where a timestamp comes from.

`system`: the kernel's last tick, some milliseconds old and cheap; `precise`: now, to 100 ns; an int: these
ticks (`ns_to_ticks(time.time_ns())`); a datetime with a time zone: that moment; None: no timestamp.
"""

TICKS_1970 = int(lib.LWMQ_TICKS_1970)
_SOURCES = {"system": int(lib.LWMQ_TIMESTAMP_SYSTEM), "precise": int(lib.LWMQ_TIMESTAMP_PRECISE)}
_EXPLICIT = int(lib.LWMQ_TIMESTAMP_EXPLICIT)


def ticks_to_ns(ticks: int) -> int:
    """Nanoseconds since 1970, as `time.time_ns()` counts them."""
    return (ticks - TICKS_1970) * 100


def ns_to_ticks(ns: int) -> int:
    """The ticks that have passed when `time.time_ns()` is `ns`."""
    return TICKS_1970 + ns // 100


def ticks_to_datetime(ticks: int) -> datetime.datetime:
    """In UTC, to the microsecond below. OverflowError: later than the year 9999."""
    epoch = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
    return epoch + datetime.timedelta(microseconds=ticks // 10)


class Message(native_messages.Message):
    """Frames that travel together. `Message([b"head", view])` builds one; `Channel.receive` returns one.

    `len(m)`, `m[0]` and `for frame in m` are of its frames; slices are of the list `m.frames`; `bytes(m)` has
    all of them, one after the other, for what takes no memoryview (`json.loads(bytes(m))`). Equal to a
    message, or a list, of the same frames. Safe to share between threads.
    """

    __slots__ = ("__weakref__",)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            "a Message shows memory of its process, and is neither pickled nor copied: take its frames, "
            "[bytes(frame) for frame in message]"
        )

    def __init__(
        self,
        frames: Any = (),
        timestamp: Timestamp = None,
        on_release: Callable[[], object] | None = None,
    ) -> None:
        """`frames`: bytes or any contiguous buffer for one frame, or an iterable of such.

        timestamp: of each frame. TypeError for a str, and for an array of objects, whose bytes are pointers.
        on_release: called once, when nothing shows the buffers any more, which may be changed from then on:
        at once where all of them were copied, otherwise when this message has gone and each channel that it
        was posted to has shipped it (`loop://`: the receiver has let go of it). That call comes on a thread
        that all messages share; it should be short, and what it raises is logged. What it refers to is kept
        meanwhile: one that reaches this message itself keeps it for good.
        """
        notice = None if on_release is None else _Notice(on_release)
        is_plain = type(frames) in (list, tuple) and _PLAIN.issuperset(map(type, frames))
        parts: Any = frames if is_plain else parts_of(frames, "Message")
        if timestamp is not None or not self._make(parts):
            self._make_of(frames_of(parts, "Message") if is_plain else parts, timestamp, notice)
        if notice is not None:
            notice.release()

    def _make_of(self, parts: list[Any], timestamp: Timestamp, notice: _Notice | None) -> None:
        out = ffi.new("lwmq_message **")
        check(lib.lwmq_message_create(len(parts), out))
        self._take(address_of(out[0]))
        for part in parts:
            _append(out[0], memoryview(part), notice)
        if timestamp is not None:
            source, ticks = _source_of(timestamp)
            for index in range(len(parts)):
                check(lib.lwmq_message_set_timestamp(out[0], index, source, ticks))

    def reference(self) -> Any:
        """A second native handle on the same frames, for who takes one (lwmq_send_queue_post)."""
        return ffi.new("lwmq_message **", ffi.cast("lwmq_message *", self._reference()))

    def __iter__(self) -> Iterator[Frame]:
        return (self[index] for index in range(len(self)))

    @property
    def frames(self) -> list[Frame]:
        """All frames, in order."""
        return self._frames(0)

    def set_timestamp(self, index: int, timestamp: Timestamp) -> None:
        """Give frame `index` a timestamp, or take it away.

        Before the message is posted: what was posted has its own. IndexError, TypeError, ValueError.
        """
        source, ticks = _source_of(timestamp)
        check(self._set_timestamp(self._place(index), source, ticks))

    def timestamp(self, index: int = 0) -> int | None:
        """The ticks of frame `index`; None where it has no timestamp. IndexError."""
        return self._ticks(self._place(index)) or None

    @property
    def timestamps(self) -> list[int | None]:
        """The ticks of each frame; None where it has no timestamp."""
        return [self._ticks(index) or None for index in range(len(self))]

    def _place(self, index: int) -> int:
        place = index if index >= 0 else index + len(self)
        if not 0 <= place < len(self):
            raise IndexError(f"frame {index} of a message of {len(self)}")
        return place

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Message):
            other = other.frames
        return self.frames == other if isinstance(other, list) else NotImplemented

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        """True, also without a frame: `while message := channel.try_receive()` ends at None alone."""
        return True

    def __repr__(self) -> str:
        frames = self.frames
        return f"<Message of {len(frames)} frames, {sum(frame.nbytes for frame in frames)} bytes>"


def _source_of(timestamp: Timestamp) -> tuple[int, int]:
    """What lwmq_message_set_timestamp takes."""
    if timestamp is None:
        return 0, 0
    if isinstance(timestamp, str):
        if timestamp not in _SOURCES:
            raise ValueError(f"timestamp {timestamp!r} is none of {', '.join(_SOURCES)}")
        return _SOURCES[timestamp], 0
    if isinstance(timestamp, datetime.datetime):
        if timestamp.tzinfo is None:
            raise ValueError(f"{timestamp} has no time zone: did you mean .astimezone()?")
        epoch = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
        ticks = (timestamp - epoch) // datetime.timedelta(microseconds=1) * 10
        if ticks <= 0:
            raise ValueError(f"timestamp {timestamp}: later than {epoch} is possible")
        return _EXPLICIT, ticks
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        if not 0 < timestamp < 1 << 64:
            raise ValueError(f"{timestamp} are no ticks: 1 to 2**64 - 1 of 100 ns since 1601")
        return _EXPLICIT, timestamp
    raise TypeError(
        f"a timestamp is 'system', 'precise', ticks or a datetime, not {type(timestamp).__name__}"
    )


def frames_of(frames: Any, who: str) -> list[memoryview]:
    """One buffer or an iterable of buffers as flat views. TypeError says what was meant."""
    if isinstance(frames, str):
        raise TypeError(f"{who}() takes bytes, not str: did you mean .encode()?")
    try:
        view = memoryview(frames)
    except TypeError:
        if not isinstance(frames, Iterable) or isinstance(frames, Mapping | Set):  # which have no order
            raise TypeError(
                f"{who}() takes bytes, a buffer or a list of them, not {type(frames).__name__}"
            ) from None
    else:
        return [_flat(view, who)]
    views = []
    for frame in frames:
        if isinstance(frame, str):
            raise TypeError(f"{who}() takes bytes, not str: did you mean .encode()?")
        try:
            view = memoryview(frame)
        except TypeError:
            raise TypeError(f"{who}() takes frames of bytes or buffers, not {type(frame).__name__}") from None
        views.append(_flat(view, who))
    return views


def parts_of(frames: Any, who: str) -> list[Any]:
    """The same as `frames_of`, but that bytes stay what they are."""
    if type(frames) is bytes:
        return [frames]
    if type(frames) in (list, tuple) and all(type(frame) is bytes for frame in frames):
        return list(frames)
    return frames_of(frames, who)


def _flat(view: memoryview, who: str) -> memoryview:
    if "O" in _NAMES_OF_FIELDS.sub("", view.format):
        raise TypeError(f"{who}() takes buffers of bytes or numbers, not of Python objects (format 'O')")
    if not view.c_contiguous:
        raise ValueError(f"{who}() takes contiguous buffers: copy this one first (shape {view.shape})")
    return view.cast("B") if view.nbytes else memoryview(b"")


class _Notice:
    """Calls when the message was made and each buffer that it shows released; not where making it failed."""

    __slots__ = ("_call", "_lock", "_shown")

    def __init__(self, call: Callable[[], object]) -> None:
        if not callable(call) or inspect.iscoroutinefunction(call):
            raise TypeError(f"on_release is a function without arguments, not {call!r}")
        self._call = call
        self._lock = threading.Lock()
        self._shown = 1  # the message that is being made

    def show(self) -> None:
        with self._lock:
            self._shown += 1

    def release(self) -> None:
        with self._lock:
            self._shown -= 1
            is_last = self._shown == 0
        if is_last:
            try:
                self._call()
            except Exception:
                _log.exception("on_release of a message has failed")


def _append(handle: Any, frame: memoryview, notice: _Notice | None) -> None:
    data = ffi.from_buffer("char[]", frame)
    if frame.nbytes <= COPY_BYTES_MAX:
        check(lib.lwmq_message_append(handle, data, frame.nbytes))
        return
    before = lib.lwmq_message_frame_count(handle)
    context = _owners.keep(data, notice)
    try:
        check(
            lib.lwmq_message_append_external(handle, data, frame.nbytes, lib.lwmq_python_frame_event, context)
        )
    except BaseException:  # a signal's handler, too
        if lib.lwmq_message_frame_count(handle) == before:
            _owners.drop(context)
        raise


class _Owners:
    """The buffers that messages show without a copy, by the context that the library knows them under.

    The library tells a release on whatever thread makes it; the C part of `_native` notes it and wakes the
    thread here, which is Python's own.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may make messages, too
        self._kept: dict[int, tuple[Any, _Notice | None]] = {}
        self._next = 1
        self._is_served = False
        os.register_at_fork(after_in_child=self._begin_in_child)

    def keep(self, owner: Any, notice: _Notice | None = None) -> Any:
        """Keeps `owner` until the library releases the context that is returned, which `notice` hears of."""
        if notice is not None:
            notice.show()
        with self._lock:
            self._begin()
            number, self._next = self._next, self._next + 1
            self._kept[number] = owner, notice
        return ffi.cast("void *", number)

    def _begin(self) -> None:
        """With the lock: from now on releases are heard. OSError, RuntimeError: no descriptor, no thread."""
        if self._is_served:
            return
        fd = lib.lwmq_python_release_fd()
        if fd < 0:
            raise OSError("no descriptor for the release of external frames")
        self._is_served = True  # a handler that comes while the thread starts shall not start another
        try:
            background_thread(self._serve, "lwmq-frames", fd).start()
        except RuntimeError:
            self._is_served = False
            raise

    def _begin_in_child(self) -> None:
        """The lock may be held by a thread of our parent's, and the one that serves is. Buffers are ours."""
        self._lock = threading.RLock()
        lib.lwmq_python_forked()
        self._is_served = False
        if self._kept:
            with contextlib.suppress(OSError, RuntimeError):  # the next message tries again
                self._begin()

    def drop(self, context: Any) -> None:
        """Forgets a context that the library did not take."""
        with self._lock:
            owner, notice = self._kept.pop(int(ffi.cast("uintptr_t", context)), (None, None))
        del owner  # outside the lock: what it destroys may post messages of its own
        if notice is not None:
            notice.release()

    @property
    def kept_count(self) -> int:
        """How many buffers are kept now."""
        return len(self._kept)

    def _serve(self, fd: int) -> None:
        while True:
            os.read(fd, 8)
            while (context := lib.lwmq_python_take_released()) != ffi.NULL:
                try:
                    self.drop(context)
                except BaseException:  # of an on_release; this thread is everybody's
                    _log.exception("on_release of a message has failed")


_owners = _Owners()
