"""lwmq_spark: Arrow record batches and messages between live processes and Spark, through shared memory.

This module holds the public names and nothing else. Importing it loads neither the native library nor pyarrow
nor pyspark; each name imports what it needs on first use.

    Spark      session, configure, attach, exchange, publish, subscribe, error_of
    Arrow      open_writer, open_reader, Endpoint, progress
    Messages   Channel, Listener, SendQueue, Selector, Router, Requests, Replies, Message, Frame, Priority
    Errors     LwmqError and its tree (see `lwmq_spark.errors`)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lwmq_spark.errors import (
    AbortedError,
    AddressError,
    ArgumentError,
    ClosedError,
    CorruptError,
    DataLossError,
    HandlerError,
    LwmqError,
    MessageTooBigError,
    PeerLostError,
    SchemaError,
    TimeoutError,
    VersionError,
    error_of,
)

if TYPE_CHECKING:
    from lwmq_spark.arrow import Endpoint, StreamReader, StreamWriter, open_reader, open_writer
    from lwmq_spark.channel import (
        Channel,
        Listener,
        Priority,
        Replies,
        Requests,
        Router,
        Selector,
        SendQueue,
    )
    from lwmq_spark.message import Frame, Message
    from lwmq_spark.meter import progress
    from lwmq_spark.spark.exchange import exchange
    from lwmq_spark.spark.publish import PUBLISH_SCHEMA, publish, subscribe
    from lwmq_spark.spark.session import attach, configure, session

__version__: str

__all__ = [
    "PUBLISH_SCHEMA",
    "AbortedError",
    "AddressError",
    "ArgumentError",
    "Channel",
    "ClosedError",
    "CorruptError",
    "DataLossError",
    "Endpoint",
    "Frame",
    "HandlerError",
    "Listener",
    "LwmqError",
    "Message",
    "MessageTooBigError",
    "PeerLostError",
    "Priority",
    "Replies",
    "Requests",
    "Router",
    "SchemaError",
    "Selector",
    "SendQueue",
    "StreamReader",
    "StreamWriter",
    "TimeoutError",
    "VersionError",
    "attach",
    "configure",
    "error_of",
    "exchange",
    "open_reader",
    "open_writer",
    "progress",
    "publish",
    "session",
    "subscribe",
]

_LAZY = {
    "PUBLISH_SCHEMA": "lwmq_spark.spark.publish",
    "Channel": "lwmq_spark.channel",
    "Endpoint": "lwmq_spark.arrow",
    "Listener": "lwmq_spark.channel",
    "Priority": "lwmq_spark.channel",
    "Replies": "lwmq_spark.channel",
    "Requests": "lwmq_spark.channel",
    "Router": "lwmq_spark.channel",
    "Selector": "lwmq_spark.channel",
    "SendQueue": "lwmq_spark.channel",
    "Frame": "lwmq_spark.message",
    "Message": "lwmq_spark.message",
    "StreamReader": "lwmq_spark.arrow",
    "StreamWriter": "lwmq_spark.arrow",
    "open_reader": "lwmq_spark.arrow",
    "open_writer": "lwmq_spark.arrow",
    "progress": "lwmq_spark.meter",
    "attach": "lwmq_spark.spark.session",
    "configure": "lwmq_spark.spark.session",
    "exchange": "lwmq_spark.spark.exchange",
    "publish": "lwmq_spark.spark.publish",
    "session": "lwmq_spark.spark.session",
    "subscribe": "lwmq_spark.spark.publish",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    elif name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        from lwmq_spark._ffi import library_version

        try:
            value = version("lwmq_spark")
        except PackageNotFoundError:  # a checkout on the path, which nobody has installed
            value = library_version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
