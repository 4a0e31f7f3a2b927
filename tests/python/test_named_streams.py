"""Several streams behind one address, told apart by their names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from lwmq_spark.cli import main
from lwmq_spark.observer import Observer


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


ENDLESS = """
import itertools
import pyarrow as pa
with lwmq.open_writer(sys.argv[1], pa.schema({"n": pa.int64()}), role="client") as writer:
    for number in itertools.count():
        writer.write(pa.table({"n": [number]}))
        if number == 0:
            print("writes")
"""


def test_a_client_that_is_killed_in_one_stream_harms_no_other(ipc: str, spawn: Callable[..., Any]) -> None:
    names = ("killed", "lives")
    endpoints = [lwmq.Endpoint(f"{ipc}?stream={name}", linger=0) for name in names]
    killed, lives = (spawn(ENDLESS, f"{ipc}?stream={name}") for name in names)
    readers = [lwmq.open_reader(f"{ipc}?stream={name}", role="client") for name in names]
    assert killed.line() == lives.line() == "writes"
    for number in range(200):
        assert [next(reader)["n"].to_pylist() for reader in readers] == [[number], [number]]
    killed.kill()
    with pytest.raises(lwmq.PeerLostError, match="killed by SIGKILL"):
        for _ in readers[0]:
            pass
    for number in range(200, 400):
        assert next(readers[1])["n"].to_pylist() == [number]
    assert describe(f"{ipc}?stream=lives", 60).producers_open == 1
    lives.kill()
    with pytest.raises(lwmq.PeerLostError, match="killed by SIGKILL"):
        for _ in readers[1]:
            pass
    for reader in readers:
        reader.close()
    for endpoint in endpoints:
        endpoint.close()


def test_a_stream_that_another_process_made_ends_with_its_last_client(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    with lwmq.Endpoint(f"{ipc}?stream=stays", linger=0):
        child = spawn(WRITER, ipc, "comes")
        assert child.line() == "open"
        with lwmq.open_reader(f"{ipc}?stream=comes", role="client") as reader:
            assert reader.read_all().num_rows == 1000
        assert child.wait() == 0
        with pytest.raises(lwmq.TimeoutError, match=r"there is no such stream .*; there are: stays"):
            lwmq.open_reader(f"{ipc}?stream=comes", role="client", timeout=1)


def test_tools_show_an_address_and_the_streams_behind_it(
    ipc: str, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = [f"{ipc}?stream={name}" for name in ("asks", "bids")]
    writers = [lwmq.open_writer(address, _table("n").schema) for address in addresses]
    served = [entry.address for process in Observer().look() for entry in process.entries if entry.serves]
    assert {address for address in served if address.startswith(ipc)} == set(addresses)
    assert main(["info", ipc, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {one["address"] for one in shown["served_by"]} == set(addresses)
    assert describe(addresses[0], 60).address == addresses[0]
    with pytest.raises(lwmq.AddressError, match="2 are there: asks, bids"):
        describe(ipc, 60)
    for writer in writers:
        writer.abort("over")
