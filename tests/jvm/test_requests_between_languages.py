"""Requests from Java to Python and back: one format, one meaning."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel.requests import Frames
from tests.stopping import stop

ROOT = Path(__file__).resolve().parents[2]
JAR = ROOT / "build" / "dev" / "lwmq-spark.jar"
CLASSES = ROOT / "build" / "dev" / "java-tests"


@contextmanager
def _java(what: str, address: str) -> Iterator[subprocess.Popen[str]]:
    java = ["java", "-ea", "-Dfile.encoding=UTF-8", "-cp", f"{JAR}:{CLASSES}"]
    process = subprocess.Popen(
        [*java, "org.lwmq.core.RequestsPeer", what, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.row("M21")
def test_python_asks_and_java_answers_until_it_is_killed() -> None:
    address = f"ipc://test-java-answers-{os.getpid()}"
    with (
        _java("serve", address) as java,
        lwmq.Channel(address, "client") as client,
        lwmq.Requests(client) as requests,
    ):
        assert _line(java) == "there"
        asked = [requests.submit([b"%d" % n, b"x"], timeout=60) for n in range(2000)]
        for n, reply in enumerate(asked):
            assert [bytes(frame) for frame in reply.result()] == [b"re", b"%dx" % n]
        with pytest.raises(lwmq.HandlerError, match="IOException: no such carrier: Ä") as raised:
            requests.request(b"fail", timeout=60)
        assert raised.value.kind == "IOException"
        stop(java.pid)
        reply = requests.submit(b"nobody there", timeout=60)
        java.kill()
        with pytest.raises(lwmq.PeerLostError):
            reply.result()


@pytest.mark.row("M21")
def test_java_asks_and_python_answers_until_it_is_gone() -> None:
    def handler(frames: Frames) -> list[bytes]:
        if bytes(frames) == b"fail":
            raise KeyError("no such carrier: Ä")
        assert bytes(frames) != b"never"
        return [b"re", *map(bytes, frames)]

    address = f"ipc://test-java-asks-{os.getpid()}"
    replies = []

    def serve() -> None:
        replies.append(lwmq.Replies(server))
        while bytes((request := replies[0].receive(60)).frames) != b"never":
            try:
                request.reply(handler(request.frames))
            except KeyError as exc:
                request.fail(exc)

    with _java("ask", address) as java:
        with lwmq.Channel(address, "server") as server:
            thread = threading.Thread(target=serve)
            thread.start()
            assert _line(java) == (
                f"KeyError the peer's handler failed: KeyError: 'no such carrier: Ä' ({address})"
            )
            assert _line(java) == "asked"
            thread.join(60)
            assert not thread.is_alive()
            assert replies[0].statistics.received == 2002
        assert java.stdin is not None
        java.stdin.write("\n")
        java.stdin.flush()
        assert _line(java).startswith("LWMQ_CLOSED: ")
        assert _line(java) == (
            "Statistics[asked=2002, outstanding=0, answered=2000, failed=1, timedOut=0, lost=1, givenUp=0, "
            "late=0, foreign=0, malformed=0]"
        )
        assert java.wait(60) == 0
