"""A listener whose process has no descriptors left for a while: nobody who was let in is sent away."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from tests.patience import HANG_S
from tests.python.conftest import Child

# Of each client: descriptors run short before it comes, and are there again when it has tried for a while.
LISTENER = """
import resource
listener = lwmq.Listener(sys.argv[1], linger=60)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print("open")
for line in sys.stdin:
    used = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + int(line), hard))
    print("short")
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with listener.accept(60) as channel:
        channel.send_queue().post(bytes(channel.receive(60)))
    print("answered")
"""


def test_a_client_that_was_let_in_while_descriptors_were_short_is_answered(
    ipc: str, spawn: Callable[..., Child]
) -> None:
    child = spawn(LISTENER, ipc)
    assert child.line() == "open"
    for left in range(10):
        child.tell(str(left))
        assert child.line() == "short"
        with lwmq.Channel(ipc, "client", linger=0) as client:
            client.send_queue().post(b"%d" % left)
            end = time.monotonic() + 0.4
            while time.monotonic() < end and not client.statistics.connected:
                time.sleep(0.01)
            child.tell()
            assert _answer(client) == b"%d" % left, f"{left} descriptors were left"
        assert child.line() == "answered"


def _answer(client: lwmq.Channel) -> bytes:
    """What comes at last: who was refused tries again by himself."""
    while True:
        try:
            return bytes(client.receive(60))
        except lwmq.LwmqError as exc:
            if "Too many open files" not in str(exc):
                raise
            time.sleep(0.01)


def test_who_waits_for_clients_hears_of_those_that_were_refused(ipc: str) -> None:
    with lwmq.Listener(ipc) as listener, lwmq.Channel(ipc, "client", raw=True, linger=0):
        refused = r"; \d+ were refused, the last because: "
        _await_timeout(lambda: listener.accept(0.3), r"within 0\.3 s" + refused)
        _await_timeout(lambda: asyncio.run(aio.accept(listener, 0.3)), r"within 0\.3 s on .*" + refused)


def _await_timeout(accept: Callable[[], object], text: str) -> None:
    """Until `accept` times out with `text`: on a busy machine the client may not try again in each wait."""
    deadline = time.monotonic() + HANG_S
    while True:
        with pytest.raises(lwmq.TimeoutError) as caught:
            accept()
        if re.search(text, str(caught.value)):
            return
        assert time.monotonic() < deadline, caught.value
