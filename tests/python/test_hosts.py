"""Streams and channels between hosts, as far as one machine goes: network namespaces with cables."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, describe
from tests.namespaces import Namespace
from tests.patience import HANG_S

SCHEMA = pa.schema([("writer", pa.int64()), ("n", pa.int64())])
ROWS, BATCHES, WRITERS = 500, 100, 4

WRITER = f"""
    writer, address, cut = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    schema = pa.schema([("writer", pa.int64()), ("n", pa.int64())])
    with lwmq.open_writer(address, schema, partitions={WRITERS}, timeout=60, linger=60) as w:
        for batch in range(cut or {BATCHES}):
            rows = np.arange(batch * {ROWS}, (batch + 1) * {ROWS})
            columns = {{"writer": np.full({ROWS}, writer), "n": rows}}
            w.write(pa.record_batch(columns, schema=schema), partition=writer)
        if cut:
            print("written", flush=True)
            sys.stdin.readline()
"""

READER = """
    address, partitions, die = sys.argv[1], [int(p) for p in sys.argv[2].split(",")], int(sys.argv[3])
    with lwmq.open_reader(address, name="r", partitions=partitions, writers=4, timeout=60) as reader:
        for number, batch in enumerate(reader):
            print(batch["writer"][0], batch["n"][0], batch.num_rows, flush=True)
            if number == die:
                sys.stdin.readline()
"""


def rows_of(output: str) -> list[tuple[int, int, int]]:
    found = []
    for line in output.splitlines():
        writer, first, rows = map(int, line.split())
        found.append((writer, first, rows))
    return found


@pytest.mark.row("M17")
def test_writers_and_readers_on_three_hosts_lose_and_double_nothing(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Four writers on two hosts, two readers on two, the endpoint here."""
    with Endpoint(f"tcp://*:{port}/numbers?auth=none", linger=60):
        readers = [
            start(where, READER, f"tcp://{ours}:{port}/numbers", partitions, -1)
            for (where, ours, _), partitions in zip(hosts[:2], ["0,1", "2,3"], strict=True)
        ]
        writers = []
        for number in range(WRITERS):
            where, ours, _ = hosts[number % 2]
            writers.append(start(where, WRITER, number, f"tcp://{ours}:{port}/numbers", 0))
        got = [rows_of(reader.communicate(timeout=HANG_S)[0]) for reader in readers]
        assert [reader.returncode for reader in readers] == [0, 0]
        assert [writer.wait(HANG_S) for writer in writers] == [0] * WRITERS
    whole = [(n * ROWS, ROWS) for n in range(BATCHES)]
    for number in range(WRITERS):
        assert [(first, rows) for who, first, rows in got[number // 2] if who == number] == whole


def test_a_reader_killed_on_another_host_gives_its_batches_to_the_next(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    (where, ours, _), (other, theirs, _), _ = hosts
    address = f"tcp://*:{port}/numbers?auth=none"
    with lwmq.open_writer(address, SCHEMA, window_bytes="1MiB", linger=60, timeout=60) as writer:
        first = start(where, READER, f"tcp://{ours}:{port}/numbers", "0", 3)
        for n in range(20):
            writer.write(pa.record_batch({"writer": [0], "n": [n]}, schema=SCHEMA))
        assert first.stdout is not None
        seen = [rows_of(first.stdout.readline())[0][1] for _ in range(4)]
        assert seen == [0, 1, 2, 3]
        first.kill()
        deadline = time.monotonic() + HANG_S
        while describe(f"tcp://{ours}:{port}/numbers").readers_open:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        second = start(
            other, READER.replace("writers=4", "writers=1"), f"tcp://{theirs}:{port}/numbers", "0", -1
        )
        writer.close()
    rest = [row[1] for row in rows_of(second.communicate(timeout=HANG_S)[0])]
    assert rest == list(range(3, 20)), "0 to 2 were moved past"


@pytest.mark.row("L34")
def test_a_writer_killed_on_another_host_is_named_by_its_host(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    where, ours, theirs = hosts[0]
    with Endpoint(f"tcp://*:{port}/numbers?auth=none", linger=0) as endpoint:
        writer = start(where, WRITER, 0, f"tcp://{ours}:{port}/numbers", 5)
        with lwmq.open_reader(endpoint.address, role="client", timeout=60) as reader:
            assert [next(reader).num_rows for _ in range(5)] == [ROWS] * 5
            writer.kill()
            with pytest.raises(lwmq.PeerLostError, match=f"at {theirs}:\\d+, .* without ending the stream"):
                next(reader)


def test_one_of_sixteen_columns_moves_a_twelfth_of_the_bytes_at_most(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """As the cable counts them, with all that is around them."""
    where, ours, _ = hosts[0]
    code = """
        columns = sys.argv[2].split(",") if sys.argv[2] else None
        with lwmq.open_reader(sys.argv[1], columns=columns, role="client", timeout=60) as reader:
            print(reader.read_all().num_columns, reader.statistics.bytes_received)
    """
    wide = pa.table({f"c{n}": np.arange(100_000) + n for n in range(16)})
    carried = {}
    for columns in ["", "c11"]:
        before = where.carried("tx")
        with lwmq.open_writer(f"tcp://*:{port}/{columns}?auth=none", wide.schema, linger=60) as writer:
            reader = start(where, code, f"tcp://{ours}:{port}/{columns}", columns)
            writer.write(wide)
        got, received = map(int, reader.communicate(timeout=HANG_S)[0].split())
        carried[columns] = where.carried("tx") - before
        assert got == (1 if columns else 16)
        assert received < carried[columns]
    assert carried["c11"] < carried[""] / 12


def test_a_reader_waits_for_whoever_will_serve_on_another_host(
    hosts: list[tuple[Namespace, str, str]], port: int
) -> None:
    """It cannot serve that address itself, and does not ask for credentials to do so."""
    with pytest.raises(lwmq.TimeoutError, match="nobody serves this address"):
        lwmq.open_reader(f"tcp://{hosts[0][2]}:{port}/numbers", timeout=0.5)


ECHO = """
    with lwmq.Listener(f"tcp://*:{sys.argv[1]}/echo?auth=none") as listener:
        print("up", flush=True)
        channels = [listener.accept(60) for _ in range(3)]
        for channel in channels:
            channel.send_queue().post(channel.receive(60))
        sys.stdin.readline()
"""


def test_a_channel_hears_of_a_cable_that_is_pulled_and_of_no_peer_that_only_reads_late(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """With and without a message on its way. As long nobody reads at the end of `late`."""
    where, _, theirs = hosts[0]
    echo = start(where, ECHO, port)
    assert echo.stdout is not None and echo.stdout.readline() == "up\n"
    remote, here = f"tcp://{theirs}:{port}/echo", f"tcp://127.0.0.1:{port}/late"
    large = [bytes([n]) * 60_000 for n in range(120)]
    with (
        lwmq.Channel(f"{here}?silent=2s", "server", linger=0, buffers=128) as reader,
        lwmq.Channel(f"{here}?silent=2s", "client", linger=60, buffers=128) as late,
        lwmq.Channel(f"{remote}?silent=2s", "client", linger=0) as waits,
        lwmq.Channel(f"{remote}?silent=2s", "client", linger=0) as posts,
        lwmq.Channel(f"{remote}?silent=forever", "client", linger=0) as patient,
    ):
        for channel in (waits, posts, patient):
            channel.wait_connected(60)
            channel.send_queue().post(b"hello")
        for channel in (waits, posts, patient):
            assert bytes(channel.receive(60)) == b"hello"
        late.wait_connected(60)
        queue = late.send_queue()
        for message in large:
            queue.post(message)
        where.run("ip", "link", "set", "eth0", "down")
        for channel in (posts, patient):
            channel.send_queue().post(b"never comes")
        for channel in (waits, posts):
            with pytest.raises(lwmq.PeerLostError, match=f"at {theirs}:.*, whose host gives no sign of life"):
                channel.receive(HANG_S)
        assert [bytes(reader.receive(60)) for _ in large] == large
        for channel in (reader, patient):
            assert channel.try_receive() is None, "its peer counts as there"
        with pytest.raises(lwmq.TimeoutError, match="1 were shipped and not seen read"):
            patient.close()


def test_a_cable_that_is_pulled_is_noticed(
    hosts: list[tuple[Namespace, str, str]], port: int, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """By the end that serves. What was on its way then goes to the next reader."""
    where, ours, _ = hosts[0]
    with lwmq.open_writer(
        f"tcp://*:{port}/numbers?auth=none&silent=2s", SCHEMA, linger=0, timeout=60
    ) as writer:
        reader = start(where, READER, f"tcp://{ours}:{port}/numbers", "0", -1)
        writer.write(pa.record_batch({"writer": [0], "n": [0]}, schema=SCHEMA))
        assert reader.stdout is not None
        assert rows_of(reader.stdout.readline())[0][1] == 0
        where.run("ip", "link", "set", "eth0", "down")
        writer.write(pa.record_batch({"writer": [0], "n": [1]}, schema=SCHEMA))
        deadline = time.monotonic() + 3 * HANG_S
        while describe(f"tcp://{ours}:{port}/numbers").readers_open:
            assert time.monotonic() < deadline, "nobody has noticed"
            time.sleep(0.1)
        with lwmq.open_reader(f"tcp://{ours}:{port}/numbers", timeout=60, linger=0) as next_one:
            assert next(next_one)["n"].to_pylist() in ([0], [1])
        writer.abort()
