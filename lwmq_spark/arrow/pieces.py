"""Splitting: a batch as encoded pieces that fit a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lwmq_spark.arrow.compact import compacted
from lwmq_spark.arrow.layout import Encoded, Encoder
from lwmq_spark.errors import MessageTooBigError

_GROWTH = 1.5  # how much more the pieces of a batch may hold than the batch


def pieces_of(
    batch: pa.RecordBatch, encoder: Encoder, buffer_bytes: int, window_bytes: int, where: str
) -> Iterator[Encoded]:
    """`batch` whole if it fits `buffer_bytes`, else by rows; a single row may be as large as the window.

    Where rows share values, each piece has at least those that it shows, so that pieces may add up to far
    more than the batch: then there are fewer and larger ones, up to half of the window, for a reader may hold
    the piece before. MessageTooBigError: one row is larger than the window; with both numbers.
    """
    try:
        encoded = encoder.encode(batch)
    except pa.ArrowCapacityError as exc:  # more rows, or more of what lies below them, than IPC can say
        if batch.num_rows <= 1:
            text = f"one row holds more values than Arrow IPC can write ({where}): {exc}"
            raise MessageTooBigError(text) from exc
        half = batch.num_rows // 2
        for part in (batch.slice(0, half), batch.slice(half)):
            yield from pieces_of(part, encoder, buffer_bytes, window_bytes, where)
        return
    if encoded.bytes <= buffer_bytes:
        yield encoded
        return
    cut = _Cut(encoder, buffer_bytes, window_bytes, where)
    if not encoder.shares:
        yield from cut.pieces(batch, encoded)
        return
    pieces = cut.pieces_up_to(batch, encoded)  # enough where little is shared: nothing is copied
    if not pieces:
        cut.compacts = True
        batch = compacted(batch)
        encoded = encoder.encode(batch)
        while not pieces and cut.limit < window_bytes // 2:
            pieces = cut.pieces_up_to(batch, encoded)
            cut.limit *= 2
    if pieces:
        yield from pieces
        return
    cut.limit = max(buffer_bytes, window_bytes // 2)
    yield from cut.pieces(batch, encoded)


@dataclass(slots=True)
class _Cut:
    """How a batch is cut."""

    encoder: Encoder
    limit: int  # bytes of a piece of several rows
    window_bytes: int
    where: str
    compacts: bool = False

    def pieces(self, batch: pa.RecordBatch, encoded: Encoded) -> Iterator[Encoded]:
        """`batch` as pieces; `encoded` is the whole of it."""
        if encoded.bytes <= self.limit or (batch.num_rows <= 1 and encoded.bytes <= self.window_bytes):
            yield encoded
            return
        if batch.num_rows <= 1:
            raise MessageTooBigError(
                f"one row of {encoded.bytes} bytes does not fit the window of {self.window_bytes} bytes "
                f"({self.where}): open the writer with a larger window_bytes"
            )
        count = min(batch.num_rows, -(-encoded.bytes // self.limit))
        step = -(-batch.num_rows // count)
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            if self.compacts:
                piece = compacted(piece)
            yield from self.pieces(piece, self.encoder.encode(piece))

    def pieces_up_to(self, batch: pa.RecordBatch, encoded: Encoded) -> list[Encoded]:
        """All pieces; none where they hold too much more than `encoded`, or a row is too large."""
        found, payload = [], 0
        try:
            for piece in self.pieces(batch, encoded):
                found.append(piece)
                payload += piece.payload
                if payload > _GROWTH * encoded.bytes:
                    return []
        except MessageTooBigError:
            return []
        return found
