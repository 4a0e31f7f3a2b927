"""Keys of streams in an application that authenticates: `spark.authenticate=true`.

Driver and executors derive the key of a stream from the application's secret. A process that does not belong
to the application needs a ticket, which is the key of one stream:

    lwmq.ticket("tcps://*:7000/flights", "flights.psk")    # in the driver
    lwmq.open_writer("tcps://driver:7000/flights?psk=flights.psk", schema)    # elsewhere, with the file
"""

from __future__ import annotations

import re
from pathlib import Path

from lwmq_spark._ffi import check, lib
from lwmq_spark.errors import LwmqError


def ticket(address: str, file: str | Path | None = None) -> str:
    """The key of the stream at `address`, for a process that does not belong to the application.

    It is a line of a key file. A process that has it reaches this stream and no other one, until the
    application ends. The driver accepts it from now on.
    file: a new file for the line, which nobody but its owner may read.
    Called in the driver. FileExistsError. LwmqError: the application does not authenticate, or the address
    takes no key.
    """
    line = ticket_or_none(address)
    if line is None:
        raise LwmqError(
            f"there is no ticket for {address}: that takes a session with spark.authenticate=true, and an "
            "address without credentials such as tcps://host:7000/name"
        )
    if file is not None:
        Path(file).touch(mode=0o600, exist_ok=False)
        Path(file).write_text(line + "\n")
    return line


def ticket_or_none(address: str) -> str | None:
    """The ticket, if the application of this driver has one for `address`."""
    if not address.startswith(("tcps://", "vsocks://")):
        return None
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    try:
        return None if jvm is None else jvm.org.lwmq.spark.conf.StreamKeys.provide(address)
    except TypeError:  # as py4j says that the JVM has no such class
        return None


def take(address: str, line: str | None) -> None:
    """This process proves itself with the ticket `line` at addresses that name the same stream."""
    if line is not None:
        name = re.fullmatch(r"\w+://(?:\[[^]]*\]|[^:/?]*):[^/?]*/?([^?]*).*", address)
        check(lib.lwmq_set_key(name[1].encode() if name else b"", line.encode()))
