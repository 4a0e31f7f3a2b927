"""What is promised of two processes, seen with a peer that is another one."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel import Selector
from tests.patience import HANG_S
from tests.stopping import stopped

# Posts `count` numbered messages, small and large, with pauses in which the receiver falls asleep.
SENDER = """
    channel = lwmq.Channel(sys.argv[1], "client", linger=60)
    queue = channel.send_queue()
    for n in range(int(sys.argv[2])):
        queue.post(b"%d " % n + bytes(n % 7 * 3000))
        if n % 50 == 0:
            time.sleep(0.002)
    channel.close()
    """
COUNT = 1000


def _blocking(channel: lwmq.Channel, got: list[bytes]) -> None:
    with suppress(lwmq.ClosedError):
        while True:
            got.append(bytes(channel.receive(HANG_S)))


def _polling(channel: lwmq.Channel, got: list[bytes]) -> None:
    poller = select.epoll()
    poller.register(channel.fileno(), select.EPOLLIN)
    with poller, suppress(lwmq.ClosedError):
        while True:
            assert poller.poll(HANG_S), "nobody has news, and not everything has come"
            while (message := channel.try_receive()) is not None:
                got.append(bytes(message))


def _called_back(channel: lwmq.Channel, got: list[bytes]) -> None:
    came: queue.Queue[bytes] = queue.Queue()
    channel.on_message(lambda message: came.put(bytes(message)))
    while len(got) < COUNT:
        got.append(came.get(timeout=HANG_S))
    channel.on_message(None)


def _signalled(channel: lwmq.Channel, got: list[bytes]) -> None:
    number = signal.SIGRTMIN + 5
    told: list[int] = []
    before = signal.signal(number, lambda *_: told.append(number))
    try:
        channel.signal_on_message(number)
        with suppress(lwmq.ClosedError):
            while True:
                told.clear()
                while (message := channel.try_receive()) is not None:
                    got.append(bytes(message))
                ends = time.monotonic() + HANG_S
                while not told and time.monotonic() < ends:
                    time.sleep(0.001)
                assert told, "nobody has told of what came"
        channel.close()
    finally:
        signal.signal(number, before)


def _awaiting(channel: lwmq.Channel, got: list[bytes]) -> None:
    async def listen() -> None:
        got.extend([bytes(message) async for message in channel])

    asyncio.run(asyncio.wait_for(listen(), HANG_S))


def _selecting(channel: lwmq.Channel, got: list[bytes]) -> None:
    with Selector() as selector, suppress(lwmq.ClosedError):
        selector.add(channel)
        while True:
            got.append(bytes(selector.receive(HANG_S)[1]))


@pytest.mark.row("K11", "K23")
@pytest.mark.parametrize("kind", ["mono_unbounded", "multi_unbounded"])
@pytest.mark.parametrize("receive", [_blocking, _polling, _called_back, _signalled, _awaiting, _selecting])
def test_every_way_to_be_told_brings_the_same_stream(
    ipc: str, spawn: Callable[..., Any], receive: Callable[[lwmq.Channel, list[bytes]], None], kind: Any
) -> None:
    got: list[bytes] = []
    with lwmq.Channel(ipc, "server", receive_queue=kind, linger=0) as channel:
        child = spawn(SENDER, ipc, COUNT)
        receive(channel, got)
        assert child.wait() == 0
    assert got == [b"%d " % n + bytes(n % 7 * 3000) for n in range(COUNT)]


@pytest.mark.row("K03")
def test_sends_complete_while_the_other_process_sleeps(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        with lwmq.Channel(sys.argv[1], "client", receive_queue="multi_unbounded", buffers=4) as channel:
            channel.wait_connected(60)
            print("asleep")
            sys.stdin.readline()
            print(channel.statistics.receive_queued)
            print(sum(int(bytes(channel.receive(60))) for _ in range(20000)))
        """,
        ipc,
    )
    with lwmq.Channel(ipc, "server", buffers=4, linger=60) as channel:
        channel.wait_connected(60)
        assert child.line() == "asleep"
        posting = channel.send_queue()
        for n in range(20_000):
            posting.post(b"%0100d" % n)
        channel.flush(HANG_S)
        channel.close()  # each of them counts as read
    child.tell()
    assert child.line() == "20000"
    assert child.line() == str(sum(range(20_000)))


def _place_in_memory(address: int) -> tuple[int, int]:
    """Of a mapped file: its inode, and the offset in it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end, offset, inode = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ (\d+)", line).groups()  # type: ignore[union-attr]
        if int(begin, 16) <= address < int(end, 16):
            return int(inode), int(offset, 16) + address - int(begin, 16)
    raise AssertionError(f"{address:#x} is not mapped")


@pytest.mark.row("L01")
def test_a_buffer_that_was_filled_is_the_very_memory_that_the_peer_reads(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    child = spawn(
        """
        from tests.python.test_between_processes import _place_in_memory
        import numpy as np
        with lwmq.Channel(sys.argv[1], "client", raw=True, buffer_bytes="64KiB", buffers=4) as channel:
            for n in range(8):
                buffer = channel.get_buffer(60)
                array = np.frombuffer(buffer.data, np.uint8)
                print(*_place_in_memory(array.ctypes.data))
                array = None
                buffer.data[:] = bytes([n]) * 65536
                buffer.send()
            sys.stdin.readline()
        """,
        ipc,
    )
    with lwmq.Channel(ipc, "server", raw=True, buffer_bytes="64KiB", buffers=4, linger=0) as channel:
        for n in range(8):
            with channel.receive_buffer(HANG_S) as buffer:
                array = np.frombuffer(buffer.data, np.uint8)
                assert (array == n).all()
                assert _place_in_memory(array.ctypes.data) == tuple(map(int, child.line().split()))
                del array
        child.tell()
        assert child.wait() == 0


# Fills each of its buffers with its number, then reads as many as it was sent.
BOTH_WAYS = """
    send, receive = int(sys.argv[2]), int(sys.argv[3])
    with lwmq.Channel(
        sys.argv[1], "client", raw=True, buffer_bytes=int(sys.argv[4]), buffers=(send, receive), linger=60
    ) as channel:
        for n in range(send):
            buffer = channel.get_buffer(60)
            buffer.data[:2] = n.to_bytes(2, "little")
            buffer.send(2)
        held = [channel.receive_buffer(60) for _ in range(receive)]
        print([int.from_bytes(buffer.data, "little") for buffer in held] == list(range(receive)))
        for buffer in reversed(held):
            buffer.dispose()
        sys.stdin.readline()
    """


@pytest.mark.row("L20", "L21")
@pytest.mark.parametrize(("theirs", "ours", "size"), [(512, 512, 4096), (3500, 500, 256), (500, 3500, 256)])
def test_all_buffers_of_both_directions_are_full_at_once(
    ipc: str, spawn: Callable[..., Any], theirs: int, ours: int, size: int
) -> None:
    child = spawn(BOTH_WAYS, ipc, theirs, ours, size)
    with lwmq.Channel(
        ipc, "server", raw=True, buffer_bytes=size, buffers=(ours, theirs), linger=0
    ) as channel:
        channel.wait_connected(HANG_S)
        for n in range(ours):
            buffer = channel.get_buffer(HANG_S)
            buffer.data[:2] = n.to_bytes(2, "little")
            buffer.send(2)
        held = [channel.receive_buffer(HANG_S) for _ in range(theirs)]
        assert [int.from_bytes(buffer.data, "little") for buffer in held] == list(range(theirs))
        for buffer in held:
            buffer.dispose()
        assert child.line() == "True"
        child.tell()
        assert child.wait() == 0


@pytest.mark.row("L27")
def test_channels_between_one_pair_of_processes_go_on_by_themselves(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    count, each = 12, 300
    child = spawn(
        """
        count, each = int(sys.argv[2]), int(sys.argv[3])
        channels = [lwmq.Channel(f"{sys.argv[1]}-{n}", "client", linger=60) for n in range(count)]
        queues = [channel.send_queue() for channel in channels]
        for number in range(each):
            for n, queue in enumerate(queues):
                queue.post(b"%d/%d" % (n, number))
        for channel in channels:
            channel.close()
        """,
        ipc,
        count,
        each,
    )
    with ExitStack() as stack:
        servers = [stack.enter_context(lwmq.Channel(f"{ipc}-{n}", "server", linger=0)) for n in range(count)]
        for n in reversed(range(count)):  # the last one first, all of it: it waits for no other
            got = [bytes(servers[n].receive(HANG_S)) for _ in range(each)]
            assert got == [b"%d/%d" % (n, number) for number in range(each)]
    assert child.wait() == 0


@pytest.mark.row("L41")
def test_priorities_share_what_another_process_reads(ipc: str, spawn: Callable[..., Any]) -> None:
    weights = (16, 8, 4, 2, 1)
    child = spawn(
        """
        from lwmq_spark import Priority
        channel = lwmq.Channel(sys.argv[1], "client", buffers=2, buffer_bytes=1024, linger=0)
        priorities = [p for p in Priority if p not in (Priority.TIME_CRITICAL, Priority.IDLE)]
        queues = [channel.send_queue(priority=priority) for priority in priorities]
        for number in range(8000):
            for n, queue in enumerate(queues):
                queue.post(bytes([n]) * 16)
        print("all are there")
        sys.stdin.readline()
        """,
        ipc,
    )
    with lwmq.Channel(ipc, "server", buffers=2, buffer_bytes=1024, linger=0) as channel:
        assert child.line() == "all are there"  # but for what the buffers had room for before
        for _ in range(2 * 1024 // 24):
            channel.receive(HANG_S)
        rounds = 400
        got = [channel.receive(HANG_S)[0][0] for _ in range(rounds * sum(weights))]
        shares = [got.count(n) / rounds for n in range(5)]
        assert shares == pytest.approx(weights, rel=0.02)
        child.kill()


@pytest.mark.row("L56")
def test_a_million_requests_wait_for_a_peer_that_is_stopped(ipc: str, spawn: Callable[..., Any]) -> None:
    """None of them waits for room, and none is lost."""
    child = spawn("channel = lwmq.Channel(sys.argv[1], 'server')\nprint('there')\nsys.stdin.readline()", ipc)
    assert child.line() == "there"

    with lwmq.Channel(ipc, "client", linger=0) as channel:
        channel.wait_connected(HANG_S)
        asking = channel.send_queue("multi_unbounded")
        with stopped(child.pid), suppress(lwmq.TimeoutError):
            for n in range(1_000_000):
                asking.post(b"%08d" % n)
            assert asking.statistics.posted == 1_000_000
            assert asking.statistics.queued > 700_000
            channel.close()


def test_two_channels_that_fill_their_windows_are_served_beside_each_other(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    """Each window is filled hundreds of times, and each time its peer makes room."""
    reader = """
        with lwmq.Channel(sys.argv[1], "server", buffer_bytes=1024, buffers=8) as channel:
            queue = channel.send_queue()
            for message in channel:
                if bytes(message) == b"done?":
                    queue.post(b"done")
        """
    with ExitStack() as stack:
        readers, channels, queues = [], [], []
        for address in (f"{ipc}-1", f"{ipc}-2"):
            readers.append(spawn(reader, address))
            channel = lwmq.Channel(address, "client", buffer_bytes=1024, buffers=8)
            channels.append(stack.enter_context(channel))
            queues.append(channel.send_queue())
            channel.wait_connected(HANG_S)
        for _ in range(5):
            for posting in queues:
                posting.post_many([bytes(80)] * 10_000)
                posting.post(b"done?")
            for channel in channels:
                assert bytes(channel.receive(HANG_S)) == b"done"
    for reader in readers:
        assert reader.wait() == 0


def test_those_who_try_beside_the_peer_of_a_server_leave_nothing_behind(tmp_path: Path) -> None:
    """Each is a socket in the server's queue, with descriptors on their way, of which a user has so many."""
    address = f"ipc://{tmp_path}/served"
    with lwmq.Channel(address, "server") as server, lwmq.Channel(address, "client") as client:
        client.wait_connected(HANG_S)
        until = time.monotonic() + HANG_S
        for _ in range(600):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as passing:
                passing.setblocking(False)
                while True:
                    try:
                        passing.connect(f"{tmp_path}/served")
                        break
                    except BlockingIOError:
                        assert time.monotonic() < until, "nobody looks after the queue"
                        time.sleep(0.001)
        client.send_queue().post(b"undisturbed")
        assert bytes(server.receive(HANG_S)) == b"undisturbed"
    assert not (tmp_path / "served").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root cannot become another user")
def test_a_process_that_has_become_another_user_is_met_by_it(ipc: str, spawn: Callable[..., Any]) -> None:
    """One loaded the library as root; the other, forked before its use, has never been but that user."""
    served = spawn(
        """
        Channel = lwmq.Channel  # as root, who may read all files
        child = os.fork()
        os.setuid(23456)
        if child == 0 and os.fork() == 0:
            with Channel(sys.argv[1], "client") as channel:
                channel.send_queue().post(b"hello")
        elif child != 0:
            with Channel(sys.argv[1], "server") as channel:
                print(bytes(channel.receive(60)).decode(), channel.peer.uid, flush=True)
        else:
            os.wait()
        """,
        ipc,
    )
    assert served.line().split() == ["hello", "23456"]
    assert served.wait() == 0
