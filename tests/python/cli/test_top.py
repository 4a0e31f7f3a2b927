"""`lwmq top`: processes that are looked at and do nothing for it."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import lwmq_spark as lwmq
from lwmq_spark.cli import main
from lwmq_spark.cli.top import _table
from lwmq_spark.observer import COUNTERS, CounterKind, Entry, Observer, Process
from tests.patience import HANG_S, until
from tests.stopping import stopped

PATIENCE_S = 120
pytestmark = pytest.mark.row("P34")


def test_a_process_that_is_not_there_is_told_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--pid", str(2**22), "--count", "1"]) == 0
    assert f"process {2**22} does not use lwmq" in capsys.readouterr().out


WRITER = """
import pyarrow as pa
table = pa.table({"n": range(10_000)})
writer = lwmq.open_writer(sys.argv[1], table.schema, buffer_bytes=2**18, window_bytes=2**20, partitions=2)
print("ready")
for _ in range(int(sys.argv[2])):
    writer.write(table)
print("written")
sys.stdin.readline()
writer.abort("the test is over")
"""

READER = """
with lwmq.open_reader(sys.argv[1], name="slow one") as reader:
    batches = iter(reader)
    held = [next(batches) for _ in range(int(sys.argv[2]))]
    print("holds")
    sys.stdin.readline()
"""

# name -> type, of one line of `lwmq top --json`
PROCESS = {"pid": int, "uid": int, "command": str, "known": bool, "page_version": int, "library": str,
           "unlisted": int, "window_bytes": int, "mapped_bytes": int, "batches_written": int,
           "batches_read": int, "bytes_written": int, "bytes_read": int, "bytes_copied": int,
           "batches_copied": int, "peers_lost": int, "window_bytes_made": int,
           "streams": list, "channels": list, "queues": list, "listeners": list}  # fmt: skip
STREAM = {"role": str, "address": str, "name": str, "number": int, "state": str,
          "state_seconds": (float, type(None)), "partitions": int, "batches": int, "rows": int,
          "bytes": int, "waits_for": list}  # fmt: skip
BY_ROLE = {
    "writer": {"window_bytes": int, "window_used_bytes": int, "unread_batches": int, "peer_pid": int},
    "reader": {"leased_batches": int, "leased_bytes": int, "peer_pid": int},
    "endpoint": {
        "unread_batches": int,
        "kept_batches": int,
        "kept_bytes": int,
        "readers": int,
        "writers": int,
        "readers_stalled": int,
        "readers_expelled": int,
        "readers_lost": int,
        "stalled_pid": int,
    },
}


def processes(looks: list[Process], pids: set[int]) -> dict[int, Process]:
    return {process.pid: process for process in looks if process.pid in pids}


def entry(process: Process, role: str) -> Entry:
    found = [entry for entry in process.entries if entry.role == role]
    assert len(found) == 1, f"{len(found)} of role {role}: {process}"
    return found[0]


def writer_and_reader(spawn: Any, ipc: str) -> tuple[Any, Any]:
    """A process that has written two batches and serves the address, and one that holds both."""
    writer = spawn(WRITER, ipc, 2)
    assert (writer.line(), writer.line()) == ("ready", "written")
    reader = spawn(READER, ipc, 2)
    assert reader.line() == "holds"
    return writer, reader


def turns_on_a_core(pid: int) -> int:
    """How often any thread of the process was given a core: an idle process that is left alone gets none."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[2]) for file in files)


def test_a_stalled_reader_is_shown_beside_the_writer_that_waits_for_it(ipc: str, spawn: Any) -> None:
    writer = spawn(WRITER, ipc, 100)
    assert writer.line() == "ready"
    reader = spawn(READER, ipc, 3)
    assert reader.line() == "holds"
    observer = Observer()

    def stalled() -> dict[int, Process] | None:
        seen = processes(observer.look(), {writer.pid, reader.pid})
        if len(seen) != 2 or entry(seen[reader.pid], "reader").state != "stalled":
            return None
        # Python waits in slices: between two of them the writer does not wait.
        return seen if entry(seen[writer.pid], "writer").state == "waiting for room" else None

    seen = until(stalled)
    written, read, kept = (
        entry(seen[pid], role)
        for pid, role in ((writer.pid, "writer"), (reader.pid, "reader"), (writer.pid, "endpoint"))
    )
    assert {written.address, read.address, kept.address} == {ipc}
    assert written.state_seconds is not None and 5 <= written.state_seconds < PATIENCE_S + 5
    assert written.figures["window_used_bytes"] > 0.75 * 2**20
    assert written.figures["batches"] == written.figures["unread_batches"] == kept.figures["batches"]
    assert read.name == "slow one"
    assert read.figures["leased_batches"] == read.figures["batches"] == 3
    assert read.figures["leased_bytes"] > 3 * 80_000
    assert read.figures["peer_pid"] == writer.pid
    assert written.waits_for == [reader.pid] and read.waits_for == []
    assert kept.figures["readers"] == kept.figures["writers"] == 1
    assert kept.figures["unread_batches"] == kept.figures["batches"] - 2
    assert kept.figures["partitions"] == written.figures["partitions"] == 2
    assert "-c" in seen[reader.pid].command
    reader.tell()
    writer.kill()


def test_processes_that_are_stopped_are_seen_like_any_other(ipc: str, spawn: Any) -> None:
    """They cannot do anything, so that nothing is asked of them."""
    writer, reader = writer_and_reader(spawn, ipc)
    with stopped(writer.pid), stopped(reader.pid):
        seen = processes(Observer().look(), {writer.pid, reader.pid})
        assert entry(seen[writer.pid], "writer").figures["batches"] == 2
        assert entry(seen[reader.pid], "reader").figures["leased_batches"] == 2
    reader.tell()
    writer.tell()


@pytest.mark.row("K17")
def test_looking_wakes_nobody(ipc: str, spawn: Any) -> None:
    """Also no system call: what is asleep would have to wake up for one."""
    writer, reader = writer_and_reader(spawn, ipc)
    observer = Observer()

    def quiet() -> bool:
        before = [turns_on_a_core(process.pid) for process in (writer, reader)]
        for _ in range(50):
            assert len(processes(observer.look(), {writer.pid, reader.pid})) == 2
        return before == [turns_on_a_core(process.pid) for process in (writer, reader)]

    until(quiet)  # they may still have been on their way to sleep
    reader.tell()
    writer.tell()


def test_a_process_that_ends_is_gone_and_no_error(ipc: str, spawn: Any) -> None:
    writer = spawn(WRITER, ipc, 1)
    assert (writer.line(), writer.line()) == ("ready", "written")
    observer = Observer()
    assert processes(observer.look(), {writer.pid})
    writer.kill()
    assert not processes(observer.look(), {writer.pid})


def test_a_reader_that_died_before_it_had_read_everything_is_counted(ipc: str, spawn: Any) -> None:
    writer, reader = writer_and_reader(spawn, ipc)
    observer = Observer()
    endpoint = entry(processes(observer.look(), {writer.pid})[writer.pid], "endpoint")
    assert endpoint.figures["readers_lost"] == 0
    reader.kill()

    def lost() -> bool:
        endpoint = entry(processes(observer.look(), {writer.pid})[writer.pid], "endpoint")
        return endpoint.figures["readers_lost"] == 1

    until(lost)
    assert "1 readers lost" in " ".join(top("--count", 1, "--interval", 0.05, "--pid", writer.pid).split())
    labels = (("address", ipc), ("name", ""), ("pid", str(writer.pid)))
    assert exposed(exported())["lwmq_endpoint_readers_lost_total", labels] == 1
    writer.kill()


def test_who_waits_names_those_who_can_end_the_wait(ipc: str, spawn: Any) -> None:
    """A reader waits for the writers at its address; a writer that has ended waits for the readers."""
    writer, reader = writer_and_reader(spawn, ipc)
    waiting = spawn(
        """
        with lwmq.open_reader(sys.argv[1]) as reader:
            print("reads")
            list(reader)
        """,
        ipc,
    )
    assert waiting.line() == "reads"
    observer = Observer()

    def waits() -> list[int] | None:
        one = entry(processes(observer.look(), {waiting.pid})[waiting.pid], "reader")
        return one.waits_for or None

    assert until(waits) == [writer.pid]
    for process in (waiting, reader, writer):
        process.kill()


def test_every_counter_says_what_it_counts() -> None:
    described = COUNTERS["endpoint", "readers_lost"]
    assert described.kind is CounterKind.TOTAL
    assert described.owners == {"endpoint"}
    assert all(counter.help.endswith(".") for counter in COUNTERS.values())
    assert {name for owner, name in COUNTERS if owner == "process"} == lwmq._ffi.statistics().keys()


def test_batches_held_beyond_their_reader_are_shown(ipc: str, spawn: Any) -> None:
    holder = spawn(
        """
        import pyarrow as pa
        table = pa.table({"n": range(10_000)})
        writer = lwmq.open_writer(sys.argv[1], table.schema, linger=0)
        writer.write(table)
        reader = lwmq.open_reader(sys.argv[1])
        held = next(iter(reader))
        reader.close()
        print("closed")
        sys.stdin.readline()
        del held
        print("given back")
        sys.stdin.readline()
        """,
        ipc,
    )
    assert holder.line() == "closed"
    observer = Observer()
    reader = entry(processes(observer.look(), {holder.pid})[holder.pid], "reader")
    assert (reader.state, reader.figures["leased_batches"]) == ("closed, batches held", 1)
    holder.tell()
    assert holder.line() == "given back"
    roles = {entry.role for entry in processes(observer.look(), {holder.pid})[holder.pid].entries}
    assert roles == {"writer", "endpoint"}
    holder.kill()


def test_a_channel_tells_of_its_peer_its_messages_and_its_queue(ipc: str, spawn: Any) -> None:
    """What is queued while nobody is connected, then what was sent and received."""
    server = spawn(
        """
        with lwmq.Channel(sys.argv[1], role="server") as channel:
            queue = channel.send_queue()
            for _ in range(7):
                queue.post(b"12345678")
            print("queued")
            assert bytes(channel.receive(timeout=60)[0]) == b"answer"
            print("answered")
            sys.stdin.readline()
        """,
        ipc,
    )
    assert server.line() == "queued"
    observer = Observer()

    def listening() -> Entry | None:  # its service thread says so, when it has had a turn
        channel = entry(processes(observer.look(), {server.pid})[server.pid], "channel")
        return channel if channel.state == "listening" else None

    assert until(listening).figures["messages_queued"] == 7
    client = spawn(
        """
        with lwmq.Channel(sys.argv[1], role="client") as channel:
            for _ in range(7):
                channel.receive(timeout=60)
            channel.send_queue().post(b"answer")
            print("ready")
            sys.stdin.readline()
        """,
        ipc,
    )
    assert (client.line(), server.line()) == ("ready", "answered")

    def counted() -> list[Entry] | None:
        seen = processes(observer.look(), {server.pid, client.pid})
        both = [entry(seen[process.pid], "channel") for process in (server, client)]
        arrived = [one.figures["messages_received"] for one in both]
        return both if arrived == [1, 7] else None

    at_server, at_client = until(counted)
    assert at_server.figures["messages_sent"] == 7 and at_server.figures["messages_queued"] == 0
    assert at_server.figures["bytes_sent"] == at_client.figures["bytes_received"] == 56
    assert at_server.state == at_client.state == "connected"
    assert (at_server.figures["peer_pid"], at_client.figures["peer_pid"]) == (client.pid, server.pid)
    client.tell()
    server.tell()


def test_json_has_the_fields_promised(ipc: str, spawn: Any) -> None:
    writer, reader = writer_and_reader(spawn, ipc)
    lines = top("--json", "--interval", 0.1, "--count", 2).splitlines()
    assert len(lines) == 2
    for line in map(json.loads, lines):
        assert {name: type(value) for name, value in line.items()} == {
            "time": str, "interval": float, "processes": list}  # fmt: skip
        seen = {one["pid"]: one for one in line["processes"] if one["pid"] in (writer.pid, reader.pid)}
        assert len(seen) == 2
        for process in seen.values():
            check_fields(process, PROCESS)
            for stream in process["streams"]:
                rates = {f"{name}_per_second": float for name in ("batches", "rows", "bytes")}
                check_fields(stream, STREAM | BY_ROLE[stream["role"]] | rates)
        assert {stream["role"] for stream in seen[writer.pid]["streams"]} == {"writer", "endpoint"}
    only = json.loads(top("--json", "--interval", 0.1, "--pid", reader.pid))["processes"]
    assert [process["pid"] for process in only] == [reader.pid]
    reader.tell()
    writer.tell()


def check_fields(found: dict[str, Any], promised: dict[str, Any]) -> None:
    assert found.keys() == promised.keys()
    wrong = [name for name, kind in promised.items() if not isinstance(found[name], kind)]
    assert not wrong, {name: found[name] for name in wrong}


CHANNEL = """
with lwmq.Channel(sys.argv[1], "server") as channel:
    urgent = channel.send_queue(priority=lwmq.Priority.HIGHEST)
    usual = channel.send_queue()
    for _ in range(3):
        urgent.post(b"x")
    usual.post(b"y")
    print("posted")
    sys.stdin.readline()
    channel.close(linger=0.01)
"""


@pytest.mark.row("C40")
def test_each_send_queue_has_its_figures(ipc: str, spawn: Any) -> None:
    server = spawn(CHANNEL, ipc)
    assert server.line() == "posted"

    def queues() -> list[dict[str, Any]]:
        found = json.loads(top("--json", "--interval", 0.05, "--pid", server.pid))["processes"]
        return [queue for process in found for queue in process["queues"]]

    found = until(lambda: queues() if sum(q["messages_queued"] for q in queues()) == 4 else None)
    assert [(q["name"], q["priority"], q["messages_posted"], q["messages_sent"]) for q in found] == [
        ("0", 2, 3, 0), ("1", 4, 1, 0)]  # fmt: skip
    assert all(q["address"] == ipc and q["state"] == "messages wait" for q in found)
    rows = top("--count", 1, "--interval", 0.05, "--queues", "--pid", server.pid)
    assert "queue 0" in rows and "queue 1" in rows and "3 queued" in rows
    with lwmq.Channel(ipc, "client") as client:
        for _ in range(4):
            client.receive(60)
        until(lambda: sum(q["messages_sent"] for q in queues()) == 4)
    server.tell()


LISTENER = """
with lwmq.Listener(sys.argv[1]) as listener:
    print("listens")
    served = [listener.accept(60) for _ in range(2)]
    for channel in served:
        channel.send_queue().post(b"welcome")
    print("accepted")
    sys.stdin.readline()
"""


@pytest.mark.row("C40")
def test_a_listener_and_its_clients_are_told_apart(ipc: str, spawn: Any) -> None:
    server = spawn(LISTENER, ipc)
    assert server.line() == "listens"

    def looked() -> dict[str, Any]:
        (process,) = json.loads(top("--json", "--interval", 0.05, "--pid", server.pid))["processes"]
        return dict(process)

    assert [one["state"] for one in looked()["listeners"]] == ["listening"]
    with pytest.raises(lwmq.LwmqError), lwmq.Channel(ipc, "client", raw=True) as raw:
        raw.wait_connected(60)
    with (
        lwmq.Channel(ipc, "client") as one,
        lwmq.Channel(ipc, "client") as other,
        lwmq.Channel(ipc, "client") as third,
    ):
        assert server.line() == "accepted"
        for client in (one, other, third):
            client.wait_connected(60)
        for client in (one, other):
            assert bytes(client.receive(60)) == b"welcome"
        counted = {"clients_accepted": 2, "clients_waiting": 1}
        (listener,) = until(lambda: [one for one in looked()["listeners"] if one | counted == one])
        assert listener["clients_refused"] >= 1
        found = looked()
        assert [channel["name"] for channel in found["channels"]] == ["1", "2"]
        assert {channel["peer_pid"] for channel in found["channels"]} == {os.getpid()}
        assert [queue["name"] for queue in found["queues"]] == ["1.0", "2.0"]
        rows = top("--count", 1, "--interval", 0.05, "--queues", "--pid", server.pid)
        for shown in ("listener", "client 1", "client 2", "queue 2.0", "1 waiting"):
            assert shown in rows, rows
        samples = exposed(exported())

        def value(metric: str, name: str) -> float:
            return samples[metric, (("address", ipc), ("name", name), ("pid", str(server.pid)))]

        assert value("lwmq_listener_clients_accepted_total", "") == 2
        assert value("lwmq_channel_messages_sent_total", "2") == 1
    server.tell()


DISCARDS = """
kind = "bounded_discard_oldest"
with lwmq.Channel(sys.argv[1], "server", receive_queue=kind, receive_capacity=3) as channel:
    few = channel.send_queue("bounded_discard_newest", capacity=2)
    prices = channel.send_queue("multi_unbounded_tagged")
    for _ in range(5):
        few.post(b"x")
        prices.post(b"y", tag=7)
    print("posted")
    sys.stdin.readline()
"""


@pytest.mark.row("C40", "S02")
def test_what_queues_discard_is_seen_from_outside(ipc: str, spawn: Any) -> None:
    server = spawn(DISCARDS, ipc)
    assert server.line() == "posted"

    def look(role: str) -> list[dict[str, Any]]:
        found = json.loads(top("--json", "--interval", 0.05, "--pid", server.pid))["processes"]
        return [one for process in found for one in process[role]]

    until(lambda: [q["messages_discarded"] for q in look("queues")] == [3, 0])
    assert [q["messages_replaced"] for q in look("queues")] == [0, 4]
    rows = top("--count", 1, "--interval", 0.05, "--queues", "--pid", server.pid)
    assert "3 discarded" in rows and "4 replaced" in rows
    with lwmq.Channel(ipc, "client", linger=0) as client:
        client.wait_connected(60)
        queue = client.send_queue()
        for _ in range(10):
            queue.post(b"z")
        until(lambda: [c["messages_discarded"] for c in look("channels")] == [7])
        (channel,) = look("channels")
        assert channel["receive_queued"] == 3 and channel["messages_received"] == 10
        for _ in range(3):
            client.receive(60)
    server.tell()


@pytest.mark.row("C41")
def test_prometheus_reads_what_top_knows(ipc: str, spawn: Any) -> None:
    writer, reader = writer_and_reader(spawn, ipc)
    command = [sys.executable, "-m", "lwmq_spark.cli", "export"]
    once = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    serving = subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert serving.stderr is not None
        url = serving.stderr.readline().split()[-1]
        with urllib.request.urlopen(url, timeout=60) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            served = response.read().decode()
    finally:
        serving.kill()
        serving.communicate()
    for text in (once, served):
        samples = exposed(text)
        mine = {
            (name, dict(labels)["pid"]): value
            for (name, labels), value in samples.items()
            if dict(labels).get("address") == ipc
        }
        assert mine["lwmq_writer_batches_total", str(writer.pid)] == 2
        assert mine["lwmq_reader_leased_batches", str(reader.pid)] == 2
        assert ("lwmq_endpoint_state", str(writer.pid)) in mine
    reader.tell()
    writer.tell()


TIMED = """
with lwmq.Channel(sys.argv[1], "server") as channel:
    print("there")
    for _ in range(500):
        channel.receive(timeout=60)
    print(channel.latency(0.5), channel.latency(1))
    sys.stdin.readline()
    channel.remove_filter()
    print("removed")
    sys.stdin.readline()
    channel.close(linger=0)
"""


def latencies(text: str, pid: int) -> tuple[list[tuple[float, float]], float, float]:
    """Buckets by their ends, sum and count of the one histogram of a process."""
    mine = {
        key: value
        for key, value in exposed(text).items()
        if key[0].startswith("lwmq_latency_seconds") and dict(key[1])["pid"] == str(pid)
    }
    ends = {key: dict(key[1]).get("le") for key in mine}
    buckets = [(float(end), mine[key]) for key, end in ends.items() if end is not None]
    rest = {key[0]: mine[key] for key, end in ends.items() if end is None}
    assert len(rest) == 2, mine
    return buckets, rest["lwmq_latency_seconds_sum"], rest["lwmq_latency_seconds_count"]


@pytest.mark.row("C40")
@pytest.mark.row("C41")
def test_latencies_are_a_histogram_for_prometheus(ipc: str, spawn: Any) -> None:
    server = spawn(TIMED, f"latency+{ipc}")
    assert server.line() == "there"
    with lwmq.Channel(f"latency+{ipc}", "client") as client:
        assert ipc not in latency_text(exported())  # nothing was measured, nothing is shown
        queue = client.send_queue()
        for number in range(500):
            queue.post(b"%d" % number)
            client.flush(60)
        median, longest = map(float, server.line().split())
        with stopped(server.pid):  # nobody is asked
            buckets, seconds, count = latencies(exported(), server.pid)
        assert 0 < count <= 500
        assert [end for end, _ in buckets[:3]] == [64e-9, 128e-9, 256e-9] and len(buckets) == 32
        assert buckets[-1] == (float("inf"), count)
        # The filter says an upper end, within 1/64: it is in no bucket below that of what it stands for.
        assert next(end for end, below in buckets if below == count) >= longest / (1 + 1 / 32)
        assert min(below for end, below in buckets if end >= median) >= count / 2
        assert max((below for end, below in buckets if end < median / 1.05), default=0) <= count / 2
        assert count * 1e-9 <= seconds <= count * longest
        server.tell()
        assert server.line() == "removed"
        assert ipc not in latency_text(exported())
        server.tell()


@pytest.mark.row("C41")
def test_streams_and_channels_that_measure_nothing_have_no_latencies(ipc: str, spawn: Any) -> None:
    import pyarrow as pa

    writer, reader = writer_and_reader(spawn, ipc)
    timed = f"latency+{ipc}-timed"
    table = pa.table({"n": range(100)})
    with lwmq.open_writer(timed, table.schema, linger=0) as writing, lwmq.open_reader(timed) as reading:
        writing.write(table)
        assert next(iter(reading)).num_rows == 100
        text = latency_text(exported())
        assert f'address="{timed}"' in text and f'pid="{os.getpid()}"' in text
        assert f'pid="{writer.pid}"' not in text and f'pid="{reader.pid}"' not in text
        writing.abort("the test is over")
    reader.tell()
    writer.tell()


@pytest.mark.row("C41")
def test_what_prometheus_gets_has_help_and_no_arguments_of_programs(ipc: str, spawn: Any) -> None:
    code = """
        with lwmq.Channel(sys.argv[1], "server", linger=0) as a, lwmq.Channel(sys.argv[1], linger=0) as b:
            b.wait_connected(60)
            print("there")
            sys.stdin.readline()
    """
    child = spawn(code, ipc, "--password=secret")
    assert child.line() == "there"
    text = exported()
    mine = [dict(labels) for name, labels in exposed(text) if dict(labels)["pid"] == str(child.pid)]
    channels = [labels for labels in mine if labels.get("address") == ipc and "state" in labels]
    assert sorted(labels.get("number", "1") for labels in channels) == ["1", "2"]
    assert {labels["program"] for labels in mine if "program" in labels} == {Path(sys.executable).name}
    assert "secret" not in text and "opened_ns" not in text and "command=" not in text
    child.tell()


def held_up() -> list[Process]:
    """A writer whose readers it waits for, and one of these, as an observer shows them."""

    def process(pid: int, command: str, *entries: Entry) -> Process:
        return Process(pid, 0, command, True, 1, "0.1.0", 0, {}, list(entries), [])

    def stream(role: str, state: str, seconds: float | None, **figures: int) -> Entry:
        rates = {"batches": 1234.5, "bytes": 1.5e9}
        counted = {"batches": 10**6, "bytes": 10**12, "peer_pid": 0} | figures
        return Entry(role, "ipc://lwmq-demo/1234567/flights", "", 1, state, seconds, counted, rates)

    window = {"window_bytes": 2**26, "window_used_bytes": 2**26}
    log = {"kept_batches": 1000, "unread_batches": 999, "writers": 1, "readers": 2}
    writer = stream("writer", "waiting for room", 12.3, peer_pid=1234568, **window)
    endpoint = stream("endpoint", "serving", None, **log)
    slow = stream("reader", "stalled", 12.3, leased_batches=100, leased_bytes=2**26)
    quick = stream("reader", "waiting for batches", 11.1, leased_batches=1, leased_bytes=1, peer_pid=1234567)
    return [
        process(1234567, "/usr/bin/python3 producer.py --rows 1000000", writer, endpoint),
        process(1234568, "/usr/bin/python3 slow.py", slow),
        process(1234569, "/usr/bin/python3 quick.py", quick),
    ]


def cells(text: str) -> list[dict[str, str]]:
    """The rows of a table, a cell of several lines with a space between them; a process begins a row, as
    does a role.
    """
    title, *lines = (line for line in text.splitlines() if line)
    starts = [(match.start(), match.group()) for match in re.finditer(r"\S+", title)]
    found: list[dict[str, str]] = []
    for line in lines:
        pieces: dict[str, str] = {}
        for (start, name), (end, _) in zip(starts, [*starts[1:], (len(line), "")], strict=True):
            pieces[name] = line[start:end].strip()
        pieces["ROLE"] = "".join(pieces["ROLE"].split()[:1])  # a figure may reach into it
        if pieces["ROLE"]:
            found.append(pieces)
        else:
            for name, piece in pieces.items():
                found[-1][name] = f"{found[-1][name]} {piece}".strip()
    return found


@pytest.mark.parametrize("columns", [80, 100, 132, 200])
def test_top_shows_who_waits_for_whom_where_there_is_little_room(columns: int) -> None:
    console = Console(width=columns, file=io.StringIO(), markup=False, highlight=False)
    console.print(_table(held_up(), queues=False, room=columns))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= columns
    rows = cells(shown)
    assert [row["PID"] for row in rows] == ["1234567", "", "1234568", "1234569"]
    for row, name in zip(rows, ["producer.py", "", "slow.py", "quick.py"], strict=True):
        assert name in row["COMMAND"].replace(" ", "")
        assert row["ADDRESS"].replace(" ", "") == "ipc://lwmq-demo/1234567/flights"
    assert [row["ROLE"] for row in rows] == ["writer", "endpoint", "reader", "reader"]
    assert [row["STATE"] for row in rows] == [
        "waiting for room 12.3 s, held by 1234568",
        "serving, 1 writing, 2 reading",
        "stalled 12.3 s",
        "waiting for batches 11.1 s, last from 1234567",
    ]
    assert "BYTES/S" in shown.splitlines()[0] and "1.5 GB/s" in shown


def test_queues_keep_their_rates_where_there_is_little_room() -> None:
    rates = {"messages_posted": 123_456.0, "messages_sent": 123_000.0}
    figures = {f"messages_{what}": 9 for what in ("posted", "queued", "discarded", "replaced")}
    queue = Entry("queue", "ipc://orders/of/a/long/name", "12", 1, "messages wait", None, figures, rates)
    console = Console(width=80, file=io.StringIO())
    console.print(_table([replace(held_up()[0], entries=[queue])], queues=True, room=80))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "123 k" in shown and "IN/S" in shown and "OUT/S" in shown


class Terminal:
    """`lwmq top` at a terminal of 80 columns that is its own."""

    def __init__(self, *arguments: str, stdin: str | None = None) -> None:
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            if stdin is not None:
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
            environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
            command = [sys.executable, "-m", "lwmq_spark.cli", "top", *arguments]
            os.execve(sys.executable, command, environment | {"TERM": "xterm"})
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        self.shown = ""

    def wait_for(self, text: str) -> None:
        while text not in self.shown:
            assert select.select([self.screen], [], [], HANG_S)[0], self.shown
            self.shown += os.read(self.screen, 1 << 16).decode()

    def end(self) -> int:
        """Its exit code, when it has ended by itself; everything that it showed is in `shown` then."""
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while select.select([self.screen], [], [], HANG_S)[0]:
                self.shown += os.read(self.screen, 1 << 16).decode()
            raise AssertionError(self.shown)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(*arguments: str, stdin: str | None = None) -> Terminal:
        made.append(Terminal(*arguments, stdin=stdin))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        os.close(one.screen)


# A signal just before a system call is seen when that returns: Ctrl-C takes an interval at the most.
@pytest.mark.parametrize(("key", "interval", "code"), [(b"q", 3600, 0), (b"\x03", 1, 130)])
def test_q_and_ctrl_c_end_top_and_leave_the_terminal_as_it_was(
    key: bytes, interval: int, code: int, terminal: Callable[..., Terminal]
) -> None:
    top = terminal("--interval", str(interval))
    before = termios.tcgetattr(top.screen)
    top.wait_for("ADDRESS")
    assert termios.tcgetattr(top.screen) != before, "keys come without Return"
    os.write(top.screen, key)
    assert top.end() == code
    assert termios.tcgetattr(top.screen) == before
    assert top.shown.rindex("\x1b[?1049l") > top.shown.rindex("ADDRESS"), "what was on the screen is back"


def test_a_key_that_is_not_q_looks_at_once(terminal: Callable[..., Terminal], ipc: str) -> None:
    top = terminal("--interval", "3600", "--pid", str(os.getpid()))
    top.wait_for("ADDRESS")
    with lwmq.Channel(ipc, "server", linger=0):
        os.write(top.screen, b" ")
        top.wait_for("channel")
    os.write(top.screen, b"q")
    assert top.end() == 0


def test_top_into_a_pipe_prints_a_table_for_each_look_and_ends(ipc: str) -> None:
    with lwmq.Channel(ipc, "server", linger=0):
        for count, looks in (((), 1), (("--count", 3), 3)):
            lines = top("--interval", 0.05, "--pid", os.getpid(), *count).splitlines()
            assert sum(ipc in line for line in lines) == sum("ADDRESS" in line for line in lines) == looks


def test_ctrl_c_ends_top_whose_stdin_is_no_terminal(terminal: Callable[..., Terminal], ipc: str) -> None:
    top = terminal("--interval", "0.05", "--pid", str(os.getpid()), stdin=os.devnull)
    top.wait_for("ADDRESS")
    with lwmq.Channel(ipc, "server", linger=0):
        top.wait_for("channel")  # it goes on looking
    os.write(top.screen, b"\x03")
    assert top.end() == 130


def exported() -> str:
    command = [sys.executable, "-m", "lwmq_spark.cli", "export"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def latency_text(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("lwmq_latency"))


def exposed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples: each with a type and a help, none twice; buckets of a histogram grow up to its count."""
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.type in ("counter", "gauge", "histogram") and family.documentation
        bucket = -1.0
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
            if sample.name.endswith("_bucket"):
                assert sample.value >= bucket
                bucket = sample.value
            elif family.type == "histogram" and sample.name.endswith("_count"):
                assert sample.value == bucket
                bucket = -1.0
    return samples


def test_the_table_names_who_streams_what(ipc: str, spawn: Any) -> None:
    writer, reader = writer_and_reader(spawn, ipc)
    rows = [
        line
        for pid in (writer.pid, reader.pid)  # of a whole machine there may be more than has room
        for line in top("--count", 1, "--interval", 0.1, "--pid", pid).splitlines()
        if ipc in line
    ]
    assert [row.split(ipc)[1].split()[0] for row in rows if str(reader.pid) in row] == ["reader"]
    assert any("writer" in row and "of" in row for row in rows)
    assert any("2 leased" in row for row in rows)
    assert any("serving, 1 writing, 1 reading" in row for row in rows)
    reader.tell()
    writer.tell()


def test_help_has_examples() -> None:
    text = top("--help")
    assert "Examples:" in text and "--json" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_processes_of_another_user_are_passed_over(ipc: str, spawn: Any) -> None:
    writer = spawn(WRITER, ipc, 1)
    assert (writer.line(), writer.line()) == ("ready", "written")
    code = (
        "from lwmq_spark.observer import Observer; import os; os.setuid(65534);"
        "print(sorted(process.pid for process in Observer().look()))"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(seen.stdout) == []
    writer.tell()


def top(*arguments: object) -> str:
    command = [sys.executable, "-X", "faulthandler", "-m", "lwmq_spark.cli", "top", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            said, complaints = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # says where it hangs
            pytest.fail("lwmq top hangs: " + "".join(process.communicate()))
    assert process.returncode == 0, complaints
    return said
