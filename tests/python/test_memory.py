"""What a burst has taken goes back to the system, in a process that sends or receives and does no more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S

COUNT, SIZE = 300_000, 200

POST = """
    count, size = int(sys.argv[3]), int(sys.argv[4])
    with lwmq.Channel(sys.argv[1], "client", linger=0, retry=0.02) as channel:
        queue = channel.send_queue(sys.argv[2])
        tagged = sys.argv[2].endswith("tagged")

        def post(numbers):
            for n in numbers:
                queue.post(n.to_bytes(size, "little"), tag=n if tagged else 0)

        print("posts")
        sys.stdin.readline()
        post(range(count))
        print(queue.statistics.queued)
        channel.wait_connected(60)
        channel.flush(60)
        print(queue.statistics.queued)
        sys.stdin.readline()
    """

RECEIVE = """
    count = int(sys.argv[2])
    with lwmq.Channel(sys.argv[1], "client", linger=0, receive_queue="multi_unbounded") as channel:
        channel.wait_connected(60)
        print("lands")
        sys.stdin.readline()
        print(channel.statistics.receive_queued)
        sys.stdin.readline()
        for n in range(count):
            assert int.from_bytes(bytes(channel.receive(60)), "little") == n
        print(channel.statistics.receive_queued)
        sys.stdin.readline()
    """

BOTH = """
    count, size, limit = (int(word) for word in sys.argv[2:])
    with lwmq.Channel(sys.argv[1], "client", linger=0, retry=0.02) as client:
        queue = client.send_queue("multi_unbounded")
        print("posts")
        sys.stdin.readline()
        for n in range(count):
            queue.post(n.to_bytes(size, "little"))
        print(queue.statistics.queued)
        sys.stdin.readline()
        with lwmq.Channel(sys.argv[1], "server", linger=0) as server:
            got = 0
            while got < count:
                got += len(server.receive_many(limit, 60))
        print(got)
        sys.stdin.readline()
    """


def _resident(process: psutil.Process) -> float:
    """MB."""
    return process.memory_info().rss / 1e6


def _until_read(channel: lwmq.Channel) -> None:
    deadline = time.monotonic() + HANG_S
    while (state := channel.statistics).messages_shipped < COUNT or state.messages_unread > 0:
        assert time.monotonic() < deadline, state
        time.sleep(0.005)


def _check_given_back(process: psutil.Process, before: float, at_most: float, count: int = COUNT) -> None:
    """At once, or soon."""
    assert at_most - before > count * SIZE / 1e6, f"{before:.0f} MB before, {at_most:.0f} with all of it"
    deadline = time.monotonic() + HANG_S
    while (behind := _resident(process)) - before >= (at_most - before) / 3:
        figures = f"{before:.0f} MB before, {at_most:.0f} with all of it, {behind:.0f} behind it"
        assert time.monotonic() < deadline, figures
        time.sleep(0.05)


@pytest.mark.row("M18")
@pytest.mark.parametrize("kind", ["mono_unbounded", "multi_unbounded", "multi_unbounded_tagged"])
def test_a_send_queue_that_nobody_reads_grows_and_gives_the_memory_back_when_somebody_does(
    ipc: str, spawn: Callable[..., Any], kind: str
) -> None:
    child = spawn(POST, ipc, kind, COUNT, SIZE)
    process = psutil.Process(child.pid)
    assert child.line() == "posts"
    before = _resident(process)
    child.tell()
    assert child.line() == str(COUNT)
    at_most = _resident(process)
    with lwmq.Channel(ipc, "server", linger=0) as server:
        for n in range(COUNT):
            assert int.from_bytes(bytes(server.receive(HANG_S)), "little") == n
        assert child.line() == "0"
        _check_given_back(process, before, at_most)
        child.tell()
        assert child.wait() == 0


@pytest.mark.row("M18")
def test_a_receive_queue_that_nobody_reads_grows_and_gives_the_memory_back_when_somebody_does(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    with lwmq.Channel(ipc, "server", linger=0) as server:
        child = spawn(RECEIVE, ipc, COUNT)
        process = psutil.Process(child.pid)
        assert child.line() == "lands"
        before = _resident(process)
        queue = server.send_queue()
        for n in range(COUNT):
            queue.post(n.to_bytes(SIZE, "little"))
        _until_read(server)
        child.tell()
        assert child.line() == str(COUNT)
        at_most = _resident(process)
        child.tell()
        assert child.line() == "0"
        _check_given_back(process, before, at_most)
        child.tell()
        assert child.wait() == 0


@pytest.mark.row("M18")
@pytest.mark.parametrize("limit", [1, 256])
def test_who_sends_and_receives_gives_the_memory_back_however_much_it_receives_at_once(
    ipc: str, spawn: Callable[..., Any], limit: int
) -> None:
    """Its receiver takes blocks from where its sender gives them; what stays is of one age all the same."""
    count = 2 * COUNT
    child = spawn(BOTH, ipc, count, SIZE, limit)
    process = psutil.Process(child.pid)
    assert child.line() == "posts"
    before = _resident(process)
    child.tell()
    assert child.line() == str(count)
    at_most = _resident(process)
    child.tell()
    assert child.line() == str(count)
    _check_given_back(process, before, at_most, count)
    child.tell()
    assert child.wait() == 0
