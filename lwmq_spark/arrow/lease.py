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


def batch_over(raw: Any, lease: Lease, schema: pa.Schema) -> pa.RecordBatch:
    """The record batch that lies at `raw.data`, without a copy. It keeps `lease`.

    CorruptError: the bytes are no batch of this schema, or of another number of rows than announced.
    """
    buffer = pa.foreign_buffer(int(ffi.cast("uintptr_t", raw.data)), raw.bytes, base=lease)
    try:
        if raw.flags & lib.LWMQ_BATCH_IPC_STREAM:
            batch = pa.ipc.open_stream(buffer).read_next_batch()
            if not batch.schema.equals(schema):
                raise CorruptError(
                    f"batch {raw.seq} of partition {raw.partition} has the schema {batch.schema}"
                )
        else:
            batch = pa.ipc.read_record_batch(buffer, schema)
    except (pa.ArrowException, StopIteration) as exc:
        raise CorruptError(
            f"batch {raw.seq} of partition {raw.partition}, {raw.bytes} bytes "
            f"of process {raw.writer_pid}: {exc}"
        ) from exc
    if batch.num_rows != raw.rows:
        raise CorruptError(
            f"batch {raw.seq} of partition {raw.partition} has {batch.num_rows} rows, "
            f"announced were {raw.rows}"
        )
    return batch
