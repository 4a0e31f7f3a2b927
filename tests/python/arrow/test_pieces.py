"""Splitting of batches that do not fit a buffer."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lwmq_spark as lwmq
from lwmq_spark.arrow.layout import Encoded, Encoder
from lwmq_spark.arrow.pieces import pieces_of

SCHEMA = pa.schema([("s", pa.string()), ("v", pa.string_view())])


@pytest.mark.row("L53")
@settings(max_examples=100)
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


def values_of(pieces: list[Encoded], schema: pa.Schema) -> list[object]:
    found: list[object] = []
    for piece in pieces:
        block = pa.allocate_buffer(piece.bytes)
        piece.place(block.address)
        batch = (
            pa.ipc.open_stream(block).read_next_batch()
            if piece.is_stream
            else pa.ipc.read_record_batch(block, schema)
        )
        batch.validate(full=True)
        assert batch.num_rows == piece.rows
        found += batch.column(0).to_pylist()
    return found


def text(number: int, size: int = 40) -> str:
    return f"{number:<{size}}"


def test_a_dictionary_larger_than_a_buffer_does_not_travel_with_every_row() -> None:
    words = pa.array([text(n, 108) for n in range(50_000)])  # 5.4 MB
    indices = pa.array(np.random.default_rng(1).integers(0, len(words), 200_000), pa.int32())
    batch = pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, words)})
    whole = Encoder(batch.schema).encode(batch)
    pieces = list(pieces_of(batch, Encoder(batch.schema), 4 << 20, 64 << 20, "loop://x"))
    assert len(pieces) <= 4
    assert sum(piece.bytes for piece in pieces) <= 1.5 * whole.bytes
    assert values_of(pieces, batch.schema) == batch["d"].to_pylist()


VIEWS = pa.array([text(n) for n in range(1200)], pa.string_view())
CODES = pa.array([text(n) for n in range(1200)]).dictionary_encode()
SHARED = {
    "views": VIEWS,
    "views in lists": pa.ListArray.from_arrays(range(0, 1201, 4), VIEWS),
    "views in lists of fixed size": pa.FixedSizeListArray.from_arrays(VIEWS, 2),
    "views in structs": pa.StructArray.from_arrays([VIEWS], ["v"]),
    "views in maps": pa.MapArray.from_arrays(range(0, 1201, 2), pa.array(range(1200)), VIEWS),
    "views in list views": pa.ListViewArray.from_arrays(
        pa.array(range(0, 1200, 2), pa.int32()), pa.array([2] * 600, pa.int32()), VIEWS
    ),
    "a dictionary": CODES,
    "a dictionary in lists": pa.ListArray.from_arrays(range(0, 1201, 3), CODES),
    "a dictionary in structs": pa.StructArray.from_arrays([CODES], ["d"]),
    "a dictionary in maps": pa.MapArray.from_arrays(range(1201), pa.array(range(1200)), CODES),
    "a dictionary of views": pa.DictionaryArray.from_arrays(pa.array(range(1200)), VIEWS),
}


@pytest.mark.parametrize("buffer_bytes", [8 << 10, 32 << 10, 64 << 10])
@pytest.mark.parametrize("name", SHARED)
def test_pieces_are_few_and_at_most_one_and_a_half_times_the_batch(name: str, buffer_bytes: int) -> None:
    batch = pa.record_batch([SHARED[name]], names=["c"])
    whole = Encoder(batch.schema).encode(batch)
    pieces = list(pieces_of(batch, Encoder(batch.schema), buffer_bytes, 16 << 20, "loop://x"))
    assert sum(piece.bytes for piece in pieces) <= 1.5 * whole.bytes
    assert len(pieces) <= 3 * -(-whole.bytes // buffer_bytes)
    assert all(piece.bytes <= buffer_bytes for piece in pieces)
    assert values_of(pieces, batch.schema) == batch.column(0).to_pylist()


def test_rows_that_all_share_large_values_are_sent_together() -> None:
    words = pa.array(["x" * 20_000 + str(n) for n in range(20)])
    batch = pa.record_batch(
        {"d": pa.DictionaryArray.from_arrays(pa.array([n % 20 for n in range(5000)]), words)}
    )
    whole = Encoder(batch.schema).encode(batch)
    (piece,) = pieces_of(batch, Encoder(batch.schema), 16 << 10, 4 << 20, "loop://x")
    assert piece.bytes <= whole.bytes


def test_views_that_all_show_the_same_text_are_not_written_out() -> None:
    shown = pa.array(["x" * 100_000], pa.string_view())
    views = pa.py_buffer(shown.buffers()[1].to_pybytes()[:16] * 5000)
    column = pa.Array.from_buffers(pa.string_view(), 5000, [None, views, shown.buffers()[2]])
    for array in (column, pa.ListArray.from_arrays(range(0, 5001, 5), column)):
        batch = pa.record_batch([array], names=["c"])
        (piece,) = pieces_of(batch, Encoder(batch.schema), 64 << 10, 4 << 20, "loop://x")
        assert piece.bytes < 250_000
        assert piece.rows == len(array)


def test_a_batch_larger_than_the_window_is_cut_also_where_its_rows_share_values() -> None:
    words = pa.array([text(n, 1000) for n in range(300)])
    indices = pa.array(np.random.default_rng(1).integers(0, len(words), 200_000), pa.int64())
    batch = pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, words)})
    pieces = list(pieces_of(batch, Encoder(batch.schema), 64 << 10, 1 << 20, "loop://x"))
    assert all(piece.bytes <= 512 << 10 for piece in pieces)
    assert len(pieces) <= 20
    assert values_of(pieces, batch.schema) == batch["d"].to_pylist()


def test_a_slice_of_shared_values_that_fits_when_compacted_is_one_piece() -> None:
    batch = pa.record_batch([SHARED["views in lists"]], names=["c"]).slice(100, 10)
    encoder = Encoder(batch.schema)
    assert encoder.encode(batch).bytes > 16 << 10
    (piece,) = pieces_of(batch, encoder, 8 << 10, 1 << 20, "loop://x")
    assert values_of([piece], batch.schema) == batch.column(0).to_pylist()


@pytest.mark.parametrize("name", SHARED)
def test_what_was_cut_arrives(name: str) -> None:
    batch = pa.record_batch([SHARED[name]], names=["c"])
    address = f"loop://pieces-{os.getpid()}-{name.replace(' ', '-')}"
    writer = lwmq.open_writer(address, batch.schema, buffer_bytes="16KiB", window_bytes="4MiB", linger=0)
    writer.write(batch)
    with lwmq.open_reader(address, timeout=20) as reader:
        found = [reader.read_next_batch() for _ in range(int(writer.statistics.batches))]
    assert len(found) > 1
    assert [value for piece in found for value in piece.column(0).to_pylist()] == batch.column(0).to_pylist()
    writer.abort()


def test_a_batch_of_more_rows_than_ipc_can_say_is_cut() -> None:
    """Nothing but nulls, which take no memory."""
    rows = (1 << 31) + 5
    schema = pa.schema([("n", pa.null())])
    batch = pa.RecordBatch.from_arrays([pa.nulls(rows)], schema=schema)
    pieces = list(pieces_of(batch, Encoder(schema), 1 << 20, 1 << 24, "here"))
    assert sum(piece.rows for piece in pieces) == rows
    assert max(piece.rows for piece in pieces) < 1 << 31


def test_a_row_of_more_values_than_ipc_can_say_is_refused() -> None:
    values = pa.nulls((1 << 31) + 5)
    row = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    schema = pa.schema([("l", row.type)])
    batch = pa.RecordBatch.from_arrays([row], schema=schema)
    with pytest.raises(lwmq.MessageTooBigError, match="one row holds more values than Arrow IPC can write"):
        list(pieces_of(batch, Encoder(schema), 1 << 20, 1 << 24, "here"))
