"""Readers that ask for certain columns: what they get, and what crosses a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark._ffi import ffi, lib
from lwmq_spark.arrow import Endpoint

ROWS = 20_000
WIDE = pa.schema([(f"c{n}", pa.int64()) for n in range(16)])


def wide(seed: int, rows: int = ROWS) -> pa.RecordBatch:
    return pa.record_batch({f"c{n}": np.arange(rows) * (n + 1) + seed for n in range(16)}, schema=WIDE)


NESTED = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
MANY = {
    "flag": pa.array([True, None, False] * 1000),
    "text": pa.array(["one", None, "three" * 5] * 1000),
    "view": pa.array(["short", "a view that has a data buffer", None] * 1000, pa.string_view()),
    "nothing": pa.nulls(3000),
    "nested": pa.array([{"a": 1, "b": ["x", None]}, None, {"a": None, "b": []}] * 1000, NESTED),
    "views": pa.array([[b"longer than twelve bytes"], [], None] * 1000, pa.list_(pa.binary_view())),
    "fixed": pa.array([[1, 2], None, [3, None]] * 1000, pa.list_(pa.int16(), 2)),
    "map": pa.array([[("k", 1)], [], None] * 1000, pa.map_(pa.string(), pa.int64())),
    "sparse": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0] * 1000, pa.int8()), [pa.array([1, 2, 3] * 1000), pa.array(["a", "b", "c"] * 1000)]
    ),
    "dense": pa.UnionArray.from_dense(
        pa.array([0, 1, 0] * 1000, pa.int8()),
        pa.array([place for n in range(1000) for place in (2 * n, n, 2 * n + 1)], pa.int32()),
        [pa.array(range(2000)), pa.array(["a"] * 1000)],
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1000, 3000], pa.int32()), pa.array(["x", None])),
    "list_view": pa.array([[1.5], None, [2.5, 3.5]] * 1000, pa.list_view(pa.float64())),
    "number": pa.array(range(3000), pa.int64()),
}
WORDS = pa.array(["red", None, "green"] * 1000).dictionary_encode()


@pytest.fixture(params=[False, True], ids=["mapped", "wire"])
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether readers of this process leave shared memory alone."""
    if request.param:
        monkeypatch.setenv("LWMQ_WIRE", "1")
    return bool(request.param)


def read(
    address: str, batches: list[pa.RecordBatch], columns: list[str], **options: Any
) -> tuple[list[pa.RecordBatch], lwmq.arrow.ReaderStatistics]:
    """What a reader of `columns` gets of `batches`, and its counters."""
    with Endpoint(address) as endpoint:
        reader = lwmq.open_reader(endpoint.address, columns=columns, role="client", timeout=60, **options)
        with reader, lwmq.open_writer(endpoint.address, batches[0].schema, linger=60, timeout=60) as writer:
            got = []
            for batch in batches:
                writer.write(batch)
                got.append(next(reader))
            reader.consume()
            assert reader.schema == pa.schema([batches[0].schema.field(name) for name in columns])
            return got, reader.statistics


def test_one_of_sixteen_columns_moves_a_twelfth_of_the_bytes_at_most(port: int, wire: bool) -> None:
    batches = [wide(seed) for seed in range(10)]
    got, counted = read(f"tcp://127.0.0.1:{port}/wide", batches, ["c5"])
    assert got == [batch.select(["c5"]) for batch in batches]
    assert counted.bytes >= 10 * wide(0).nbytes
    if wire:
        assert 10 * ROWS * 8 <= counted.bytes_received <= counted.bytes / 12
    else:
        assert counted.bytes_received == 0


def test_the_order_of_columns_is_the_readers(port: int, wire: bool) -> None:
    batches = [wide(seed) for seed in range(5)]
    got, _ = read(f"tcp://127.0.0.1:{port}/wide", batches, ["c7", "c15", "c0"])
    assert got == [batch.select(["c7", "c15", "c0"]) for batch in batches]


@pytest.mark.parametrize("trust", ["user", "verify"])
@pytest.mark.parametrize("dictionaries", [False, True])
def test_each_column_of_every_type_comes_alone(
    port: int, wire: bool, trust: lwmq.options.Trust, dictionaries: bool
) -> None:
    columns = dict(MANY, words=WORDS) if dictionaries else MANY
    batch = pa.record_batch(columns)
    for name in columns:
        got, counted = read(f"tcp://127.0.0.1:{port}/{name}", [batch, batch.slice(0, 0)], [name], trust=trust)
        assert got[0].equals(batch.select([name])), name
        assert got[1].equals(batch.slice(0, 0).select([name])), name
        got[0].validate(full=True)
        if wire:
            assert counted.bytes_received < counted.bytes / 2, name


@pytest.mark.parametrize("trust", ["user", "verify"])
def test_the_dictionaries_of_other_columns_do_not_cross(
    port: int, wire: bool, trust: lwmq.options.Trust
) -> None:
    """Nor those of dictionaries below."""
    words = [f"{'word' * 10} {n}" for n in range(5000)]
    inner = pa.array(words).dictionary_encode()
    columns: dict[str, pa.Array] = {
        f"d{n}": pa.array(words[n:]).dictionary_encode()[:4000] for n in range(15)
    }
    columns["deep"] = pa.StructArray.from_arrays([inner], ["word"])[:4000]
    batch = pa.record_batch(columns)
    address = f"tcp://127.0.0.1:{port}/words"
    for names in (["d3"], ["deep"]):
        got, counted = read(address, [batch, batch], names, trust=trust)
        assert [one.equals(batch.select(names)) for one in got] == [True, True]
        if wire:
            assert counted.bytes_received < counted.bytes / 12


def test_a_dictionary_that_is_compressed_comes_whole(port: int, wire: bool) -> None:
    batch = pa.record_batch({"a": WORDS, "b": pa.array(["x" * n for n in range(3000)]).dictionary_encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    packed = sink.getvalue()
    with Endpoint(f"tcp://127.0.0.1:{port}/packed") as endpoint:
        reader = lwmq.open_reader(endpoint.address, columns=["a"], role="client", timeout=60)
        with reader, lwmq.open_writer(endpoint.address, batch.schema, linger=60, timeout=60) as writer:
            block = writer._allocate(packed.size)
            ffi.memmove(block.data, packed, packed.size)
            writer._hand_over(block, 0, packed.size, batch.num_rows, lib.LWMQ_BATCH_IPC_STREAM)
            assert next(reader).equals(batch.select(["a"]))
            reader.consume()


def test_all_but_one_column_come_together(port: int, wire: bool) -> None:
    batch = pa.record_batch(MANY)
    names = [name for name in MANY if name != "text"]
    got, counted = read(f"tcp://127.0.0.1:{port}/most", [batch], names)
    assert got[0].equals(batch.select(names))
    if wire:
        assert counted.bytes_received < counted.bytes


def test_a_column_of_a_compressed_batch_is_read_without_the_others(port: int, wire: bool) -> None:
    """Written by somebody else's Arrow: ours does not compress."""
    address = f"tcp://127.0.0.1:{port}/packed"
    batch = wide(3)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WIDE, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    _, packed = pa.ipc.MessageReader.open_stream(sink.getvalue())
    message = packed.serialize(64)
    with Endpoint(address) as endpoint:
        reader = lwmq.open_reader(endpoint.address, columns=["c9"], role="client", timeout=60)
        with reader, lwmq.open_writer(endpoint.address, WIDE, linger=60, timeout=60) as writer:
            block = writer._allocate(message.size)
            ffi.memmove(block.data, message, message.size)
            writer._hand_over(block, 0, message.size, ROWS, lib.LWMQ_BATCH_IPC_MESSAGE)
            assert next(reader) == batch.select(["c9"])
            reader.consume()
            if wire:
                assert reader.statistics.bytes_received < message.size / 6


@pytest.mark.parametrize("late", [False, True], ids=["there", "to come"])
def test_a_column_that_the_stream_does_not_have_is_an_error(port: int, wire: bool, late: bool) -> None:
    """As soon as there is a schema."""
    with Endpoint(f"tcp://127.0.0.1:{port}/few") as endpoint:
        schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
        writer = None if late else lwmq.open_writer(endpoint.address, schema, linger=60, timeout=60)
        with lwmq.open_reader(endpoint.address, columns=["b", "z"], role="client", timeout=60) as reader:
            writer = writer or lwmq.open_writer(endpoint.address, schema, linger=60, timeout=60)
            writer.write(pa.record_batch({"a": [1], "b": ["x"]}, schema=schema))
            for _ in range(2):
                with pytest.raises(lwmq.SchemaError, match='no column "z"; its 2 columns are a, b'):
                    next(reader)
            with pytest.raises(lwmq.SchemaError, match='no column "z"'):
                _ = reader.schema
        with lwmq.open_reader(endpoint.address, columns=["b"], role="client", timeout=60) as reader:
            assert next(reader)["b"].to_pylist() == ["x"], "and the batch is there for others"
            reader.consume()
        writer.close()


def test_a_name_of_two_columns_is_an_error(port: int, wire: bool) -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.string())])
    with Endpoint(f"tcp://127.0.0.1:{port}/twice") as endpoint:
        reader = lwmq.open_reader(endpoint.address, columns=["a"], role="client", timeout=60)
        writer = lwmq.open_writer(endpoint.address, schema, linger=60, timeout=60)
        with reader, writer, pytest.raises(lwmq.SchemaError, match='more than one column "a"'):
            _ = reader.schema


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ("price", TypeError, r"did you mean \['price'\]"),
        ([], ValueError, "columns are one name or more"),
        (["a", "a"], ValueError, "each once"),
    ],
)
def test_columns_are_a_list_of_names(ipc: str, columns: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        lwmq.open_reader(ipc, columns=columns)


def test_a_batch_that_is_kept_stays_right_while_its_window_is_used_again(port: int, wire: bool) -> None:
    address = f"tcp://127.0.0.1:{port}/again"
    with Endpoint(address) as endpoint:
        reader = lwmq.open_reader(endpoint.address, columns=["c1", "c14"], role="client", timeout=60)
        options: dict[str, Any] = {"window_bytes": "16MiB", "linger": 60, "timeout": 60}
        with reader, lwmq.open_writer(endpoint.address, WIDE, **options) as writer:
            kept = []
            for seed in range(40):
                writer.write(wide(seed))
                batch = next(reader)
                assert batch.equals(wide(seed).select(["c1", "c14"]))
                if seed % 10 == 0:
                    kept.append((seed, batch))
            reader.consume()
            for seed, batch in kept:
                assert batch.equals(wide(seed).select(["c1", "c14"]))


def test_each_reader_has_columns_of_its_own(
    port: int, spawn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        columns = sys.argv[2].split(",")
        with lwmq.open_reader(sys.argv[1], columns=columns, role="client", timeout=60) as reader:
            print([batch[name][1].as_py() for batch in reader for name in batch.schema.names])
    """
    monkeypatch.setenv("LWMQ_WIRE", "1")
    address = f"tcp://127.0.0.1:{port}/wide"
    with Endpoint(address), lwmq.open_writer(address, WIDE, readers=2, linger=60) as writer:
        first, second = spawn(code, address, "c0,c1"), spawn(code, address, "c15")
        writer.write(wide(100))
        writer.close()
        assert first.line() == "[101, 102]"
        assert second.line() == "[116]"
