"""What the library asks of the kernel, seen by strace, where there is one: far fewer calls than messages, and
nothing that waits in its own threads but where they sleep.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "dev" / "tests" / "channel.steady_state_test"
MESSAGES = 2 * 2 * 260_000  # there and back, over two providers


def _trace(command: list[object], output: Path, *options: str) -> str:
    """What the program has printed; strace writes to `output`. Skips where nothing can be traced."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    traced = ["strace", "-f", *options, "-o", output, *command]
    ran = subprocess.run([str(word) for word in traced], capture_output=True, text=True, timeout=550)
    if ran.returncode != 0 and "ptrace" in ran.stderr.lower():
        pytest.skip("this machine lets nobody trace")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.row("Z05", "Z07", "L02")
def test_a_million_messages_need_few_system_calls(tmp_path: Path) -> None:
    assert PROGRAM.exists(), f"{PROGRAM} is not built: make native-test"
    counts = tmp_path / "counts"
    _trace([PROGRAM, "--gtest_filter=*AMillionSmallMessages"], counts, "-c")
    table = counts.read_text()
    calls, failed = {}, {}
    for line in table.splitlines():
        if found := re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s*(\w+)$", line):
            calls[found[3]], failed[found[3]] = int(found[1]), int(found[2] or 0)
    assert calls["total"] < MESSAGES / 100, table
    # No payload goes through the kernel: the sockets carry a handshake, no message. Before each sleep there
    # is a look at the socket, which finds nothing.
    moved = sum(
        calls[name] - failed[name]
        for name in ("sendto", "sendmsg", "recvfrom", "recvmsg", "readv", "writev")
        if name in calls
    )
    assert 0 < moved < 100, table
    timers = sum(count for name, count in calls.items() if "timer" in name or name == "alarm")
    assert timers < 20, f"no batch ends by a timer, a handshake may: {table}"


# Gives every thread of the library something to do that it might wait for: clients that come, ask and go, one
# that nobody answers, a peer whose buffers are full, a receive queue that the service thread fills, calls.
BUSY = """
import json, os, time
from pathlib import Path
import lwmq_spark as lwmq

base = f"ipc://blocking-{os.getpid()}"
lonely = lwmq.Channel(base + "-nobody", "client", linger=0)
full = lwmq.Channel(base + "-full", "server", buffers=2, buffer_bytes=1024, linger=0)
sleepy = lwmq.Channel(base + "-full", "client", buffers=2, buffer_bytes=1024, linger=0)
pouring = full.send_queue()
crowd = lwmq.Channel(base + "-crowd", "server", receive_queue="multi_unbounded", linger=0)
talker = lwmq.Channel(base + "-crowd", "client", linger=0)
talking = talker.send_queue()
called = []
heard = lwmq.Channel(base + "-calls", "server", linger=0)
heard.on_message(lambda message: called.append(bytes(message)))
caller = lwmq.Channel(base + "-calls", "client", linger=0)
calling = caller.send_queue()
with lwmq.Listener(base) as listener:
    for number in range(20):
        with lwmq.Channel(base, "client") as client:
            client.send_queue().post(b"question")
            with listener.accept(60) as server:
                server.receive(60)
                server.send_queue().post(b"answer")
                client.receive(60)
                client.close()  # before the server, or it would come again
        for _ in range(20):
            pouring.post(bytes(900))
        talking.post(b"one of many")
        calling.post(b"call")
        time.sleep(0.1)
end = time.monotonic() + 60
while len(called) < 20 and time.monotonic() < end:
    time.sleep(0.01)
assert len(called) == 20 and len(crowd.receive_many(20, 60)) > 0
tasks = {task.name: (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
print(json.dumps(tasks))
for channel in (lonely, full, sleepy, crowd, talker, heard, caller):
    channel.close() if channel is not full else channel.__exit__(ValueError, None, None)
"""
SLEEPS_ON = {"lwmq-channels": "epoll_wait", "lwmq-connect": "epoll_wait", "lwmq-ipc": "futex_waitv"}
# A mutex, a look at a peer, a thread that did not run for a while. Who waits for what does not come does so
# until the program ends.
BRIEF_S = 1.5


@pytest.mark.row("Z21")
def test_threads_of_the_library_wait_nowhere_but_where_they_sleep(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    names = json.loads(_trace([sys.executable, "-c", BUSY], trace, "-T", "-qq"))
    ours = {task: name for task, name in names.items() if name in SLEEPS_ON}
    assert sorted(ours.values()) == sorted(SLEEPS_ON)
    slept: Counter[str] = Counter()
    waited = []
    for line in trace.read_text(errors="replace").splitlines():
        found = re.match(r"(\d+) +(?:<\.\.\. )?(\w+).*<([\d.]+)>$", line)
        name = ours.get(found[1]) if found else None
        if found is None or name is None:
            continue
        if found[2] == SLEEPS_ON[name]:
            slept[name] += 1
        elif float(found[3]) > BRIEF_S:
            waited.append(f"{name}: {line}")
    assert not waited, "\n".join(waited)
    assert all(slept[name] > 0 for name in SLEEPS_ON), slept
    assert slept["lwmq-channels"] > 20, "it had something to do"
