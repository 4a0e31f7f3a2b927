"""`lwmq` as people and programs call it: as a process of its own where two are at work."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import lwmq_spark as lwmq
from lwmq_spark.cli import _rivals, main, perf

VERBS = [
    *("info", "doctor", "demo", "send", "recv", "tail", "post", "listen", "request", "reply", "record"),
    *("replay", "top", "export", "perf"),
]
PATIENCE_S = 120

pytestmark = pytest.mark.row("P34")


def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lwmq_spark.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


def finish(process: subprocess.Popen[bytes], code: int = 0, data: bytes | None = None) -> str:
    output, problems = process.communicate(data, timeout=PATIENCE_S)
    assert process.returncode == code, problems.decode()
    return output.decode() if code == 0 else output.decode() + problems.decode()


def call(*arguments: object, code: int = 0) -> str:
    """In this process."""
    output, problems = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(problems):
        status = main([str(argument) for argument in arguments])
    assert status == code, problems.getvalue()
    return output.getvalue() if code == 0 else output.getvalue() + problems.getvalue()


@pytest.fixture
def address() -> str:
    return f"ipc://cli-{uuid.uuid4()}"


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"n": list(range(1000)), "name": [f"row {i}" for i in range(1000)]})


@pytest.fixture
def writer(address: str, table: pa.Table) -> Iterator[lwmq.StreamWriter]:
    writer = lwmq.open_writer(address, table.schema)
    writer.write(table)
    yield writer
    writer.abort("the test is over")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"lwmq {verb}" in text
    assert "--json" in text


@pytest.mark.parametrize("verb", [*VERBS, "module", "module sign"])
def test_h_is_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert main([*verb.split(), "-h"]) == 0
    assert capsys.readouterr().out == text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "-V"):
        assert main([option]) == 0
        assert capsys.readouterr().out == f"lwmq {lwmq.__version__}\n"


def test_help_lists_every_verb_and_the_exit_codes() -> None:
    text = call("--help")
    assert all(verb in text for verb in VERBS)
    assert "Exit codes" in text


def test_an_unknown_verb_is_wrong_usage() -> None:
    assert "No such command" in call("dance", code=2)


def test_info_names_versions_providers_and_the_folder_of_the_conf_files() -> None:
    figures = json.loads(call("info", "--json"))
    assert {"ipc", "loop"} <= set(figures["providers"])
    assert figures["filters"]["loss"].startswith("loss=SHARE")
    assert figures["version"] == figures["library"]
    assert (Path(figures["conf"]) / "lwmq.toml").is_file()
    assert figures["protocol"] >= 1


def test_info_of_an_address_tells_its_limits() -> None:
    limits = json.loads(call("info", "ipc://x", "--json"))["limits"]
    assert limits["buffers_max"] == 4000
    assert limits["can_share_window"] is True


def test_info_of_an_address_begins_with_it_and_who_serves_it(
    address: str, writer: lwmq.StreamWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"trace+{address}?window_bytes=1mb"
    assert main(["info", given]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    told = [re.split("  +", line, maxsplit=1) for line in lines[:3]]
    assert told == [["address", given], ["provider", "ipc"], ["reach", "between processes"]]
    assert lines[3].startswith("served by  ")
    assert f"process {os.getpid()}, endpoint, serving: " in lines[3]
    assert lines[4].startswith("limits buffer bytes max")
    assert any(line.startswith("version") for line in lines[5:])
    assert main(["info", given, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures)[:5] == ["address", "provider", "reach", "served_by", "limits"]
    (serving,) = figures["served_by"]
    assert (serving["pid"], serving["role"], serving["state"]) == (os.getpid(), "endpoint", "serving")


def test_info_tells_servers_from_clients(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    def serving(address: str) -> list[str]:
        assert main(["info", address, "--json"]) == 0
        return [one["role"] for one in json.loads(capsys.readouterr().out)["served_by"]]

    assert serving(address) == serving("loop://nobody") == []
    assert main(["info", address]) == 0
    assert "nobody whom you may look at" in capsys.readouterr().out
    with lwmq.Channel(address, "server", linger=0), lwmq.Channel(address, "client", linger=0) as client:
        client.wait_connected(60)
        assert serving(address) == ["channel"]
    with lwmq.Listener(address):
        assert serving(address) == ["listener"]


def test_info_of_a_malformed_address_fails_in_one_line() -> None:
    problem = call("info", "ipc://" + "x" * 500, code=1)
    assert "AddressError" in problem
    assert "Traceback" not in problem
    assert json.loads(call("info", "flights", "--json", code=1))["error"] == "AddressError"


def test_info_of_a_stream_consumes_nothing(address: str, writer: lwmq.StreamWriter, table: pa.Table) -> None:
    stream = json.loads(call("info", address, "--stream", "--json"))["stream"]
    assert stream["state"] == "open"
    assert stream["schema"] == {"n": "int64", "name": "string"}
    assert stream["partitions"][0]["rows"] == 1000
    with lwmq.open_reader(address) as reader:
        assert reader.read_next_batch(timeout=60).num_rows == 1000


def test_info_of_a_stream_that_nobody_serves_times_out(address: str) -> None:
    assert "TimeoutError" in call("info", address, "--stream", "--timeout", "0.2", code=3)


def test_doctor_finds_this_installation_in_order() -> None:
    findings = [json.loads(line) for line in call("doctor", "--json").splitlines()]
    assert {finding["what"] for finding in findings} >= {"native library", "shared memory", "java", "jar"}
    assert [finding for finding in findings if finding["state"] == "fail"] == []


@pytest.mark.parametrize("suffix", ["arrow", "arrows", "parquet", "csv"])
def test_a_file_sent_is_the_file_received(suffix: str, address: str, table: pa.Table, tmp_path: Path) -> None:
    sent, received = tmp_path / f"sent.{suffix}", tmp_path / f"received.{suffix}"
    _write(sent, table)
    receiving = start("recv", address, received, "--timeout", 60, "--json")
    figures = json.loads(call("send", address, sent, "--batch-rows", 300, "--json"))
    assert figures["rows"] == 1000
    assert figures["batches"] >= 4
    assert json.loads(finish(receiving))["rows"] == 1000
    assert _read(received).equals(table)


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_that_change_arrive(deltas: bool, suffix: str, address: str, tmp_path: Path) -> None:
    """Of an IPC stream: each batch replaces the one before, or adds to it. A file has one, which may grow."""
    words = [["a", "b"], ["a", "b", "c"] if deltas else ["c", "a"], ["a", "b", "c", "d"] if deltas else ["b"]]
    batches = [
        pa.record_batch({"w": pa.DictionaryArray.from_arrays(pa.array([0, len(one) - 1], pa.int8()), one)})
        for one in words
    ]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    source, target = tmp_path / "in.arrows", tmp_path / f"out{suffix}"
    with pa.ipc.new_stream(str(source), batches[0].schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    receiving = start("recv", address, target, "--timeout", "60s")
    call("send", address, source, "--timeout", "1m")
    finish(receiving)
    assert _read(target)["w"].to_pylist() == [one[at] for one in words for at in (0, -1)]


@pytest.mark.parametrize("verb", [("info",), ("top", "-n", "1"), ("export",), ("doctor",)], ids=str)
def test_a_terminal_without_unicode_shows_what_it_can(verb: tuple[str, ...], address: str) -> None:
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with lwmq.Endpoint(f"{address}-ü→", linger=0):
        finish(start(*verb, env={**os.environ, **plain}))


def test_without_the_metadata_of_the_package_the_version_is_that_of_the_library() -> None:
    code = """
import importlib.metadata as metadata
def version(name): raise metadata.PackageNotFoundError(name)
metadata.version = version
from lwmq_spark.cli import main
print(main(["--version"]), main(["doctor"]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert re.match(r"lwmq \d+\.\d+", said) and "native library" in said


def test_a_stream_on_stdin_comes_out_on_stdout(address: str, table: pa.Table) -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as ipc:
        ipc.write_table(table)
    receiving = start("recv", address, "-", "--timeout", 60)
    finish(start("send", address, "-", stdin=subprocess.PIPE), data=sink.getvalue())
    output, _ = receiving.communicate(timeout=PATIENCE_S)
    assert pa.ipc.open_stream(output).read_all().equals(table)


def test_recv_stops_after_the_rows_asked_for(address: str, writer: lwmq.StreamWriter, tmp_path: Path) -> None:
    call("recv", address, tmp_path / "first.parquet", "--rows", 10, "--timeout", 60)
    assert pq.read_table(tmp_path / "first.parquet").column("n").to_pylist() == list(range(10))


def test_recv_gives_up_where_nobody_writes(address: str, tmp_path: Path) -> None:
    assert "TimeoutError" in call("recv", address, tmp_path / "x.arrow", "--timeout", "0.3", code=3)


def test_a_format_that_cannot_be_told_is_wrong_usage(address: str, tmp_path: Path) -> None:
    assert "--format" in call("send", address, tmp_path / "data.bin", code=2)


def test_tail_prints_rows_of_the_columns_asked_for(address: str, writer: lwmq.StreamWriter) -> None:
    rows = [
        json.loads(line) for line in call("tail", address, "-n", 3, "--columns", "n", "--json").splitlines()
    ]
    assert rows == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize("verb", ["tail", "recv"])
@pytest.mark.parametrize(("rows", "next_one"), [(1, 0), (99, 0), (100, 100), (250, 200), (1000, None)])
def test_a_batch_that_rows_cut_comes_again(
    verb: str, rows: int, next_one: int | None, address: str, table: pa.Table, tmp_path: Path
) -> None:
    writer = lwmq.open_writer(address, table.schema)
    for batch in table.to_batches(max_chunksize=100):
        writer.write(batch)
    where = ["-n", rows, "--json"] if verb == "tail" else [tmp_path / "some.arrows", "--rows", rows]
    call(verb, address, *where)
    if next_one is None:
        writer.close(linger=60)  # everything was read
        return
    with lwmq.open_reader(address) as reader:
        assert reader.read_next_batch(timeout=60).column(0)[0].as_py() == next_one
    writer.abort("the test is over")


def test_tail_of_an_unknown_column_names_those_there_are(address: str, table: pa.Table) -> None:
    with lwmq.open_writer(address, table.schema, retain="all", linger=0.1) as writer:
        writer.write(table)
        problem = call("tail", address, "--columns", "height", code=2)
        with lwmq.open_reader(address) as reader:
            reader.read_next_batch(timeout=60)
    assert "n, name" in problem


@pytest.mark.row("M06")
def test_perf_measures_latency_rate_and_throughput(address: str) -> None:
    figures = json.loads(call("perf", address, "--seconds", "0.1", "--json"))
    assert 0 < figures["latency_p50_us"] <= figures["latency_p99_us"] <= figures["latency_p999_us"]
    assert figures["messages_lost"] == 0
    assert figures["messages_per_second"] > 0
    assert figures["batch_bytes_per_second"] > 0


@pytest.mark.row("S14")
def test_perf_measures_rivals_beside_ours(address: str) -> None:
    figures = json.loads(
        call("perf", address, "--seconds", "0.1", "--against", "zmq,uds,iceoryx2,ucx", "--json")
    )
    assert set(figures["against"]) == {"zmq", "uds", "iceoryx2", "ucx"}
    for rival in figures["against"].values():
        if "missing" not in rival:
            # Some rivals answer one percentile per run: on a busy machine they need not be in order.
            assert min(rival["latency_p50_us"], rival["latency_p999_us"]) > 0
            assert rival["messages_per_second"] > 0
    assert "missing" not in figures["against"]["uds"]
    languages = {name: rival["language"] for name, rival in figures["against"].items()}
    assert figures["language"] == "Python"
    assert languages == {"zmq": "Python", "uds": "Python", "iceoryx2": "Python", "ucx": "C"}
    assert "there are zmq, uds, iceoryx2, ucx, and all" in call(
        "perf", address, "--against", "zmq,pigeon", code=2
    )


def test_perf_says_which_figures_are_of_python_and_which_of_c() -> None:
    figures = {f"latency_{rank}_us": 1.0 for rank in ("p50", "p99", "p999")} | {"messages_per_second": 1e6}
    measured = {
        "ours": figures | {"language": "Python"},
        "ucx": figures | {"language": "C"},
        "zmq": {"missing": "needs the Python package pyzmq", "language": "Python"},
    }
    console = Console(width=80, file=io.StringIO())
    console.print(perf._comparison("ipc://perf", 64, measured))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split()[1:4:2] for line in lines if "1 M /s" in line] == [["ours", "Python"], ["ucx", "C"]]
    assert any("zmq: needs the Python package pyzmq" in line for line in lines)


def test_perf_has_figures_where_one_round_trip_takes_longer_than_it_measures() -> None:
    class Slow:
        def send(self, payload: bytes) -> None:
            pass

        def receive(self) -> bytes:
            time.sleep(0.1)
            return b"1"

        def close(self) -> None:
            pass

    figures = _rivals._ask(Slow(), 8, 0.05)
    assert min(figures["latency_p50_us"], figures["latency_p999_us"]) >= 50_000


def test_perf_says_at_once_what_it_cannot_measure() -> None:
    assert "works within one process, and perf measures between two" in call("perf", "loop://x", code=2)


def test_perf_takes_options_of_the_address(address: str) -> None:
    figures = json.loads(call("perf", f"{address}?buffers=4", "--seconds", "0.1", "--json"))
    assert figures["batch_bytes_per_second"] > 0


def _write(path: Path, table: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        make = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with make(str(path), table.schema) as ipc:
            ipc.write_table(table)


def _read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".csv":
        return csv.read_csv(path)
    with pa.memory_map(str(path)) as source:
        return (
            pa.ipc.open_file(source) if path.suffix == ".arrow" else pa.ipc.open_stream(source)
        ).read_all()
