"""Several streams behind one address, told apart by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq


def _table(name: str) -> pa.Table:
    return pa.table({name: range(5)})


def test_each_reader_gets_the_stream_that_it_names(ipc: str) -> None:
    names = ("prices", "trades")
    writers = {name: lwmq.open_writer(f"{ipc}?stream={name}", _table(name).schema) for name in names}
    for name, writer in writers.items():
        writer.write(_table(name))
    readers = {name: lwmq.open_reader(f"{ipc}?stream={name}") for name in names}
    for name, reader in readers.items():
        assert next(reader).schema.names == [name]
    for writer in writers.values():
        writer.abort("over")
    for reader in readers.values():
        with pytest.raises(lwmq.AbortedError):
            next(reader)
        reader.close()


def test_an_address_without_a_name_says_which_there_are(ipc: str) -> None:
    writers = [lwmq.open_writer(f"{ipc}?stream={name}", _table(name).schema) for name in ("b", "a")]
    with pytest.raises(lwmq.AddressError, match="a, b"):
        lwmq.open_reader(ipc)
    for writer in writers:
        writer.abort("over")


def test_a_name_has_an_alphabet(ipc: str) -> None:
    with pytest.raises(lwmq.AddressError, match="stream"):
        lwmq.open_reader(f"{ipc}?stream=a/b")


WRITER = """
import pyarrow as pa
table = pa.table({"n": range(1000)})
with lwmq.open_writer(sys.argv[1] + "?stream=" + sys.argv[2], table.schema) as writer:
    print("open")
    writer.write(table)
"""


def test_processes_share_a_door(ipc: str, spawn: Callable[..., Any]) -> None:
    children = [spawn(WRITER, ipc, name) for name in ("one", "two", "three")]
    for child, name in zip(children, ("one", "two", "three"), strict=True):
        assert child.line() == "open"
        with lwmq.open_reader(f"{ipc}?stream={name}") as reader:
            assert reader.read_all()["n"].to_pylist() == list(range(1000))
    for child in children:
        assert child.wait() == 0
