"""Wrong usage and damaged files: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwmq_spark as lwmq
from lwmq_spark.cli import main

pytestmark = pytest.mark.row("P34")


@pytest.mark.parametrize(
    "line",
    [
        "send ipc://x - --timeout -1",
        "send ipc://x - --timeout nan",
        "send ipc://x - --linger -1",
        "recv ipc://x y.arrow --timeout -1",
        "tail ipc://x --timeout -1",
        "info ipc://x --stream --timeout -1",
        "top --interval inf",
        "perf ipc://x --batch-bytes 100000000000",
        "perf ipc://x --message-bytes 100000000000",
        "module sign a.so --key k --days 1e9",
        "module sign a.so --key k --days inf",
        "module sign a.so --key k --days -1",
    ],
)
def test_numbers_out_of_range_are_wrong_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert line.split()[-2] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("recv ipc://x - --format parquet", "- is a pipe"),
        ("send ipc://x - --format parquet", "- is a pipe"),
        ("info --stream", "say which"),
        ("perf ipc://x?role=server", "say none"),
        ("export --port 0 --json", "leave out --json"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(
    line: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "two words", "two\nlines", " "])
def test_the_name_of_a_key_is_one_word(name: str, tmp_path: Path) -> None:
    assert main(["module", "key", str(tmp_path / "key"), "--name", name]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["key", "sign", "verify", "list"])
def test_help_of_what_modules_need_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["module", verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text and f"lwmq module {verb}" in text


@pytest.mark.parametrize("suffix", ["arrow", "arrows", "parquet", "csv"])
@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0\xff\xff\xff\xff\x10\0\0\0garbage"])
def test_a_damaged_file_is_told_by_its_name(
    suffix: str, content: bytes, ipc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == "csv" and content:
        content = b"a,b\n1\n"
    file = tmp_path / f"damaged.{suffix}"
    file.write_bytes(content)
    assert main(["send", ipc, str(file), "--timeout", "0.2"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"damaged.{suffix}" in line
    assert main(["send", ipc, str(file), "--timeout", "0.2", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)) == {"error", "text"}


def test_a_column_that_csv_cannot_hold_is_told(
    ipc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"many": [[1, 2]]})
    with lwmq.open_writer(ipc, table.schema, linger=0) as writer:
        writer.write(table)
        assert main(["recv", ipc, str(tmp_path / "x.csv"), "--timeout", "60"]) == 1
        writer.abort("the test is over")
    assert "list" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_all_files_are_looked_for_before_the_first_is_sent(
    ipc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.parquet"
    pq.write_table(pa.table({"n": [1]}), there)
    monkeypatch.setattr(lwmq, "open_writer", lambda *_, **__: pytest.fail("it began to send"))
    assert main(["send", ipc, str(there), str(tmp_path / "missing.parquet")]) == 1
    assert "missing.parquet is not there" in capsys.readouterr().err


def test_send_with_its_arguments_swapped_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", "flights.parquet", "ipc://flights"]) == 2
    assert "the address comes first: lwmq send ipc://flights flights.parquet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["recv ipc://x y.arrow --timeout soon", "top -i 1x", "info ipc://x --timeout 5q"]
)
def test_a_time_is_written_as_everywhere_else(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert f"'{line.split()[-1]}' is not a duration: write 100ms" in capsys.readouterr().err
