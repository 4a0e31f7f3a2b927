"""What this machine lets a process have, for `lwmq doctor`: memory, descriptors, addresses, namespaces."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lwmq_spark.meter import human

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
_LITTLE = 256 << 20  # a default window is 64 MiB, and a Spark task may stage as much again
_NOTHING = 16 << 20
_FEW_DESCRIPTORS = 1024
_TOO_FEW_DESCRIPTORS = 64
_NO_LIMIT = 1 << 60  # the first version of cgroups says "none" by a number close to the largest
_WHOLE_RANGE = 4294967295
_IO_URING_SETUP, _IO_URING_ENTER = 425, 426  # on every architecture


@dataclass(frozen=True)
class Finding:
    """One look: `state` is ok, warn or fail; `advice` says what to do about the latter two."""

    what: str
    state: str
    text: str
    advice: str = ""


def memory(proc: Path = PROC) -> Finding:
    """Windows are memory of the process that makes them: memfd pages, which /dev/shm does not limit."""
    lines = (proc / "meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    text = f"{human(free, 'B')} available; a process may by itself hold half of it in windows"
    return _judged("memory", free, text, "end something, or add memory")


def cgroup(proc: Path = PROC, groups: Path = CGROUPS) -> Finding:
    """The tightest limit of all groups above us: over it the kernel kills, so that windows stop before."""
    limits = list(_limits(proc, groups))
    if not limits:
        return Finding("cgroup", "ok", "no group above this process limits its memory")
    left, limit, where = min(limits)
    text = f"{where} leaves {human(left, 'B')} of {human(limit, 'B')}"
    return _judged("cgroup", left, text, f"raise that limit (docker -m, a pod's limits.memory: {where})")


def _judged(what: str, free: int, text: str, remedy: str) -> Finding:
    advice = f"{remedy}; or open writers with a smaller window_bytes (64 MiB by default) and close idle ones"
    state = "ok" if free >= _LITTLE else "warn" if free >= _NOTHING else "fail"
    return Finding(what, state, text, "" if state == "ok" else advice)


def _limits(proc: Path, groups: Path) -> Iterator[tuple[int, int, Path]]:
    """(left, limit, file) of each group above us, of both versions of cgroups."""
    for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mounts, names = [groups, groups / "unified"], ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mounts = [groups / "memory"]
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        for mount in mounts:
            own = mount / path.lstrip("/")
            for folder in [own, *own.parents]:
                if folder == mount.parent:
                    break
                if (found := _limit(folder, *names)) is not None:
                    yield found


def _limit(folder: Path, most: str, now: str, cache: str) -> tuple[int, int, Path] | None:
    try:
        limit = int((folder / most).read_text())  # "max" is no number
        used = int((folder / now).read_text())
        statistics = (folder / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None
    if limit >= _NO_LIMIT:
        return None
    given_back = sum(int(line.split()[1]) for line in statistics if line.split()[0] == cache)
    return max(0, limit - max(0, used - given_back)), limit, folder / most


def descriptors() -> Finding:
    """Every peer process, channel and endpoint takes some; a window only while it is passed on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list((PROC / "self" / "fd").iterdir()))
    text = f"{used} of {_number(soft)} open (hard limit {_number(hard)})"
    advice = "ulimit -n 4096 before the program starts; docker: --ulimit nofile=4096; systemd: LimitNOFILE="
    if soft == resource.RLIM_INFINITY or soft - used >= _FEW_DESCRIPTORS - 256:
        return Finding("descriptors", "ok", text)
    return Finding("descriptors", "warn" if soft - used >= _TOO_FEW_DESCRIPTORS else "fail", text, advice)


def address_space() -> Finding:
    """Windows of peers are mapped: what counts against `ulimit -v` though it is nobody's second copy."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    maps = len((PROC / "self" / "maps").read_text().splitlines())
    most = int((PROC / "sys" / "vm" / "max_map_count").read_text())
    text = f"{_number(soft)} bytes, {maps:,} of {most:,} mappings"
    if soft != resource.RLIM_INFINITY:
        return Finding(
            "address space", "warn", text, "ulimit -v unlimited: windows of peers are mapped whole"
        )
    if most - maps < 10_000:
        return Finding("address space", "warn", text, f"sysctl vm.max_map_count={4 * most}")
    return Finding("address space", "ok", text)


def namespaces(proc: Path = PROC) -> Finding:
    """Names of ipc:// are seen within one network namespace; users are compared as this user namespace
    sees them."""
    network = (proc / "self" / "ns" / "net").readlink().name
    mapped = [tuple(map(int, line.split())) for line in (proc / "self" / "uid_map").read_text().splitlines()]
    text = f"network {network}: ipc://name reaches who is in there, ipc:///folder/name who shares the folder"
    if mapped == [(0, 0, _WHOLE_RANGE)]:
        return Finding("namespaces", "ok", text)
    return Finding(
        "namespaces",
        "warn",
        f"{text}; users are mapped (uid {os.geteuid()} here is another one outside)",
        "run both sides in one user namespace, else they are different users to each other and refuse",
    )


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def io_uring_refusal() -> str:
    """Why the kernel refuses io_uring to this process; empty if it does not. Makes no ring."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number, ring, allowed in ((_IO_URING_SETUP, 1, errno.EFAULT), (_IO_URING_ENTER, -1, errno.EBADF)):
        libc.syscall(*(ctypes.c_long(word) for word in (number, ring, 0, 0, 0, 0, 0)))
        if ctypes.get_errno() != allowed:
            return os.strerror(ctypes.get_errno())
    return ""


def io_uring() -> Finding:
    """A container's seccomp filter usually refuses it; nothing needs it."""
    refusal = io_uring_refusal()
    text = (
        f"refused by the kernel or a seccomp filter ({refusal}): tcp:// with engine=uring uses epoll"
        if refusal
        else "allowed: tcp:// uses it with engine=uring"
    )
    return Finding("io_uring", "ok", text)
