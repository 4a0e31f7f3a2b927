"""`lwmq post`, `listen`, `request` and `reply`, against each other and against channels of this process."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.patience import until
from tests.python.cli.looking import FEED, figures

PATIENCE_S = 120
pytestmark = pytest.mark.row("P34")

Verb = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def verb() -> Iterator[Verb]:
    """Starts `lwmq` with some arguments; what still runs behind the test is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "lwmq_spark.cli", *map(str, arguments)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=stdout, stderr=pipe))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[bytes], code: int = 0, content: bytes | None = None) -> bytes:
    """What it has printed, on stdout, or where it failed on stderr."""
    output, problems = process.communicate(content, timeout=PATIENCE_S)
    assert process.returncode == code, output + problems
    return output if code == 0 else problems


def feed(process: subprocess.Popen[bytes], content: bytes) -> threading.Thread:
    """Writes to its stdin beside the caller, who joins the thread: it ends with the process."""
    feeding = threading.Thread(target=process.communicate, args=(content,))
    feeding.start()
    return feeding


def test_arguments_arrive_as_messages(ipc: str, verb: Verb) -> None:
    listening = verb("listen", ipc)
    _, said = verb("post", ipc, "buy 100", "né").communicate(timeout=PATIENCE_S)
    assert said == b"posted 2 messages of 10 bytes to %s\n" % ipc.encode()
    assert finish(listening).decode() == "buy 100\nné\n"


def test_each_line_of_stdin_leaves_at_once(ipc: str, verb: Verb) -> None:
    listening, posting = verb("listen", ipc), verb("post", ipc, "--json")
    assert posting.stdin is not None and listening.stdout is not None
    for line in (b"one\n", b"\n", b"\x00\xff three\n"):
        posting.stdin.write(line)
        posting.stdin.flush()
        assert listening.stdout.readline() == line
    assert json.loads(finish(posting, content=b"no newline behind it")) == {
        "address": ipc,
        "messages": 4,
        "bytes": 3 + 0 + 8 + 20,
    }
    assert finish(listening) == b"no newline behind it\n"


def test_more_lines_than_a_peer_takes_at_once_arrive_in_order(ipc: str, verb: Verb) -> None:
    lines = b"".join(b"%d\n" % number for number in range(100_000))
    small = f"{ipc}?buffers=2&buffer_bytes=4kb"
    listening, posting = verb("listen", small), verb("post", small)
    feeding = feed(posting, lines)
    assert finish(listening) == lines
    feeding.join(PATIENCE_S)
    assert posting.returncode == 0


def test_frames_are_separated_and_may_be_any_bytes(ipc: str, verb: Verb) -> None:
    with lwmq.Channel(ipc, "server") as channel:
        posting = verb("post", ipc, "-s", r"\t", "EUR\t1.08", "one\t")
        assert [[bytes(frame) for frame in channel.receive(60)] for _ in range(2)] == [
            [b"EUR", b"1.08"],
            [b"one", b""],
        ]
        finish(posting)
    with lwmq.Channel(ipc, "server") as channel:
        posting = verb("post", ipc, "--base64", "-s", ":", "AP8=:")
        assert [bytes(frame) for frame in channel.receive(60)] == [b"\0\xff", b""]
        finish(posting)


def test_all_of_stdin_may_be_one_message(ipc: str, verb: Verb) -> None:
    content = os.urandom(300_000)
    with lwmq.Channel(ipc, "server", buffer_bytes="1mb") as channel:
        posting = verb("post", f"{ipc}?buffer_bytes=1mb", "--whole")
        feeding = feed(posting, content)
        assert bytes(channel.receive(60)) == content
    feeding.join(PATIENCE_S)
    assert posting.returncode == 0


def test_json_has_base64_texts_and_timestamps(ipc: str, verb: Verb) -> None:
    listening = verb("listen", ipc, "--json")
    before = time.time_ns()
    with lwmq.Channel(ipc) as channel:
        channel.wait_connected(60)
        channel.send_queue().post(lwmq.Message(["né".encode(), b"\xff"], timestamp="precise"))
    found = json.loads(finish(listening))
    assert [base64.b64decode(frame) for frame in found["frames"]] == ["né".encode(), b"\xff"]
    assert (found["texts"], found["bytes"]) == (["né", None], 4)
    assert before - 100 <= found["timestamps_ns"][0] <= time.time_ns()


def test_a_terminal_gets_no_control_characters(ipc: str, verb: Verb) -> None:
    terminal, side = pty.openpty()
    try:
        listening = verb("listen", ipc, stdout=side)
        finish(verb("post", ipc, "\x1b[31mred\tnext\x07 né\n"))
        assert listening.wait(PATIENCE_S) == 0
        assert os.read(terminal, 1000).decode() == "\\x1b[31mred\tnext\\x07 né\\n\r\n"
    finally:
        os.close(terminal)
        os.close(side)


def test_listening_ends_with_the_peer_after_so_many_or_with_the_time(
    ipc: str, verb: Verb, spawn: Any
) -> None:
    counted = verb("listen", ipc, "-n", "2", "--timeout", "60")
    child = spawn(FEED, ipc)
    assert finish(counted) == b"0\n1\n"
    child.kill()

    killed = verb("listen", ipc)
    child = spawn(FEED, ipc)
    assert child.line() == "flushed"
    child.kill()
    assert b"PeerLostError" in finish(killed, 4)

    following = verb("listen", ipc, "--follow", "-n", "6")
    for _ in range(2):
        child = spawn(FEED, ipc)
        assert child.line() == "flushed"
        child.kill()
    assert finish(following) == b"0\n1\n2\n" * 2

    assert b"TimeoutError: no message within 0.2 s" in finish(verb("listen", ipc, "--timeout", "0.2"), 3)


def test_posting_tells_that_nobody_reads(ipc: str, verb: Verb, spawn: Any) -> None:
    assert b"no peer came" in finish(verb("post", ipc, "--timeout", "0.2", "x"), 3)

    killed = spawn(
        """
        with lwmq.Channel(sys.argv[1], "server") as channel:
            print("there")
            channel.receive(60)
            print("one")
            sys.stdin.readline()
        """,
        ipc,
    )
    assert killed.line() == "there"
    posting = verb("post", ipc)
    assert posting.stdin is not None
    posting.stdin.write(b"1\n")
    posting.stdin.flush()
    assert killed.line() == "one"
    killed.kill()
    assert b"PeerLostError" in finish(posting, 4, b"2\n")

    with lwmq.Channel(ipc, "server", linger=0) as channel:
        posting = verb("post", ipc, "1", "2")
        until(lambda: figures(posting.pid, "channel").get("messages_sent") == 2)
        assert bytes(channel.receive(60)) == b"1"
    said = finish(posting, 4)  # by the end of the peer, or by the close that met it
    assert re.search(rb"PeerLostError: .* 1 (messages )?were shipped (to it )?and not seen read", said)


def test_a_reader_that_has_read_all_leaves_the_rest_to_the_next(ipc: str, verb: Verb) -> None:
    posting = verb("post", ipc, "--json")
    assert posting.stdin is not None
    for line in (b"one\n", b"two\n"):
        reader = verb("listen", ipc, "-n", "1")
        posting.stdin.write(line)
        posting.stdin.flush()
        assert finish(reader) == line
    reader = verb("listen", ipc)
    assert json.loads(finish(posting, content=b"three\n"))["messages"] == 3
    assert finish(reader) == b"three\n"


def test_a_peer_that_answers_each_message_is_heard_to_the_end(ipc: str, verb: Verb, spawn: Any) -> None:
    child = spawn(
        """
        with lwmq.Channel(sys.argv[1], "server") as channel:
            print("there")
            answers = channel.send_queue()
            for message in channel:
                answers.post(b"ok " + bytes(message))
                channel.flush()
        """,
        ipc,
    )
    assert child.line() == "there"  # else the other may serve the address
    lines = [b"%d\n" % number for number in range(2000)]
    posting = verb("post", ipc)
    assert posting.stdin is not None and posting.stdout is not None
    posting.stdin.write(b"".join(lines))
    posting.stdin.flush()
    # It ends when all was read, which may be before the last answers: so its stdin ends behind them.
    answers = b"".join(posting.stdout.readline() for _ in lines)
    answers += finish(posting)
    assert answers == b"".join(b"ok " + line for line in lines)


def test_a_message_that_is_too_large_is_named(ipc: str, verb: Verb) -> None:
    with lwmq.Channel(ipc, "server", linger=0):
        said = finish(verb("post", ipc, "--timeout", "60"), 1, b"small\n" + b"x" * 70_000 + b"\n")
    assert b"message 2: message of 70000 bytes does not fit" in said and b"buffer_bytes=1mb" in said


def test_closed_streams_are_told_or_swallow(ipc: str) -> None:
    def lwmq_with(redirection: str, *words: str) -> subprocess.Popen[bytes]:
        line = f'exec "$0" -m lwmq_spark.cli "$@" {redirection}'
        command = ["sh", "-c", line, sys.executable, *words, "--timeout", "60"]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    for words in (("post", ipc), ("post", ipc, "--whole"), ("request", ipc)):
        assert b"OSError: stdin is closed" in finish(lwmq_with("<&-", *words), 1)
    listening = lwmq_with(">&-", "listen", ipc)
    for process in (lwmq_with(">&-", "post", ipc, "x", "--json"), listening):
        _, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, b"Traceback" in said) == (0, False), said


def test_a_request_prints_its_reply(ipc: str, verb: Verb) -> None:
    def prices(frames: Any) -> list[bytes]:
        if bytes(frames[0]) == b"gold":
            raise ValueError("no such \x1b[31m currency")
        return [bytes(frame) + b"!" for frame in frames]

    def serve() -> None:
        for _ in range(3):
            with lwmq.Channel(ipc, "server") as channel:
                lwmq.Replies(channel).serve(prices, forever=False)

    serving = threading.Thread(target=serve)
    serving.start()
    assert finish(verb("request", ipc, "EUR", "USD", "--timeout", "60")) == b"EUR!\nUSD!\n"
    asked = verb("request", ipc, "-s", ",", "--json", "--timeout", "60")
    assert json.loads(finish(asked, content=b"EUR,USD\n"))["texts"] == ["EUR!", "USD!"]
    assert b"HandlerError: the peer's handler failed: ValueError: no such \\x1b[31m currency" in finish(
        verb("request", ipc, "gold", "--timeout", "60"), 1
    )
    serving.join(PATIENCE_S)
    assert b"TimeoutError" in finish(verb("request", ipc, "EUR", "--timeout", "0.2"), 3)


def test_a_command_replies_to_one_asker_after_the_other(ipc: str, verb: Verb) -> None:
    replying = verb("reply", "--json", "-n", "3", "-s", ",", ipc, "tr", "a-z", "A-Z")
    asked = ("request", ipc, "--timeout", "60", "-s", ",")
    assert finish(verb(*asked, "eur,usd", "gold")) == b"EUR,USD\nGOLD\n"
    assert json.loads(finish(verb(*asked, "--json"), content=b"a,b,c\n"))["texts"] == ["A", "B", "C"]
    said = [json.loads(line)["texts"] for line in finish(replying).splitlines()]
    assert said == [["EUR", "USD"], ["GOLD"], ["A", "B", "C"]]


def test_an_asker_hears_why_a_command_has_not_replied(ipc: str, verb: Verb) -> None:
    script = 'read what; [ "$what" = slow ] && exec sleep 600; echo first >&2; echo "no $what" >&2; exit 3'
    replying = verb("reply", "-n", "2", "--timeout", "2", ipc, "sh", "-c", script)
    told = finish(verb("request", ipc, "bonds", "--timeout", "60"), 1)
    assert b"CommandError: sh ended with code 3: no bonds" in told
    assert b"CommandError: sh took longer than 2.0 s" in finish(verb("request", ipc, "slow"), 1)
    output, problems = replying.communicate(timeout=PATIENCE_S)
    assert (replying.returncode, output, problems.count(b"sh ended with code 3: no bonds")) == (0, b"", 1)


def test_two_that_reply_or_two_that_ask_never_meet(ipc: str, verb: Verb) -> None:
    asking = verb("request", ipc, "a", "--timeout", "60")
    also_asking = verb("request", ipc, "b", "--timeout", "60")
    replying = verb("reply", "-n", "2", ipc, "tr", "ab", "AB")
    assert finish(asking) + finish(also_asking) in (b"A\nB\n", b"B\nA\n")
    assert finish(replying) == b""
    with lwmq.Channel(ipc, "server", linger=0):
        told = finish(verb("reply", ipc, "cat", "--json"), 1)
        assert b"lwmq: AddressError" in told  # as text: that --json is cat's


@pytest.mark.parametrize(
    ("size", "buffers"), [(70_000, b"1mb"), (1_048_500, b"2mb"), (3_000_000, b"4mb"), (5_000_000, b"8mb")]
)
def test_what_is_too_big_is_told_the_buffers_that_do(ipc: str, verb: Verb, size: int, buffers: bytes) -> None:
    with lwmq.Channel(ipc, "server", linger=0):
        for asks in ("post", "request"):
            told = finish(verb(asks, ipc, "--timeout", "60"), 1, content=b"x" * size)
            assert b"1: " in told
            assert b"ADDRESS?buffer_bytes=%b, on both sides" % buffers in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("post", "--base64", "a"), "message 1 is no base64"),
        (("post", "-s", "", "a"), "separates nothing"),
        (("post", "--whole", "a"), "--whole takes stdin as it is"),
        (("listen", "-s", ""), "separates nothing"),
        (("listen", "-n", "0"), "-n"),
        (("request", "--base64", "a"), "message 1 is no base64"),
        (("reply", "no-such-command"), "there is no command 'no-such-command'"),
        (("reply",), "COMMAND"),
    ],
)
def test_wrong_words_are_wrong_usage(ipc: str, verb: Verb, words: tuple[str, ...], told: str) -> None:
    with lwmq.Channel(ipc, linger=0):
        assert told in " ".join(finish(verb(words[0], ipc, *words[1:]), 2).decode().split())
