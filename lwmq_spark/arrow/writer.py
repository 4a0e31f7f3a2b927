"""Writing a stream: batches are copied into the window once, and readers read them there.

    with lwmq_spark.open_writer("ipc://flights", schema) as writer:
        writer.write(batch)

The end of the `with` block closes the writer, which waits until everything was consumed. An exception that
leaves the block aborts it: readers get an AbortedError with its text, after what was visible.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import Handle, OfOneProcess, check, ffi, fields_of, lib, raise_status, sized, text_of
from lwmq_spark._notices import Notices
from lwmq_spark._waiting import Waiter, anew_when_interrupted, milliseconds, raise_timed_out, span, wait
from lwmq_spark.arrow.build import BatchBuilder, Blueprint
from lwmq_spark.arrow.endpoint import await_endpoint
from lwmq_spark.arrow.filters import declare_bounds
from lwmq_spark.arrow.layout import Encoded, Encoder
from lwmq_spark.arrow.nulls import NullRules
from lwmq_spark.arrow.pieces import pieces_of
from lwmq_spark.arrow.plain import Plan
from lwmq_spark.arrow.split import agreed_key, declare_key, partition_ids, split
from lwmq_spark.arrow.types import as_schema, batches_of, compare, read_schema, write_schema
from lwmq_spark.options import (
    DELIVERIES,
    RETAINS,
    ROLES,
    Delivery,
    Retain,
    Role,
    check_name,
    parse_address,
    parse_duration,
    resolve,
)

_log = logging.getLogger("lwmq_spark")

STALL_S = 5.0
BUFFER_BYTES = 4 << 20
WINDOW_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """Counters of one writer.

    `wait_ns`: the time spent waiting for room. `window_bytes`: the memory of its windows now.
    `unread_batches`: published, and not released yet. `readers_expelled`: because they kept it waiting.
    `readers_lost`: died before they had read everything; 0 if another process serves the address.
    """

    batches: int
    rows: int
    bytes: int
    wait_ns: int
    window_bytes: int
    unread_batches: int
    readers_expelled: int
    readers_lost: int


@dataclass(frozen=True, slots=True)
class CommittedRange:
    """What a task of a job has written to one partition.

    The batches have sequence numbers from `start_seq` to before `end_seq`. With delivery `job` the two are
    equal until the job commits. With delivery `live`, batches of other writers may lie between.
    """

    partition: int
    start_seq: int
    end_seq: int
    batches: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The attempt whose batches count for a task of a job.

    `won`: it is this writer's; otherwise another attempt was faster, and this writer's batches were dropped.
    The other fields describe the attempt that counts: its number, the sums of what it has written, the
    `instance` of its process (see `identity()`), and its `ranges`, one for each partition that it has written
    to. `partition`, `start_seq` and `end_seq` are those of the first range; without one, `partition` is the
    task's own.
    """

    won: bool
    partition: int
    attempt: int
    start_seq: int
    end_seq: int
    batches: int
    rows: int
    bytes: int
    instance: str
    ranges: tuple[CommittedRange, ...]


class StreamWriter(OfOneProcess):
    """A producer of a stream. `with` closes or aborts it. Threads that use it take turns."""

    def __init__(
        self,
        address: str,
        schema: Any,
        partitions: int | None = None,
        retain: Retain | None = None,
        linger: float | str | None = None,
        *,
        partition_key: str | None = None,
        bounds: Sequence[str] | None = None,
        readers: int | None = None,
        role: Role | None = None,
        buffer_bytes: int | str | None = None,
        window_bytes: int | str | None = None,
        staging_bytes: int | str | None = None,
        timeout: float | str | None = None,
        delivery: Delivery | None = None,
        job: str | None = None,
        task: int = 0,
        job_tasks: int = 0,
        attempt: int = 0,
        epoch: int = 0,
        stall: float | str | None = None,
        expel_after: float | str | None = None,
    ) -> None:
        """Open a writer of the stream at `address`. Writers and readers may start in any order.

        schema: a pyarrow.Schema, or anything with __arrow_c_schema__. The first producer declares the stream;
            later ones must bring the same names and types.
        partitions: of the stream, if this writer is the first to declare it (default 1).
        partition_key: likewise, the column whose value decides on the partition of a row, for all producers.
            Spark joins and aggregates by it without an exchange (README of `conf/`, `partitionKey`).
        bounds: likewise, columns whose least and greatest value lie behind each batch, whoever writes it.
            Readers with `filters`, and Spark for the filters of a query, skip batches by them. For numbers of
            up to 64 bits, dates, times, strings and binaries. Each value of these columns is read once more.
        retain: likewise, how long a batch is kept: `until_acked` (the default), until `readers` reader names
            (default 1) have acknowledged it; `all`, until the endpoint closes; `none`, until the readers that
            are present have passed it.
        linger: seconds for which `close` waits until everything was consumed; None is no limit.
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` connects and
            keeps trying.
        buffer_bytes: size of a block; larger batches are split by rows (default 4 MiB).
        window_bytes: memory for batches that were not released yet; `write` waits when it is full. Default:
            64 MiB, or `buffers` of the address (16) times `buffer_bytes` if that is more.
        staging_bytes: memory beyond the window for batches that were not committed yet (default 1 GiB).
        timeout: seconds that the opening, and each wait for room, may take; None is no limit. A long wait is
            reported on the logger `lwmq_spark`.
        delivery: when batches become visible: `live`, at once (the default); `task`, with `commit()`; `job`,
            when the job commits.
        job, task, attempt, epoch: this writer is attempt `attempt` of task `task` of a job. All writers of a
            job count as one producer. The task's own partition is `task` mod partitions. It may write to
            others, too: what it has written anywhere is committed together.
        job_tasks: the job ends when that many tasks have committed.
        stall: seconds for which an endpoint that lives may be silent (default 5). A call that has waited as
            long asks the endpoint for a sign of life, and raises PeerLostError if none comes for as long
            again. The call may be repeated and then waits on; "forever" never raises.
        expel_after: readers that take nothing for so many seconds, while this writer waits for them, are shut
            out with DataLossError, and the stream goes on without them. Default: they are waited for.
        Arguments win over options of the address, those over LWMQ_* of the environment and the conf file.
        AddressError, TimeoutError, VersionError. SchemaError names the field and both types. LwmqError: this
        process can never have `window_bytes`.
        """
        parsed = parse_address(address)

        def setting(key: str, argument: Any, default: Any) -> Any:
            return resolve(parsed, "stream", key, argument, default)

        self._address = parsed.text
        self._timeout: float | None = setting("timeout", timeout, None)
        self._linger: float | None = setting("linger", linger, None)
        self._role: str = setting("role", role, "auto")
        patience: float | None = setting("stall", stall, STALL_S)
        self._buffer_bytes: int = setting("buffer_bytes", buffer_bytes, BUFFER_BYTES)
        buffers = setting("buffers", None, None)
        by_buffers = None if buffers is None else buffers * self._buffer_bytes
        window = window_bytes if window_bytes is not None or "window_bytes" in parsed.options else by_buffers
        default_window = max(WINDOW_BYTES, 16 * self._buffer_bytes)
        window_said: int = setting("window_bytes", window, 0)
        self._window_bytes = window_said or default_window
        self._job = job
        self._written = 0
        self._next_partition = 0
        self._committed = False
        self._aborted = False
        self._blueprint: Blueprint | None = None
        self.waiter = Waiter(f"lwmq writer {self._address}")
        self._notices = Notices(
            f"a writer of {self._address}",
            "`timeout` bounds this wait, `expel_after` the patience with a reader that takes nothing",
            self._lost_reader,
        )
        declared = declare_bounds(declare_key(as_schema(schema), partition_key), bounds)
        Encoder(declared)  # what pyarrow cannot write fails here, before anybody hears of the stream

        options = sized("lwmq_writer_options")
        options.role = ROLES[self._role]
        options.partitions = setting("partitions", partitions, 0)
        options.retain = RETAINS[setting("retain", retain, "until_acked")]
        options.readers = setting("readers", readers, 0)
        options.delivery = DELIVERIES[setting("delivery", delivery, "live")]
        options.stall_ms = max(1, milliseconds(patience))
        options.expel_after_ms = max(1, milliseconds(setting("expel_after", expel_after, None)))
        options.buffer_bytes = self._buffer_bytes
        options.window_bytes = window_said  # 0: the same default, which may be more than is ever used
        options.staging_bytes = setting("staging_bytes", staging_bytes, 0)
        job_name = None if job is None else ffi.new("char[]", check_name("job", job).encode())
        if job_name is not None:
            options.job = job_name
            options.task, options.job_tasks, options.attempt, options.epoch = task, job_tasks, attempt, epoch
        bytes_ = write_schema(declared)
        within = self._timeout
        if self._role == "client":
            within = await_endpoint(self._address, self._timeout, patience)
        out = ffi.new("lwmq_writer **")

        def open_within(ms: int) -> int:
            options.timeout_ms = max(1, ms)
            declaration = ffi.from_buffer(bytes_)
            return int(lib.lwmq_writer_open(self._address.encode(), declaration, len(bytes_), options, out))

        status = anew_when_interrupted(open_within, within)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise_timed_out(f"nobody served {self._address}", self._timeout)
        check(status)
        self._address = ffi.string(lib.lwmq_writer_address(out[0])).decode()
        self._handle = Handle(out[0], f"writer of {self._address}", lib.lwmq_writer_destroy)
        self._schema, self._partitions = self._declared()
        try:
            compare(declared, self._schema, self._address)
            self._partition_key = agreed_key(declared, self._schema, self._address)
            self._encoder = Encoder(self._schema)
            self._null_rules = NullRules(self._schema)
        except errors.SchemaError as exc:
            self.abort(str(exc)) if job is not None else self._leave()
            raise

    def _declared(self) -> tuple[pa.Schema, int]:
        """The schema and the number of partitions that the stream was declared with."""
        data, size, partitions = ffi.new("const void **"), ffi.new("uint64_t *"), ffi.new("uint32_t *")
        check(lib.lwmq_writer_schema(self._handle.pointer, data, size, partitions))
        return read_schema(bytes(ffi.buffer(data[0], size[0])), self._address), int(partitions[0])

    def _leave(self) -> None:
        """Leave a stream to which nothing was written, as a producer that has ended."""
        lib.lwmq_writer_close(self._handle.pointer, 0)
        self._handle.destroy()

    # ---- Batches

    def write(
        self, data: Any, partition: int | None = None, *, key: str | Sequence[str] | None = None
    ) -> int:
        """Write a RecordBatch, a Table, or anything with __arrow_c_stream__ or __arrow_c_array__.

        Returns the number of rows. The bytes are copied once, into the window.
        partition: default 0; of several, one after the other, batch by batch; in a task of a job, its own.
        key: the name of a column, or of several; default: the partition key of the stream. Each row goes to
            the partition of its key. Equal keys of equal types meet in the same partition as in Spark's
            `repartition(n, key)`, if the stream has n partitions. Rows of one partition keep their order.
            Each batch is copied once more and becomes up to n smaller ones, so write large batches.
            `lwmq_spark.arrow.partition_ids` says which types a key may have and which keys are equal.
        Waits for room until readers have released enough, at most the writer's timeout for each block. A
        batch that does not fit `buffer_bytes` is split by rows. Pieces whose rows share values (dictionaries,
        views) may be larger, up to half of the window.
        SchemaError names the field and both types, or nulls that it must not have, or a key of a wrong type.
        KeyError: no such column. ValueError: a key beside a partition, or one that is not the stream's.
        MessageTooBigError: one row is larger than the window. TimeoutError says who holds the room.
        ClosedError, PeerLostError. What was written before stays written.
        """
        self._handle.check_open()
        if self._partition_key is not None:
            if key not in (None, self._partition_key) or partition is not None:
                self._refuse_choice()
            key = self._partition_key
        if key is not None and partition is not None:
            raise ValueError(f"a key and a partition: {self._address}")
        rows = 0
        for batch in batches_of(data, self._schema, self._address):
            if key is None:
                self._write_batch(batch, self._choose(partition))
            else:
                for number, part in self._parts(batch, key):
                    self._write_batch(part, number)
            rows += batch.num_rows
        return rows

    def _parts(self, batch: pa.RecordBatch, key: str | Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each partition that gets rows of `batch`, and these rows. Raises before it yields any."""
        self._null_rules.check(batch, self._address)
        ids = partition_ids(batch, key, self._partitions)
        parts = split(batch, ids, self._partitions)
        return ((number, part) for number, part in enumerate(parts) if part.num_rows)

    def _write_batch(self, batch: pa.RecordBatch, partition: int) -> None:
        """Write `batch`, which has the stream's schema."""
        if self._plan is not None and self._write_at_once(batch, partition):
            return
        self._null_rules.check(batch, self._address)
        for encoded in pieces_of(batch, self._encoder, self._buffer_bytes, self._window_bytes, self._address):
            self._publish(encoded, partition)

    @cached_property
    def _plan(self) -> Plan | None:
        return Plan.of(self._schema, self._buffer_bytes)

    def _write_at_once(self, batch: pa.RecordBatch, partition: int) -> bool:
        """Write `batch` in one native call. False: the plan does not cover it, and nothing was done."""
        plan, handle = self._plan, self._handle
        assert plan is not None
        array = plan.show(batch)
        try:
            status = wait(
                handle,
                lambda writer, ms: lib.lwmq_writer_write_array(writer, plan.plan, array, partition, ms),
                self._timeout,
                turn=handle.turn,
                notices=self._notices,
            )
        finally:
            plan.let_go()
        if status == lib.LWMQ_OK:
            self._written += 1
            return True
        if status != lib.LWMQ_E_UNSUPPORTED:
            self._refuse(status, batch.nbytes)
        return False

    def _refuse(self, status: int, size: int) -> NoReturn:
        """Raise the error that `lwmq_writer_allocate` has returned for `size` bytes."""
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            why = text_of()
            raise errors.TimeoutError(
                f"no room for {size} bytes within {span(self._timeout)} on {self._address}"
                + (f": {why}" if why else ""),
                status=status,
            )
        raise_status(status)

    def _refuse_choice(self) -> NoReturn:
        raise ValueError(
            f"the partition key {self._partition_key!r} decides on the partitions of {self._address}: "
            "`write` batches without a partition or another key"
        )

    def _choose(self, partition: int | None) -> int:
        if partition is None and self._job is not None:
            return int(lib.LWMQ_PARTITION_OF_TASK)
        if partition is None:
            chosen = self._next_partition
            self._next_partition = (chosen + 1) % self._partitions
            return chosen
        if not 0 <= partition < self._partitions:
            raise ValueError(f"partition {partition} of a stream with {self._partitions}: {self._address}")
        return partition

    def _publish(self, encoded: Encoded, partition: int) -> None:
        block = self._allocate(encoded.bytes)
        try:
            encoded.place(int(ffi.cast("uintptr_t", block.data)))
        except BaseException:
            self._discard(block)
            raise
        flags = lib.LWMQ_BATCH_IPC_STREAM if encoded.is_stream else lib.LWMQ_BATCH_IPC_MESSAGE
        self._hand_over(block, partition, encoded.bytes, encoded.rows, flags)

    def allocate(
        self, rows: int, partition: int | None = None, *, nulls: Collection[str] = ()
    ) -> BatchBuilder:
        """Lend a batch of `rows` rows that is filled in the window itself; its `commit()` copies nothing.

        partition: as in `write`. A stream with a partition key has no such batches (ValueError).
        nulls: names of the columns that get a bitmap of validity.
        Waits for room as `write` does. SchemaError names a field whose width is not fixed, or that must not
        have nulls. KeyError: no such column. MessageTooBigError: larger than the window.
        """
        self._handle.check_open()
        if self._partition_key is not None:
            self._refuse_choice()
        if rows < 0:
            raise ValueError(f"allocate of {rows} rows")
        if self._blueprint is None:
            self._blueprint = Blueprint(self._schema)
        for name in nulls:
            if name not in self._blueprint.names:
                raise KeyError(f"no column {name!r}; there are {', '.join(self._blueprint.names)}")
            if not self._schema.field(name).nullable:
                raise errors.SchemaError(f"field {name!r} is not nullable in the stream {self._address}")
        chosen = self._choose(partition)
        end = self._blueprint.offsets(rows, nulls)[1]
        if end > self._window_bytes:
            raise errors.MessageTooBigError(
                f"{rows} rows of {end} bytes do not fit the window of {self._window_bytes} bytes "
                f"({self._address})"
            )
        block = self._allocate(end)
        handle = self._handle  # kept by the memory: the window stays while NumPy arrays over it live
        pointer = ffi.gc(ffi.cast("char *", block.data), lambda _: handle)
        return BatchBuilder(
            self._blueprint,
            rows,
            nulls,
            memoryview(ffi.buffer(pointer, end)).cast("B"),
            lambda size, count: self._hand_over(block, chosen, size, count, lib.LWMQ_BATCH_IPC_MESSAGE),
            lambda: self._discard(block),
        )

    def _allocate(self, size: int) -> Any:
        block = ffi.new("lwmq_block *")
        handle = self._handle
        status = wait(
            handle,
            lambda writer, ms: lib.lwmq_writer_allocate(writer, size, ms, block),
            self._timeout,
            turn=handle.turn,
            notices=self._notices,
        )
        if status != lib.LWMQ_OK:
            self._refuse(status, size)
        return block

    def _hand_over(self, block: Any, partition: int, size: int, rows: int, flags: int) -> None:
        handle = self._handle
        handle.check_open()
        with handle.turn:
            handle.check_open()
            check(lib.lwmq_writer_publish(handle.pointer, block, partition, size, rows, flags))
        self._written += 1

    def _discard(self, block: Any) -> None:
        handle = self._handle
        if handle.closed:
            return  # the window went with the writer
        with handle.turn:
            if not handle.closed:
                lib.lwmq_writer_discard(handle.pointer, block)

    def _lost_reader(self) -> str | None:
        """What happened to a reader that was lost since the last call; None: none was lost."""
        handle, text = self._handle, ffi.new("char[1024]")
        with handle.turn:
            if not handle.usable or lib.lwmq_writer_lost_reader(handle.pointer, text, 1024) != lib.LWMQ_OK:
                return None
        return str(ffi.string(text).decode("utf-8", "replace"))

    # ---- The end

    def commit(self, timeout: float | None = None) -> CommitResult:
        """Commit what this attempt of a task has written. Of a task the first attempt to commit wins.

        timeout: seconds, in place of the writer's. TimeoutError: the endpoint has not answered; a second
        commit changes nothing and waits on. ArgumentError: the writer was opened without a job.
        """
        raw = sized("lwmq_commit_result")
        handle = self._handle
        limit = self._timeout if timeout is None else timeout
        notices = Notices(f"commit to {self._address}", "`timeout` bounds this wait")
        ranges: list[CommittedRange] = []

        def commit_within(writer: Any, ms: int) -> int:
            status = int(lib.lwmq_writer_commit(writer, ms, raw))
            if status == lib.LWMQ_OK:  # the ranges are lent, and another thread may close the writer next
                ranges.extend(
                    CommittedRange(r.partition, r.start_seq, r.end_seq, r.batches, r.rows, r.bytes)
                    for r in (raw.ranges[i] for i in range(raw.range_count))
                )
            return status

        status = wait(
            handle,
            commit_within,
            limit,
            turn=handle.turn,
            notices=notices,
        )
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(
                f"the endpoint of {self._address} did not answer the commit within {span(limit)}"
            )
        check(status)
        self._committed = True
        fields = fields_of(raw)
        won = bool(fields.pop("won"))
        del fields["range_count"]
        instance = bytes(ffi.buffer(raw.instance)).hex()
        return CommitResult(won=won, **fields, instance=instance, ranges=tuple(ranges))

    def abort(self, reason: str = "") -> None:
        """Give up: drop what is not committed. Readers get AbortedError with `reason`. Never waits.

        Does nothing if the endpoint is gone, or the writer was closed or aborted before.
        """
        if not self._handle.begin_close():
            return
        text = reason.encode("utf-8", "replace").replace(b"\0", b" ")
        with self._handle.turn:
            try:
                status = lib.lwmq_writer_abort(self._handle.pointer, text)
                self._aborted = True
                if status not in (lib.LWMQ_E_PEER_LOST, lib.LWMQ_E_CLOSED):
                    check(status)
            finally:
                self._handle.destroy()

    def close(self, linger: float | str | None = None) -> None:
        """End this producer, and wait until everything it wrote was consumed, at most `linger` seconds.

        A writer that bound the address, and is the only user of it in this process, also waits for what other
        producers write until they end; when the time is over, their stream goes with it. A task of a job does
        not wait. After 5 s the logger `lwmq_spark` reports what is waited for.
        TimeoutError has the number of batches that were not consumed; they stay readable as long as the
        endpoint lives. PeerLostError of an endpoint that lives and does not answer leaves the writer open:
        close it again to wait on. A second call does nothing.
        """
        handle = self._handle
        if handle.closed or handle.forked:
            return
        limit = self._linger if linger is None else parse_duration(linger)
        started = time.monotonic()
        status = wait(
            handle,
            lib.lwmq_writer_close,
            limit,
            turn=handle.turn,
            notices=Notices(
                f"close of a writer of {self._address}", "`linger` bounds this wait", self._lost_reader
            ),
        )
        text = text_of() if status != lib.LWMQ_OK else ""
        if status == lib.LWMQ_E_STALLED:
            raise_status(status, text)  # still open: closing again waits on
        if not handle.begin_close():
            return
        with handle.turn:
            handle.destroy()
        if status == lib.LWMQ_E_TIMED_OUT:
            waited = time.monotonic() - started
            raise errors.TimeoutError(
                f"{text or 'not everything was consumed'} (close of {self._address} waited {waited:.1f} s)",
                status=status,
            )
        if status != lib.LWMQ_OK:
            raise_status(status, text)

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            try:
                self.abort(errors.reason_of(exc))
            except errors.LwmqError as trouble:
                _log.warning("abort of %s: %s", self._address, trouble)
            return
        if self._job is not None and not self._committed and not self._handle.closed:
            self.commit()
        self.close()

    # ---- State

    @property
    def schema(self) -> pa.Schema:
        """As the stream was declared."""
        return self._schema

    @property
    def partitions(self) -> int:
        """As the stream was declared."""
        return self._partitions

    @property
    def address(self) -> str:
        """The address without its options, and with the port that the system has chosen in place of 0."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> WriterStatistics:
        """Counters of this writer. ClosedError after close."""
        raw = sized("lwmq_writer_statistics")
        self._handle.check_open()
        with self._handle.turn:
            self._handle.check_open()
            check(lib.lwmq_writer_query(self._handle.pointer, raw))
        return WriterStatistics(**fields_of(raw))

    def __repr__(self) -> str:
        state = "aborted" if self._aborted else "closed" if self.closed else "open"
        job = f", task of job {self._job!r}" if self._job else ""
        return (
            f"<StreamWriter {self._address} {state}, {self._partitions} partitions, "
            f"{len(self._schema)} fields, {self._written} batches written{job}>"
        )


open_writer = StreamWriter
"""Opens a writer: `with open_writer(address, schema) as writer`."""
