"""Consumers outside Spark read a stream by the Arrow interfaces, and columns by DLPack."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import tensor
from lwmq_spark.arrow.tensors import copied

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


@pytest.fixture
def reader(address: str) -> Iterator[lwmq.StreamReader]:
    """A reader of a stream of ten batches that is being closed meanwhile."""
    import threading

    writer = lwmq.open_writer(address, SCHEMA)
    for start in range(0, 1000, 100):
        n = np.arange(start, start + 100)
        writer.write(pa.record_batch({"n": n, "x": n / 2, "s": [f"row {i}" for i in n]}, schema=SCHEMA))
    thread = threading.Thread(target=writer.close)
    thread.start()
    with lwmq.open_reader(address, timeout=60) as reader:
        yield reader
        for _ in reader:
            pass
    thread.join(60)
    assert writer.closed


@pytest.mark.row("P32")
def test_polars_reads_a_stream(reader: lwmq.StreamReader) -> None:
    frame = pl.DataFrame(reader)
    assert frame.shape == (1000, 3)
    assert frame["n"].sum() == 499_500
    assert frame["s"][999] == "row 999"


@pytest.mark.row("P32")
def test_duckdb_reads_a_stream(reader: lwmq.StreamReader) -> None:
    found = duckdb.sql("select count(*), sum(n), max(s) from reader").fetchall()
    assert found == [(1000, 499_500, "row 999")]


@pytest.mark.row("P32")
def test_pandas_reads_a_stream(reader: lwmq.StreamReader) -> None:
    frame = reader.read_all().to_pandas()
    assert frame.shape == (1000, 3)
    assert frame["n"].sum() == 499_500


def test_a_frame_of_batches_is_refused_and_the_way_to_a_frame_of_rows_named(
    reader: lwmq.StreamReader,
) -> None:
    for make in (pd.DataFrame, np.asarray):
        with pytest.raises(TypeError, match=r"read_all\(\)\.to_pandas\(\)"):
            make(reader)
    assert reader.read_all().num_rows == 1000


@pytest.mark.row("P32")
def test_pyarrow_reads_a_stream(reader: lwmq.StreamReader) -> None:
    table = pa.table(reader)
    assert table.schema == SCHEMA
    assert table.num_rows == 1000


def test_a_record_batch_reader_reads_batch_by_batch(reader: lwmq.StreamReader) -> None:
    stream = pa.RecordBatchReader.from_stream(reader)
    assert stream.read_next_batch().num_rows == 100
    assert reader.last is not None
    assert reader.last.seq <= 1
    assert sum(batch.num_rows for batch in stream) == 900


def test_the_schema_can_be_had_alone(reader: lwmq.StreamReader) -> None:
    assert pa.schema(reader) == SCHEMA


@pytest.mark.row("P32")
def test_numpy_takes_a_column_where_it_lies_and_read_only(reader: lwmq.StreamReader) -> None:
    batch = next(reader)
    before = copied()
    values = np.from_dlpack(tensor(batch["x"]))
    assert values.ctypes.data == batch["x"].buffers()[1].address
    assert not values.flags.writeable
    assert values.tolist() == [n / 2 for n in range(100)]
    assert copied() == before
    del batch
    assert values[99] == 49.5


@pytest.mark.row("P32")
def test_who_does_not_know_read_only_memory_gets_a_counted_copy(reader: lwmq.StreamReader) -> None:
    class Old:
        """A consumer from before DLPack 1.0: asks without a version."""

        def __init__(self, column: pa.Array) -> None:
            self._tensor = tensor(column)

        def __dlpack__(self, **options: object) -> object:
            return self._tensor.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return self._tensor.__dlpack_device__()

    batch = next(reader)
    before = copied()
    values = np.from_dlpack(Old(batch["x"]))
    assert values.ctypes.data != batch["x"].buffers()[1].address
    assert copied() == {"columns": before["columns"] + 1, "bytes": before["bytes"] + 800}
    with pytest.raises(BufferError, match="copy of its own"):
        tensor(batch["x"]).__dlpack__(copy=False)
    with pytest.raises(BufferError, match="device"):
        tensor(batch["x"]).__dlpack__(dl_device=(2, 0))
    writable = np.from_dlpack(tensor(batch["n"], writable=True))
    writable[:] = 0
    assert batch["n"][1].as_py() == 1


def test_a_column_that_is_no_tensor_says_why() -> None:
    with pytest.raises(TypeError, match="column of string is no tensor"):
        tensor(pa.array(["x"]))
    with pytest.raises(ValueError, match="1 nulls"):
        tensor(pa.array([1, None]))
    with pytest.raises(ValueError, match="2 chunks"):
        tensor(pa.chunked_array([[1], [2]]))
    vectors = tensor(pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64(), 2)))
    assert np.from_dlpack(vectors).shape == (2, 2)
    assert repr(vectors) == "<Tensor float64 (2, 2), read-only>"


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32())], ids=str)
def test_lists_of_one_length_are_a_tensor_of_two_dimensions(kind: pa.DataType) -> None:
    column = pa.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], kind)
    values = np.from_dlpack(tensor(column.slice(1, 2)))
    assert values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert values.ctypes.data == column.values.buffers()[1].address + 8
    assert np.from_dlpack(tensor(column.slice(0, 0))).shape == (0, 0)
    with pytest.raises(ValueError, match="lists have 0 to 2 values"):
        tensor(pa.array([[1.0, 2.0], []], kind))
    with pytest.raises(ValueError, match="1 nulls"):
        tensor(pa.array([[1.0, 2.0], None], kind))
