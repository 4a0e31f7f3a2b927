"""Where a container's filter refuses a system call, or /proc is not mounted: what the first open says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TALK = """
import lwmq_spark as lwmq
with lwmq.Channel(address, "server", linger=0) as s, lwmq.Channel(address, "client", linger=0) as c:
    c.wait_connected(60)
    s.wait_connected(60)
    for number in range(20):
        s.send_queue().post(b"%d" % number)
        assert bytes(c.receive(60)) == b"%d" % number
    from lwmq_spark._ffi import identity
    print("instance", identity().instance)
"""
STREAM = """
import pyarrow as pa, lwmq_spark as lwmq
writer = lwmq.open_writer(address, pa.schema([("n", pa.int64())]), role="server", timeout=60)
reader = lwmq.open_reader(address, role="client", timeout=60)
writer.write(pa.record_batch({"n": [7]}))
assert reader.read_next_batch().num_rows == 1
"""
REFUSE = "import errno; from tests.seccomp import refuse; refuse({calls}, error=errno.{error})\n"


def _run(code: str, address: str) -> str:
    """What it says last."""
    code = f"address = {address!r}\n{code}"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    lines = (ran.stdout + ran.stderr).strip().splitlines()
    return lines[-1] if lines else ""


@pytest.mark.parametrize("code", [TALK, STREAM], ids=["channel", "stream"])
@pytest.mark.parametrize(
    ("call", "named", "error"),
    [
        ("memfd_create", r"memfd_create(lwmq-process)", "EPERM"),
        ("memfd_create", r"memfd_create(lwmq-process)", "ENOSYS"),
        ("ftruncate", "ftruncate of segment lwmq-process", "EPERM"),
        ("fcntl", "fcntl(F_ADD_SEALS)", "EPERM"),
        ("set_robust_list", "set_robust_list", "ENOSYS"),
        ("eventfd2", "eventfd", "EPERM"),
        ("epoll_create1", "epoll_create1", "EPERM"),
        ("epoll_ctl", "epoll_ctl", "EACCES"),
        ("socket", "socket(AF_UNIX, SOCK_SEQPACKET)", "EPERM"),
        ("sendmsg", "sendmsg of", "EPERM"),
        ("recvmsg", "recvmsg", "EPERM"),
        ("accept4", "accept4", "EPERM"),
        ("getsockopt", "getsockopt(SO_PEERCRED)", "EPERM"),
        ("clone3", "pthread_create of lwmq-", "EPERM"),
    ],
)
def test_a_call_that_is_refused_is_named_with_what_to_allow(
    ipc: str, code: str, call: str, named: str, error: str
) -> None:
    if call == "accept4":
        if code is STREAM:
            pytest.skip("the endpoint is the one that accepts; its client hears that nobody answers")
        code = code.replace("c.wait_connected(60)", "pass")
    calls = "'clone', 'clone3'" if call == "clone3" else repr(call)
    before = "import pyarrow\n" if call == "clone3" else ""  # NumPy starts threads
    said = _run(before + REFUSE.format(calls=calls, error=error) + code, ipc)
    assert said.startswith("lwmq_spark.errors.LwmqError: "), said
    assert named in said
    assert f"{os.strerror(getattr(__import__('errno'), error))} (errno " in said
    assert "the kernel or a seccomp filter, such as a container's, refuses this call: allow it there" in said


def test_calls_that_there_is_another_way_for_may_be_refused(ipc: str) -> None:
    """Each process still has a number of its own."""
    calls = "'getrandom', 'membarrier', 'preadv2', 'futex_waitv', 'flock'"
    said = {_run(REFUSE.format(calls=calls, error="EPERM") + TALK, ipc) for _ in range(2)}
    assert len(said) == 2
    for line in said:
        assert line.startswith("instance "), line
        assert len(set(line.removeprefix("instance "))) > 4, line


@pytest.mark.row("L05")
@pytest.mark.parametrize("call", ["io_uring_setup", "io_uring_enter"])
def test_a_refused_io_uring_leaves_the_sockets_to_epoll(call: str, port: int) -> None:
    talk = f"""{TALK.rstrip()}
    for end in (s, c):
        try:
            end.receive(0.1)  # nothing comes
        except TimeoutError:
            pass
from lwmq_spark._ffi import statistics
refused, allowed = statistics()["uring_refused"], statistics()["uring_connections"]
print("refused", refused, "of", refused + allowed)
"""
    address = f"tcp://127.0.0.1:{port}/test?engine=uring"
    assert _run(talk, address).endswith("of 2"), "both ends"
    refuse = REFUSE.format(calls=repr(call), error="EPERM")
    assert _run(refuse + talk, address) == "refused 2 of 2"
    told = "from lwmq_spark.cli.info import about; print(about(address)['engine'])"
    assert _run(refuse + told, address) == "epoll, in place of uring: Operation not permitted"


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace of one's own needs root")
def test_a_process_without_proc_says_so(ipc: str) -> None:
    hide = """
import ctypes
libc = ctypes.CDLL(None)
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 1 << 14 | 1 << 18
if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
    raise SystemExit("no mount namespaces here")
if libc.mount(b"none", b"/proc", b"tmpfs", 0, None):
    raise SystemExit("no mount namespaces here")
"""
    for code in (TALK, STREAM):
        said = _run(hide + code, ipc)
        if said == "no mount namespaces here":
            pytest.skip(said)
        assert "/proc is not mounted here, by which the descriptors of peers are checked" in said
        assert "mount -t proc proc /proc" in said
