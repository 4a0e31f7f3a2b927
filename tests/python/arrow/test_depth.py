"""Schemas that nest deeper than pyarrow reads: others than Python may declare such streams."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark._ffi import check, ffi, lib, sized
from lwmq_spark.arrow.depth import deepest_field
from tests.patience import HANG_S


def nested(kind: str, levels: int) -> pa.DataType:
    """One value inside `levels` of a kind."""
    value: pa.DataType = pa.int64()
    for _ in range(levels):
        value = {
            "list": lambda v: pa.list_(v),
            "struct": lambda v: pa.struct([("inner", v)]),
            "map": lambda v: pa.map_(pa.int32(), v),
        }[kind](value)
    return value


def declared(address: str, schema: pa.Schema) -> Any:
    """Declares it as another language does, that has no such limit."""
    data = bytes(schema.serialize())
    options = sized("lwmq_writer_options")
    out = ffi.new("lwmq_writer **")
    check(lib.lwmq_writer_open(address.encode(), ffi.from_buffer(data), len(data), options, out))
    return ffi.gc(out[0], lib.lwmq_writer_destroy)


@pytest.mark.parametrize(
    ("kind", "deep", "levels"),
    [("list", 150, 151), ("struct", 150, 151), ("map", 40, 81), ("map", 70, 141), ("list", 64, 65)],
)
def test_a_schema_too_deep_for_pyarrow_is_told_with_its_depth(
    address: str, kind: str, deep: int, levels: int
) -> None:
    schema = pa.schema([("flat", pa.int64()), ("deep", nested(kind, deep)), ("less", nested("list", 30))])
    writer = declared(address, schema)
    with lwmq.open_reader(address, timeout=HANG_S, linger=0) as reader:
        said = (
            f"field 'deep' of the stream {address} nests {levels} levels deep .*; "
            f"pyarrow {pa.__version__} reads batches of up to 64 levels. Ways out: flatten the field"
        )
        with pytest.raises(lwmq.SchemaError, match=said):
            _ = reader.schema
    del writer


@pytest.mark.parametrize(("kind", "deep"), [("list", 63), ("struct", 63), ("map", 31)])
def test_the_deepest_that_pyarrow_reads_is_read(address: str, kind: str, deep: int) -> None:
    schema = pa.schema([("deep", nested(kind, deep))])
    writer = lwmq.open_writer(address, schema, linger=0)
    batch = pa.record_batch({"deep": pa.nulls(3, schema.field(0).type)}, schema=schema)
    writer.write(batch)
    with lwmq.open_reader(address, timeout=HANG_S) as reader:
        assert next(reader).equals(batch)
    writer.abort()


def test_bytes_that_are_no_schema_have_no_depth_and_do_no_harm() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    whole = bytearray(pa.schema([("deep", nested("list", 150))]).serialize())
    assert deepest_field(bytes(whole)) == ("deep", 151)
    for _ in range(2000):
        broken = bytearray(whole[: chance.randrange(len(whole))])
        for _ in range(chance.randrange(8)):
            if broken:
                broken[chance.randrange(len(broken))] = chance.randrange(256)
        assert deepest_field(bytes(broken))[1] <= len(whole), f"seed {seed}"
    assert deepest_field(b"") == ("", 0)
