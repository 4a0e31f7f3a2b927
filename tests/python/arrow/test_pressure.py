"""What happens at the limits: a full window, leases that are kept, memory and descriptors that run out. An
error with the numbers, nothing half-written, and everything goes on when there is room again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow.endpoint import describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 8192  # 64 KiB
WINDOW = "1MiB"


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.full(ROWS, number)}, schema=SCHEMA)


def write_at_last(writer: lwmq.StreamWriter, one: pa.RecordBatch) -> int:
    """There is room by now, or soon; a writer with a short time-out may not have heard of it in time."""
    end = time.monotonic() + HANG_S
    while True:
        try:
            return writer.write(one)
        except lwmq.TimeoutError:
            assert time.monotonic() < end, "no room"


# ---- The window


@pytest.mark.row("L17")
def test_a_reader_that_never_reads_is_named_and_the_writer_goes_on_when_it_does(address: str) -> None:
    with (
        # short: the window is to be full
        lwmq.open_writer(address, SCHEMA, window_bytes=WINDOW, timeout=0.2, linger=0) as writer,
        lwmq.open_reader(address, timeout=60, linger=0) as reader,
    ):
        written = 0
        with pytest.raises(
            lwmq.TimeoutError, match=r"no room for \d+ bytes within 0.2 s on .*: .*\d+ batches"
        ) as full:
            for written in range(100):
                writer.write(batch(written))
        assert address in str(full.value)
        assert 8 <= written < 20
        assert [int(next(reader)["n"][0].as_py()) for _ in range(4)] == [0, 1, 2, 3]
        assert write_at_last(writer, batch(written)) == ROWS
        writer.abort()


def test_more_small_batches_than_a_writer_can_number_wait_for_a_reader(address: str) -> None:
    most, count = 65535, 70_000
    small = [pa.record_batch({"n": [number]}, schema=SCHEMA) for number in range(count)]
    written = 0
    with (
        lwmq.open_writer(address, SCHEMA, window_bytes="256MiB", timeout=1, linger=0) as writer,
        lwmq.open_reader(address, timeout=60, linger=0) as reader,
    ):
        with pytest.raises(lwmq.TimeoutError, match=r"as many batches as it can.*batches must be larger"):
            for written in range(count):
                writer.write(small[written])
        assert most <= written < most + 1000
        writing = threading.Thread(target=lambda: [write_at_last(writer, one) for one in small[written:]])
        writing.start()
        for one in small:
            assert next(reader) == one
        writing.join()
        writer.abort()


def test_more_small_batches_than_can_be_staged_fail_at_once(address: str) -> None:
    small = pa.record_batch({"n": [1]}, schema=SCHEMA)
    with (
        lwmq.open_reader(address, role="server", timeout=60, linger=0),
        lwmq.open_writer(
            address, SCHEMA, job="j", job_tasks=1, task=0, delivery="task", window_bytes="256MiB"
        ) as writer,
    ):
        with pytest.raises(lwmq.LwmqError, match=r"65535 batches of this task.*larger batches"):
            for _ in range(70_000):
                writer.write(small)
        writer.abort()


@pytest.mark.row("L34")
@pytest.mark.parametrize("windows", [10, 100])
def test_a_stream_many_times_its_window_passes_whole(
    ipc: str, spawn: Callable[..., Any], windows: int
) -> None:
    count = windows * 16
    child = spawn(
        """
        import numpy as np, pyarrow as pa
        with lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]), window_bytes="1MiB") as writer:
            for number in range(int(sys.argv[2])):
                writer.write(pa.record_batch({"n": np.full(8192, number)}))
        """,
        ipc,
        count,
    )
    with lwmq.open_reader(ipc, timeout=60) as reader:
        for number, got in enumerate(reader):
            assert got["n"][0].as_py() == got["n"][ROWS - 1].as_py() == number
        assert reader.statistics.batches == count
        assert reader.statistics.bytes_copied == 0
    assert child.wait() == 0


def test_leases_that_are_kept_for_ever_become_copies_and_stop_nobody(address: str) -> None:
    """`list(reader)` holds every batch: past half of the window, what follows is copied, and counted."""
    with lwmq.Endpoint(address, linger=0):
        writer = lwmq.open_writer(address, SCHEMA, window_bytes=WINDOW, timeout=60, linger=60)
        kept: list[pa.RecordBatch] = []
        with lwmq.open_reader(address, timeout=60) as reader:
            for number in range(100):
                writer.write(batch(number))
                kept.append(next(reader))
            statistics = reader.statistics
            assert statistics.leased_bytes <= (1 << 20) // 2
            assert statistics.batches_copied + statistics.leased_batches == 100
            reader.consume()
            writer.close()
        assert [got["n"][ROWS // 2].as_py() for got in kept] == list(range(100))


def test_the_holder_of_the_last_lease_is_named_by_process(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        with lwmq.open_reader(sys.argv[1], role="client", timeout=60) as reader:
            held = next(reader)
            reader.consume()
            print("held")
            sys.stdin.readline()
            del held
            print("gone")
            sys.stdin.readline()
        """,
        ipc,
    )
    big = pa.record_batch({"n": np.zeros(12 * ROWS, np.int64)}, schema=SCHEMA)  # three quarters of the window
    # short: the window is to be full
    with lwmq.open_writer(
        ipc, SCHEMA, role="server", buffer_bytes=WINDOW, window_bytes=WINDOW, timeout=0.3, linger=0
    ) as writer:
        writer.write(big)
        assert child.line() == "held"
        told = f"1 read and still held by process {child.pid} "
        end = time.monotonic() + HANG_S
        while True:  # the writer may not have heard yet that it was read
            with pytest.raises(lwmq.TimeoutError) as full:
                writer.write(big)
            if told in str(full.value):
                break
            assert time.monotonic() < end, full.value
        child.tell()
        assert child.line() == "gone"
        assert write_at_last(writer, big) == big.num_rows
        child.tell()
        writer.abort()


# ---- Memory

BUDGETED = """
    import numpy as np, pyarrow as pa
    from lwmq_spark._ffi import lib
    {limit}
    def batch(number):
        return pa.record_batch({{"n": np.full(1 << 17, number)}})
    writer = lwmq.open_writer(sys.argv[1], batch(0).schema, window_bytes={window}, timeout=60, role="client")
    written = 0
    try:
        while True:
            writer.write(batch(written))
            written += 1
    except lwmq.LwmqError as exc:
        print(type(exc).__name__, exc)
    print(written)
    sys.stdin.readline()
    writer.write(batch(written))
    print("wrote on")
    writer.close()
"""


def goes_on_after(child: Any, ipc: str, text: str) -> int:
    """The child wrote until it met a limit; reads all of it, whole, and one batch more. How many it was."""
    said = child.line()
    assert said.startswith("LwmqError "), said
    assert text in said, said
    written = int(child.line())
    with lwmq.open_reader(ipc, role="client", timeout=60) as reader:
        for number in range(written):
            got = next(reader)["n"]
            assert got[0].as_py() == got[len(got) - 1].as_py() == number
            del got
        reader.consume()
        child.tell()
        assert child.line() == "wrote on"
        assert next(reader)["n"][0].as_py() == written
    assert child.wait() == 0
    return written


def test_over_our_own_budget_is_an_error_with_the_numbers(ipc: str, spawn: Callable[..., Any]) -> None:
    with lwmq.Endpoint(ipc, linger=0):
        child = spawn(BUDGETED.format(limit="lib.lwmq_set_window_memory(40 << 20)", window=None), ipc)
        written = goes_on_after(child, ipc, "of the 41943040 bytes that it may hold in windows")
        assert 20 < written < 40


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory group of our own below the one we are in; version 1 or 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            above, limit = Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        elif controllers == "" and Path(f"/sys/fs/cgroup{path}/memory.max").exists():
            above, limit = Path("/sys/fs/cgroup" + path), "memory.max"
        else:
            continue
        group = above / f"lwmq-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / limit).write_text(str(300 << 20))
        except OSError as exc:
            pytest.skip(f"no memory group can be made here: {exc}")
        yield group
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                group.rmdir()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"{group} is still in use")
    pytest.skip("no memory controller of cgroups is mounted here")


def test_a_memory_group_that_is_nearly_full_is_an_error_before_the_kernel_kills(
    ipc: str, spawn: Callable[..., Any], cgroup: Path
) -> None:
    with lwmq.Endpoint(ipc, linger=0):
        # A budget that is larger than the group, so that it is the group that speaks.
        limit = f'open("{cgroup}/cgroup.procs", "w").write("0"); lib.lwmq_set_window_memory(1 << 40)'
        child = spawn(BUDGETED.format(limit=limit, window="'1GiB'"), ipc)
        written = goes_on_after(child, ipc, cgroup.name)
        assert written > 50  # MiB, of 300 in all


# ---- Descriptors

EXHAUST = """
    import resource
    def exhaust(room):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(room):
            os.close(taken.pop())
        return taken
    def give_back(taken):
        while taken:
            os.close(taken.pop())
"""


@pytest.mark.alone
def test_a_server_without_descriptors_refuses_in_words_and_serves_on_later(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    child = spawn(
        EXHAUST
        + """
    endpoint = lwmq.Endpoint(sys.argv[1], linger=0)
    taken = exhaust(2)
    print("exhausted")
    sys.stdin.readline()
    give_back(taken)
    print("room")
    sys.stdin.readline()
    """,
        ipc,
    )
    assert child.line() == "exhausted"
    with pytest.raises(lwmq.LwmqError) as refused:
        for _ in range(5):
            describe(ipc, timeout=60, wait_declared=False)
    assert "Too many open files (errno 24; this process may have 256 open: raise ulimit -n)" in str(
        refused.value
    )
    assert f"{ipc}: the listener refused" in str(refused.value)
    process = psutil.Process(child.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(0.5)  # meanwhile it sleeps
    assert sum(process.cpu_times()[:2]) - before < 0.2, "it spins while somebody waits to be taken"
    child.tell()
    assert child.line() == "room"
    assert describe(ipc, timeout=60, wait_declared=False).state == "undeclared"
    child.tell()


def test_a_writer_without_descriptors_makes_no_window_and_writes_on_later(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    with lwmq.Endpoint(ipc, linger=0):
        child = spawn(
            EXHAUST
            + """
    import numpy as np, pyarrow as pa
    batch = pa.record_batch({"n": np.arange(8192)})
    writer = lwmq.open_writer(sys.argv[1], batch.schema, timeout=60.0)
    taken = exhaust(0)
    try:
        writer.write(batch)
        print("written")
    except lwmq.LwmqError as exc:
        print(exc)
    give_back(taken)
    writer.write(batch)
    print("wrote on")
    writer.close()
    """,
            ipc,
        )
        said = child.line()
        assert (
            "memfd_create(lwmq-window): Too many open files (errno 24; this process may have 256 open" in said
        )
        assert child.line() == "wrote on"
        with lwmq.open_reader(ipc, timeout=60) as reader:
            assert sum(got.num_rows for got in reader) == 8192
        assert child.wait() == 0


def test_a_reader_without_descriptors_takes_no_window_and_the_next_one_gets_the_batch(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    with lwmq.Endpoint(ipc, linger=0), lwmq.open_writer(ipc, SCHEMA, linger=0) as writer:
        child = spawn(
            EXHAUST
            + """
    reader = lwmq.open_reader(sys.argv[1], role="client", timeout=60.0)
    reader.schema
    taken = exhaust(2)
    print("exhausted")
    try:
        print(next(reader).num_rows)
    except lwmq.LwmqError as exc:
        print(exc)
    reader.close()
    give_back(taken)
    with lwmq.open_reader(sys.argv[1], role="client", timeout=60.0) as reader:
        print(next(reader).num_rows)
    """,
            ipc,
        )
        assert child.line() == "exhausted"
        writer.write(batch(1))
        assert "this process may have 256 open: raise ulimit -n" in child.line()
        assert child.line() == str(ROWS)
        assert child.wait() == 0
        writer.abort()


def test_an_endpoint_without_descriptors_tells_the_writer_and_serves_the_next(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    child = spawn(
        EXHAUST
        + """
    endpoint = lwmq.Endpoint(sys.argv[1], linger=0)
    print("serves")
    sys.stdin.readline()
    taken = exhaust(2)
    print("exhausted")
    sys.stdin.readline()
    give_back(taken)
    print("room")
    sys.stdin.readline()
    """,
        ipc,
    )
    assert child.line() == "serves"
    writer = lwmq.open_writer(ipc, SCHEMA, timeout=60)
    child.tell()
    assert child.line() == "exhausted"
    with pytest.raises(lwmq.LwmqError, match="this process may have 256 open: raise ulimit -n"):
        for number in range(1000):
            writer.write(batch(number))
            time.sleep(0.01)
    writer.abort()
    child.tell()
    assert child.line() == "room"
    with lwmq.open_writer(ipc, SCHEMA, timeout=60, linger=0) as second:
        second.write(batch(1))
        with lwmq.open_reader(ipc, timeout=60) as reader:
            assert next(reader).num_rows == ROWS
        second.abort()
    child.tell()


# ---- /dev/shm


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a /dev/shm of its own")
def test_a_full_dev_shm_is_nothing_to_us(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x20000) == 0
        assert libc.mount(b"none", b"/", None, 0x44000, None) == 0
        assert libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=4k") == 0
        open("/dev/shm/full", "wb", 0).write(bytes(4096))
        import numpy as np, pyarrow as pa
        with lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]), timeout=60.0) as writer:
            for number in range(40):
                writer.write(pa.record_batch({"n": np.full(8192, number)}))
        """,
        ipc,
    )
    with lwmq.open_reader(ipc, timeout=60) as reader:
        assert sum(got.num_rows for got in reader) == 40 * ROWS
    assert child.wait() == 0
