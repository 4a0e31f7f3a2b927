"""The machine under a measurement: its state by a cache-line ping-pong, and the native benchmark program."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent / "native"
BUILD = ROOT / "build" / "bench"
PROGRAM = BUILD / "native_bench"
IN_PROCESS = BUILD / "in_process_bench"
POST = BUILD / "post_bench"
CHANNELS = BUILD / "channels_bench"
BESIDE = BUILD / "beside_bench"
CORES = BUILD / "cores_bench"
SHARES = BUILD / "shares_bench"
PATIENCE_S = 60
CHANNEL_BYTES = 4096  # of a buffer, where channels are many; each has two each way

# One-way nanoseconds of a cache line between the two cores, up to which a state is meant.
STATES = (("smt", 57.0), ("near", 150.0), ("far", float("inf")))


class Cores(NamedTuple):
    """The two cores of a pair of processes: (asks or writes, serves or reads)."""

    asking: int
    serving: int


def two_cores() -> Cores:
    cores = sorted(os.sched_getaffinity(0))
    return Cores(cores[0], cores[-1])


def build() -> None:
    """Compiles the release build of the core and the native benchmark programs."""
    subprocess.run(
        ["cmake", "-S", "native", "--preset", "bench"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    subprocess.run(
        ["cmake", "--build", str(BUILD), "--target", "lwmq"], check=True, stdout=subprocess.DEVNULL
    )
    _compile(PROGRAM, "*.c")
    _compile(IN_PROCESS, "in_process/*.c")
    _compile(POST, "post/*.c")
    _compile(CHANNELS, "channels/*.c")
    _compile(BESIDE, "beside/*.c")
    _compile(CORES, "cores/*.c")
    _compile(SHARES, "shares/*.c")


def _compile(program: Path, pattern: str) -> None:
    common = SOURCES / "common"
    sources = sorted([*SOURCES.glob(pattern), *common.glob("*.c")])
    read = [*sources, *SOURCES.glob("*.h"), *common.glob("*.h"), BUILD / "liblwmq.so"]
    newest = max(path.stat().st_mtime for path in read)
    if program.exists() and program.stat().st_mtime > newest:
        return
    subprocess.run(
        ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror",
         f"-I{ROOT / 'native/include'}", f"-I{common}", *map(str, sources), f"-L{BUILD}", "-llwmq",
         f"-Wl,-rpath,{BUILD}", "-ldl", "-lrt", "-pthread", "-o", str(program)],
        check=True,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """For every process that is measured: the release build of the core in place of the packaged one."""
    return {**os.environ, "LD_PRELOAD": str(BUILD / "liblwmq.so"), "PYTHONPATH": str(ROOT)}


@contextmanager
def address() -> Iterator[str]:
    """Of one run, used by nobody else; what is left in /dev/shm under names that begin with it is removed."""
    name = f"lwmq-bench-{os.getpid()}-{time.monotonic_ns()}"
    try:
        yield name
    finally:
        for left in Path("/dev/shm").glob(f"{name}*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def together(
    first: list[str], second: list[str], env: dict[str, str], head_start_s: float = 0.0
) -> tuple[str, str]:
    """Runs two processes until both have ended; what they printed. RuntimeError where one of them failed."""

    def start(command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(command, env=env, cwd=ROOT, text=True, stdout=subprocess.PIPE)

    processes, printed = [start(first)], list[str]()
    try:
        time.sleep(head_start_s)
        processes.append(start(second))
        for process in reversed(processes):
            printed.append(process.communicate(timeout=PATIENCE_S)[0])
            if process.returncode != 0:
                break  # the other one would wait for it
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end within {PATIENCE_S} s: {' '.join(second)}") from None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    if any(process.returncode != 0 for process in processes):
        codes = [process.returncode for process in processes]
        raise RuntimeError(f"{' '.join(second)}: ended with {codes}")
    return printed[1], printed[0]


def native(peer: str, metric: str, size: int, seconds: float, prefix: Sequence[str] = ()) -> dict[str, Any]:
    """One run of the native benchmark: two processes on two cores, each started by `prefix`."""
    _, output = _sides(PROGRAM, [peer, metric], [size, seconds], prefix)
    found: dict[str, Any] = json.loads(output)
    return found


def beside(peer: str, seconds: float) -> dict[str, Any]:
    """One run of control beside data: two processes, each with one thread for both."""
    _, output = _sides(BESIDE, [peer], [seconds])
    found: dict[str, Any] = json.loads(output)
    return {**found, "p99_to_idle": found["p99_ns"] / found["idle_p99_ns"]}


def channels(peer: str, count: int, seconds: float) -> dict[str, Any]:
    """One run of many conversations between two processes; of what both count, the larger figure."""
    serving, asking = map(json.loads, _sides(CHANNELS, [peer], [count, CHANNEL_BYTES, seconds]))
    return {**asking, **{key: max(value, asking[key]) for key, value in serving.items()}}


def channels_that_fit(most: int) -> tuple[int, float, int]:
    """How many channels between two processes the limit of descriptors allows; how many descriptors each of
    them has, and what the limit is. `most` where that is no more than fit."""
    few = 100
    found = _patiently(lambda seconds: channels("lwmq", few, seconds))
    each, allowed = found["descriptors"] / few, found["descriptors_max"]
    fit = int(0.8 * allowed / each)  # a fifth for those of handshakes that are on
    return min(most, max(fit // 1000 * 1000, few)), each, allowed


def channels_in_process(count: int, seconds: float) -> dict[str, Any]:
    """One run of channels whose `count` ends are in one process, one half in each of two threads."""
    with address() as where:
        return _alone(CHANNELS, "lwmq", "both", count, CHANNEL_BYTES, seconds, where, *two_cores())


def in_process(peer: str, size: int, seconds: float) -> dict[str, Any]:
    """One run between two threads of one process, each on its core."""
    return _alone(IN_PROCESS, peer, size, seconds, *two_cores())


def posts(peer: str, size: int, seconds: float) -> dict[str, Any]:
    """One run of bursts of posts by one thread, which another one receives."""
    return _alone(POST, peer, size, seconds, *two_cores())


def shares(peer: str, shape: str, count: int, size: int, seconds: float) -> dict[str, Any]:
    """One run of what one thread sends to `count` workers, or from `count` sources to one thread."""
    with address() as where:
        return _alone(SHARES, peer, shape, count, size, seconds, where, *two_cores())


def all_cores(peer: str, size: int, seconds: float) -> dict[str, Any]:
    """One run of threads that share nothing: each alone on its core, then all of them at once."""
    return _alone(CORES, peer, size, seconds, *sorted(os.sched_getaffinity(0)))


def _alone(*command: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What one process prints."""
    words = [*map(str, command)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, env=env or _with_zmq())
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed: {ran.stderr}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def _sides(
    program: Path, what: Sequence[str], rest: Sequence[object], prefix: Sequence[str] = ()
) -> tuple[str, str]:
    """What the two processes of a program print that has a role, serving and asking, one core for each."""
    cores = two_cores()
    with address() as where:

        def command(role: str, core: int) -> list[str]:
            return [*prefix, str(program), *what, role, *map(str, rest), where, str(core)]

        # The floor has no handshake: its file must be there before the other side looks for it.
        serving, asking = command("serve", cores.serving), command("ask", cores.asking)
        return together(serving, asking, _with_zmq(), head_start_s=0.1)


def messages(peer: str, metric: str, size: int, seconds: float) -> dict[str, Any]:
    """One run of tests.bench.message_peers: what the process that asks has seen."""
    _, output = _pair("message_peers", (peer, metric), ("serve", "ask"), size, seconds)
    found: dict[str, Any] = json.loads(output)
    return found


def batches(kind: str, peer: str, size: int, seconds: float) -> dict[str, Any]:
    """One run of tests.bench.arrow_peers: what the receiver has seen."""
    output, _ = _pair("arrow_peers", (kind, peer), ("receive", "send"), size, seconds)
    found: dict[str, Any] = json.loads(output)
    return found


def delegation(peer: str, batch: int, seconds: float) -> dict[str, Any]:
    """One run of tests.bench.delegation: what the process that asks has seen. batch: 0 for round trips."""
    _, output = _pair("delegation", (peer,), ("serve", "ask"), batch, seconds)
    found: dict[str, Any] = json.loads(output)
    return found


def apart(peer: str, what: str, seconds: float) -> dict[str, Any]:
    """One run of tests.bench.apart. what: `channel` or `direction`."""
    _, output = _pair("apart", (peer, what), ("serve", "ask"), 0, seconds)
    found: dict[str, Any] = json.loads(output)
    return found


def deaths(peer: str, count: int) -> dict[str, Any]:
    """One run of tests.bench.deaths."""
    with address() as where:
        return _alone(*_module("deaths", peer, count, where), env=environment())


def openings(peer: str, count: int) -> dict[str, Any]:
    """One run of tests.bench.openings."""
    with address() as where:
        return _alone(*_module("openings", peer, count, where), env=environment())


def _pair(
    module: str, what: tuple[str, ...], roles: tuple[str, str], size: int, seconds: float
) -> tuple[str, str]:
    """What two processes of a module of this folder print, one role and one core for each."""
    cores = two_cores()
    with address() as where:
        first, second = (
            _module(module, *what, role, size, seconds, where, core)
            for role, core in zip(roles, (cores.serving, cores.asking), strict=True)
        )
        return together(first, second, environment())


def _module(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"tests.bench.{name}", *map(str, arguments)]


def _with_zmq() -> dict[str, str]:
    import zmq

    found = sorted(Path(zmq.__file__).parent.parent.glob("pyzmq.libs/libzmq*"))
    return {**os.environ, "LWMQ_BENCH_ZMQ": str(found[0])} if found else dict(os.environ)


def _patiently(run: Callable[[float], dict[str, Any]]) -> dict[str, Any]:
    """A short run; a longer one where it fails: on a machine that is busy otherwise it may see nothing."""
    for seconds in (0.05, 0.2):
        try:
            return run(seconds)
        except RuntimeError:
            continue
    return run(1.0)


def state() -> tuple[str, float]:
    """The state of the machine now, and the nanoseconds that say so."""
    nanoseconds = float(_patiently(lambda seconds: native("floor", "latency", 8, seconds))["p50_ns"])
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
