"""The lease on a batch: while a reference to its memory lives, the writer does not rewrite that memory.

A `RecordBatch` from a reader holds one `Lease` through its buffers. Slices, columns, NumPy views and tables
made from it hold the same lease. It ends when the last of them is gone, on whichever thread, and also after
the reader was closed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import ffi, lib
from lwmq_spark.arrow.block import BlockReader
from lwmq_spark.errors import CorruptError


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Where a batch came from, and where it lies.

    `partition`, `seq`: its place in the stream. `rows`, `bytes`: its size. `timestamp_ns`: when it was
    published, in nanoseconds since 1970. `writer_pid`: the process that wrote it. `copied`: it is a private
    copy. Otherwise its bytes lie from `address` on in the writer's window, which is mapped into this process
    from `window_address` on and has `window_bytes` bytes.
    """

    partition: int
    seq: int
    rows: int
    bytes: int
    timestamp_ns: int
    copied: bool
    writer_pid: int
    address: int
    window_address: int
    window_bytes: int


class Lease:
    """Keeps a native batch until this object is gone."""

    __slots__ = ("__weakref__", "_batch")

    def __init__(self, batch: Any) -> None:
        """Take the native batch."""
        self._batch = ffi.gc(batch, lib.lwmq_batch_release)

    def end(self) -> None:
        """End the lease now, because nothing refers to the memory any more."""
        ffi.release(self._batch)

    def __repr__(self) -> str:
        return f"<Lease {int(ffi.cast('uintptr_t', self._batch)):#x}>"


def info_from(raw: Any) -> BatchInfo:
    """An `lwmq_batch_info` as a `BatchInfo`."""
    return BatchInfo(
        partition=int(raw.partition),
        seq=int(raw.seq),
        rows=int(raw.rows),
        bytes=int(raw.bytes),
        timestamp_ns=int(raw.timestamp_ns),
        copied=bool(raw.copied),
        writer_pid=int(raw.writer_pid),
        address=int(ffi.cast("uintptr_t", raw.data)),
        window_address=int(ffi.cast("uintptr_t", raw.window_data)),
        window_bytes=int(raw.window_bytes),
    )


_NOT_A_BATCH = (pa.ArrowException, OSError, EOFError, StopIteration, ValueError, struct.error)


def batch_over(raw: Any, lease: object, schema: pa.Schema, blocks: BlockReader) -> pa.RecordBatch:
    """The record batch that lies at `raw.data`, without a copy. It keeps `lease`.

    The metadata is copied first and checked against the size of the block. Values, such as the offsets of
    texts, are trusted as they lie. CorruptError: the bytes are no batch of this schema, or have other rows
    than were announced.
    """
    buffer = pa.foreign_buffer(int(ffi.cast("uintptr_t", raw.data)), raw.bytes, base=lease)
    return _batch_in(raw, raw.data, buffer, schema, blocks, full=False)


def verified_batch(raw: Any, schema: pa.Schema, blocks: BlockReader) -> pa.RecordBatch:
    """The record batch at `raw.data` as a private copy, in which every offset, index and view was checked.

    Afterwards `raw` describes the copy, and the lease may end. CorruptError.
    """
    copy = pa.allocate_buffer(raw.bytes)
    data = ffi.cast("uint8_t *", copy.address)
    ffi.memmove(data, raw.data, raw.bytes)
    batch = _batch_in(raw, data, copy, schema, blocks, full=True)
    raw.data, raw.copied, raw.window_data, raw.window_bytes = data, 1, ffi.NULL, 0
    return batch


def _batch_in(
    raw: Any, data: Any, buffer: pa.Buffer, schema: pa.Schema, blocks: BlockReader, *, full: bool
) -> pa.RecordBatch:
    try:
        if raw.flags & lib.LWMQ_BATCH_IPC_STREAM:
            batch = blocks.stream(data, buffer)
            if not batch.schema.equals(schema):
                raise CorruptError(f"{_place(raw)} has the schema {batch.schema}")
        else:
            batch = blocks.message(data, buffer, schema)
        batch.validate(full=full)
    except _NOT_A_BATCH as exc:
        raise CorruptError(f"{_place(raw)}, {raw.bytes} bytes: {exc}") from exc
    if batch.num_rows != raw.rows:
        raise CorruptError(f"{_place(raw)} has {batch.num_rows} rows, announced were {raw.rows}")
    return batch


def _place(raw: Any) -> str:
    return f"batch {raw.seq} of partition {raw.partition} by process {raw.writer_pid}"
