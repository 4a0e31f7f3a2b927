"""The exception tree, and `error_of`, which finds its class in the text of a Spark exception.

Every failure of the library is an `LwmqError`. The text says where it happened, with which numbers, and what
to do. The class says what kind of failure it is, so that a program can tell a dead peer from a schema that
does not fit:

    LwmqError
      ArgumentError        also a ValueError: a wrong argument that only the library can judge
      AddressError         malformed, unknown scheme, in use
      TimeoutError         also the builtin one: nothing was lost, the call may be repeated
      ClosedError          closed by us or by the peer, in order; or used in a forked child
      PeerLostError        the peer died, vanished or does not answer
      MessageTooBigError   larger than a buffer or a window can hold
      SchemaError          a field that is not the stream's, or that Arrow IPC cannot carry
      AbortedError         the producer gave up after some of its batches were visible
      DataLossError        what was asked for is no longer there
      CorruptError         bytes from the peer that cannot be right
      VersionError         the peer speaks another version of the protocol
      HandlerError         the peer's handler of a request raised

An argument that Python itself can check raises a plain ValueError or TypeError, so `except ValueError`
catches every argument with a wrong value, whichever side finds it. A wrong address is an `AddressError`. A
wrong setting in the environment or the conf file is an `LwmqError`.

None of these classes crosses a Spark task result. Spark raises its own exception, whose text has a token such
as `LWMQ_DATA_LOSS` followed by our text; `error_of` turns it back into an `LwmqError`.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any, ClassVar


class LwmqError(Exception):
    """Any failure of the library.

    `token` names the class in Spark exceptions. `status` is the C status, or 0. `channel` is set when a
    selector received: the channel whose receive failed; else None.
    """

    token: ClassVar[str] = "LWMQ_ERROR"
    channel: Any = None

    def __init__(self, text: str = "", *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ArgumentError(LwmqError, ValueError):
    """A wrong argument that only the library can judge, or a call that this object does not support."""

    token = "LWMQ_INVALID"


class AddressError(LwmqError):
    """The address is malformed, nobody serves its scheme, or another process has bound it."""

    token = "LWMQ_ADDRESS"


class TimeoutError(LwmqError, builtins.TimeoutError):
    """The time is over. Nothing was lost; the call may be repeated.

    Exception: after `close` the object is closed, and the text says what was not read.
    """

    token = "LWMQ_TIMEOUT"


class ClosedError(LwmqError):
    """Closed by us or by the peer, in order; or used in a forked child."""

    token = "LWMQ_CLOSED"


class PeerLostError(LwmqError):
    """The peer died, vanished, or lives and does not answer.

    The reader of a stream gets it, after what was visible, if a producer's process died or left without a
    word. A reader with `follow` continues with the next producer, unless the text says to open it anew.
    """

    token = "LWMQ_PEER_LOST"


class MessageTooBigError(LwmqError):
    """A message larger than a buffer, or a row larger than a window."""

    token = "LWMQ_MESSAGE_TOO_BIG"


class SchemaError(LwmqError):
    """A field that is not what the stream declares, or that Arrow IPC cannot carry.

    The text names the field and the types.
    """

    token = "LWMQ_SCHEMA"


class AbortedError(LwmqError):
    """The producer gave up after some of its batches were visible. Raised after these batches."""

    token = "LWMQ_ABORTED"


class DataLossError(LwmqError):
    """The batches asked for were released, or belong to an older generation of the stream."""

    token = "LWMQ_DATA_LOSS"


class CorruptError(LwmqError):
    """Bytes from the peer that cannot be right."""

    token = "LWMQ_CORRUPT"


ENDS_OF_PEER = (ClosedError, PeerLostError, CorruptError)  # how a conversation ends


class VersionError(LwmqError):
    """The peer speaks another version of the protocol."""

    token = "LWMQ_VERSION"


class HandlerError(LwmqError):
    """The peer's handler of a request raised. `kind` is the class of that exception, as the peer names it."""

    token = "LWMQ_HANDLER"

    def __init__(self, text: str = "", *, status: int = 0, kind: str = "") -> None:
        super().__init__(text, status=status)
        self.kind = kind


TREE: tuple[type[LwmqError], ...] = (
    AddressError,
    TimeoutError,
    ClosedError,
    PeerLostError,
    MessageTooBigError,
    SchemaError,
    AbortedError,
    DataLossError,
    CorruptError,
    VersionError,
    HandlerError,
)

# What follows `LWMQ_` or `LWMQ_E_` in a text. Besides the tokens of the tree, this has the names of C
# statuses, because an exception of the JVM may carry either.
_CLASS_OF: dict[str, type[LwmqError]] = {
    **{cls.token.removeprefix("LWMQ_"): cls for cls in TREE},
    "TIMED_OUT": TimeoutError,
    "TOO_BIG": MessageTooBigError,
    "STALLED": PeerLostError,
    "ERROR": LwmqError,
    "INVALID": ArgumentError,
    "NO_MEMORY": LwmqError,
    "DENIED": LwmqError,
    "UNSUPPORTED": LwmqError,
    "SYSTEM": LwmqError,
    "SUPERSEDED": DataLossError,
}
_CLASS_NAMED: dict[str, type[LwmqError]] = {
    "LwmqError": LwmqError,
    "ArgumentError": ArgumentError,
    **{cls.__name__: cls for cls in TREE},
}
_TOKEN = re.compile(
    r"\bLWMQ_(?:E_)?(?P<kind>"
    + "|".join(sorted(_CLASS_OF, key=len, reverse=True))
    + r")\b\]?[: ]*(?P<text>[^\n]*?)(?: SQLSTATE: \w{5})?$",
    re.MULTILINE,
)
# A Python worker's traceback, as Spark shows it: the class by name instead of the token.
_TRACEBACK = re.compile(
    r"\blwmq_spark\.errors\.(?P<kind>" + "|".join(_CLASS_NAMED) + r")(?:: (?P<text>[^\n]*))?"
)


def reason_of(exc: BaseException | None) -> str:
    """The reason that readers see in AbortedError when `exc` ends a producer."""
    if isinstance(exc, KeyboardInterrupt) and not str(exc):
        return "interrupted by Ctrl-C (KeyboardInterrupt)"
    kind = type(exc).__name__
    return f"{kind}: {exc}" if str(exc) else kind


def error_of(exc: BaseException | str) -> LwmqError | None:
    """The `LwmqError` behind a Spark exception, or None.

    Takes an exception of classic Spark (py4j), Spark Connect or a Python worker, with its causes, or a text.
    The result has `exc` as its `__cause__`. An `LwmqError` is returned unchanged.
    """
    if isinstance(exc, str):
        return _parse(exc)
    for link in _causes(exc):
        if isinstance(link, LwmqError):
            return link
        for text in _texts(link):
            found = _parse(text)
            if found is not None:
                found.__cause__ = exc
                return found
    return None


def _parse(text: str) -> LwmqError | None:
    token, trace = _TOKEN.search(text), _TRACEBACK.search(text)
    if token is not None and (trace is None or token.start() < trace.start()):
        return _CLASS_OF[token["kind"]](token["text"].strip())
    if trace is not None:
        return _CLASS_NAMED[trace["kind"]]((trace["text"] or "").strip())
    return None


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """`exc`, then each exception that it was raised from, once."""
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _texts(exc: BaseException) -> Iterator[str]:
    """All places where Spark's exceptions keep text: the message, then the JVM's stack with its causes."""
    yield str(exc)
    for name in ("getMessage", "getStackTrace"):
        method = getattr(exc, name, None)
        if callable(method):
            try:
                value = method()
            except Exception:  # a gateway that is gone must not hide the exception we were asked about
                continue
            if isinstance(value, str):
                yield value
            elif isinstance(value, (list, tuple)):
                yield "\n".join(map(str, value))
    for name in ("_desc", "_message", "_stackTrace", "_stacktrace", "java_exception"):
        value = getattr(exc, name, None)
        if isinstance(value, str):
            yield value
        elif name == "java_exception" and value is not None:
            yield from _java_texts(value)


def _java_texts(throwable: object) -> Iterator[str]:
    """`toString()` of a py4j throwable and of its causes, at most 20 deep."""
    for _ in range(20):
        if throwable is None:
            return
        try:
            yield str(throwable.toString())  # type: ignore[attr-defined]
            throwable = throwable.getCause()  # type: ignore[attr-defined]
        except Exception:  # not a throwable, or the gateway is gone
            return
