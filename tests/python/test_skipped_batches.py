"""Readers with filters: which batches they skip by bounds, and that no row that matches is lost."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
DAY = datetime.date(2026, 1, 1)
INSTANT = datetime.datetime(2026, 1, 1, 12)
ROWS = 40


def read(
    address: str, batches: list[pa.RecordBatch], filters: list[Any], bounds: list[str], **options: Any
) -> tuple[list[pa.RecordBatch], lwmq.arrow.ReaderStatistics]:
    """What a reader with `filters` gets of `batches`, and its counters."""
    with Endpoint(address) as endpoint, ThreadPoolExecutor(1) as pool:
        at = endpoint.address
        with lwmq.open_reader(at, filters=filters, role="client", timeout=60, **options) as reader:
            got = pool.submit(list, reader)
            with lwmq.open_writer(at, batches[0].schema, bounds=bounds, linger=60, timeout=60) as writer:
                for batch in batches:
                    writer.write(batch)
            return got.result(60), reader.statistics


def matches(batches: list[pa.RecordBatch], comparison: str, value: Any) -> list[Any]:
    """The values of `v` that match, of all batches."""
    found: list[Any] = []
    for batch in batches:
        column = batch["v"]
        found += column.filter(COMPARISONS[comparison](column, pa.scalar(value, column.type))).to_pylist()
    return found


def counted(number: int) -> pa.RecordBatch:
    """Rows of 100 numbers from 100 times `number` on."""
    return pa.record_batch({"k": np.arange(100) + 100 * number, "x": np.full(100, float(number))})


@pytest.mark.row("P08")
def test_batches_outside_of_a_filter_are_skipped(address: str) -> None:
    batches = [counted(n) for n in range(10)]
    got, counters = read(address, batches, [("k", ">=", 350), ("k", "<", 620)], ["k"])
    assert got == batches[3:7]
    assert (counters.batches, counters.batches_skipped) == (4, 6)
    assert (counters.rows, counters.rows_skipped) == (400, 600)


@pytest.mark.row("P08")
def test_what_is_skipped_does_not_cross_a_network(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWMQ_WIRE", "1")
    batches = [pa.record_batch({"k": np.full(10_000, n), "x": np.ones(10_000)}) for n in range(20)]
    got, counters = read(f"tcp://127.0.0.1:{port}/k", batches, [("k", "==", 7)], ["k"], columns=["x"])
    assert got == [batches[7].select(["x"])]
    assert counters.batches_skipped == 19
    assert 80_000 < counters.bytes_received < 80_000 + 20 * 1000


def value_of(kind: str, n: int) -> Any:
    """Of a column of the kind, ascending with `n`."""
    values = {
        "int": n,
        "float": n / 4,
        "text": f"{n + 50:03} and more" if n % 2 else f"{n + 50:03}",
        "bytes": bytes([100, n + 100, 255]),
        "date": DAY + datetime.timedelta(days=n),
        "time": INSTANT + datetime.timedelta(milliseconds=250 * n),
    }
    return values[kind]


TYPES = {
    "int8": (pa.int8(), "int"),
    "int16": (pa.int16(), "int"),
    "int32": (pa.int32(), "int"),
    "int64": (pa.int64(), "int"),
    "float32": (pa.float32(), "float"),
    "float64": (pa.float64(), "float"),
    "string": (pa.string(), "text"),
    "large_string": (pa.large_string(), "text"),
    "binary": (pa.binary(), "bytes"),
    "large_binary": (pa.large_binary(), "bytes"),
    "date32": (pa.date32(), "date"),
    "date64": (pa.date64(), "date"),
    "timestamp_ms": (pa.timestamp("ms"), "time"),
    "timestamp_us": (pa.timestamp("us"), "time"),
    "timestamp_ns": (pa.timestamp("ns", "UTC"), "time"),
    "uint8": (pa.uint8(), "unsigned"),
    "uint64": (pa.uint64(), "unsigned"),
}


@pytest.mark.row("P08")
@pytest.mark.parametrize("name", TYPES)
def test_no_row_that_matches_is_lost(ipc: str, name: str) -> None:
    type_, kind = TYPES[name]
    random_ = random.Random(name)
    least = 0 if kind == "unsigned" else -40
    kind = "int" if kind == "unsigned" else kind

    def column(around: int) -> pa.Array:
        values = [value_of(kind, max(least, around + random_.randrange(-4, 5))) for _ in range(ROWS)]
        return pa.array([None if random_.random() < 0.2 else value for value in values], type_)

    other = pa.array(["x"] * ROWS, pa.string_view())  # in front: its buffers are as many as each batch says
    batches = [pa.record_batch({"before": other, "v": column(8 * n)}) for n in range(-4, 5)]
    skipped = 0
    for comparison in COMPARISONS:
        value = value_of(kind, 8)
        got, counters = read(ipc, batches, [("v", comparison, value)], ["v"])
        assert matches(got, comparison, value) == matches(batches, comparison, value)
        skipped += counters.batches_skipped
    assert skipped > 3 * len(COMPARISONS), "else they would be no use"


def test_nulls_and_batches_without_values(ipc: str) -> None:
    columns = [[1, 2, None], [None, None], [3, 4], []]
    batches = [pa.record_batch({"v": pa.array(column, pa.int32())}) for column in columns]
    assert read(ipc, batches, [("v", "is", None)], ["v"])[0] == batches[:2]
    assert read(ipc, batches, [("v", "is not", None)], ["v"])[0] == [batches[0], batches[2]]
    assert read(ipc, batches, [("v", ">", -9)], ["v"])[0] == [batches[0], batches[2]]


def test_nan_is_above_everything_and_zero_has_one_sign(ipc: str) -> None:
    columns = [[1.0, float("nan")], [float("nan")], [-0.0], [2.0, 3.0]]
    batches = [pa.record_batch({"v": column}) for column in columns]
    assert len(read(ipc, batches, [("v", ">", 5.0)], ["v"])[0]) == 2, "as Spark has it"
    assert read(ipc, batches, [("v", "==", 0.0)], ["v"])[0] == [batches[2]]
    assert read(ipc, batches, [("v", "<", 1)], ["v"])[0] == [batches[2]], "an integer is a number, too"


def test_a_filter_between_two_ticks_of_a_timestamp_keeps_what_matches(ipc: str) -> None:
    batches = [pa.record_batch({"v": pa.array([n, n], pa.timestamp("s"))}) for n in (-2, -1, 0, 1)]
    between = datetime.datetime(1969, 12, 31, 23, 59, 58, 500_000)  # between -2 and -1
    kept = {}
    for comparison in COMPARISONS:
        got, _ = read(ipc, batches, [("v", comparison, between)], ["v"])
        kept[comparison] = [batches.index(batch) for batch in got]
    assert {0} <= set(kept["<"]) <= {0, 1} and {0} <= set(kept["<="]) <= {0, 1}
    assert {1, 2, 3} <= set(kept[">"]) and {1, 2, 3} <= set(kept[">="])


def test_columns_without_bounds_and_batches_with_dictionaries(ipc: str) -> None:
    words = pa.array(["red", "green"] * 5).dictionary_encode()
    batches = [pa.record_batch({"w": words, "v": np.full(10, n), "u": np.full(10, n)}) for n in range(4)]
    assert read(ipc, batches, [("u", "==", 2)], ["v"])[0] == batches, "nothing is known of it"
    assert read(ipc, batches, [("w", "==", "blue")], ["v"])[0] == batches, "it may not have any"
    assert read(ipc, batches, [("v", "==", 2)], ["v"])[0] == [batches[2]], "behind the dictionary of another"


def test_a_batch_built_in_place_has_bounds_too(ipc: str) -> None:
    schema = pa.schema([("v", pa.int64())])
    with (
        Endpoint(ipc),
        ThreadPoolExecutor(1) as pool,
        lwmq.open_reader(ipc, filters=[("v", ">", 100)], timeout=60) as reader,
        lwmq.open_writer(ipc, schema, bounds=["v"], linger=60) as writer,
    ):
        got = pool.submit(lambda: [batch["v"][0].as_py() for batch in reader])
        for n in (1, 200, 3):
            with writer.allocate(10) as batch:
                batch["v"][:] = n
        writer.close()
        assert got.result(60) == [200]


def test_skipped_batches_are_consumed(ipc: str) -> None:
    batches = [counted(n) for n in range(4)]
    with (
        Endpoint(ipc),
        ThreadPoolExecutor(1) as pool,
        lwmq.open_reader(ipc, filters=[("k", "<", 0)], timeout=60) as reader,
        lwmq.open_writer(ipc, batches[0].schema, bounds=["k"], window_bytes=1 << 20) as writer,
    ):
        got = pool.submit(list, reader)
        for _ in range(2000):  # the window is full many times
            writer.write(batches[1])
        writer.close(60)
        assert got.result(60) == []
        assert reader.statistics.batches_skipped == 2000


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([("nobody", "==", 1)], 'column "nobody" is not one of the stream\'s'),
        ([("k", "==", "text")], 'column "k" holds no values that compare'),
        ([("k", "<", 1.5)], 'column "k" holds no values that compare'),
        ([("x", "==", DAY)], 'column "x" holds no values that compare'),
    ],
)
def test_a_filter_that_does_not_fit_the_stream_is_refused(ipc: str, filters: list[Any], text: str) -> None:
    with Endpoint(ipc), lwmq.open_reader(ipc, filters=filters, timeout=60) as reader:
        writer = lwmq.open_writer(ipc, counted(0).schema, bounds=["k"])
        with pytest.raises(lwmq.SchemaError, match=text):
            _ = reader.schema
        writer.abort()


@pytest.mark.parametrize(
    ("filter_", "error"),
    [
        (("k", "~", 1), ValueError),
        (("k", "==", None), ValueError),
        (("k", "is", 1), ValueError),
        (("k", "==", 2**63), ValueError),
        (("k", "==", True), TypeError),
        (("k", "==", [1]), TypeError),
        (("k", "=="), TypeError),
    ],
)
def test_a_filter_that_means_nothing_is_refused_at_once(
    ipc: str, filter_: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="filter"):
        lwmq.open_reader(ipc, filters=[filter_])


def test_bounds_of_what_has_none_are_refused_before_anybody_hears_of_the_stream(ipc: str) -> None:
    schema = pa.schema([("d", pa.decimal128(20, 2)), ("k", pa.int64())])
    with pytest.raises(lwmq.SchemaError, match='column "d" can have no bounds'):
        lwmq.open_writer(ipc, schema, bounds=["d"])
    with pytest.raises(KeyError, match="no column 'nobody'"):
        lwmq.open_writer(ipc, schema, bounds=["nobody"])
    with pytest.raises(TypeError, match="did you mean"):
        lwmq.open_writer(ipc, schema, bounds="k")
