"""Writing a stream: each batch is placed in the window once, and readers read it there.

    with lwmq_spark.open_writer("ipc://flights", schema) as writer:
        writer.write(batch)

When the `with` block ends normally, the writer closes: it waits until everything was consumed. When the block
ends with an exception, the writer aborts: after the batches that were visible, readers get an AbortedError
with the exception's text.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa

from lwmq_spark import errors
from lwmq_spark._ffi import (
    Handle,
    OfOneProcess,
    Waiter,
    anew_when_interrupted,
    check,
    ffi,
    fields_of,
    lib,
    milliseconds,
    raise_status,
    raise_timed_out,
    sized,
    span,
    text_of,
    wait,
)
from lwmq_spark._notices import Notices
from lwmq_spark.arrow.build import BatchBuilder, Blueprint
from lwmq_spark.arrow.endpoint import await_endpoint
from lwmq_spark.arrow.layout import Encoded, Encoder
from lwmq_spark.arrow.nulls import NullRules
from lwmq_spark.arrow.pieces import pieces_of
from lwmq_spark.arrow.plain import Plan
from lwmq_spark.arrow.split import partition_ids, split
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
    spelled,
    whole,
)

_log = logging.getLogger("lwmq_spark")

STALL_S = 5.0
NEWS_S = 0.05  # between two looks for news of readers by a writer that need not wait
BUFFER_BYTES = 4 << 20
WINDOW_BYTES = 64 << 20
UINT32_MAX, UINT64_MAX = (1 << 32) - 1, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """Counters of one writer. `wait_ns`: time spent waiting for room. `unread_batches`: not yet released.
    `readers_expelled`: expelled because they kept this writer waiting. `readers_lost`: died, or were left by
    an exception, before they had read everything. `bytes_copied`: copied by `BatchBuilder.commit` because
    the builder's arrays could still be written to."""

    batches: int
    rows: int
    bytes: int
    wait_ns: int
    window_bytes: int
    unread_batches: int
    readers_expelled: int
    readers_lost: int
    bytes_copied: int


@dataclass(frozen=True, slots=True)
class CommittedRange:
    """What a task has written to one partition of the stream.

    `start_seq`, `end_seq`: of the first batch, and behind the last one; equal until the job commits, with
    delivery `job`.
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
    """A producer of a stream, open once constructed. `with` closes or aborts it. Threads take turns."""

    @spelled
    def __init__(
        self,
        address: str,
        schema: Any,
        partitions: int | None = None,
        retain: Retain | None = None,
        linger: float | str | None = None,
        *,
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

        schema: a pyarrow.Schema, or any object with __arrow_c_schema__. The first producer declares the
            stream; a later one must bring the same names and types.
        partitions, retain, readers: taken from the writer that declares the stream.
            partitions: default 1. retain: `until_acked` (the default) keeps a batch until `readers` reader
            names (default 1) have acknowledged it; `all` keeps it until the endpoint closes; `none` until
            the readers that are present have passed it.
        linger: seconds that `close` waits until everything was consumed; None is no limit (the default).
        role: `auto` connects if somebody listens and binds otherwise; `server` binds; `client` keeps trying.
        buffer_bytes: size of one block (default 4 MiB); larger batches are split by rows.
        window_bytes: memory for batches that are not yet released; `write` waits when it is full. Default:
            `buffers` times buffer_bytes if the address sets `buffers`, else 64 MiB or 16 times buffer_bytes,
            whichever is more.
        staging_bytes: memory beyond the window for batches that are not yet committed (default 1 GiB).
        timeout: seconds that the opening and each wait for room may take; None is no limit. A long wait is
            reported on the logger `lwmq_spark`.
        delivery: when the batches of a job's writer become visible: `live`, at once (the default); `task`, at
            `commit()`; `job`, when the job commits. Without a job always `live`.
        job, task, attempt, epoch: this writer is attempt `attempt` of task `task` of a job. All writers of a
            job count as one producer. What a task has written is committed together, to whichever partitions.
            With job_tasks, the job ends when that many tasks have committed.
        stall: seconds that a living endpoint may be silent (default 5). After waiting that long, a call asks
            the endpoint for a sign of life; after the same time again it raises PeerLostError. Calling again
            resumes the wait. With "forever" the call does not give up.
        expel_after: seconds after which readers that take nothing while this writer waits for them are
            expelled. The stream goes on without them, and they get DataLossError. Default: never.
        Arguments override options of the address, which override LWMQ_* variables and then the conf file.
        AddressError, TimeoutError, VersionError. SchemaError names the field and both types. LwmqError: this
        process can never have window_bytes.
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
        self._written = self._bytes_copied = 0  # changed inside the handle's lock
        self._hear_at = 0.0
        self._batch_numbers = itertools.count()  # of those whose partition we choose
        self._committed = False
        self._aborted = False
        self._blueprint: Blueprint | None = None
        self.waiter = Waiter(f"lwmq writer {self._address}")
        declared = as_schema(schema)
        encoder = Encoder(declared)  # what pyarrow cannot write fails here, before anybody hears of it

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
            options.task = whole("task", task, 0, UINT32_MAX)
            options.job_tasks = whole("job_tasks", job_tasks, 0, UINT32_MAX)
            options.attempt = whole("attempt", attempt, 0, UINT64_MAX)
            options.epoch = whole("epoch", epoch, 0, UINT64_MAX)
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
        self._handle = Handle(out[0], lib.lwmq_writer_destroy, f"writer of {self._address}")
        self._notices = Notices(
            f"a writer of {self._address}",
            "`timeout` bounds this wait, `expel_after` the patience with a reader that takes nothing",
            partial(_lost_reader, self._handle),
        )
        self._schema, self._partitions = self._declared()
        try:
            compare(declared, self._schema, self._address)
            is_ours = self._schema.equals(declared, check_metadata=True)
            self._encoder = encoder if is_ours else Encoder(self._schema)
            self._null_rules = NullRules(self._schema)
        except errors.SchemaError as exc:
            self.abort(str(exc)) if job is not None else self._leave()
            raise

    def _declared(self) -> tuple[pa.Schema, int]:
        """The schema and the partitions that the stream was declared with."""
        data, size, partitions = ffi.new("const void **"), ffi.new("uint64_t *"), ffi.new("uint32_t *")
        check(lib.lwmq_writer_schema(self._handle.pointer, data, size, partitions))
        return read_schema(bytes(ffi.buffer(data[0], size[0])), self._address), int(partitions[0])

    def _leave(self) -> None:
        """Leave, as a producer that has ended, a stream to which we wrote nothing."""
        lib.lwmq_writer_close(self._handle.pointer, 0)
        self._handle.destroy()

    # ---- Batches

    def write(
        self, data: Any, partition: int | None = None, *, key: str | Sequence[str] | None = None
    ) -> int:
        """Write a RecordBatch, a Table, or any object with __arrow_c_stream__ or __arrow_c_array__.

        Returns the number of rows. partition: by default batches go to the partitions in turn; those of a
        task of a job go to partition (task mod partitions).
        key: the name of a column, or of several: each row goes to the partition of its key. Equal keys of
            equal types meet in the same partition as in Spark's `repartition(n, key)`, if the stream has n
            partitions; `lwmq_spark.arrow.partition_ids` says which types a key may have. Rows of a partition
            keep their order. A batch is copied once more and becomes up to n smaller ones: write large ones.
        For each block, waits at most `timeout` until readers have released enough room. A batch larger than
        `buffer_bytes` is split by rows. Pieces whose rows share values (dictionaries, views) may be larger,
        up to half of the window. The bytes are copied once, into the window.
        SchemaError names the field and both types, or the nulls that the field has and must not have.
        MessageTooBigError: one row is larger than the window. TimeoutError says who holds the room.
        ClosedError, PeerLostError. After an error, what was written before it stays written.
        """
        self._handle.check_open()
        if key is not None:
            return self._write_by_key(data, partition, key)
        if isinstance(data, pa.RecordBatch) and self._plan is not None and data.schema.equals(self._schema):
            chosen = self._choose(partition)
            if self._write_at_once(data, chosen):
                self._hear()
                return int(data.num_rows)
            partition = chosen
        rows = 0
        for batch in batches_of(data, self._schema, self._address):
            self._null_rules.check(batch, self._address)
            chosen = self._choose(partition)
            for encoded in pieces_of(
                batch, self._encoder, self._buffer_bytes, self._window_bytes, self._address
            ):
                self._publish(encoded, chosen)
            rows += batch.num_rows
        self._hear()
        return rows

    def _write_by_key(self, data: Any, partition: int | None, key: str | Sequence[str]) -> int:
        if partition is not None:
            raise ValueError(f"a key and a partition: {self._address}")
        rows = 0
        for batch in batches_of(data, self._schema, self._address):
            self._null_rules.check(batch, self._address)
            parts = split(batch, partition_ids(batch, key, self._partitions), self._partitions)
            for number, part in enumerate(parts):
                if part.num_rows:
                    self.write(part, number)
            rows += batch.num_rows
        return rows

    def _hear(self) -> None:
        """Reports readers that were lost, without waiting until the window is full."""
        now = time.monotonic()
        if now >= self._hear_at:
            self._hear_at = now + NEWS_S
            self._notices.hear()

    @cached_property
    def _plan(self) -> Plan | None:
        return Plan.of(self._schema, self._buffer_bytes)

    def _write_at_once(self, batch: pa.RecordBatch, partition: int) -> bool:
        """False if the plan does not cover the batch; then nothing was done."""
        plan, handle = self._plan, self._handle
        assert plan is not None

        def write_now(ms: int) -> int:
            try:
                array = plan.show(batch)
                status = int(lib.lwmq_writer_write_array(handle.pointer, plan.plan, array, partition, ms))
            finally:
                plan.let_go()
            self._written += status == lib.LWMQ_OK
            return status

        status = wait(handle, write_now, self._timeout, notices=self._notices)
        if status == lib.LWMQ_OK:
            return True
        if status != lib.LWMQ_E_UNSUPPORTED:
            self._refuse(status, batch.nbytes)
        return False

    def _refuse(self, status: int, size: int) -> NoReturn:
        """Raises the status that `lwmq_writer_allocate` returned."""
        if status in (lib.LWMQ_E_TIMED_OUT, lib.LWMQ_E_FULL):
            why = text_of()
            raise errors.TimeoutError(
                f"no room for {size} bytes within {span(self._timeout)} on {self._address}"
                f"{self._notices.explain(why)}",
                status=status,
            )
        raise_status(status)

    def _choose(self, partition: int | None) -> int:
        if partition is None and self._job is not None:
            return int(lib.LWMQ_PARTITION_OF_TASK)
        if partition is None:
            return next(self._batch_numbers) % self._partitions
        return whole(f"{self._address}: partition", partition, 0, self._partitions - 1)

    def _publish(self, encoded: Encoded, partition: int) -> None:
        flags = lib.LWMQ_BATCH_IPC_STREAM if encoded.is_stream else lib.LWMQ_BATCH_IPC_MESSAGE

        def place(block: Any) -> None:
            encoded.place(int(ffi.cast("uintptr_t", block.data)))
            self._hand_over(block, partition, encoded.bytes, encoded.rows, flags)

        self._allocate(encoded.bytes, place)

    def allocate(
        self, rows: int, partition: int | None = None, *, nulls: Collection[str] = ()
    ) -> BatchBuilder:
        """Lends a batch of `rows` rows to be filled in place in the window; `commit()` publishes it uncopied.

        nulls: the columns that get a validity bitmap. Waits for room as `write` does.
        SchemaError names a field whose width is not fixed. MessageTooBigError: larger than the window can
        hold.
        """
        self._handle.check_open()
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
        handle, out = self._handle, ffi.new("lwmq_hold **")
        block = self._allocate(end, lambda block: check(lib.lwmq_writer_hold(handle.pointer, block, out)))
        hold = out[0]
        memory = ffi.gc(ffi.cast("char *", block.data), lambda _: lib.lwmq_hold_end(hold))

        def publish(size: int, count: int) -> None:
            handle.check_open()
            with handle.lock:
                handle.check_open()
                self._hand_over(block, chosen, size, count, lib.LWMQ_BATCH_IPC_MESSAGE)

        def publish_copy(encoded: Encoded) -> None:
            self._publish(encoded, chosen)
            with handle.lock:
                self._bytes_copied += encoded.bytes

        return BatchBuilder(
            self._blueprint,
            rows,
            nulls,
            memoryview(ffi.buffer(memory, end)).cast("B"),
            publish,
            publish_copy,
            lambda: self._discard(block),
        )

    def _allocate(self, size: int, use: Callable[[Any], None]) -> Any:
        """Allocates a block of `size` bytes and calls `use(block)`, both under the lock, so that nobody can
        end the writer in between."""
        block = ffi.new("lwmq_block *")
        handle = self._handle

        def allocate_now(ms: int) -> int:
            status = int(lib.lwmq_writer_allocate(handle.pointer, size, ms, block))
            if status == lib.LWMQ_OK:
                try:
                    use(block)
                except BaseException:
                    lib.lwmq_writer_discard(handle.pointer, block)
                    raise
            return status

        status = wait(handle, allocate_now, self._timeout, notices=self._notices)
        if status != lib.LWMQ_OK:
            self._refuse(status, size)
        return block

    def _hand_over(self, block: Any, partition: int, size: int, rows: int, flags: int) -> None:
        """The caller holds the lock."""
        check(lib.lwmq_writer_publish(self._handle.pointer, block, partition, size, rows, flags))
        self._written += 1

    def _discard(self, block: Any) -> None:
        handle = self._handle
        if handle.closed:
            return  # the window went with the writer
        with handle.lock:
            if not handle.closed:
                lib.lwmq_writer_discard(handle.pointer, block)

    # ---- The end

    def commit(self, timeout: float | None = None) -> CommitResult:
        """Commit what was written; only for a writer of a job.

        The first attempt of (job, epoch, task) that commits wins.
        """
        raw = sized("lwmq_commit_result")
        handle = self._handle
        limit = self._timeout if timeout is None else timeout
        notices = Notices(f"commit to {self._address}", "`timeout` bounds this wait")
        ranges: list[CommittedRange] = []

        def commit_within(ms: int) -> int:
            status = int(lib.lwmq_writer_commit(handle.pointer, ms, raw))
            if status == lib.LWMQ_OK:  # the ranges are lent, and another thread may close the writer next
                ranges.extend(
                    CommittedRange(r.partition, r.start_seq, r.end_seq, r.batches, r.rows, r.bytes)
                    for r in (raw.ranges[number] for number in range(raw.range_count))
                )
            return status

        status = wait(handle, commit_within, limit, notices=notices)
        if status == lib.LWMQ_E_TIMED_OUT:
            raise errors.TimeoutError(
                f"the endpoint of {self._address} did not answer the commit within {span(limit)}"
                f"{notices.explain('')}",
                status=status,
            )
        check(status)
        self._committed = True
        fields = fields_of(raw)
        won = bool(fields.pop("won"))
        del fields["range_count"]
        instance = bytes(ffi.buffer(raw.instance)).hex()
        return CommitResult(won=won, **fields, instance=instance, ranges=tuple(ranges))

    def abort(self, reason: str = "") -> None:
        """Give up: what is not committed is dropped, and readers get AbortedError with `reason`.

        Never waits. A second call, or a call after the endpoint has gone, does nothing.
        """
        if not self._handle.begin_close():
            return
        text = reason.encode("utf-8", "replace").replace(b"\0", b" ")
        with self._handle.lock:
            try:
                status = lib.lwmq_writer_abort(self._handle.pointer, text)
                self._aborted = True
                if status not in (lib.LWMQ_E_PEER_LOST, lib.LWMQ_E_CLOSED):
                    check(status)
            finally:
                self._handle.destroy()

    def close(self, linger: float | str | None = None) -> None:
        """End this producer; waits at most `linger` seconds until everything it wrote was consumed.

        If this writer bound the address and nobody else in this process uses it, `close` also waits until
        other producers have ended and were consumed; when the time is over, their stream ends too.
        TimeoutError has the number of batches that were not consumed; these stay readable for as long as the
        endpoint lives. DataLossError: a reader without a name died, or was left by an exception, before it
        had read everything, and what it had taken is gone; later readers get the error instead of the end.
        PeerLostError: the endpoint lives but does not answer; the writer stays open, and closing again
        resumes the wait. After 5 s the logger `lwmq_spark` says what the call waits for. A task of a job does
        not wait. Closing twice has no further effect.
        """
        handle = self._handle
        if handle.closed or handle.forked:
            return
        limit = self._linger if linger is None else parse_duration(linger)
        started = time.monotonic()
        what, news = f"close of a writer of {self._address}", partial(_lost_reader, handle)
        notices = Notices(what, "`linger` bounds this wait", news)
        status = wait(handle, lambda ms: lib.lwmq_writer_close(handle.pointer, ms), limit, notices=notices)
        text = text_of() if status != lib.LWMQ_OK else ""
        if status == lib.LWMQ_E_STALLED:
            raise_status(status, text)  # still open: closing again waits on
        if not handle.begin_close():
            return
        with handle.lock:
            handle.destroy()
        if status == lib.LWMQ_E_TIMED_OUT:
            waited = time.monotonic() - started
            raise errors.TimeoutError(
                f"{text or 'not everything was consumed'} (close of {self._address} waited {waited:.1f} s)"
                f"{notices.explain('')}",
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
        """The schema with which the stream was declared."""
        return self._schema

    @property
    def partitions(self) -> int:
        """The number of partitions with which the stream was declared."""
        return self._partitions

    @property
    def address(self) -> str:
        """The address without its options."""
        return self._address

    @property
    def closed(self) -> bool:
        return self._handle.closed

    @property
    def statistics(self) -> WriterStatistics:
        """Counters of this writer. ClosedError after close."""
        raw = sized("lwmq_writer_statistics")
        self._handle.check_open()
        with self._handle.lock:
            self._handle.check_open()
            check(lib.lwmq_writer_query(self._handle.pointer, raw))
        return WriterStatistics(**fields_of(raw), bytes_copied=self._bytes_copied)

    def __repr__(self) -> str:
        state = "aborted" if self._aborted else "closed" if self.closed else "open"
        job = f", task of job {self._job!r}" if self._job else ""
        return (
            f"<StreamWriter {self._address} {state}, {self._partitions} partitions, "
            f"{len(self._schema)} fields, {self._written} batches written{job}>"
        )


def _lost_reader(handle: Handle) -> str | None:
    """What happened to the last reader lost since the previous call; None if no reader was lost."""
    text = ffi.new("char[1024]")
    with handle.lock:
        if not handle.usable or lib.lwmq_writer_lost_reader(handle.pointer, text, 1024) != lib.LWMQ_OK:
            return None
    return str(ffi.string(text).decode("utf-8", "replace"))


open_writer = StreamWriter
"""Opens a writer: `with open_writer(address, schema) as writer`."""
