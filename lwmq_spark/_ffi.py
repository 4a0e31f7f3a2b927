"""The one module that touches the native library.

    check       where a status becomes an exception
    Handle      a native object: closed once, destroyed when nobody is in a call of it, refused after a fork

The GIL is released in every native call, except in those of `native_messages` whose names end in `_now`. What
waits is in `_waiting`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, SupportsIndex

from lwmq_spark import errors
from lwmq_spark._interpreter import check_main_interpreter

check_main_interpreter()

try:
    from lwmq_spark import _native_messages as native_messages
    from lwmq_spark._native import ffi, lib
    from lwmq_spark._native_messages import Condition, Turn
except ImportError as exc:
    raise ImportError(
        f"the native part of lwmq_spark is missing or does not load ({exc}): "
        "install the wheel with `pip install .`, or run `make dev` in a checkout"
    ) from exc

__all__ = [
    "Condition",
    "Handle",
    "Turn",
    "check",
    "ffi",
    "lib",
    "native_messages",
    "raise_status",
    "text_of",
]

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
    """The library's text for the last failure on this thread."""
    return str(ffi.string(lib.lwmq_last_error()).decode("utf-8", "replace"))


def advice_of() -> str:
    """The part of that text behind its first semicolon, with the semicolon; empty if there is none."""
    return "".join(text_of().partition("; ")[1:])


def exception_of(status: int, text: str) -> errors.LwmqError:
    """The exception for `status`. Without a text it has the name of the status."""
    text = text or ffi.string(lib.lwmq_status_name(status)).decode()
    return _CLASS_OF.get(status, errors.LwmqError)(text, status=status)


def raise_status(status: int, text: str | None = None) -> NoReturn:
    """Raise the exception for `status`, with `text` or the library's own."""
    raise exception_of(status, text or text_of())


def check(status: int) -> None:
    """Return if `status` is LWMQ_OK; else raise its exception."""
    if status != lib.LWMQ_OK:
        raise_status(status)


def address_of(pointer: Any) -> int:
    """The address of a cffi pointer, for `native_messages`."""
    return int(ffi.cast("uintptr_t", pointer))


class OfOneProcess:
    """Base of objects that only the process that made them can use: they are neither pickled nor copied."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{self!r} is of the process that made it, and is neither pickled nor copied: make one where it "
            "is used, such as inside the function that Spark or a pool of processes runs"
        )


class Handle:
    """A native object and its state. Any thread.

    A native call takes the pointer that `lend()` returns, which stays as long as somebody holds it. There are
    two ways to see that no thread is inside when the object is destroyed:

    - Its functions may be called by any thread. The pointer has a destructor (`ffi.gc`), which runs when the
      last thread has given it up, and no thread waits for another.
    - They serve one thread at a time, which holds `turn`. `destroy` is called, in that turn or when nobody
      has the handle any more; in a forked child never.
    """

    __slots__ = (
        "__weakref__",
        "_destroy",
        "_pid",
        "address",
        "closed",
        "forked",
        "pointer",
        "turn",
        "usable",
        "what",
    )

    def __init__(self, pointer: Any, what: str, destroy: Callable[[Any], object] | None = None) -> None:
        """what: names the object in errors, such as `writer of ipc://flights`."""
        self.pointer: Any = pointer
        self.address = address_of(pointer)
        self._destroy = destroy
        self.what = what
        self.turn = Turn()
        self.closed = False
        self.forked = False  # this process is a child of the one that opened it
        self.usable = True  # neither closed nor forked
        self._pid = os.getpid()
        _handles.add(self)

    def lend(self) -> Any:
        """The pointer. ClosedError: closed, or in a forked child."""
        pointer = self.pointer
        self.check_open()
        return pointer

    def check_open(self) -> None:
        """ClosedError: closed, or in a forked child, where no lock may be taken either."""
        if self.usable:
            return
        text = f"the {self.what} is closed"
        if self.forked:
            text = (
                f"forked: the {self.what} belongs to process {self._pid}; "
                "start workers with the multiprocessing method 'spawn' and open it there"
            )
        raise errors.ClosedError(text, status=lib.LWMQ_E_CLOSED)

    def begin_close(self) -> bool:
        """Refuse further calls. False: another call has closed the handle, or this is a forked child."""
        if not self.usable:
            return False
        self._close()
        return True

    def _close(self) -> None:
        self.usable = False
        self.closed = True

    def destroy(self) -> None:
        """Close, and give the pointer up. A second call does nothing."""
        pointer = self.forget()
        if pointer is not None and self._destroy is not None and not self.forked:
            self._destroy(pointer)

    def forget(self) -> Any:
        """Close, and return the pointer for a native call that takes the object itself."""
        pointer, self.pointer = self.pointer, None
        self._close()
        return pointer

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.destroy()


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


def _disown() -> None:
    """In a forked child: what the parent has open does not belong to this process."""
    for handle in _handles:
        handle.forked = True
        handle.usable = False


os.register_at_fork(after_in_child=_disown)


# ---- What the library knows of itself ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a process runs, and who it is to its peers.

    `instance`: 128 random bits in hexadecimal, made anew when a process loads the library.
    """

    host: str
    boot_id: str
    netns: int
    instance: str
    pid: int
    uid: int


def identity_from(raw: Any) -> Identity:
    """An `lwmq_identity` as an `Identity`."""
    return Identity(
        host=ffi.string(raw.host).decode("utf-8", "replace"),
        boot_id=ffi.string(raw.boot_id).decode("utf-8", "replace"),
        netns=int(raw.netns),
        instance=bytes(ffi.buffer(raw.instance)).hex(),
        pid=int(raw.pid),
        uid=int(raw.uid),
    )


def sized(name: str) -> Any:
    """A zeroed structure of the library, with its `size` set."""
    raw = ffi.new(f"{name} *")
    raw.size = ffi.sizeof(name)
    return raw


def fields_of(raw: Any) -> dict[str, int]:
    """The numbers in a structure, by name, without `size`."""
    kinds = ffi.typeof(raw[0]).fields
    return {
        name: int(getattr(raw, name))
        for name, kind in kinds
        if name != "size" and kind.type.kind == "primitive"
    }


def identity() -> Identity:
    """Where this process runs, and who it is to its peers."""
    raw = sized("lwmq_identity")
    check(lib.lwmq_identify(raw))
    return identity_from(raw)


def statistics() -> dict[str, int]:
    """Counters of this process since the library was loaded; names and units as in lwmq_statistics."""
    raw = sized("lwmq_statistics")
    check(lib.lwmq_query_statistics(raw))
    return fields_of(raw)
