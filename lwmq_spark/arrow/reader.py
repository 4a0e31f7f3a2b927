"""Reading a stream: record batches where their writer laid them.

    with lwmq_spark.open_reader("ipc://flights") as reader:
        for batch in reader:
            ...

A batch is *leased* while anything refers to its memory, and *consumed* when the reader has moved past it: by
the next batch, by the end, or by a close in order. Leaving `with` by an exception leaves the last batch to
others.
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
    """Counters of one reader. `bytes_copied` were copied because it held its part of a writer's window, or
    to be verified; `wait_ns` is the time spent waiting for batches; leased are those that something refers
    to."""

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
    """A stream as an iterator of `pyarrow.RecordBatch`; opened when made. Threads take turns: each batch goes
    to one of them, and counts as consumed when any of them asks for the next.

    Batches are read-only and lie in the writer's window. They stay valid for as long as they are referred to,
    also after the reader is closed, but not in a forked child, which must not touch them. A reader whose
    leases pass half of a window gets private copies, counted in `statistics`. Readers of different partitions
    share that half.
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
        """Open a reader of the stream at `address`. Start order does not matter.

        follow: go on after the end of the stream, with its next producer (default False).
        timeout: seconds that the opening and each batch may take; None is no limit, and a long wait is said
            on the logger `lwmq_spark`.
        name: acknowledgements count once per name and batch; default is a name of its own.
        writers: the stream has not ended before that many producers have come (default 1).
        partitions: only these; default all.
        start: `earliest` (lowest retained and not acknowledged, the default), `latest`, a sequence number,
            or one of them per partition; partitions that are not named are then not read.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` keeps trying.
        credit: batches handed over ahead of their use (default 8).
        linger: seconds that `close` goes on serving writers, where this reader bound the address (default 5).
        trust: `user` (the default) trusts the values of batches as they lie, since only processes of the same
            user can write them; `verify` copies each batch and checks all offsets, indices and views.
        stall: seconds that an endpoint that lives may be silent: after as long a wait it is asked, and after
            as long again a call that waits raises PeerLostError (default 5). Repeated, the call waits on;
            "forever" waits on by itself.
        Arguments win over options of the address, those over LWMQ_* of the environment and the conf file.
        AddressError, TimeoutError, DataLossError (a start that was released), VersionError.
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
        """The stream's schema; waits until a producer has declared it, at most `timeout`.

        SchemaError: it nests too deep for pyarrow; the text says which field, and what to do.
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
        """With the lock in hand. Waits for it at most `ms`."""
        data, size = ffi.new("const void **"), ffi.new("uint64_t *")
        status = int(lib.lwmq_reader_schema(self._handle.pointer, ms, data, size))
        if status == lib.LWMQ_OK:
            schema = read_schema(bytes(ffi.buffer(data[0], size[0])), self._address)
            check_levels(schema, self._address)
            self._schema = schema
        return status

    def read_next_batch(self, timeout: float | None = None) -> pa.RecordBatch:
        """The next batch, in the order of arrival over the partitions; the one before is consumed by that.

        timeout: seconds, instead of the reader's; `float("inf")` is no limit. TimeoutError says what was
        waited for. StopIteration at the end. AbortedError, DataLossError and PeerLostError come after
        everything that was visible. After PeerLostError of an endpoint that lives and does not answer the
        next call waits on; DataLossError of a reader that was expelled comes at once.
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
        """The text of a time-out. Not for who polls: that it waits no longer is no news."""
        text = f"no batch within {span(limit)} on {self._address}, after {self._batches} batches"
        return text + (self._notices.explain(why) if limit else "")

    def _batch_of(self, native: Any) -> pa.RecordBatch:
        """With the lock in hand. Takes the native batch."""
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

        timeout: seconds, instead of the reader's. TimeoutError, or cancelled: the next call gets the batch,
        in this loop, in another one, or without.
        """
        limit = self._timeout if timeout is None else parse_duration(timeout)
        text = self._no_batch(limit, "")
        return await self.waiter.first(lambda: self._next(0), "batch", self._wait, limit, text, self._notices)

    def _wait(self, seconds: float) -> None:
        """Until there is something to take. TimeoutError; PeerLostError: the endpoint does not answer."""
        handle = self._handle
        status = wait(handle, lambda ms: lib.lwmq_reader_wait(handle.pointer, ms), seconds)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(text_of(), status=status)
        check(status)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """As `for`, in asyncio: the event loop stays free while this waits."""
        while (batch := await self.read_async()) is not None:
            yield batch
            del batch  # the lease is held no longer than the caller does

    def read_all(self) -> pa.Table:
        """Everything up to the end of the stream, as one table over the windows (past half of one, over
        copies).

        With `follow` it returns only when an error ends the stream.
        """
        batches = list(self)
        return pa.Table.from_batches(batches, schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """For pyarrow, polars, DuckDB, pandas: the rest of the stream, batch by batch as it is asked for."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> object:
        """Not to be had. `pandas.DataFrame(reader)` asks for it, and would make a column of batches."""
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
        """Where the batch that was returned last came from; None before the first."""
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
        """Without its options."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def consume(self) -> None:
        """Count the batch that was returned last as consumed, without asking for another. Never waits."""
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_reader_consume(self._handle.pointer))

    def close(self, linger: float | str | None = None, *, consume: bool = True) -> None:
        """Close. The batch that was returned last counts as consumed, unless `consume` is False; batches live
        on.

        A reader that bound the address goes on serving writers for at most `linger` seconds. Twice is once.
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
