"""The endpoint of a stream: asking one for the state of its stream, and keeping one in this process.

A writer or reader that binds an address makes an endpoint by itself. `Endpoint` is for a process that wants a
stream to outlive both.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, Identity, check, ffi, identity_from, lib, text_of
from lwmq_spark._notices import Notices
from lwmq_spark._waiting import SLICE_S, Lingering, milliseconds, raise_timed_out, wait
from lwmq_spark.arrow.types import read_schema
from lwmq_spark.options import RETAINS, parse_address, parse_duration, resolve

_STATES = {0: "undeclared", 1: "open", 2: "ended", 3: "consumed"}
_RETAINS = {number: name for name, number in RETAINS.items()}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition of a stream, in sequence numbers of batches.

    `first_seq`: the first batch that is retained. `unacked_seq`: the first one that is not acknowledged.
    `next_seq`: of the next batch to come. `rows` and `bytes` count from `unacked_seq` to `next_seq`.
    """

    first_seq: int
    unacked_seq: int
    next_seq: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as its endpoint sees it.

    `state`: `undeclared`; `open`; `ended`, with something to read, if only the end; or `consumed` to its end.
    `generation`: 128 random bits in hexadecimal; sequence numbers mean nothing under another one.
    `retain`: as declared. `readers`: how many acknowledgements a batch needs.
    `producers_open`, `readers_open`: how many are connected. `readers_stalled`: have taken nothing for long
    while a writer waits for them; `stalled_pid` is the process of one of them. `readers_expelled`: shut out
    for that. `schema`: None while undeclared. `endpoint`: the process that serves the stream. `addresses`: at
    which it serves the stream, as they are bound.
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
    addresses: tuple[str, ...]


def describe(address: str, timeout: float | str | None = None, *, wait_declared: bool = True) -> StreamState:
    """The state of the stream at `address`. Consumes nothing.

    Waits, at most `timeout` seconds (None: without limit), until somebody serves the address and, with
    `wait_declared`, until the stream has a schema. TimeoutError says what was waited for. A long wait is
    reported on the logger `lwmq_spark`.
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
        address=parsed.text,
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
        addresses=tuple(ffi.string(raw.addresses).decode().splitlines()),
    )


def await_endpoint(address: str, timeout: float | None, stall: float | None) -> float | None:
    """Wait until somebody serves `address`, and return what is left of `timeout`.

    A client does so before it opens. This wait can be cut into slices, so that Ctrl-C is heard at once. An
    opening cannot: one that was cut off would count as a producer or a reader that came and was lost.
    TimeoutError: nobody serves it. PeerLostError: somebody listens and does not answer; not if `stall` is
    None.
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
    """`lwmq_stream_describe`, in slices that grow, so that a slow endpoint is not asked again and again.

    waits_on: keep waiting for an endpoint that does not answer; otherwise LWMQ_E_STALLED is returned.
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
    """Serves the stream at an address, apart from its writers and readers. `with` closes it.

    The stream and its batches live as long as the endpoint.
    """

    def __init__(self, address: str, linger: float | str | None = None) -> None:
        """Bind `address`. At a network address with port 0, `address` has the port that the system chose.

        linger: seconds for which `close` waits until nothing is unread (default 5).
        AddressError: malformed, or bound by another endpoint.
        """
        parsed = parse_address(address)
        self._address = parsed.text
        self._linger: float | None = resolve(parsed, "stream", "linger", linger, 5.0)
        out = ffi.new("lwmq_endpoint **")
        check(lib.lwmq_endpoint_open(self._address.encode(), out))
        self._address = ffi.string(lib.lwmq_endpoint_address(out[0])).decode()
        self._handle = Handle(
            out[0], f"endpoint of {self._address}", lambda endpoint: lib.lwmq_endpoint_close(endpoint, 0)
        )

    @property
    def address(self) -> str:
        """The address at which it was opened, without its options."""
        return self._address

    def listen(self, address: str) -> None:
        """Serve the streams also at `address`, of a network such as "tcp://10.0.0.7:7000/prices".

        Clients at all addresses share the streams; those on this host use shared memory.
        AddressError: in use. LwmqError: of no network.
        """
        handle = self._handle
        with handle.turn:
            check(lib.lwmq_endpoint_listen(handle.pointer, parse_address(address).text.encode()))

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self, linger: float | str | None = None) -> None:
        """Wait at most `linger` seconds until nothing is unread and all clients have left, then close.

        TimeoutError has the number of batches that were not read; the endpoint is closed all the same. A long
        wait is reported on the logger `lwmq_spark`. KeyboardInterrupt ends the wait, and the endpoint. A
        second call does nothing.
        """
        handle = self._handle
        if not handle.usable:
            return
        seconds = self._linger if linger is None else parse_duration(linger)
        notices = Notices(f"close of the endpoint of {self._address}", "`linger` bounds this wait")
        try:
            with contextlib.suppress(errors.ClosedError):  # another thread was faster
                wait(handle, lib.lwmq_endpoint_drain, seconds, turn=handle.turn, notices=notices)
        except BaseException:
            self._end()
            raise
        check(self._end())

    def _end(self) -> int:
        """Close now. LWMQ_E_TIMED_OUT: something was not read."""
        handle = self._handle
        if not handle.begin_close():
            return int(lib.LWMQ_OK)
        with handle.turn:
            endpoint = handle.pointer
            handle.forget()
            return int(lib.lwmq_endpoint_close(endpoint, 0))

    def __repr__(self) -> str:
        return f"<Endpoint {self._address} {'closed' if self.closed else 'open'}>"
