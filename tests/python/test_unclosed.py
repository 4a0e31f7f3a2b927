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
    _, said = process.communicate(timeout=30)
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
    assert f"the program ends without close(): not everything was shipped within 0.1 s on {ipc}" in said


def test_a_program_that_fails_or_is_interrupted_does_not_wait(ipc: str) -> None:
    said = finish(start(ipc, "forever", "raise ValueError('ours')"), 1)
    assert said.endswith("ValueError: ours\n")
    process = start(ipc, "forever", "print('at the end', flush=True)")
    assert process.stdout is not None and process.stdout.readline() == "at the end\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in finish(process)


def test_threads_that_receive_at_the_end_are_left_alone(ipc: str) -> None:
    receives = """
import threading
threading.Thread(target=channel.receive, daemon=True).start()
"""
    process = start(ipc, "30s", receives)
    with lwmq.Channel(ipc, "client", linger=0) as channel:
        assert len([channel.receive(20) for _ in range(1000)]) == 1000
        assert finish(process) == ""


def test_who_drops_a_channel_is_told_what_goes_with_it(address: str, recwarn: Any) -> None:
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
