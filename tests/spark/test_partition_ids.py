"""A row is in the same partition of a stream as after Spark's `repartition`: a million keys of each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwmq_spark.arrow import partition_ids
from tests.spark.producers import Producer, numbers, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000_000
PARTITIONS = 997


def random_keys(seed: int) -> pa.Table:
    """A column of each type that a key may have; every 16th value is null."""
    random = np.random.default_rng(seed)
    nulls = random.integers(16, size=ROWS) == 0

    def whole(low: int, high: int, kind: str) -> pa.Array:
        return pa.array(random.integers(low, high, ROWS, endpoint=True), kind, mask=nulls)

    def floats(kind: type, bits: type) -> pa.Array:
        values: np.ndarray = random.integers(0, np.iinfo(bits).max, ROWS, bits, endpoint=True).view(kind)
        values[::32] = -0.0
        values[::33] = np.nan
        return pa.array(values, mask=nulls)

    def pieces(text: str | bytes, kind: pa.DataType) -> pa.Array:
        places = zip(random.integers(len(text), size=ROWS), random.integers(20, size=ROWS), strict=True)
        return pa.array([text[start : start + size] for start, size in places], kind, mask=nulls)

    def decimals(precision: int) -> pa.Array:
        """Of all lengths; the highest words are below 10**38 / 2**64."""
        low = random.integers(-(10**18) + 1, 10**18, ROWS) >> random.integers(60, size=ROWS)
        high = low >> 63
        if precision > 18:
            high[::2] = random.integers(-(10**18) * 5, 10**18 * 5, ROWS // 2) >> random.integers(
                63, size=ROWS // 2
            )
        words = pa.py_buffer(np.column_stack([low, high]))
        column = pa.Array.from_buffers(pa.decimal128(precision, 2), ROWS, [None, words])
        return pc.if_else(nulls, None, column)

    numbers = {
        f"i{bits}": whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, f"int{bits}") for bits in (8, 16, 32, 64)
    }
    letters = "".join(
        map(chr, random.choice([*range(32, 127), *range(0xC0, 0x250), *range(0x4E00, 0x9000)], 5000))
    )
    moments = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # of the years 1 to 9999
    return pa.table(
        {
            "flag": pa.array(random.integers(2, size=ROWS).astype(bool), mask=nulls),
            **numbers,
            "f32": floats(np.float32, np.uint32),
            "f64": floats(np.float64, np.uint64),
            "text": pieces(letters, pa.string()),
            "long_text": pieces(letters, pa.large_string()),
            "bytes": pieces(random.bytes(5000), pa.binary()),
            "long_bytes": pieces(random.bytes(5000), pa.large_binary()),
            "day": whole(-719_162, 2_932_896, "int32").view(pa.date32()),
            "moment": whole(*moments, "int64").view(pa.timestamp("us", "UTC")),
            "local_moment": whole(*moments, "int64").view(pa.timestamp("us")),
            "d18": decimals(18),
            "d38": decimals(38),
        }
    )


def test_ids_are_those_of_spark_for_a_million_keys_of_each_type(spark: SparkSession, ipc: str) -> None:
    table = random_keys(seed=20261128)
    keys = [[name] for name in table.column_names] + [["i64", "text", "f64", "d38"]]
    producer = Producer(ipc, table, rows=50_000)
    hashes = [f"pmod(hash({', '.join(key)}), {PARTITIONS})" for key in keys]
    theirs = read(spark, ipc).selectExpr(*hashes).toArrow()
    producer.finish()
    batch = table.combine_chunks().to_batches()[0]
    assert batch.num_rows == theirs.num_rows == ROWS
    for key, column in zip(keys, theirs.columns, strict=True):
        ours = partition_ids(batch, key, PARTITIONS)
        assert np.array_equal(ours, column.to_numpy()), key
        assert len(np.unique(ours)) > 1


def test_ids_are_the_partitions_of_repartition(spark: SparkSession, ipc: str) -> None:
    table = numbers(10_000)
    producer = Producer(ipc, table)
    placed = read(spark, ipc).repartition(7, "k", "text").selectExpr("k", "spark_partition_id() id").toArrow()
    producer.finish()
    ids = partition_ids(table.combine_chunks().to_batches()[0], ["k", "text"], 7)
    assert placed.sort_by("k")["id"].to_pylist() == ids.tolist()
