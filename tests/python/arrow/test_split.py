"""Rows to partitions by their key: the numbers are Spark's, and each row arrives in its partition.

`tests/spark/test_partition_ids.py` compares a million keys of each type with Spark itself.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from lwmq_spark.arrow import describe, partition_ids, split

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
TEXTS = (["", "abc", "abcd", "grüße, 世界"], [142593372, 1322437556, -396302900, -1000645750])
BYTES = (
    [b"", b"\xff", b"\0\1\2\xff\xfe", b"\x80\x81\x82\x83"],
    [142593372, 1398487324, 1640870618, 292797482],
)
MOMENTS = (
    [EPOCH, EPOCH - MICROSECOND, EPOCH + 1789000000123456 * MICROSECOND],
    [-1670924195, -939490007, 2076307242],
)
FLOATS = [0.0, -0.0, float("nan"), -1.5, float("-inf")]

# type: values, and what `hash` of Spark SQL says of each
HASHES: dict[pa.DataType, tuple[list[Any], list[int]]] = {
    pa.bool_(): ([True, False], [-559580957, 933211791]),
    pa.int8(): ([0, 127, -128], [933211791, 1135925485, 1110053733]),
    pa.int16(): ([0, -1, -(2**15)], [933211791, -1604776387, -1871935946]),
    pa.int32(): ([0, -1, -(2**31)], [933211791, -1604776387, 723455942]),
    pa.int64(): ([0, -1, -(2**63)], [-1670924195, -939490007, -853646085]),
    pa.float32(): (FLOATS, [933211791, 933211791, -349261430, 1765572753, 427440766]),
    pa.float64(): (FLOATS, [-1670924195, -1670924195, -1281358385, 2099784398, 461104036]),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): (
        [EPOCH.date(), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
        [933211791, -1604776387, 1135886659],
    ),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", "UTC"): MOMENTS,
    pa.decimal128(18, 2): (
        [Decimal("0"), Decimal("-7.50"), Decimal("-9999999999999999.99")],
        [-1670924195, 124628533, 1962370902],
    ),
    pa.decimal128(38, 2): (
        [Decimal(text) for text in ("0", "-7.50", "1.27", "1.28", "-1.28", "-1.29", f"-{'9' * 36}.99")],
        [-783713497, -1623227470, 1185089389, -544401882, 775851899, -771458971, 1400911110],
    ),
}
NULL = 42  # the seed: a null leaves the hash as it is


def batch_of(values: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(values, kind)})


@pytest.mark.parametrize("partitions", [1, 7, 8, 16384])
@pytest.mark.parametrize("kind", HASHES, ids=str)
def test_ids_are_those_of_spark(kind: pa.DataType, partitions: int) -> None:
    values, hashes = HASHES[kind]
    expected = [value % partitions for value in hashes]
    assert partition_ids(batch_of(values, kind), "k", partitions).tolist() == expected
    with_nulls = batch_of([None, *values, None], kind)
    nulls = [NULL % partitions]
    assert partition_ids(with_nulls, "k", partitions).tolist() == [*nulls, *expected, *nulls]
    assert partition_ids(with_nulls.slice(1), "k", partitions).tolist() == [*expected, *nulls]
    assert partition_ids(with_nulls.slice(0, 0), "k", partitions).tolist() == []


def test_nans_of_all_kinds_are_equal() -> None:
    for bits, kind in (
        (np.array([0x7FC00000, 0xFFC12345], np.uint32), np.float32),
        (np.array([0x7FF8000000000000, 0xFFF0000000000001], np.uint64), np.float64),
    ):
        one, other = partition_ids(pa.record_batch({"k": bits.view(kind)}), "k", 16384)
        assert one == other


def test_columns_of_a_key_count_in_their_order() -> None:
    rows = pa.record_batch({"n": [1, 1, None], "s": ["a", None, None]})
    hashes = [573093329, -1712319331, NULL]
    assert partition_ids(rows, ["n", "s"], 16384).tolist() == [value % 16384 for value in hashes]
    assert partition_ids(rows, ["s", "n"], 16384)[0] == 1838122449 % 16384


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint32(),
        pa.timestamp("ns"),
        pa.date64(),
        pa.decimal256(50, 2),
        pa.list_(pa.int64()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.null(),
        pa.binary(4),
    ],
    ids=str,
)
def test_a_type_that_cannot_be_a_key_is_named_with_its_column(kind: pa.DataType) -> None:
    rows = pa.record_batch({"good": [1], "bad": pa.nulls(1, kind)})
    with pytest.raises(lwmq.SchemaError) as caught:
        partition_ids(rows, ["good", "bad"], 8)
    assert 'column "bad" cannot be a key' in str(caught.value) and f"bad: {kind}" in str(caught.value)


def test_what_cannot_be_a_key_is_refused() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["a", "b", "b"])
    with pytest.raises(KeyError, match="no column 'c'; there are a, b, b"):
        partition_ids(rows, "c", 8)
    with pytest.raises(KeyError, match="more than one column 'b'"):
        partition_ids(rows, ["a", "b"], 8)
    with pytest.raises(lwmq.LwmqError, match="a key of 0 columns"):
        partition_ids(rows, [], 8)
    for partitions in (0, 16385):
        with pytest.raises(lwmq.LwmqError, match=f"{partitions} partitions"):
            partition_ids(rows, "a", partitions)


def test_split_keeps_the_order_of_the_rows() -> None:
    rows = pa.record_batch({"n": range(1000), "s": [None if n % 7 == 0 else f"row {n}" for n in range(1000)]})
    ids = np.arange(1000) * 31 % 5
    parts = split(rows, ids, 6)
    assert [part["n"].to_pylist() for part in parts] == [
        [n for n in range(1000) if ids[n] == i] for i in range(6)
    ]
    assert pa.Table.from_batches(parts).sort_by("n").equals(pa.Table.from_batches([rows]))
    assert [part.num_rows for part in split(rows.slice(0, 0), ids[:0], 3)] == [0, 0, 0]


@pytest.mark.parametrize("ids", [[0, 1], [0, 1, 8], [0, 1, -1]], ids=["few", "high", "negative"])
def test_split_refuses_wrong_ids(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=r"ids|negative"):
        split(batch_of([1, 2, 3], pa.int64()), ids, 8)


def test_split_names_a_column_whose_rows_cannot_be_chosen() -> None:
    rows = pa.record_batch({"n": [1], "v": pa.array(["x"], pa.string_view())})
    with pytest.raises(lwmq.SchemaError, match=r"'v' cannot be split.*string_view"):
        split(rows, [0], 2)


# ---- Writers ----------------------------------------------------------------------------------------

PARTITIONS = 3
SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])


def rows_of(count: int) -> pa.RecordBatch:
    numbers = range(count)
    return pa.record_batch({"k": [f"key {n % 50}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)


def opened(address: str, schema: pa.Schema = SCHEMA, **options: Any) -> lwmq.StreamWriter:
    return lwmq.open_writer(address, schema, partitions=PARTITIONS, retain="all", linger=0, **options)


def contents(*writers: lwmq.StreamWriter) -> dict[int, pa.Table]:
    """What `writers` have written to each partition that got anything."""
    found: dict[int, list[pa.RecordBatch]] = {}
    with lwmq.open_reader(writers[0].address, timeout=60) as reader:
        for _ in range(sum(writer.statistics.batches for writer in writers)):
            batch = next(reader)
            found.setdefault(reader.last.partition, []).append(batch)
    return {number: pa.Table.from_batches(batches) for number, batches in found.items()}


@pytest.mark.parametrize("key", ["k", "n", ["k", "n"]], ids=str)
def test_each_row_goes_to_the_partition_of_its_key_in_order(address: str, key: Any) -> None:
    rows = rows_of(1000)
    ids = partition_ids(rows, key, PARTITIONS)
    with opened(address) as writer:
        assert writer.write(rows, key=key) == 1000
        assert contents(writer) == {
            number: pa.Table.from_batches([rows.filter(pa.array(ids == number))])
            for number in range(PARTITIONS)
        }
        writer.abort()


def test_rows_of_fixed_width_are_placed_alike(address: str) -> None:
    rows = pa.record_batch({"n": [1, None, 3, 4, None, 6] * 50, "x": range(300)})
    ids = partition_ids(rows, "n", PARTITIONS)
    with opened(address, rows.schema) as writer:
        writer.write(rows, key="n")
        assert sorted(contents(writer)) == sorted(set(ids.tolist()))
        for number, table in contents(writer).items():
            assert table["x"].to_pylist() == np.flatnonzero(ids == number).tolist()
        writer.abort()


def test_whatever_is_written_may_have_a_key(address: str) -> None:
    rows = rows_of(100)
    table = pa.Table.from_batches([rows.slice(0, 30), rows.slice(30)])
    with opened(address) as writer:
        assert writer.write(table, key="k") == 100
        assert writer.write(table.to_reader(), key="k") == 100
        assert writer.write(rows.slice(0, 0), key="k") == 0
        asyncio.run(aio.write(writer, rows, key="k"))
        expected = [row for row in rows["n"].to_pylist() for _ in range(3)]
        assert sorted(n for part in contents(writer).values() for n in part["n"].to_pylist()) == expected
        writer.abort()


def test_a_stream_of_one_partition_takes_rows_of_all_keys(address: str) -> None:
    with lwmq.open_writer(address, SCHEMA, retain="all", linger=0) as writer:
        writer.write(rows_of(100), key="k")
        assert contents(writer)[0]["n"].to_pylist() == list(range(100))
        writer.abort()


def test_nothing_is_written_of_a_batch_that_is_refused(address: str) -> None:
    rows = rows_of(100)
    with_null = pa.record_batch({"k": rows["k"], "n": [*range(99), None]})
    with opened(address) as writer:
        with pytest.raises(lwmq.SchemaError, match="1 null in n"):
            writer.write(with_null, key="k")
        with pytest.raises(KeyError, match="no column 'symbol'; there are k, n"):
            writer.write(rows, key="symbol")
        with pytest.raises(ValueError, match="a key and a partition"):
            writer.write(rows, 0, key="k")
        assert writer.statistics.batches == 0
        writer.abort()


def test_a_task_of_a_job_commits_the_rows_of_all_keys_together(address: str) -> None:
    rows = rows_of(100)
    parts = split(rows, partition_ids(rows, "k", PARTITIONS), PARTITIONS)
    with opened(address, delivery="task", job="j", task=1, job_tasks=2) as writer:
        writer.write(rows, key="k")
        assert all(part.next_seq == 0 for part in describe(address).partitions)
        result = writer.commit()
        assert (result.won, result.rows) == (True, 100)
        assert {part.partition: part.rows for part in result.ranges} == {
            number: part.num_rows for number, part in enumerate(parts) if part.num_rows
        }
        assert {number: table.num_rows for number, table in contents(writer).items()} == {
            part.partition: part.rows for part in result.ranges
        }
        writer.abort()
