"""Reading a stream: record batches where their writer laid them.

    with lwmq_spark.open_reader("ipc://flights") as reader:
        for batch in reader:
            ...

A batch is *leased* while something refers to its memory. It is *consumed* when its reader has moved past it:
with the next batch, at the end, or by a close in order. If an exception leaves the `with` block, the last
batch is not consumed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Handle,
    OfOneProcess,
    advice_of,
    check,
    exception_of,
    ffi,
    fields_of,
    lib,
    sized,
    text_of,
)
from lwmq_spark._notices import Notices
from lwmq_spark._waiting import (
    Waiter,
    anew_when_interrupted,
    milliseconds,
    raise_timed_out,
    span,
    undisturbed,
    wait,
)
from lwmq_spark.arrow.block import BlockReader, Selection
from lwmq_spark.arrow.depth import check_levels
from lwmq_spark.arrow.endpoint import await_endpoint
from lwmq_spark.arrow.filters import Filter, encode
from lwmq_spark.arrow.lease import BatchInfo, Lease, batch_over, info_from, verified_batch
from lwmq_spark.arrow.plain import Layout
from lwmq_spark.arrow.ranges import Start, ranges_of
from lwmq_spark.arrow.types import read_schema
from lwmq_spark.options import ROLES, Role, Trust, parse_address, parse_duration, resolve

_log = logging.getLogger("lwmq_spark")

STALL_S = 5.0
LINGER_S = 5.0  # of close(): how long a reader that bound the address serves those who still write


@dataclass(frozen=True, slots=True)
class ReaderStatistics:
    """Counters of one reader.

    `batches_copied`, `bytes_copied`: handed out as private copies, because the reader held its part of a
    window or to be verified. `wait_ns`: the time spent waiting for batches. `leased_batches`, `leased_bytes`:
    something refers to them now. `generation`: of the stream; see `StreamState`.
    `bytes_received`: of the batches and columns that came over a network.
    `batches_skipped`, `rows_skipped`: by the filters; the other counters leave them out.
    """

    batches: int
    rows: int
    bytes: int
    bytes_copied: int
    batches_copied: int
    wait_ns: int
    leased_batches: int
    leased_bytes: int
    generation: str
    bytes_received: int
    batches_skipped: int
    rows_skipped: int


class StreamReader(OfOneProcess):
    """A stream as an iterator of `pyarrow.RecordBatch`. One thread at a time. `with` closes it.

    Batches are read-only and lie in the writer's window. They stay valid as long as something refers to them,
    also after the close. A reader whose leases pass half of a window gets private copies, which `statistics`
    counts. Readers of different partitions share that half.
    """

    def __init__(
        self,
        address: str,
        follow: bool | None = None,
        timeout: float | str | None = None,
        *,
        name: str | None = None,
        writers: int | None = None,
        partitions: list[int] | None = None,
        columns: Sequence[str] | None = None,
        filters: Sequence[Filter] | None = None,
        start: Start | Mapping[int, Start] | None = None,
        role: Role | None = None,
        credit: int | None = None,
        linger: float | str | None = None,
        trust: Trust | None = None,
        stall: float | str | None = None,
    ) -> None:
        """Open a reader of the stream at `address`. Writers and readers may start in any order.

        follow: after the end of the stream, go on with its next producer (default False).
        timeout: seconds that the opening, and the wait for each batch, may take; None is no limit. A long
            wait is reported on the logger `lwmq_spark`.
        name: acknowledgements count once per name and batch; by default the reader has a name of its own.
        writers: the stream does not end before that many producers have come (default 1).
        partitions: numbers of the partitions to read; default all.
        columns: names of the columns to read, and their order; default all. Over a network no other column
            travels.
        filters: what the rows are wanted for, as `[("k", ">=", 5), ("name", "is not", None)]`; all of them
            have to hold. A batch in which no row can match is skipped, as the `bounds` of its columns say;
            over a network it does not travel. Other batches come whole, so filter their rows as well. Values
            are int, float, str, bytes, date or datetime, of the kind that the column holds.
        start: where to begin: `earliest` (the default), the lowest batch that is retained and not
            acknowledged; `latest`; a sequence number; or one of these per partition, and then no other
            partition is read.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` connects and
            keeps trying.
        credit: batches that are handed over ahead of their use (default 8, over a network 64).
        linger: seconds for which `close` goes on serving writers, if this reader bound the address
            (default 5).
        trust: `user` (the default) trusts the values of batches as they lie, because only processes of the
            same user can write them. `verify` copies each batch and checks every offset, index and view.
        stall: seconds for which an endpoint that lives may be silent (default 5). A call that has waited as
            long asks the endpoint for a sign of life, and raises PeerLostError if none comes for as long
            again. The call may be repeated and then waits on; "forever" never raises.
        Arguments win over options of the address, those over LWMQ_* of the environment and the conf file.
        AddressError, TimeoutError, VersionError. DataLossError: the start was released. SchemaError, when
        the schema is known: the stream does not have exactly one column of a name in `columns` or `filters`,
        or a filter compares it with a value of another kind.
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
        self._columns = _names(columns)
        wanted = [ffi.new("char[]", column.encode()) for column in self._columns or ()]
        if wanted:
            names = ffi.new("char *[]", wanted)
            options.columns, options.column_count = names, len(wanted)
        if filters:
            compared, _kept = encode(filters)
            options.filters, options.filter_count = compared, len(compared)
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
        self._address = ffi.string(lib.lwmq_reader_address(out[0])).decode()
        self._handle = Handle(
            out[0], f"reader of {self._address}", lambda reader: lib.lwmq_reader_close(reader, 0)
        )

    # ---- Batches

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches: the stream's, or that of `columns`.

        Waits until a producer has declared it, at most the reader's timeout.

        SchemaError: a field nests too deep for pyarrow, or the stream does not have a column that was asked
        for. TimeoutError. ClosedError: the stream has ended
        without a schema.
        """
        if self._schema is None:
            data, size = ffi.new("const void **"), ffi.new("uint64_t *")
            status = wait(
                self._handle,
                lambda reader, ms: lib.lwmq_reader_schema(reader, ms, data, size),
                self._timeout,
                turn=self._handle.turn,
                notices=self._notices,
            )
            if status == lib.LWMQ_E_TIMED_OUT:
                raise errors.TimeoutError(
                    f"no producer declared the stream {self._address} within {span(self._timeout)}"
                    f"{advice_of()}",
                    status=status,
                )
            if status == lib.LWMQ_E_END:
                raise errors.ClosedError(f"the stream {self._address} ended before anybody declared it")
            check(status)
            schema = read_schema(bytes(ffi.buffer(data[0], size[0])), self._address)
            check_levels(schema, self._address)
            if self._columns is not None:
                self._blocks.selection = Selection(schema, self._columns)
                schema = self._blocks.selection.schema
            self._schema = schema
        return self._schema

    def read_next_batch(self, timeout: float | None = None) -> pa.RecordBatch:
        """Wait for the next batch of any partition, and return it. This consumes the batch before.

        timeout: seconds, in place of the reader's; `float("inf")` is no limit.
        TimeoutError. StopIteration: the end of the stream. AbortedError, DataLossError and PeerLostError are
        raised after everything that was visible; DataLossError of a reader that was expelled at once. After
        PeerLostError of an endpoint that lives and does not answer, the next call waits on.
        """
        batch = self._next(timeout)
        if batch is None:
            raise StopIteration
        return batch

    def _next(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """The next batch; None at the end of the stream."""
        if self._ended:
            return None
        limit = self._timeout if timeout is None else parse_duration(timeout)
        out = self._out
        handle = self._handle
        status = wait(
            handle,
            lambda reader, ms: lib.lwmq_reader_next(reader, ms, out),
            limit,
            turn=handle.turn,
            notices=self._notices,
        )
        if status == lib.LWMQ_OK:
            check(lib.lwmq_batch_query(out[0], self._info))
            self._batches += 1
            layout = self._layout
            if layout is not None and (batch := layout.show(out[0])) is not None:
                return batch
            lease = Lease(out[0])
            schema = self._schema or self.schema
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
        if status == lib.LWMQ_E_END:
            self._ended = True
            return None
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_EMPTY):
            raise errors.TimeoutError(
                f"no batch within {span(limit)} on {self._address}, after {self._batches} batches",
                status=status,
            )
        raise exception_of(status, text_of())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self._next()
        if batch is None:
            raise StopIteration
        return batch

    async def read_async(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """Await the next batch; None at the end of the stream. One task at a time.

        timeout: seconds, in place of the reader's. After TimeoutError, or if the task is cancelled, the next
        call gets the batch, in this loop, in another one, or without.
        """
        limit = self._timeout if timeout is None else parse_duration(timeout)
        text = f"no batch within {span(limit)} on {self._address}, after {self._batches} batches"
        return await self.waiter.first(lambda: self._next(0), "batch", self._wait, limit, text, self._notices)

    def _wait(self, seconds: float) -> None:
        """Wait until `_next` has something to say. TimeoutError. PeerLostError: the endpoint is silent."""
        handle = self._handle
        status = wait(handle, lib.lwmq_reader_wait, seconds, turn=handle.turn)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(text_of(), status=status)
        check(status)

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """As `for`, in asyncio."""
        while (batch := await self.read_async()) is not None:
            yield batch
            del batch  # leased no longer than the caller keeps it

    def read_all(self) -> pa.Table:
        """Everything up to the end of the stream as one table.

        Its memory is the writer's window, and copies where that is half full. With `follow` this ends only by
        an error.
        """
        batches = list(self)
        return pa.Table.from_batches(batches, schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the stream for pyarrow, polars, DuckDB and pandas, which take it batch by batch."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> object:
        """TypeError. `pandas.DataFrame(reader)` calls this, and would make a column of batches."""
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
        """Where the last returned batch came from; None before the first one."""
        return info_from(self._info) if self._batches else None

    @property
    def statistics(self) -> ReaderStatistics:
        """Counters of this reader. ClosedError after close."""
        raw = sized("lwmq_reader_statistics")
        self._handle.check_open()
        with self._handle.turn:
            self._handle.check_open()
            check(lib.lwmq_reader_query(self._handle.pointer, raw))
        fields = fields_of(raw)
        fields["bytes_copied"] += self._bytes_verified
        fields["batches_copied"] += self._batches_verified
        return ReaderStatistics(**fields, generation=bytes(ffi.buffer(raw.generation)).hex())

    @property
    def address(self) -> str:
        """The address without its options, and with the port that the system has chosen in place of 0."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def consume(self) -> None:
        """Count the last returned batch as consumed, without asking for another. Never waits."""
        self._handle.check_open()
        with self._handle.turn:
            self._handle.check_open()
            check(lib.lwmq_reader_consume(self._handle.pointer))

    def close(self, linger: float | str | None = None, *, consume: bool = True) -> None:
        """Close the reader. Batches that something refers to live on. A second call does nothing.

        linger: seconds for which a reader that bound the address goes on serving writers.
        consume: whether the last returned batch counts as consumed.
        """
        if not self._handle.begin_close():
            return
        seconds = self._linger if linger is None else parse_duration(linger)
        with self._handle.turn, undisturbed():
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
        else:
            self.close(linger=0, consume=False)

    def __repr__(self) -> str:
        if self.closed:
            state = "closed"
        elif self._ended:
            state = "at the end"
        else:
            state = "open, following" if self._follow else "open"
        name = f" as {self._name!r}" if self._name else ""
        return f"<StreamReader {self._address}{name} {state}, {self._batches} batches read>"


def _names(columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names, not a name: did you mean [{columns!r}]?")
    names = list(columns)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"columns are one name or more, each once, not {names}; leave it out for all")
    return names


open_reader = StreamReader
"""Opens a reader: `with open_reader(address) as reader`."""
