"""Splitting: a batch as encoded pieces that fit a buffer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lwmq_spark.arrow.layout import Encoded, Encoder, has_view
from lwmq_spark.errors import MessageTooBigError


def pieces_of(
    batch: pa.RecordBatch, encoder: Encoder, buffer_bytes: int, window_bytes: int, where: str
) -> Iterator[Encoded]:
    """`batch` whole if it fits `buffer_bytes`, else by rows; a single row may be as large as the window.

    MessageTooBigError: one row is larger than that; with both numbers.
    """
    encoded = encoder.encode(batch)
    if encoded.bytes <= buffer_bytes:
        yield encoded
        return
    if any(has_view(field.type) for field in batch.schema):
        batch = _compacted(batch)
        encoded = encoder.encode(batch)
    if encoded.bytes <= buffer_bytes or (batch.num_rows <= 1 and encoded.bytes <= window_bytes):
        yield encoded
        return
    if batch.num_rows <= 1:
        raise MessageTooBigError(
            f"one row of {encoded.bytes} bytes does not fit the window of {window_bytes} bytes "
            f"({where}): open the writer with a larger window_bytes"
        )
    count = min(batch.num_rows, -(-encoded.bytes // buffer_bytes))
    step = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, step):
        yield from pieces_of(batch.slice(start, step), encoder, buffer_bytes, window_bytes, where)


def _compacted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with the bytes of its text and binary views limited to what the views show."""
    arrays = []
    for column in batch.columns:
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string()).cast(column.type)
        elif pa.types.is_binary_view(column.type):
            column = column.cast(pa.large_binary()).cast(column.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
