"""Batches limited to what their rows show: the same values, and little beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lwmq_spark.arrow.compact import compacted
from lwmq_spark.arrow.layout import Encoder

ROWS = 1000
WORDS = pa.array([f"a word that is too long for a view itself: {n}" for n in range(ROWS)])
VIEWS = WORDS.cast(pa.string_view())
INDICES = pa.array([n if n % 7 else None for n in range(ROWS)], pa.int32())
CODES = pa.DictionaryArray.from_arrays(INDICES, WORDS)
MASK = pa.array([n % 5 == 0 for n in range(ROWS)])
PAIRS = pa.array(range(0, 2 * ROWS + 1, 2), pa.int32())


def twice(array: pa.Array) -> pa.Array:
    places = pa.array([n // 2 for n in range(2 * ROWS)])
    if array is VIEWS:  # pyarrow takes nothing out of views
        return WORDS.take(places).cast(pa.string_view())
    return array.take(places)


class Named(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.string_view(), "lwmq.test.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


SHARING: dict[str, pa.Array] = {
    "string views": VIEWS,
    "binary views": WORDS.cast(pa.binary()).cast(pa.binary_view()),
    "an extension": pa.ExtensionArray.from_storage(Named(), VIEWS),
    "a dictionary": CODES,
    "an ordered dictionary": pa.DictionaryArray.from_arrays(INDICES, WORDS, ordered=True),
    "a dictionary of 8 bits": pa.DictionaryArray.from_arrays(
        pa.array([n % 128 for n in range(ROWS)], pa.int8()), WORDS.slice(0, 128)
    ),
    "a dictionary with a null": pa.DictionaryArray.from_arrays(
        INDICES, pa.array([None, *WORDS.to_pylist()[1:]])
    ),
    "a dictionary of views": pa.DictionaryArray.from_arrays(INDICES, VIEWS),
    "views in a struct": pa.StructArray.from_arrays(
        [VIEWS, INDICES],
        fields=[pa.field("v", pa.string_view(), nullable=False), pa.field("n", pa.int32())],
        mask=MASK,
    ),
    "a dictionary in a struct": pa.StructArray.from_arrays([CODES], ["d"], mask=MASK),
    "views in a list": pa.ListArray.from_arrays(PAIRS, twice(VIEWS), mask=MASK),
    "views in a large list": pa.LargeListArray.from_arrays(PAIRS.cast(pa.int64()), twice(VIEWS), mask=MASK),
    "a dictionary in a list": pa.ListArray.from_arrays(PAIRS, twice(CODES)),
    "views in a list of fixed size": pa.FixedSizeListArray.from_arrays(twice(VIEWS), 2, mask=MASK),
    "a dictionary in a list of fixed size": pa.FixedSizeListArray.from_arrays(twice(CODES), 2),
    "views in a map": pa.MapArray.from_arrays(PAIRS, twice(VIEWS), twice(CODES), mask=MASK),
    "views in a list view": pa.ListViewArray.from_arrays(
        PAIRS.slice(0, ROWS), pa.array([2] * ROWS, pa.int32()), twice(VIEWS), mask=MASK
    ),
    "a large list view of numbers": pa.LargeListViewArray.from_arrays(
        pa.array(np.random.default_rng(1).permutation(ROWS) * 10, pa.int64()),
        pa.array([10] * ROWS, pa.int64()),
        pa.array(range(10 * ROWS)),
    ),
    "lists of structs of lists of views": pa.ListArray.from_arrays(
        PAIRS,
        pa.StructArray.from_arrays([pa.ListArray.from_arrays(range(2 * ROWS + 1), twice(VIEWS))], ["l"]),
    ),
    "runs of views": pa.RunEndEncodedArray.from_arrays(
        pa.array(range(3, 3 * ROWS + 1, 3), pa.int32()), VIEWS
    ),
}


def bytes_of(batch: pa.RecordBatch) -> int:
    return Encoder(batch.schema).encode(batch).payload


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize(("start", "rows"), [(0, ROWS), (0, 0), (0, 10), (501, 10), (ROWS - 3, 3), (17, 900)])
def test_a_compacted_slice_has_the_same_values_and_few_others(name: str, start: int, rows: int) -> None:
    whole = pa.record_batch([SHARING[name]], names=["c"])
    piece = whole.slice(start, rows)
    found = compacted(piece)
    found.validate(full=True)
    assert found.schema.equals(piece.schema, check_metadata=True)
    assert found.column(0).to_pylist() == piece.column(0).to_pylist()
    assert bytes_of(found) <= bytes_of(whole) * (rows / len(whole)) * 1.5 + 512


@pytest.mark.parametrize("name", SHARING)
def test_rows_in_any_order_are_compacted_too(name: str) -> None:
    column: Any = SHARING[name]
    whole = pa.record_batch([column], names=["c"])
    places = pa.array(np.random.default_rng(2).permutation(ROWS)[:100])
    try:
        some = whole.take(places)
    except pa.ArrowNotImplementedError as exc:
        pytest.skip(str(exc))
    found = compacted(some)
    found.validate(full=True)
    assert found.column(0).to_pylist() == some.column(0).to_pylist()
    assert bytes_of(found) <= bytes_of(whole) * 0.15 + 4096


def test_the_order_of_a_dictionary_stays_as_it_was() -> None:
    sizes = pa.array(["small", "medium", "large"])
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int8()), sizes, ordered=True)
    found = compacted(pa.record_batch([column], names=["c"])).column(0)
    assert found.dictionary.to_pylist() == ["small", "large"]
    assert found.type.ordered


def test_columns_that_share_nothing_are_not_copied() -> None:
    batch = pa.record_batch({"n": np.arange(ROWS), "s": WORDS, "v": VIEWS})
    found = compacted(batch)
    for name in ("n", "s"):
        assert [b and b.address for b in found[name].buffers()] == [
            b and b.address for b in batch[name].buffers()
        ]
