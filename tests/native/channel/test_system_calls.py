"""Under load there are far fewer system calls than messages: counted by strace, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build" / "dev" / "tests" / "channel.steady_state_test"
MESSAGES = 2 * 2 * 260_000  # there and back, over two providers


@pytest.mark.row("Z05", "Z07", "L02")
def test_a_million_messages_need_few_system_calls(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    assert PROGRAM.exists(), f"{PROGRAM} is not built: make native-test"
    counts = tmp_path / "counts"
    command = ["strace", "-f", "-c", "-o", counts, PROGRAM, "--gtest_filter=*AMillionSmallMessages"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110)
    if ran.returncode != 0 and "ptrace" in ran.stderr.lower():
        pytest.skip("this machine lets nobody trace")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
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
    assert not [name for name in calls if "timer" in name or name == "alarm"], "batches end by no timer"
