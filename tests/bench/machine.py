"""The machine under a measurement: its state by a cache-line ping-pong, and the native benchmark program."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "native"
BUILD = ROOT / "build" / "bench"
PROGRAM = BUILD / "native_bench"
PATIENCE_S = 60

# One-way nanoseconds of a cache line between the two cores, up to which a state is meant.
STATES = (("smt", 57.0), ("near", 150.0), ("far", float("inf")))


@dataclass
class Cores:
    """The two cores of a pair of processes: (asks or writes, serves or reads)."""

    asking: int
    serving: int


def two_cores() -> Cores:
    cores = sorted(os.sched_getaffinity(0))
    return Cores(cores[0], cores[-1])


def build() -> None:
    """Compiles the release build of the core and the native benchmark program."""
    subprocess.run(
        ["cmake", "-S", "native", "--preset", "bench"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    subprocess.run(
        ["cmake", "--build", str(BUILD), "--target", "lwmq"], check=True, stdout=subprocess.DEVNULL
    )
    sources = sorted(SOURCES.glob("*.c"))
    newest = max(path.stat().st_mtime for path in [*sources, BUILD / "liblwmq.so"])
    if PROGRAM.exists() and PROGRAM.stat().st_mtime > newest:
        return
    subprocess.run(
        ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror",
         f"-I{ROOT / 'native/include'}", *map(str, sources), f"-L{BUILD}", "-llwmq", f"-Wl,-rpath,{BUILD}",
         "-ldl", "-lrt", "-o", str(PROGRAM)],
        check=True,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """For every process that is measured: the release build of the core in place of the packaged one."""
    return {**os.environ, "LD_PRELOAD": str(BUILD / "liblwmq.so"), "PYTHONPATH": str(ROOT)}


def native(peer: str, metric: str, size: int, seconds: float) -> dict[str, Any]:
    """One run of the native benchmark: two processes on two cores."""
    cores, address = two_cores(), f"lwmq-bench-{os.getpid()}-{time.monotonic_ns()}"

    def start(role: str, core: int) -> subprocess.Popen[str]:
        command = [str(PROGRAM), peer, metric, role, str(size), str(seconds), address, str(core)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_with_zmq())

    serving = start("serve", cores.serving)
    try:
        time.sleep(0.1)  # the floor has no handshake: its file must be there
        asking = start("ask", cores.asking)
        try:
            output, _ = asking.communicate(timeout=PATIENCE_S)
        finally:
            asking.kill()
            asking.wait()
        serving.wait(PATIENCE_S)
    finally:
        serving.kill()
        serving.wait()
        serving.stdout.close() if serving.stdout else None
    if asking.returncode != 0 or serving.returncode != 0:
        raise RuntimeError(f"{peer} {metric} {size}: ended with {asking.returncode} and {serving.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


def _with_zmq() -> dict[str, str]:
    import zmq

    found = sorted(Path(zmq.__file__).parent.parent.glob("pyzmq.libs/libzmq*"))
    return {**os.environ, "LWMQ_BENCH_ZMQ": str(found[0])} if found else dict(os.environ)


def state() -> tuple[str, float]:
    """The state of the machine now, and the nanoseconds that say so."""
    for seconds in (0.05, 0.2, 1.0):  # on a machine that is busy otherwise a short look may see nothing
        try:
            nanoseconds = float(native("floor", "latency", 8, seconds)["p50_ns"])
            break
        except RuntimeError:
            if seconds == 1.0:
                raise
    return next(name for name, limit in STATES if nanoseconds <= limit), nanoseconds


def description() -> dict[str, Any]:
    """What stands above a table of figures."""
    cpu = next(
        (line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.machine(),
    )  # fmt: skip
    memory = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**20),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }
