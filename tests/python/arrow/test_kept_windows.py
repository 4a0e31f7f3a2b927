"""Memory that outlives its user for a while: a writer's windows for the next writer of the process, and a
peer's windows, where a reader asks for it, for the next reader of this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark._ffi import check, ffi, lib, sized, statistics

pytestmark = pytest.mark.alone  # memory is kept for ten seconds: what comes later is too late

SERVING_READER = """
    for line in sys.stdin:
        with lwmq.open_reader(sys.argv[1], role="server") as reader:
            rows = sum(batch.num_rows for batch in reader)
        print(rows)  # now: a writer that came before the close would find nobody who reads
"""
WRITER_OF_EVERYTHING = """
    import numpy as np, pyarrow as pa
    batch = pa.record_batch({"n": np.arange(100_000)})
    with lwmq.open_writer(sys.argv[1], batch.schema, role="server", retain="all") as writer:
        writer.write(batch)
        print("written")
        sys.stdin.readline()
        writer.abort()
"""


def windows() -> dict[int, tuple[int, int]]:
    """The windows, of any process, that are mapped here: by inode, address and size."""
    found = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:lwmq-window" in line:
            fields = line.split()
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            found[int(fields[4])] = (begin, end - begin)
    return found


def batch_windows() -> set[int]:
    """Inodes of those that hold batches: ledger and pages of leases have 256 KiB."""
    return {inode for inode, (_, size) in windows().items() if size > 1 << 18}


def test_the_next_writer_at_an_address_gets_the_memory_of_the_last(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    import numpy as np
    import pyarrow as pa

    batch = pa.record_batch({"n": np.arange(100_000)})
    before = batch_windows()
    reader = spawn(SERVING_READER, ipc)
    seen = []
    for _ in range(3):
        reader.tell("")
        with lwmq.open_writer(ipc, batch.schema, role="client", window_bytes="4MiB") as writer:
            writer.write(batch)
        assert reader.line() == "100000"
        seen.append(batch_windows() - before)
    assert seen[0], "no window of 800 KB or more was made"
    assert seen[1] == seen[0] and seen[2] == seen[0]


DOOR = """
    with lwmq.Endpoint(sys.argv[1], linger=0):
        print("serves")
        sys.stdin.readline()
"""


@pytest.mark.parametrize("served", ["here", "elsewhere"])
def test_a_second_stream_of_the_same_shape_needs_no_new_memory(
    tmp_path: Path, spawn: Callable[..., Any], served: str
) -> None:
    import numpy as np
    import pyarrow as pa

    batch = pa.record_batch({"n": np.arange(100_000)})
    door = f"ipc://{tmp_path}/door"  # windows that other tests have left do not go there
    if served == "elsewhere":
        assert spawn(DOOR, door).line() == "serves"
    made = []
    for name in ("first", "second", "third"):
        before = statistics()["window_bytes_made"]
        writer = lwmq.open_writer(f"{door}?stream={name}", batch.schema, window_bytes="4MiB")
        with lwmq.open_reader(f"{door}?stream={name}", role="client") as reader:
            for _ in range(3):  # before the first is read: what is needed does not depend on who is quicker
                writer.write(batch)
            for _ in range(3):
                assert next(reader).num_rows == 100_000
            reader.consume()
            writer.close()
        made.append(statistics()["window_bytes_made"] - before)
    assert made[0] > 0 and made[1:] == [0, 0]


def test_windows_do_not_go_to_where_others_may_read(tmp_path: Path) -> None:
    """Readers of an address in one folder may be in another container than those of one elsewhere."""
    import numpy as np
    import pyarrow as pa

    batch = pa.record_batch({"n": np.arange(100_000)})
    seen = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        before = batch_windows()
        writer = lwmq.open_writer(f"ipc://{tmp_path / folder}/stream", batch.schema, window_bytes="4MiB")
        writer.write(batch)
        seen.append(batch_windows() - before)
        with lwmq.open_reader(writer.address, role="client") as reader:
            next(reader)
            reader.consume()
            writer.close()
    assert seen[0] and seen[1], "each has windows of its own"


def read_once(uri: str, keep_mapped: int) -> int:
    """Opens a reader by lwmq.h, takes a batch, and answers the inode of its window."""
    options = sized("lwmq_reader_options")
    options.role, options.timeout_ms, options.keep_mapped = lib.LWMQ_ROLE_CLIENT, 20_000, keep_mapped
    reader, batch = ffi.new("lwmq_reader **"), ffi.new("lwmq_batch **")
    check(lib.lwmq_reader_open(uri.encode(), options, reader))
    check(lib.lwmq_reader_next(reader[0], 20_000, batch))
    info = sized("lwmq_batch_info")
    check(lib.lwmq_batch_query(batch[0], info))
    lies = int(ffi.cast("uintptr_t", info.window_data))
    inode = next(inode for inode, (address, _) in windows().items() if address == lies)
    lib.lwmq_batch_release(batch[0])
    check(lib.lwmq_reader_close(reader[0], 0))
    return inode


@pytest.mark.parametrize("keep_mapped", [0, 1])
def test_a_peers_window_stays_mapped_where_a_reader_asks_for_it(
    ipc: str, spawn: Callable[..., Any], keep_mapped: int
) -> None:
    writer = spawn(WRITER_OF_EVERYTHING, ipc)
    assert writer.line() == "written"
    inode = read_once(ipc, keep_mapped)
    assert (inode in windows()) == bool(keep_mapped)
    writer.tell("")


@pytest.mark.slow
def test_what_is_kept_mapped_goes_after_ten_seconds(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(WRITER_OF_EVERYTHING, ipc)
    assert writer.line() == "written"
    inode = read_once(ipc, 1)
    time.sleep(8)  # meanwhile it stays
    assert inode in windows()
    time.sleep(4)  # meanwhile the ten seconds are over
    assert inode not in windows()
    writer.tell("")
