"""Channels that nobody closes: at the end of a program, and when the last reference goes."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.python.pairs import pair

pytestmark = pytest.mark.row("Z12")

POSTS = """
import sys
import lwmq_spark as lwmq
channel = lwmq.Channel(sys.argv[1], "server", linger=sys.argv[2])
queue = channel.send_queue()
for number in range(1000):
    queue.post(b"%d" % number)
"""


def start(ipc: str, linger: str, further: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", POSTS + further, ipc, linger]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """What it said on stderr."""
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    return said


def test_the_end_of_a_program_waits_for_what_has_not_left(ipc: str) -> None:
    process = start(ipc, "30s", "print('at the end', flush=True)")
    assert process.stdout is not None and process.stdout.readline() == "at the end\n"
    time.sleep(0.2)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert [int(bytes(message)) for message in channel] == list(range(1000))
    assert finish(process) == ""


def test_what_nobody_came_for_is_told(ipc: str) -> None:
    said = finish(start(ipc, "0.1s"))
    assert said.count("RuntimeWarning") == 1
    assert f"1000 messages had not left <Channel {ipc} server, waiting for a peer" in said


def test_a_program_that_fails_or_is_interrupted_does_not_wait(ipc: str) -> None:
    said = finish(start(ipc, "forever", "raise ValueError('ours')"), 1)
    assert "ValueError: ours\n" in said
    assert "1000 messages had not left" in said
    process = start(ipc, "forever", "print('at the end', flush=True)")
    assert process.stdout is not None and process.stdout.readline() == "at the end\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said = finish(process)
    assert "Traceback" not in said
    assert "1000 messages had not left" in said


def test_threads_that_receive_at_the_end_are_left_alone(ipc: str) -> None:
    receives = """
import threading
threading.Thread(target=channel.receive, daemon=True).start()
"""
    process = start(ipc, "30s", receives)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert len([channel.receive(60) for _ in range(1000)]) == 1000
        assert finish(process) == ""


def test_a_child_of_multiprocessing_waits_as_well(ipc: str, spawn: Any) -> None:
    parent = spawn(
        """
        import multiprocessing

        def work():
            global channel
            channel = lwmq.Channel(sys.argv[1], "server", linger="30s")
            queue = channel.send_queue()
            for number in range(1000):
                queue.post(b"%d" % number)

        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        print(child.exitcode)
        """,
        ipc,
    )
    time.sleep(0.5)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert [int(bytes(channel.receive(60))) for _ in range(1000)] == list(range(1000))
        assert parent.line() == "0"


def test_a_close_that_lingers_on_a_daemon_thread_is_waited_for(ipc: str) -> None:
    closes = """
import threading
threading.Thread(target=channel.close, daemon=True).start()
"""
    process = start(ipc, "30s", closes)
    time.sleep(0.5)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert len([channel.receive(60) for _ in range(1000)]) == 1000
        assert finish(process) == ""


def test_warnings_that_are_errors_stop_no_other_channel(ipc: str) -> None:
    others = """
import warnings
warnings.simplefilter("error")
lost = [lwmq.Channel(f"{sys.argv[1]}-{n}", "server", linger=0.1) for n in range(3)]
for one in lost:
    one.send_queue().post(b"x")
"""
    process = start(ipc, "30s", others)
    time.sleep(0.5)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert len([channel.receive(60) for _ in range(1000)]) == 1000
    assert "RuntimeWarning: 1 messages had not left" in finish(process)


def test_who_drops_a_channel_is_told_what_goes_with_it(address: str, recwarn: Any) -> None:
    gc.collect()  # what other tests have left goes first
    recwarn.clear()
    channel = lwmq.Channel(address)
    queue = channel.send_queue()
    del channel, queue
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]

    channel = lwmq.Channel(address)
    queue = channel.send_queue()
    queue.post(b"1")
    queue.post(b"2")
    with pytest.warns(RuntimeWarning, match=r"2 messages had not left .* when it was dropped"):
        del channel, queue
        gc.collect()


def test_what_the_peer_has_not_read_is_counted(address: str) -> None:
    with pair(address) as (server, client):
        queue = server.send_queue()
        for _ in range(5):
            queue.post(b"x")
        assert server.statistics.messages_unread == 5
        for _ in range(5):
            client.receive(60)
        assert client.try_receive() is None  # who looks behind them has read them
        assert server.statistics.messages_unread == 0


@pytest.mark.parametrize("heard", [True, False])
def test_a_close_tells_what_a_former_peer_had_not_read_unless_that_was_received(
    address: str, heard: bool
) -> None:
    server = lwmq.Channel(address, "server")
    with lwmq.Channel(address, "client", linger=0) as client:
        server.wait_connected(60)
        server.send_queue().post(b"never read")
        client.wait_connected(60)
    deadline = time.monotonic() + 60
    while server.statistics.messages_lost == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if not heard:
        with pytest.raises(lwmq.TimeoutError, match="and 1 were shipped and not seen read"):
            server.close()
        return
    with pytest.raises(lwmq.ClosedError, match="1 messages were shipped to it and not seen read"):
        server.receive(60)
    server.close()
