"""The programs of native/samples do what their first lines say. CMake builds them beside the native tests."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel.requests import Frames

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "dev" / "samples"
SOURCES = ROOT / "native" / "samples"

# What each of them prints when it is run alone.
EXPECTED = {
    "priorities": "alarm\nbulk 0\nbulk 1\nbulk 2\n",
    "request_reply": f"1000 replies, sum of squares {sum(i * i for i in range(1001))}\n"
    "and a failure: the peer's handler failed: DomainError: a positive number is wanted \n",
    "raw_buffers": "64 MiB in 64 buffers\n",
    "ticks": "1000000 ticks, the highest 106\n",
    "external_frames": "".join(f"receiver {i}: the very picture, 1 holder\n" for i in range(3))
    + "released: 0 holders\n",
}


def _program(name: str) -> Path:
    program = BUILT / f"sample_{name}"
    assert program.exists(), f"{program} is not built: make native-test"
    return program


@pytest.mark.row("M02")
def test_hello_is_said_from_one_process_to_another_in_fifteen_lines() -> None:
    command = [str(_program("hello")), f"ipc://sample-hello-{os.getpid()}"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said == ["said hello\n", "somebody said hello\n"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_prints_what_it_should(name: str) -> None:
    ran = subprocess.run([_program(name)], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == EXPECTED[name]


@pytest.mark.row("L55")
def test_python_asks_and_c_answers() -> None:
    address = f"ipc://sample-asked-{os.getpid()}"
    with (
        subprocess.Popen([_program("request_reply"), "serve", address]) as server,
        lwmq.Channel(address, "client") as channel,
    ):
        with lwmq.Requests(channel) as requests:
            asked = [requests.submit(n.to_bytes(8, "little"), timeout=60) for n in range(1, 500)]
            squares = [int.from_bytes(bytes(reply.result()), "little") for reply in asked]
            assert squares == [n * n for n in range(1, 500)]
            with pytest.raises(lwmq.HandlerError, match="DomainError: a positive number") as failure:
                requests.request(bytes(8), timeout=60)
            assert failure.value.kind == "DomainError"
        channel.close()
        assert server.wait(60) == 0


@pytest.mark.row("L55")
def test_c_asks_and_python_answers() -> None:
    def square(frames: Frames) -> bytes:
        n = int.from_bytes(bytes(frames), "little")
        if n == 0:
            raise ValueError("zero")
        return (n * n).to_bytes(8, "little")

    address = f"ipc://sample-asks-{os.getpid()}"
    with lwmq.Channel(address, "server") as channel:
        command = [_program("request_reply"), "ask", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asker:
            lwmq.Replies(channel).serve(square, forever=False)
            said = asker.communicate(timeout=60)[0]
    squares = sum(n * n for n in range(1001))
    assert said == (
        f"1000 replies, sum of squares {squares}\n"
        "and a failure: the peer's handler failed: ValueError: zero \n"
    )


@pytest.mark.row("K43", "Z09")
def test_workers_of_a_router_and_a_selector_share_the_tasks() -> None:
    ran = subprocess.run([_program("workers")], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    squares = sum(number * number for number in range(1, 3001))
    assert ran.stdout == (
        f"3000 squares: {squares}; workers that had some: 3, told to end: 3; "
        "the slow one had less than its share: yes\n"
    )


def _measure(bytes_at_server: int, bytes_at_client: int) -> tuple[subprocess.Popen[str], str, str]:
    """The server, and what both said."""
    address, count = f"ipc://sample-thr-{os.getpid()}", "100000"
    server, client = (
        subprocess.Popen(
            [_program(f"{end}_thr"), address, str(size), count],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for end, size in (("server", bytes_at_server), ("client", bytes_at_client))
    )  # fmt: skip
    client_said = client.communicate(timeout=60)[1]
    out, err = server.communicate(timeout=60)
    return server, out + err, client_said


@pytest.mark.row("S14")
def test_the_throughput_tools_print_what_such_tools_print() -> None:
    server, said, client_said = _measure(64, 64)
    assert (server.returncode, client_said) == (0, ""), said
    found = re.fullmatch(
        r"message size: 64 \[B\]\nmessage count: 100000\n"
        r"mean throughput: (\d+) \[msg/s\]\nmean throughput: (\d+\.\d{3}) \[Mb/s\]\n",
        said,
    )
    assert found, said
    assert float(found[2]) == pytest.approx(int(found[1]) * 64 * 8 / 1e6, rel=1e-3)


@pytest.mark.row("S14")
def test_the_throughput_tools_say_where_their_ends_differ() -> None:
    server, said, _ = _measure(64, 32)
    assert server.returncode == 1
    assert said == "a message of 32 bytes, 64 were to come: say the same at both ends\n"
    ran = subprocess.run([_program("client_thr"), "ipc://x"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2 and "ADDRESS BYTES COUNT" in ran.stderr


def test_samples_need_nothing_but_the_public_header() -> None:
    known = {path.stem for path in SOURCES.glob("*.c")}
    assert known == {"hello", "workers", "server_thr", "client_thr", *EXPECTED}
    for path in [*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]:
        for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
            assert name in ("check.h", "thr.h", "lwmq/lwmq.h"), f"{path.name} includes {name}"
