"""Splitting of batches that do not fit a buffer."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark.arrow.layout import Encoder
from lwmq_spark.arrow.pieces import pieces_of

SCHEMA = pa.schema([("s", pa.string()), ("v", pa.string_view())])


@pytest.mark.row("L53")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(700, 8000))
def test_pieces_fit_a_buffer_or_are_one_row_and_hold_all_rows(sizes: list[int], buffer_bytes: int) -> None:
    texts, views = ["x" * n for n in sizes], ["y" * n for n in sizes]
    batch = pa.record_batch([pa.array(texts, pa.string()), pa.array(views, pa.string_view())], schema=SCHEMA)
    pieces = list(pieces_of(batch, Encoder(SCHEMA), buffer_bytes, 1 << 20, "loop://x"))
    assert sum(piece.rows for piece in pieces) == len(sizes)
    for piece in pieces:
        assert piece.bytes <= buffer_bytes or piece.rows <= 1


def test_a_row_larger_than_the_window_is_an_error_with_both_numbers() -> None:
    batch = pa.record_batch({"s": ["x" * 5000], "v": pa.array([""], pa.string_view())})
    with pytest.raises(
        lwmq.MessageTooBigError, match=r"one row of \d+ bytes .* window of 4096 bytes \(loop://x\)"
    ):
        list(pieces_of(batch, Encoder(SCHEMA), 1024, 4096, "loop://x"))
