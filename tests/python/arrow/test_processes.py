"""Two and more processes, one window; and what the others see when one of them is killed."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])


def batch_of(value: int, rows: int = 1000) -> pa.RecordBatch:
    return pa.record_batch({"n": np.full(rows, value)}, schema=SCHEMA)


WRITER = """
    import pyarrow as pa, numpy as np
    address, batches, role = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    schema = pa.schema([("n", pa.int64())])
    with lwmq.open_writer(address, schema, role=role, retain=sys.argv[4]) as writer:
        for value in range(batches):
            writer.write(pa.record_batch({"n": np.full(1000, value)}, schema=schema))
        print("written", flush=True)
        if len(sys.argv) > 5:
            sys.stdin.readline()
    print("closed")
"""

READER = """
    with lwmq.open_reader(sys.argv[1], role=sys.argv[2]) as reader:
        print("open")
        for batch in reader:
            print(batch["n"][0].as_py(), batch.num_rows, reader.last.writer_pid, int(reader.last.copied))
    print("end")
"""


@pytest.mark.row("L01", "M02", "M12", "S08")
@pytest.mark.parametrize(
    ("writer_role", "reader_role"), [("auto", "auto"), ("server", "client"), ("client", "server")]
)
@pytest.mark.parametrize("reader_first", [False, True])
def test_a_writer_and_a_reader_in_two_processes_start_in_any_order(
    ipc: str, spawn: Callable[..., Any], writer_role: str, reader_role: str, reader_first: bool
) -> None:
    if reader_first:
        reader = spawn(READER, ipc, reader_role)
        writer = spawn(WRITER, ipc, 10, writer_role, "until_acked")
    else:
        writer = spawn(WRITER, ipc, 10, writer_role, "until_acked")
        reader = spawn(READER, ipc, reader_role)
    assert reader.line() == "open"
    assert [reader.line() for _ in range(10)] == [f"{value} 1000 {writer.pid} 0" for value in range(10)]
    assert reader.line() == "end"
    assert writer.line() == "written"
    assert writer.line() == "closed"
    assert (writer.wait(), reader.wait()) == (0, 0)


LATE_WRITER = """
    import pyarrow as pa
    schema = pa.schema([("n", pa.int64())])
    with lwmq.open_writer(sys.argv[1], schema, role="client") as writer:
        print("open", flush=True)
        sys.stdin.readline()
        writer.write(pa.record_batch({"n": [7]}, schema=schema))
    print("closed")
"""


def test_a_writer_that_serves_stays_until_the_others_have_ended(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = lwmq.open_writer(ipc, SCHEMA, role="server", timeout=60)
    writer.write(batch_of(3))
    late, reader = spawn(LATE_WRITER, ipc), spawn(READER, ipc, "client")
    assert (late.line(), reader.line(), reader.line()[:2]) == ("open", "open", "3 ")
    closing = threading.Thread(target=writer.close, daemon=True)
    closing.start()
    time.sleep(1)  # meanwhile it waits: several times as long as close waits in one call of the core
    assert closing.is_alive()
    late.tell()
    assert (late.line(), reader.line()[:4], reader.line()) == ("closed", "7 1 ", "end")
    closing.join(60)
    assert not closing.is_alive()
    assert (late.wait(), reader.wait()) == (0, 0)


def test_a_writer_that_serves_waits_for_the_others_no_longer_than_it_lingers(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    writer = lwmq.open_writer(ipc, SCHEMA, role="server", timeout=60)
    late = spawn(LATE_WRITER, ipc)
    assert late.line() == "open"
    reader = spawn(READER, ipc, "client")
    assert reader.line() == "open"
    with pytest.raises(lwmq.TimeoutError, match="1 producers open"):
        writer.close(linger=0.6)
    assert writer.closed


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_reader_that_serves_stays_until_as_many_have_read_as_the_stream_asks_for(
    ipc: str, spawn: Callable[..., Any], batches: int
) -> None:
    first = spawn(READER, ipc, "server")
    assert first.line() == "open"
    writer = lwmq.open_writer(ipc, SCHEMA, role="client", readers=2, timeout=60)
    for value in range(batches):
        writer.write(batch_of(value))
    closing = threading.Thread(target=writer.close, daemon=True)
    closing.start()
    values = [str(value) for value in range(batches)]
    assert [first.line()[0] for _ in range(batches)] == values
    time.sleep(0.3)  # meanwhile both wait
    assert closing.is_alive() and first.process.poll() is None
    second = spawn(READER, ipc, "client")
    assert second.line() == "open"
    assert [second.line()[0] for _ in range(batches)] == values
    assert second.line() == "end"
    closing.join(60)
    assert not closing.is_alive()
    assert first.line() == "end"
    assert (first.wait(), second.wait()) == (0, 0)


def test_the_same_reader_twice_counts_as_one(ipc: str) -> None:
    with lwmq.open_writer(ipc, SCHEMA, role="server", readers=2, linger=60) as writer:
        writer.write(batch_of(1))
        for _ in range(2):
            with lwmq.open_reader(ipc, name="one", start={0: 0}, timeout=60) as reader:
                assert next(reader).num_rows == 1000
        with pytest.raises(lwmq.TimeoutError, match="1 of 1 batches were not consumed"):
            writer.close(linger=0.5)


PART_READER = """
    partition = int(sys.argv[2])
    with lwmq.open_reader(sys.argv[1], partitions=[partition], timeout=60) as reader:
        print("open", flush=True)
        print(reader.read_all().num_rows, reader.statistics.batches_copied > 0)
"""


@pytest.mark.parametrize("readers", [2, 3, 5])
def test_readers_of_different_partitions_do_not_fill_a_window_between_them(
    ipc: str, spawn: Callable[..., Any], readers: int
) -> None:
    batches = 60 * readers  # of 8 KB: several times the window
    window = {"buffer_bytes": "64KiB", "window_bytes": "512KiB"}
    with lwmq.open_writer(ipc, SCHEMA, partitions=readers, role="server", timeout=60, **window) as writer:
        loaders = [spawn(PART_READER, ipc, partition) for partition in range(readers)]
        assert [loader.line() for loader in loaders] == ["open"] * readers
        for value in range(batches):
            writer.write(batch_of(value))
    assert [loader.line() for loader in loaders] == ["60000 True"] * readers


@pytest.mark.row("L15", "L20")
def test_much_more_than_a_window_moves_through_it_and_hashes_equal(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    writer = spawn(
        """
        import hashlib, numpy as np, pyarrow as pa
        schema = pa.schema([("n", pa.int64())])
        seen = hashlib.sha256()
        with lwmq.open_writer(sys.argv[1], schema, buffer_bytes="1MiB", window_bytes="16MiB") as writer:
            random = np.random.default_rng(7)
            for _ in range(256):
                values = random.integers(0, 1 << 60, 1 << 17)
                seen.update(values)
                writer.write(pa.record_batch({"n": values}, schema=schema))
        print(seen.hexdigest())
        """,
        ipc,
    )
    seen = hashlib.sha256()
    total = 0
    with lwmq.open_reader(ipc, timeout=60) as reader:
        for batch in reader:
            seen.update(batch["n"].to_numpy())
            total += batch.nbytes
        assert reader.statistics.bytes_copied == 0
    assert total == 256 << 20
    assert writer.line() == seen.hexdigest()


@pytest.mark.row("M15")
def test_many_streams_run_between_the_same_two_processes(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(
        """
        import pyarrow as pa
        schema = pa.schema([("n", pa.int64())])
        writers = [lwmq.open_writer(f"{sys.argv[1]}-{i}", schema) for i in range(20)]
        for i, writer in enumerate(writers):
            writer.write(pa.record_batch({"n": [i]}, schema=schema))
        print("written")
        for writer in writers:
            writer.close()
        print("closed")
        """,
        ipc,
    )
    assert writer.line() == "written"
    for number in range(20):
        with lwmq.open_reader(f"{ipc}-{number}", timeout=60) as reader:
            assert reader.read_all().column("n").to_pylist() == [number]
    assert writer.line() == "closed"


def said_of(writer: Any, how: str, way_out: str = "and open the reader anew") -> str:
    """What a reader of five batches hears of a writer that was killed."""
    return (
        rf"the producer, process {writer.pid} \(python\S*\) on host {re.escape(socket.gethostname())}{how} "
        r"(was killed by SIGKILL|died) without ending the stream\. "
        r"This reader got 5 batches \(5000 rows\) before, which are not the whole stream: "
        rf"start the producer again[,;] {way_out}$"
    )


@pytest.mark.row("S08")
def test_a_killed_writer_that_served_is_a_lost_peer_after_what_was_committed(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    for pause in (0.2, 1, 5, 20):  # while what is on its way arrives; a busy machine may need more of it
        writer = spawn(WRITER, ipc, 5, "server", "until_acked", "stay")
        assert writer.line() == "written"
        reader = lwmq.open_reader(ipc, role="client", timeout=60)
        assert next(reader)["n"][0].as_py() == 0
        time.sleep(pause)
        writer.kill()
        values = []
        with pytest.raises(lwmq.PeerLostError) as lost:
            while True:
                values.append(next(reader)["n"][999].as_py())
        reader.close(linger=0)
        assert values == [1, 2, 3, 4][: len(values)]
        if len(values) == 4:
            break
    assert values == [1, 2, 3, 4]
    assert re.search(said_of(writer, ", which served the address too,"), str(lost.value)), lost.value
    fresh = spawn(WRITER, ipc, 1, "server", "until_acked")  # the address can be served again at once
    with lwmq.open_reader(ipc, role="client", timeout=60) as again:
        assert again.read_all().num_rows == 1000
    assert fresh.line() == "written"


@pytest.mark.row("S08")
def test_a_killed_writer_that_did_not_serve_is_a_lost_peer_after_what_was_visible(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    reader = lwmq.open_reader(ipc, role="server", timeout=60)
    writer = spawn(WRITER, ipc, 5, "client", "until_acked", "stay")
    assert writer.line() == "written"
    assert next(reader)["n"][0].as_py() == 0
    end = time.monotonic() + HANG_S
    while describe(ipc, timeout=60).partitions[0].next_seq < 5:
        assert time.monotonic() < end
    writer.kill()
    values = []
    with pytest.raises(lwmq.PeerLostError) as lost:
        while True:
            values.append(next(reader)["n"][999].as_py())
    assert values == [1, 2, 3, 4]
    assert re.search(said_of(writer, ","), str(lost.value)), lost.value
    reader.close(linger=0)


def test_a_reader_that_follows_goes_on_after_a_killed_writer_with_the_next_one(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    reader = lwmq.open_reader(ipc, follow=True, role="server", timeout=60)
    writer = spawn(WRITER, ipc, 5, "client", "until_acked", "stay")
    values = [next(reader)["n"][0].as_py()]
    assert writer.line() == "written"
    writer.kill()
    with pytest.raises(lwmq.PeerLostError) as lost:
        while True:
            values.append(next(reader)["n"][0].as_py())
    assert values == [0, 1, 2, 3, 4]
    said = said_of(writer, ",", "this reader goes on with the next one")
    assert re.search(said, str(lost.value)), lost.value
    spawn(WRITER, ipc, 1, "client", "until_acked")
    assert next(reader)["n"][0].as_py() == 0
    reader.close()


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_writer_that_was_never_closed_is_a_lost_peer_too(
    ipc: str, spawn: Callable[..., Any], role: str
) -> None:
    """Its program has just ended, whoever started first."""
    reader = None if role == "server" else lwmq.open_reader(ipc, role="server", timeout=60)
    writer = spawn(
        """
        import pyarrow as pa
        writer = lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]), role=sys.argv[2])
        writer.write(pa.record_batch({"n": [1]}))
        print("written")
        sys.stdin.readline()
        """,
        ipc,
        role,
    )
    assert writer.line() == "written"
    reader = reader or lwmq.open_reader(ipc, role="client", timeout=60)
    assert next(reader).num_rows == 1
    writer.tell()
    said = rf"the producer, process {writer.pid} .* without ending the stream"
    with pytest.raises(lwmq.PeerLostError, match=said):
        next(reader)
    reader.close(linger=0)


def test_control_c_in_a_writer_leaves_no_empty_reason(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(
        """
        import pyarrow as pa
        with lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())])) as writer:
            writer.write(pa.record_batch({"n": [1]}))
            print("written")
            sys.stdin.readline()
        """,
        ipc,
    )
    assert writer.line() == "written"
    with lwmq.open_reader(ipc, timeout=60) as reader:
        next(reader)
        os.kill(writer.pid, signal.SIGINT)
        with pytest.raises(lwmq.AbortedError) as gave_up:
            next(reader)
    assert str(gave_up.value) == f"{ipc}: interrupted by Ctrl-C (KeyboardInterrupt)"


def test_a_writer_that_serves_hears_of_a_reader_that_was_killed(
    ipc: str, spawn: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    # short: the window is to be full
    writer = lwmq.open_writer(
        ipc, SCHEMA, role="server", window_bytes="256KiB", buffer_bytes="16KiB", timeout=0.5
    )
    for value in range(3):
        writer.write(batch_of(value))
    reader = spawn(
        """
        reader = lwmq.open_reader(sys.argv[1], role="client", name="slow", credit=2)
        held = [next(reader), next(reader)]
        print("holds")
        sys.stdin.readline()
        """,
        ipc,
    )
    assert reader.line() == "holds"
    assert writer.statistics.readers_lost == 0
    reader.kill()
    with (
        caplog.at_level(logging.WARNING, "lwmq_spark"),
        pytest.raises(lwmq.TimeoutError, match="no reader is there"),
    ):
        while True:
            writer.write(batch_of(9))
    [line] = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(
        rf"a writer of {ipc}: reader slow, process {reader.pid} \(python\S*\) on host \S+, "
        r"(was killed by SIGKILL|died); it had come to batch 1 of partition 0, and the "
        r"(batch in its hands goes|2 batches in its hands go) to the next reader",
        line,
    ), line
    assert writer.statistics.readers_lost == 1
    with lwmq.open_reader(ipc, timeout=60) as second:
        assert next(second)["n"][0].as_py() == 1
        writer.abort()


def test_a_killed_reader_gives_its_leases_back_and_its_batches_to_the_next(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    writer = lwmq.open_writer(
        ipc, SCHEMA, role="server", buffer_bytes="16KiB", window_bytes="256KiB", timeout=60
    )
    reader = spawn(
        """
        reader = lwmq.open_reader(sys.argv[1], role="client")
        kept = [next(reader) for _ in range(3)]
        print("holds")
        sys.stdin.readline()
        """,
        ipc,
    )
    for value in range(5):
        writer.write(batch_of(value))
    assert reader.line() == "holds"
    reader.kill()
    with lwmq.open_reader(ipc, timeout=60) as second:
        assert next(second)["n"][0].as_py() == 2  # 0 and 1 were consumed
        for value in range(5, 60):  # more than the window: nothing of the dead one's is still held
            writer.write(batch_of(value))
            assert next(second)["n"][0].as_py() == value - 2
        assert second.statistics.batches_copied == 0
    writer.abort()


def test_batches_stay_readable_when_their_writer_was_killed(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(WRITER, ipc, 3, "server", "until_acked", "stay")
    assert writer.line() == "written"
    reader = lwmq.open_reader(ipc, role="client", timeout=60)
    batch = next(reader)
    writer.kill()
    time.sleep(0.2)  # meanwhile nothing changes
    assert batch["n"].to_pylist() == [0] * 1000
    reader.close(linger=0)
    assert batch["n"].to_pylist() == [0] * 1000


def test_a_killed_endpoint_is_a_lost_peer_for_writers_and_readers(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    endpoint = spawn(
        """
        from lwmq_spark.arrow import Endpoint
        endpoint = Endpoint(sys.argv[1])
        print("serves")
        sys.stdin.readline()
        """,
        ipc,
    )
    assert endpoint.line() == "serves"
    writer = lwmq.open_writer(ipc, SCHEMA, role="client", timeout=60)
    reader = lwmq.open_reader(ipc, role="client", timeout=60)
    writer.write(batch_of(1))
    assert next(reader)["n"][0].as_py() == 1
    endpoint.kill()
    with pytest.raises(lwmq.PeerLostError):
        next(reader)
    with pytest.raises(lwmq.LwmqError):
        while True:
            writer.write(batch_of(2))
    reader.close(linger=0)
    writer.abort()


def test_describe_reaches_the_endpoint_of_another_process(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(WRITER, ipc, 2, "server", "all", "stay")
    assert writer.line() == "written"
    state = describe(ipc, timeout=60)
    assert state.endpoint.pid == writer.pid
    assert (state.partitions[0].next_seq, state.partitions[0].rows) == (2, 2000)
    writer.kill()


COMING_AND_GOING = """
    import contextlib
    from lwmq_spark.arrow import Endpoint
    print("there")
    while True:
        endpoint = Endpoint(sys.argv[1], linger=0)
        time.sleep(0.002)
        with contextlib.suppress(lwmq.TimeoutError):  # of those that have just come
            endpoint.close()
"""


def test_an_endpoint_that_goes_while_it_is_asked_is_waited_for_as_if_it_had_not_been_there(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    """An address that changes hands: who opens reaches an endpoint that closes at this moment."""
    serving = spawn(COMING_AND_GOING, ipc)
    assert serving.line() == "there"
    for _ in range(15):
        reader = lwmq.open_reader(ipc, role="client", timeout=60, linger=0)
        with contextlib.suppress(lwmq.PeerLostError, lwmq.ClosedError):  # it has gone since
            reader.close()
    for _ in range(15):
        writer = lwmq.open_writer(ipc, SCHEMA, role="client", timeout=60, linger=0)
        with contextlib.suppress(lwmq.PeerLostError, lwmq.ClosedError):
            writer.abort()
    serving.kill()


def test_an_abort_in_another_process_reaches_the_reader_with_its_reason(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    spawn(
        """
        import pyarrow as pa
        try:
            with lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())])) as writer:
                writer.write(pa.record_batch({"n": [1]}))
                raise OSError("feed handler lost its line")
        except OSError:
            pass
        """,
        ipc,
    )
    with lwmq.open_reader(ipc, timeout=60) as reader:
        assert next(reader).num_rows == 1
        with pytest.raises(lwmq.AbortedError, match="OSError: feed handler lost its line"):
            next(reader)


def test_a_producer_may_outlive_several_readers_of_one_window(ipc: str, spawn: Callable[..., Any]) -> None:
    readers = [spawn(READER, ipc, "client") for _ in range(3)]
    with lwmq.open_writer(ipc, SCHEMA, role="server", readers=3) as writer:
        for value in range(20):
            writer.write(batch_of(value))
    for reader in readers:
        lines = reader.rest().splitlines()
        assert lines[0] == "open"
        assert lines[-1] == "end"
        assert [int(line.split()[0]) for line in lines[1:-1]] == list(range(20))
        assert all(line.split()[2] != str(reader.pid) for line in lines[1:-1])


@pytest.mark.row("M12")
def test_processes_without_any_privilege_talk(ipc: str, spawn: Callable[..., Any]) -> None:
    """As nobody, with no capability and no way to get one back; as ourselves where we are not root."""
    drop = """
    import ctypes, pyarrow as pa, lwmq_spark.arrow, lwmq_spark.channel
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    """
    writer = spawn(
        drop
        + """
    with lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())])) as writer:
        writer.write(pa.record_batch({"n": [os.getuid()]}))
    """,
        ipc,
    )
    reader = spawn(
        drop
        + """
    with lwmq.open_reader(sys.argv[1]) as reader:
        for batch in reader:
            print(batch["n"][0].as_py() == os.getuid() != 0, reader.last.copied)
    """,
        ipc,
    )
    assert reader.line() == "True False"
    assert (writer.wait(), reader.wait()) == (0, 0)


@pytest.mark.row("M14")
def test_a_host_and_a_container_without_any_network_talk(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    """A container with `--network none` has an empty network namespace; they share a folder."""
    there, back = f"ipc://{tmp_path}/there", f"ipc://{tmp_path}/back"
    contained = spawn(
        """
        import ctypes, pyarrow as pa
        if ctypes.CDLL(None).unshare(0x40000000) != 0:  # CLONE_NEWNET
            print("refused")
            sys.exit()
        print(open("/proc/net/dev").read().count(":"))
        with lwmq.open_reader(sys.argv[1]) as reader:
            table = reader.read_all()
            print(reader.last.copied)
        with lwmq.open_writer(sys.argv[2], table.schema) as writer:
            writer.write(table)
        """,
        there,
        back,
    )
    interfaces = contained.line()
    if interfaces == "refused":
        pytest.skip("this machine lets us make no network namespace")
    assert interfaces == "1", "the loopback device, which is down"
    with lwmq.open_writer(there, SCHEMA) as writer:
        for value in range(10):
            writer.write(batch_of(value))
    with lwmq.open_reader(back, timeout=60) as reader:
        assert reader.read_all()["n"].to_pylist() == [value for value in range(10) for _ in range(1000)]
        assert not reader.last.copied
    assert contained.line() == "False"
    assert contained.wait() == 0


def test_a_reader_that_served_and_left_at_the_end_is_no_error_for_its_writer(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    """The endpoint says that all was consumed and goes at once: what it said comes first."""
    reader = spawn(
        """
        for number in range(100):
            with lwmq.open_reader(f"{sys.argv[1]}-{number}", role="server") as reader:
                print("open")
                for batch in reader:
                    pass
        """,
        ipc,
    )
    for number in range(100):
        assert reader.line() == "open"
        with lwmq.open_writer(f"{ipc}-{number}", SCHEMA, role="client", timeout=60) as writer:
            writer.write(batch_of(number, 1))
    assert reader.wait() == 0
