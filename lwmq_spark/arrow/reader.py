"""Reading a stream: record batches where their writer placed them.

    with lwmq_spark.open_reader("ipc://flights") as reader:
        for batch in reader:
            ...

A batch is *leased* while anything refers to its memory. It is *consumed* when the reader has moved past it:
at the next batch, at the end of the stream, or at `close`. When an exception leaves the `with` block, the
last batch is not consumed and is left to other readers.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Handle,
    OfOneProcess,
    Waiter,
    advice_of,
    anew_when_interrupted,
    check,
    exception_of,
    ffi,
    fields_of,
    lib,
    milliseconds,
    raise_timed_out,
    sized,
    span,
    text_of,
    undisturbed,
    wait,
)
from lwmq_spark._notices import Notices
from lwmq_spark.arrow.block import BlockReader
from lwmq_spark.arrow.depth import check_levels
from lwmq_spark.arrow.endpoint import await_endpoint
from lwmq_spark.arrow.lease import BatchInfo, Lease, batch_over, info_from, verified_batch
from lwmq_spark.arrow.plain import Layout
from lwmq_spark.arrow.ranges import Start, ranges_of
from lwmq_spark.arrow.types import read_schema
from lwmq_spark.options import ROLES, Role, Trust, parse_address, parse_duration, resolve, spelled

_log = logging.getLogger("lwmq_spark")

STALL_S = 5.0
LINGER_S = 5.0  # of close(): how long a reader that bound the address serves those who still write


@dataclass(frozen=True, slots=True)
class ReaderStatistics:
    """Counters of one reader. `bytes_copied`: copied because the reader held its share of a writer's window,
    or because batches are verified. `wait_ns`: time spent waiting for batches. `leased_batches` and
    `leased_bytes`: batches that something still refers to."""

    batches: int
    rows: int
    bytes: int
    bytes_copied: int
    batches_copied: int
    wait_ns: int
    leased_batches: int
    leased_bytes: int
    generation: str


class StreamReader(OfOneProcess):
    """A stream as an iterator of `pyarrow.RecordBatch`, open once constructed. Threads take turns: each batch
    goes to one thread, and counts as consumed when any thread asks for the next.

    Batches are read-only and lie in the writer's window. A batch stays valid for as long as something refers
    to it, even after the reader is closed. A forked child must not touch it. A reader whose leases exceed
    half of a window gets private copies, counted in `statistics`. Readers of different partitions share that
    half.
    """

    @spelled
    def __init__(
        self,
        address: str,
        follow: bool | None = None,
        timeout: float | str | None = None,
        *,
        name: str | None = None,
        writers: int | None = None,
        partitions: list[int] | None = None,
        start: Start | Mapping[int, Start] | None = None,
        role: Role | None = None,
        credit: int | None = None,
        linger: float | str | None = None,
        trust: Trust | None = None,
        stall: float | str | None = None,
    ) -> None:
        """Open a reader of the stream at `address`. Writers and readers may start in any order.

        follow: after the end of the stream, continue with its next producer (default False).
        timeout: seconds that the opening and each batch may take; None is no limit. A long wait is reported
            on the logger `lwmq_spark`.
        name: the name under which batches are acknowledged, once per name and batch. Default: a unique name.
        writers: the stream does not end before this many producers have come (default 1).
        partitions: the partitions to read (default: all).
        start: `earliest` (the lowest batch retained and not acknowledged, the default), `latest`, a sequence
            number, or a mapping from partition to one of these; only the partitions it names are read.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` keeps trying.
        credit: batches handed over ahead of their use (default 8).
        linger: seconds that `close` goes on serving writers if this reader bound the address (default 5).
        trust: `user` (the default) uses the values of batches unchecked, because only processes of the same
            user can write them. `verify` copies each batch and checks all offsets, indices and views.
        stall: seconds that a living endpoint may be silent (default 5). After waiting that long, a call asks
            the endpoint for a sign of life; after the same time again it raises PeerLostError. Calling again
            resumes the wait. With "forever" the call does not give up.
        Arguments override options of the address, which override LWMQ_* variables and then the conf file.
        AddressError, TimeoutError, VersionError. DataLossError: `start` names a batch that was released.
        """
        parsed = parse_address(address)

        def setting(key: str, argument: Any, default: Any) -> Any:
            return resolve(parsed, "stream", key, argument, default)

        self._address = parsed.text
        self._timeout: float | None = setting("timeout", timeout, None)
        self._linger: float | None = setting("linger", linger, LINGER_S)
        self._follow: bool = setting("follow", follow, False)
        self._name: str | None = setting("name", name, None)
        self._role: str = setting("role", role, "auto")
        patience: float | None = setting("stall", stall, STALL_S)
        self._schema: pa.Schema | None = None
        # From here on: read and changed inside the handle's lock.
        self._ended = False
        self._batches = 0
        self._verify: bool = setting("trust", trust, "user") == "verify"
        self._bytes_verified = self._batches_verified = 0
        self._blocks = BlockReader()
        self._layout: Layout | None = None
        self._info = sized("lwmq_batch_info")
        self._out = ffi.new("lwmq_batch **")
        self.waiter = Waiter(f"lwmq reader {self._address}")
        self._notices = Notices(f"a reader of {self._address}", "`timeout` bounds this wait")

        options = sized("lwmq_reader_options")
        options.role = ROLES[self._role]
        options.follow = self._follow
        options.writers = setting("writers", writers, 0)
        options.credit = setting("credit", credit, 0)
        options.stall_ms = max(1, milliseconds(patience))
        encoded = None if self._name is None else ffi.new("char[]", self._name.encode())
        ranges = ranges_of(self._address, partitions, start)
        if encoded is not None:
            options.name = encoded
        if ranges is not None:
            options.ranges, options.range_count = ranges, len(ranges)
        within = self._timeout
        if self._role == "client":
            within = await_endpoint(self._address, self._timeout, patience)
        out = ffi.new("lwmq_reader **")

        def open_within(ms: int) -> int:
            options.timeout_ms = max(1, ms)
            return int(lib.lwmq_reader_open(self._address.encode(), options, out))

        status = anew_when_interrupted(open_within, within)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise_timed_out(f"nobody served {self._address}", self._timeout)
        check(status)
        self._handle = Handle(out[0], lib.lwmq_reader_abandon, f"reader of {self._address}")

    # ---- Batches

    @property
    def schema(self) -> pa.Schema:
        """The stream's schema; waits at most `timeout` until a producer has declared it.

        SchemaError: the schema is nested too deeply for pyarrow; the text names the field and the way out.
        """
        if self._schema is None:
            status = wait(self._handle, self._learn_schema, self._timeout, notices=self._notices)
            if status == lib.LWMQ_E_TIMED_OUT:
                raise errors.TimeoutError(
                    f"no producer declared the stream {self._address} within {span(self._timeout)}"
                    f"{advice_of()}{self._notices.explain('')}",
                    status=status,
                )
            if status == lib.LWMQ_E_END:
                raise errors.ClosedError(f"the stream {self._address} ended before anybody declared it")
            check(status)
        return self._schema

    def _learn_schema(self, ms: int) -> int:
        """The caller holds the lock. Waits at most `ms` for the schema."""
        data, size = ffi.new("const void **"), ffi.new("uint64_t *")
        status = int(lib.lwmq_reader_schema(self._handle.pointer, ms, data, size))
        if status == lib.LWMQ_OK:
            schema = read_schema(bytes(ffi.buffer(data[0], size[0])), self._address)
            check_levels(schema, self._address)
            self._schema = schema
        return status

    def read_next_batch(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next batch, in order of arrival across the partitions. This call consumes the previous batch.

        timeout: seconds, overriding the reader's timeout; `float("inf")` is no limit. TimeoutError says what
        the call waited for. StopIteration: the stream has ended. AbortedError, DataLossError and
        PeerLostError come after everything that was visible, but an expelled reader gets DataLossError at
        once. If PeerLostError says that the endpoint lives but does not answer, calling again resumes the
        wait.
        """
        batch = self._next(timeout)
        if batch is None:
            raise StopIteration
        return batch

    def _next(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end."""
        if self._ended:
            return None
        limit = self._timeout if timeout is None else parse_duration(timeout)
        handle, out = self._handle, self._out
        batch: pa.RecordBatch | None = None

        def take_now(ms: int) -> int:
            nonlocal batch
            status = lib.LWMQ_E_END if self._ended else lib.lwmq_reader_next(handle.pointer, ms, out)
            if status == lib.LWMQ_OK:
                batch = self._batch_of(out[0])
            elif status == lib.LWMQ_E_END:
                self._ended = True
            return int(status)

        status = wait(handle, take_now, limit, notices=self._notices)
        if status in (lib.LWMQ_OK, lib.LWMQ_E_END):
            return batch
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY):
            raise errors.TimeoutError(self._no_batch(limit, text_of() if limit else ""), status=status)
        raise exception_of(status, text_of())

    def _no_batch(self, limit: float | None, why: str) -> str:
        """The text of a time-out. Without `why` if the caller polls (limit 0): it learns nothing from it."""
        text = f"no batch within {span(limit)} on {self._address}, after {self._batches} batches"
        return text + (self._notices.explain(why) if limit else "")

    def _batch_of(self, native: Any) -> pa.RecordBatch:
        """The caller holds the lock. Takes the native batch."""
        check(lib.lwmq_batch_query(native, self._info))
        self._batches += 1
        layout = self._layout
        if layout is not None and (batch := layout.show(native)) is not None:
            return batch
        lease = Lease(native)
        if self._schema is None:
            check(self._learn_schema(0))  # it comes before the first batch
        schema = self._schema
        if not self._verify:
            batch = batch_over(self._info, lease, schema, self._blocks)
            if layout is None:
                layout = self._layout = Layout(schema)
            layout.learn(self._info, self._blocks.head, batch)
            return batch
        batch = verified_batch(self._info, schema, self._blocks)
        lease.end()
        self._bytes_verified += self._info.bytes
        self._batches_verified += 1
        return batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._next()
        if batch is None:
            raise StopIteration
        return batch

    async def read_async(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """Await the next batch; None at the end. One task at a time.

        timeout: seconds, overriding the reader's timeout. After TimeoutError or a cancellation the next call
        gets the batch, whether in this event loop, in another one, or outside of any.
        """
        limit = self._timeout if timeout is None else parse_duration(timeout)
        text = self._no_batch(limit, "")
        return await self.waiter.first(lambda: self._next(0), "batch", self._wait, limit, text, self._notices)

    def _wait(self, seconds: float) -> None:
        """Waits until there is a batch to take. TimeoutError. PeerLostError: the endpoint does not answer."""
        handle = self._handle
        status = wait(handle, lambda ms: lib.lwmq_reader_wait(handle.pointer, ms), seconds)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(text_of(), status=status)
        check(status)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Like `for`, in asyncio: the event loop stays free during the wait."""
        while (batch := await self.read_async()) is not None:
            yield batch
            del batch  # the lease is held no longer than the caller does

    def read_all(self) -> pa.Table:
        """Everything up to the end of the stream, as one table. The table refers to the windows; what
        exceeds half of a window is copied.

        With `follow` this call returns only when an error ends the stream.
        """
        batches = list(self)
        return pa.Table.from_batches(batches, schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the stream, batch by batch on demand, for pyarrow, polars, DuckDB and pandas."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> object:
        """Always refuses. `pandas.DataFrame(reader)` asks for it, and would make a column of batches."""
        raise TypeError(
            f"a reader of {self._address} is no array: reader.read_all().to_pandas() is a frame of its rows, "
            "and lwmq_spark.arrow.tensor(batch[name]) one column of a batch for NumPy"
        )

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rest of the stream as a `pyarrow.RecordBatchReader`."""
        return pa.RecordBatchReader.from_batches(self.schema, self)

    # ---- State

    @property
    def last(self) -> BatchInfo | None:
        """The origin of the batch that was returned last; None before the first."""
        with self._handle.lock:
            return info_from(self._info) if self._batches else None

    @property
    def statistics(self) -> ReaderStatistics:
        """Counters of this reader. ClosedError after close."""
        raw = sized("lwmq_reader_statistics")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_reader_query(self._handle.pointer, raw))
            fields = fields_of(raw)
            fields["bytes_copied"] += self._bytes_verified
            fields["batches_copied"] += self._batches_verified
        return ReaderStatistics(**fields, generation=bytes(ffi.buffer(raw.generation)).hex())

    @property
    def address(self) -> str:
        """The address without its options."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def consume(self) -> None:
        """Count the batch that was returned last as consumed, without asking for the next. Never waits."""
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_reader_consume(self._handle.pointer))

    def close(self, linger: float | str | None = None, *, consume: bool = True) -> None:
        """Close. The batch that was returned last counts as consumed, unless `consume` is False. Batches stay
        valid.

        A reader that bound the address goes on serving writers for at most `linger` seconds. Closing twice
        has no further effect.
        """
        if not self._handle.begin_close():
            return
        seconds = self._linger if linger is None else parse_duration(linger)
        with self._handle.lock, undisturbed():
            reader = self._handle.pointer
            self._handle.forget()
            if consume and self._batches:
                lib.lwmq_reader_consume(reader)
            status = lib.lwmq_reader_close(reader, milliseconds(seconds))
        if status not in (lib.LWMQ_OK, lib.LWMQ_E_INTERRUPTED):
            _log.warning("reader of %s: %s", self._address, text_of())

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._handle.begin_close():
            with self._handle.lock, undisturbed():
                self._handle.destroy()

    def __repr__(self) -> str:
        if self.closed:
            state = "closed"
        elif self._ended:
            state = "at the end"
        else:
            state = "open, following" if self._follow else "open"
        name = f" as {self._name!r}" if self._name else ""
        return f"<StreamReader {self._address}{name} {state}, {self._batches} batches read>"


open_reader = StreamReader
"""Opens a reader: `with open_reader(address) as reader`."""
