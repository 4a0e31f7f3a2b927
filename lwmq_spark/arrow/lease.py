"""The lease on a batch: while any reference to its memory lives, the writer does not rewrite it.

A `RecordBatch` from a reader holds, through its buffers, one `Lease`; slices, columns, NumPy views and tables
made of it hold the same one. When the last of them goes, on whatever thread, the lease ends; the reader may
be closed by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import ffi, lib
from lwmq_spark.errors import CorruptError


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Where a batch came from. Addresses are of this process; `copied` is True for a private copy.

    `address` to `address + bytes` lies in `window_address` to `window_address + window_bytes`, the writer's
    memory as it is mapped here, unless the batch was copied.
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
    """Keeps a native batch. Ends when the object goes."""

    __slots__ = ("__weakref__", "_batch")

    def __init__(self, batch: Any) -> None:
        """Takes the native batch."""
        self._batch = ffi.gc(batch, lib.lwmq_batch_release)

    def __repr__(self) -> str:
        return f"<Lease {int(ffi.cast('uintptr_t', self._batch)):#x}>"


def info_from(raw: Any) -> BatchInfo:
    """An `lwmq_batch_info` as values of Python."""
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


def batch_over(raw: Any, lease: object, schema: pa.Schema) -> pa.RecordBatch:
    """The record batch that lies at `raw.data`, without a copy. It keeps `lease`.

    What the metadata says is checked against the bytes that are there; values, such as the offsets of texts,
    are trusted as they lie. CorruptError: the bytes are no batch of this schema, or not of the rows
    announced.
    """
    buffer = pa.foreign_buffer(int(ffi.cast("uintptr_t", raw.data)), raw.bytes, base=lease)
    try:
        if raw.flags & lib.LWMQ_BATCH_IPC_STREAM:
            batch = pa.ipc.open_stream(buffer).read_next_batch()
            if not batch.schema.equals(schema):
                raise CorruptError(f"{_place(raw)} has the schema {batch.schema}")
        else:
            batch = pa.ipc.read_record_batch(buffer, schema)
        batch.validate()
    except (pa.ArrowException, OSError, StopIteration) as exc:
        raise CorruptError(f"{_place(raw)}, {raw.bytes} bytes: {exc}") from exc
    if batch.num_rows != raw.rows:
        raise CorruptError(f"{_place(raw)} has {batch.num_rows} rows, announced were {raw.rows}")
    return batch


def _place(raw: Any) -> str:
    return f"batch {raw.seq} of partition {raw.partition} by process {raw.writer_pid}"
