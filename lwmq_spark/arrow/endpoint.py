"""The endpoint of a stream: asking one for its state, and keeping one of one's own.

Writers and readers make an endpoint by themselves where their role says so; `Endpoint` is for a process that
wants a stream to outlive both.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import (
    SLICE_S,
    Handle,
    Identity,
    Lingering,
    check,
    ffi,
    identity_from,
    lib,
    milliseconds,
    raise_timed_out,
    text_of,
    wait,
)
from lwmq_spark._notices import Notices
from lwmq_spark.arrow.types import read_schema
from lwmq_spark.options import RETAINS, parse_address, parse_duration, resolve

_STATES = {0: "undeclared", 1: "open", 2: "ended", 3: "consumed"}
_RETAINS = {number: name for name, number in RETAINS.items()}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Sequence numbers of a partition; `rows` and `bytes` are those from `unacked_seq` to `next_seq`."""

    first_seq: int
    unacked_seq: int
    next_seq: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as its endpoint sees it.

    `address` has the name of the stream, if any. `state` is `undeclared`, `open`, `ended` (there is
    something to read, if only the end) or `consumed` (to its end); `schema` is None while undeclared.
    Stalled readers have taken nothing for long while a writer waits for them; `stalled_pid` is one of them.

    Sequence numbers are void under another `generation`.
    """

    address: str
    state: str
    generation: str
    retain: str
    readers: int
    producers_open: int
    readers_open: int
    readers_stalled: int
    readers_expelled: int
    stalled_pid: int
    schema: pa.Schema | None
    partitions: tuple[PartitionState, ...]
    endpoint: Identity


def describe(address: str, timeout: float | str | None = None, *, wait_declared: bool = True) -> StreamState:
    """The state of the stream at `address`; waits until there is one and, with `wait_declared`, has a schema.

    Is no reader and consumes nothing. TimeoutError says what was waited for; None is no limit. A long wait
    is said on the logger `lwmq_spark`.
    """
    parsed = parse_address(address)
    limit = resolve(parsed, "stream", "timeout", timeout, None)
    out = ffi.new("lwmq_stream_state **")
    status = _ask(parsed.text, wait_declared, limit, out)
    if status == lib.LWMQ_E_TIMED_OUT:
        raise_timed_out(f"no stream at {parsed.text}", limit)
    check(status)
    raw = ffi.gc(out[0], lib.lwmq_stream_state_destroy)
    schema = None
    if raw.schema != ffi.NULL:
        schema = read_schema(bytes(ffi.buffer(raw.schema, raw.schema_bytes)), parsed.text)
    return StreamState(
        address=ffi.string(raw.address).decode(),
        state=_STATES.get(raw.state, str(raw.state)),
        generation=bytes(ffi.buffer(raw.generation)).hex(),
        retain=_RETAINS.get(raw.retain, str(raw.retain)),
        readers=int(raw.readers),
        producers_open=int(raw.producers_open),
        readers_open=int(raw.readers_open),
        readers_stalled=int(raw.readers_stalled),
        readers_expelled=int(raw.readers_expelled),
        stalled_pid=int(raw.stalled_pid),
        schema=schema,
        partitions=tuple(_partition(raw.partitions[index]) for index in range(raw.partition_count)),
        endpoint=identity_from(raw.endpoint),
    )


def await_endpoint(address: str, timeout: float | None, stall: float | None) -> float | None:
    """Wait until somebody serves `address`; what is left of `timeout`. TimeoutError: nobody did.
    PeerLostError: somebody listens and does not answer; not where `stall` is None.

    A client asks before it opens: that can be cut into slices and repeated, so that no Ctrl-C goes unheard,
    where an opening that was cut off would count as a producer or a reader that came and was lost.
    """
    started = time.monotonic()
    out = ffi.new("lwmq_stream_state **")
    status = _ask(address, False, timeout, out, waits_on=stall is None)
    if status == lib.LWMQ_OK:
        lib.lwmq_stream_state_destroy(out[0])
    elif status == lib.LWMQ_E_TIMED_OUT:
        raise_timed_out(f"nobody served {address}", timeout)
    check(status)
    return None if timeout is None else max(0.001, timeout - (time.monotonic() - started))


def _ask(
    address: str, wait_declared: bool, timeout: float | None, out: Any, *, waits_on: bool = False
) -> int:
    """`lwmq_stream_describe` in slices that grow, so that an endpoint that answers slowly is not asked for
    ever. One that does not answer is an answer too, unless we wait on.
    """
    pending = {lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_INTERRUPTED} | ({lib.LWMQ_E_STALLED} if waits_on else set())
    notices = Notices(f"a client of {address}", "`timeout` bounds this wait")
    started, left, slice_s = time.monotonic(), timeout, SLICE_S
    while True:
        slice_ms = milliseconds(slice_s if left is None else min(left, slice_s))
        status = int(lib.lwmq_stream_describe(address.encode(), wait_declared, slice_ms, out))
        if status not in pending:
            return status
        waited = time.monotonic() - started
        if timeout is not None:
            left = timeout - waited
            if left <= 0:
                return int(lib.LWMQ_E_TIMED_OUT)
        if status != lib.LWMQ_E_INTERRUPTED:
            notices.tell(waited, text_of())
        if status == lib.LWMQ_E_TIMED_OUT:
            slice_s = min(2 * slice_s, 5.0)


def _partition(raw: Any) -> PartitionState:
    return PartitionState(
        first_seq=int(raw.first_seq),
        unacked_seq=int(raw.unacked_seq),
        next_seq=int(raw.next_seq),
        rows=int(raw.rows),
        bytes=int(raw.bytes),
    )


class Endpoint(Lingering):
    """Serves the stream at an address, apart from its writers and readers. `with` closes it."""

    def __init__(self, address: str, linger: float | str | None = None) -> None:
        """Binds `address`.

        linger: seconds that `close` waits until nothing is unread (default 5). AddressError: in use.
        """
        parsed = parse_address(address)
        self._address = parsed.text
        self._linger: float | None = resolve(parsed, "stream", "linger", linger, 5.0)
        out = ffi.new("lwmq_endpoint **")
        check(lib.lwmq_endpoint_open(self._address.encode(), out))
        self._handle = Handle(
            out[0], lambda endpoint: lib.lwmq_endpoint_close(endpoint, 0), f"endpoint of {self._address}"
        )

    @property
    def address(self) -> str:
        """The address without options, but with the name of the stream."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self, linger: float | str | None = None) -> None:
        """Wait at most `linger` seconds until nothing is unread and everybody has left; then close in any
        case.

        TimeoutError has the number of batches that were not read. A long wait is said on the logger
        `lwmq_spark`. KeyboardInterrupt ends the wait, and the endpoint. Twice is once.
        """
        handle = self._handle
        if not handle.usable:
            return
        seconds = self._linger if linger is None else parse_duration(linger)
        notices = Notices(f"close of the endpoint of {self._address}", "`linger` bounds this wait")
        try:
            with contextlib.suppress(errors.ClosedError):  # another thread was faster
                wait(handle, lambda ms: lib.lwmq_endpoint_drain(handle.pointer, ms), seconds, notices=notices)
        except BaseException:
            self._end()
            raise
        check(self._end())

    def _end(self) -> int:
        """Close now; LWMQ_E_TIMED_OUT where something was not read."""
        handle = self._handle
        if not handle.begin_close():
            return int(lib.LWMQ_OK)
        with handle.lock:
            endpoint = handle.pointer
            handle.forget()
            return int(lib.lwmq_endpoint_close(endpoint, 0))

    def __repr__(self) -> str:
        return f"<Endpoint {self._address} {'closed' if self.closed else 'open'}>"
