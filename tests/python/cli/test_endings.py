"""How transfers end: complete files or none, tapes that are told apart, peers that die or are slow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.cli import main
from tests.patience import until
from tests.python.cli.looking import FEED, figures

PATIENCE_S = 120
pytestmark = pytest.mark.row("P34")


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lwmq_spark.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finish(process: subprocess.Popen[str], code: int) -> list[Any]:
    """The JSON that it has printed."""
    output, problems = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, output + problems
    return [json.loads(line) for line in output.splitlines()]


def test_record_tells_of_a_peer_that_was_killed(ipc: str, spawn: Any, tmp_path: Path) -> None:
    recording = start("record", ipc, tmp_path / "feed.tape", "--json")
    feed = spawn(FEED, ipc)
    assert feed.line() == "flushed"
    feed.kill()
    recorded, error = finish(recording, 4)
    assert recorded["messages"] == 3
    assert error["error"] == "PeerLostError"


def test_record_tells_what_it_has_when_it_is_interrupted(ipc: str, spawn: Any, tmp_path: Path) -> None:
    recording = start("record", ipc, tmp_path / "feed.tape", "--json")
    feed = spawn(FEED, ipc)
    assert feed.line() == "flushed"
    until(lambda: figures(recording.pid, "channel").get("messages_received") == 3)
    recording.send_signal(signal.SIGINT)
    (recorded,) = finish(recording, 130)
    assert recorded["messages"] == 3 and recorded["failed"] == 0
    feed.tell()


@pytest.fixture
def tape(ipc: str, spawn: Any, tmp_path: Path) -> Path:
    """Of three messages."""
    file = tmp_path / "feed.tape"
    recording = start("record", f"{ipc}-taped", file, "--json", "-n", "3")
    feed = spawn(FEED, f"{ipc}-taped")
    assert finish(recording, 0)[0]["messages"] == 3
    feed.tell()
    feed.wait()
    return file


def test_replay_waits_for_a_slow_reader_for_ever(ipc: str, tape: Path) -> None:
    """Whatever the linger of a channel is by default."""
    with lwmq.Channel(ipc, "server") as channel:
        replaying = start("replay", tape, ipc, "--json", LWMQ_LINGER="0.05")
        until(lambda: figures(replaying.pid, "channel").get("messages_sent") == 3)
        with pytest.raises(subprocess.TimeoutExpired):
            replaying.wait(0.5)
        assert [bytes(channel.receive(60)[0]) for _ in range(3)] == [b"0", b"1", b"2"]
        assert finish(replaying, 0)[0]["messages"] == 3


def test_replay_tells_that_its_reader_was_killed(ipc: str, spawn: Any, tmp_path: Path) -> None:
    file = tmp_path / "long.tape"
    inside = f"loop://{ipc[6:]}"
    with (
        lwmq.Channel(f"record={file},way=land+{inside}", "server") as recording,
        lwmq.Channel(inside, "client") as feed,
    ):
        queue = feed.send_queue()
        for _ in range(2000):
            queue.post(bytes(4096))
            recording.receive(60)
    reader = spawn(
        """
        with lwmq.Channel(sys.argv[1], buffers=2) as channel:
            channel.receive(60)
            print("one")
            sys.stdin.readline()
        """,
        ipc,
    )
    replaying = start("replay", file, f"{ipc}?buffers=2", "--json")
    assert reader.line() == "one"
    reader.kill()
    assert finish(replaying, 4)[0]["error"] == "PeerLostError"


def test_replay_does_not_queue_the_whole_tape_for_a_slow_reader(ipc: str, tmp_path: Path) -> None:
    file, messages, rest = tmp_path / "long.tape", 10_000, bytes(4096)
    inside = f"loop://{ipc[6:]}"
    with (
        lwmq.Channel(f"record={file},way=land+{inside}", "server") as recording,
        lwmq.Channel(inside, "client") as feed,
    ):
        queue = feed.send_queue()
        for number in range(messages):
            queue.post([b"%d" % number, rest])
            recording.receive(60)
    with lwmq.Channel(ipc, "server") as channel:
        replaying = start("replay", file, ipc, "--json")
        until(lambda: figures(replaying.pid, "queue").get("messages_queued"))
        for number in range(messages):
            if number % 500 == 0:
                assert figures(replaying.pid, "queue").get("messages_queued", 0) <= 64
            assert bytes(channel.receive(60)[0]) == b"%d" % number
        assert finish(replaying, 0)[0]["messages"] == messages


def test_recv_looks_whether_it_can_write_before_it_reads(
    ipc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (tmp_path / "missing" / "x.arrow", tmp_path):
        words = ["recv", ipc, str(file), "--format", "arrow", "--timeout", "0.2"]
        assert main(words) == 1, "3 would be: nobody came"
        assert str(file) in capsys.readouterr().err


ABORTS = """
import pyarrow as pa
table = pa.table({"n": range(1000)})
writer = lwmq.open_writer(sys.argv[1], table.schema)
writer.write(table)
print("written")
sys.stdin.readline()
writer.abort("of the test")
"""


@pytest.mark.parametrize("suffix", ["arrow", "arrows", "parquet", "csv"])
def test_a_stream_that_is_aborted_leaves_no_file_that_looks_complete(
    suffix: str, ipc: str, spawn: Any, tmp_path: Path
) -> None:
    """Nor does it touch the one that was there; what came is kept beside it, for who wants it."""
    file, part = tmp_path / f"x.{suffix}", tmp_path / f"x.{suffix}.part"
    file.write_bytes(b"of yesterday")
    receiving = start("recv", ipc, file, "--json")
    writer = spawn(ABORTS, ipc)
    assert writer.line() == "written"
    until(part.exists)
    writer.tell()
    assert finish(receiving, 4)[0]["error"] == "AbortedError"
    assert sorted(tmp_path.iterdir()) == [file, part]
    assert file.read_bytes() == b"of yesterday"


def test_a_file_that_is_replaced_keeps_its_mode_and_one_with_two_names_is_written_itself(
    ipc: str, tmp_path: Path
) -> None:
    table = pa.table({"n": range(1000)})
    private, twin, other = (tmp_path / name for name in ("private.arrow", "twin.arrow", "other.arrow"))
    private.touch(0o600)
    twin.touch()
    other.hardlink_to(twin)
    with lwmq.open_writer(ipc, table.schema, retain="all", linger=0) as writer:
        writer.write(table)
        for file in (private, twin):
            assert main(["recv", ipc, str(file), "--rows", "1000", "--timeout", "60"]) == 0
        writer.abort("the test is over")
    assert private.stat().st_mode & 0o777 == 0o600
    assert [pa.ipc.open_file(str(file)).read_all().num_rows for file in (private, other)] == [1000, 1000]


def test_a_link_stays_and_a_device_is_written_as_it_is(ipc: str, tmp_path: Path) -> None:
    table = pa.table({"n": range(1000)})
    file, link = tmp_path / "x.arrows", tmp_path / "link.arrows"
    link.symlink_to(file)
    with lwmq.open_writer(ipc, table.schema, retain="all", linger=0) as writer:
        writer.write(table)
        assert main(["recv", ipc, str(link), "--rows", "1000", "--timeout", "60"]) == 0
        assert main(["recv", ipc, "/dev/null", "--format", "csv", "--rows", "1000", "--timeout", "60"]) == 0
        writer.abort("the test is over")
    assert link.is_symlink() and not Path("/dev/null").is_file()
    assert pa.ipc.open_stream(file.read_bytes()).read_all().equals(table)
    assert sorted(tmp_path.iterdir()) == [link, file]


def test_recv_that_follows_completes_its_file_when_it_is_interrupted(ipc: str, tmp_path: Path) -> None:
    table, file = pa.table({"n": range(1000)}), tmp_path / "x.arrow"
    receiving = start("recv", ipc, file, "--follow", "--json")
    until(lambda: figures(receiving.pid, "endpoint"))
    for _ in range(2):
        with lwmq.open_writer(ipc, table.schema, linger=PATIENCE_S) as writer:  # until it has taken them
            writer.write(table)
    receiving.send_signal(signal.SIGINT)
    assert finish(receiving, 130)[0]["rows"] == 2000
    assert pa.ipc.open_file(str(file)).read_all().num_rows == 2000


def test_perf_tells_that_its_other_side_has_died(ipc: str) -> None:
    measuring = start("perf", ipc, "--seconds", "60", "--json")
    children = Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children")
    os.kill(int(until(lambda: children.read_text().split())[0]), signal.SIGKILL)
    (error,) = finish(measuring, 4)
    assert error["error"] == "PeerLostError" and "ended with -9" in error["text"]
