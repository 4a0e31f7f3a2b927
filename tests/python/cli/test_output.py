"""What the verbs print: texts of others as they are, JSON that is JSON, and where nobody reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.cli import main
from lwmq_spark.cli._output import console
from lwmq_spark.cli.top import _table
from lwmq_spark.observer import Observer

pytestmark = pytest.mark.row("P34")
LWMQ = [sys.executable, "-m", "lwmq_spark.cli"]
END = "[/foo]"  # looks like the end of a style that never began
ODD = f"{END}:cat:"  # and like an emoji


def test_top_shows_addresses_and_command_lines_as_they_are(
    ipc: str, spawn: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    child = spawn(
        """
        with lwmq.Channel(sys.argv[1], "server", linger=0):
            print("there")
            sys.stdin.readline()
        """,
        ipc + END,
    )
    assert child.line() == "there"
    seen = [replace(one, command=f"python {ODD}") for one in Observer().look() if one.pid == child.pid]
    console.print(_table(seen, queues=False))
    assert ODD in capsys.readouterr().out
    assert main(["top", "-n", "1", "-i", "0.05", "--pid", str(child.pid)]) == 0
    assert ipc + END in capsys.readouterr().out
    child.tell()


def test_tail_shows_names_and_values_as_they_are(ipc: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({f"name{ODD}": [f"value{ODD}"]})
    with lwmq.open_writer(ipc, table.schema, retain="all", linger=0) as writer:
        writer.write(table)
        assert main(["tail", ipc, "-n", "1"]) == 0
        writer.abort("the test is over")
    assert capsys.readouterr().out.split() == [f"name{ODD}", f"value{ODD}"]


def test_info_and_errors_show_addresses_as_they_are_and_unwrapped(capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns are no limit where stdout is no terminal; errors are never cut into lines."""
    address = f"ipc://{END}{'x' * 60}"
    assert main(["info", address]) == 0
    assert address in capsys.readouterr().out
    assert main(["info", f"{ODD} {'words ' * 40}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert ODD in line


def test_json_of_rows_has_no_words_that_json_does_not_know(
    ipc: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table(
        {
            "x": [float("nan"), float("inf"), 1.5],
            "many": [[float("-inf"), 2.0], [], None],
            "raw": [b"\xff\0", b"", None],
        }
    )
    with lwmq.open_writer(ipc, table.schema, retain="all", linger=0) as writer:
        writer.write(table)
        assert main(["tail", ipc, "-n", "3", "--json"]) == 0
        writer.abort("the test is over")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line, parse_constant=pytest.fail) for line in lines] == [
        {"x": None, "many": [None, 2.0], "raw": "/wA="},
        {"x": None, "many": [], "raw": ""},
        {"x": 1.5, "many": None, "raw": None},
    ]


@pytest.mark.parametrize("words", [["info"], ["info", "--json"], ["info", "--flags"], ["export"]])
def test_a_pipe_that_nobody_reads_any_more_is_no_failure(words: list[str], ipc: str) -> None:
    with lwmq.Channel(ipc, "server", linger=0):  # so that export has something to say
        done = into_a_closed_pipe(*words)
    assert (done.returncode, done.stderr) == (0, "")


def test_recv_into_a_pipe_that_nobody_reads_any_more_is_no_failure(ipc: str) -> None:
    table = pa.table({"n": range(100_000)})
    with lwmq.open_writer(ipc, table.schema, retain="all", linger=0) as writer:
        writer.write(table)
        done = into_a_closed_pipe("recv", ipc, "-")
        writer.abort("the test is over")
    assert (done.returncode, done.stderr) == (0, "")


def into_a_closed_pipe(*words: str) -> subprocess.CompletedProcess[str]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [*LWMQ, *words], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    "words", [["info"], ["info", "--json"], ["info", "--flags"], ["info", "x", "--json"]]
)
def test_a_full_disk_is_told_on_stderr(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*LWMQ, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("lwmq: ")
