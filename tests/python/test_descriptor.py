"""A channel as something to poll: select, epoll, asyncio; for both ends."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.patience import HANG_S

pytestmark = pytest.mark.row("K11", "L57")


def _is_readable(channel: lwmq.Channel, timeout: float) -> bool:
    return bool(select.select([channel], [], [], timeout)[0])


def _empty(channel: lwmq.Channel) -> list[bytes]:
    """What a poller does: receives until there is nothing."""
    got = []
    while (message := channel.try_receive()) is not None:
        got.append(bytes(message))
    return got


def _meet(address: str, stack: ExitStack, **options: Any) -> tuple[lwmq.Channel, lwmq.Channel]:
    server = stack.enter_context(lwmq.Channel(address, "server", **options))
    client = stack.enter_context(lwmq.Channel(address, "client", **options))
    server.wait_connected(60)
    client.wait_connected(60)
    return server, client


@pytest.mark.parametrize("end", ["server", "client"])
def test_a_channel_is_readable_while_there_is_something_to_receive(address: str, end: str) -> None:
    with ExitStack() as stack:
        ends = _meet(address, stack)
        channel, peer = ends if end == "server" else ends[::-1]
        queue = peer.send_queue()
        assert _is_readable(channel, HANG_S), "nobody has looked yet"
        for _ in range(3):  # the end of the meeting may ring once more
            assert _empty(channel) == []
            if not (still := _is_readable(channel, 0.05)):
                break
        assert not still
        for round_ in range(50):
            posting = threading.Timer(0.0005 * (round_ % 5), lambda: [queue.post(b"x"), queue.post(b"y")])
            posting.start()
            got: list[bytes] = []
            while len(got) < 2:
                assert _is_readable(channel, HANG_S), "a wake-up was lost"
                got += _empty(channel)
            posting.join()
            assert got == [b"x", b"y"]
        queue.post(b"one")
        queue.post(b"two")
        assert _is_readable(channel, HANG_S)
        assert channel.receive(60) == lwmq.Message(b"one")
        assert _is_readable(channel, HANG_S), "what is not received stays readable"
        assert _empty(channel) == [b"two"]


def test_a_receive_that_waits_leaves_the_descriptor_as_it_must_be(address: str) -> None:
    with ExitStack() as stack:
        server, client = _meet(address, stack)
        queue = client.send_queue()
        server.fileno()
        assert _empty(server) == []
        with pytest.raises(lwmq.TimeoutError):
            server.receive(0.05)
        queue.post(b"after a wait in vain")
        assert _is_readable(server, HANG_S)
        assert _empty(server) == [b"after a wait in vain"]
        posting = threading.Timer(0.05, lambda: [queue.post(b"1"), queue.post(b"2")])
        posting.start()
        assert bytes(server.receive(60)) == b"1"
        posting.join()
        assert _is_readable(server, HANG_S)
        assert _empty(server) == [b"2"]


def test_the_loss_of_a_peer_and_the_next_one_are_news(ipc: str, spawn: Callable[..., Any]) -> None:
    """Killed while nobody receives: only the descriptor tells."""
    code = """
        import sys, lwmq_spark as lwmq
        channel = lwmq.Channel(sys.argv[1], "client")
        channel.send_queue().post(b"here")
        channel.flush(60)
        print("ready", flush=True)
        sys.stdin.read()
        """
    with lwmq.Channel(ipc, "server", linger=0) as server:
        for _ in range(3):
            child = spawn(code, ipc)
            got: list[bytes] = []
            while got != [b"here"]:
                assert _is_readable(server, HANG_S)
                got += _empty(server)
            child.kill()
            with pytest.raises(lwmq.PeerLostError):
                while True:
                    assert _is_readable(server, HANG_S)
                    assert _empty(server) == []
            child.wait()


@pytest.mark.row("K21", "K23")
def test_many_channels_share_one_epoll_and_nobody_is_missed(address: str) -> None:
    count = 50
    with ExitStack() as stack:
        pairs = [_meet(f"{address}-{n}", stack, buffers=2, buffer_bytes=4096) for n in range(count)]
        queues = [client.send_queue() for _, client in pairs]
        by_fd = {server.fileno(): n for n, (server, _) in enumerate(pairs)}
        poller = stack.enter_context(select.epoll())
        for fd in by_fd:
            poller.register(fd, select.EPOLLIN)

        def post() -> None:
            for round_ in range(20):
                for queue in queues:
                    queue.post(round_.to_bytes(1, "little"))

        posting = threading.Thread(target=post)
        posting.start()
        got: dict[int, list[bytes]] = {n: [] for n in range(count)}
        while sum(map(len, got.values())) < 20 * count:
            events = poller.poll(60)
            assert events, "nobody has news, and not everything has come"
            for fd, _ in events:
                got[by_fd[fd]] += _empty(pairs[by_fd[fd]][0])
        posting.join()
        assert all(frames == [n.to_bytes(1, "little") for n in range(20)] for frames in got.values())


@pytest.mark.row("Z21")
def test_asyncio_awaits_many_channels_without_a_thread_for_each(address: str) -> None:
    count = 200

    async def echo(server: lwmq.Channel) -> None:
        queue = server.send_queue()
        async for message in server:
            queue.post(message)

    async def ask(client: lwmq.Channel, number: int) -> int:
        queue = client.send_queue()
        for round_ in range(5):
            queue.post(f"{number}/{round_}".encode())
            assert bytes(await client.receive_async()) == f"{number}/{round_}".encode()
        return number

    async def run(pairs: list[tuple[lwmq.Channel, lwmq.Channel]]) -> None:
        echoes = [asyncio.create_task(echo(server)) for server, _ in pairs]
        answers = await asyncio.wait_for(
            asyncio.gather(*(ask(client, n) for n, (_, client) in enumerate(pairs))), 60
        )
        assert answers == list(range(count))
        assert threading.active_count() <= threads  # one of another test may end meanwhile
        for server, _ in pairs:
            with suppress(lwmq.TimeoutError):
                server.close(linger=0)
        await asyncio.wait_for(asyncio.gather(*echoes), 60)

    threads = threading.active_count()
    with ExitStack() as stack:
        pairs = [_meet(f"{address}-{n}", stack, buffers=2, buffer_bytes=1024) for n in range(count)]
        before = len(list(Path("/proc/self/fd").iterdir()))
        asyncio.run(run(pairs))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_cancelled_task_loses_nothing_and_close_ends_who_waits(address: str) -> None:
    async def run(server: lwmq.Channel, client: lwmq.Channel) -> None:
        queue = client.send_queue()
        for number in range(30):
            waiting = asyncio.create_task(server.receive_async())
            await asyncio.sleep(0.001 * (number % 3))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            queue.post(b"%d" % number)
            if waiting.cancelled():
                assert bytes(await asyncio.wait_for(server.receive_async(), 60)) == b"%d" % number
        waiting = asyncio.create_task(server.receive_async())
        await asyncio.sleep(0.05)
        threading.Thread(target=lambda: server.close(linger=0)).start()
        with pytest.raises(lwmq.ClosedError):
            await asyncio.wait_for(waiting, 60)

    with ExitStack() as stack:
        asyncio.run(run(*_meet(address, stack)))


@pytest.mark.alone
def test_nothing_wakes_up_while_nothing_comes(ipc: str, spawn: Any) -> None:
    """In a process of its own: the library still clears away what other tests have left in this one."""
    child = spawn(
        """
        from tests.python.test_descriptor import switches_while_nothing_comes
        print(switches_while_nothing_comes(sys.argv[1]))
        """,
        ipc,
    )
    assert int(child.line()) <= 2, "our own sleep, and the one that we began with"


def switches_while_nothing_comes(address: str) -> int:
    """How often a thread of this process went to sleep in a second and a half."""
    with ExitStack() as stack:
        server, client = _meet(address, stack)
        client.send_queue().post(b"warm")
        assert _is_readable(server, HANG_S)
        for channel in (server, client):
            channel.fileno()
            _empty(channel)
        client.on_message(lambda _: None)  # the thread of call-backs sleeps, too
        client.on_message(None)
        time.sleep(1.5)  # meanwhile what follows an activity is over
        assert _empty(server) == _empty(client) == []
        poller = stack.enter_context(select.epoll())
        poller.register(server.fileno(), select.EPOLLIN)
        poller.register(client.fileno(), select.EPOLLIN)
        before = _switches()
        assert poller.poll(1.5) == []
        return _switches() - before


def _switches() -> int:
    total = 0
    for task in Path("/proc/self/task").iterdir():
        status = (task / "status").read_text(encoding="ascii")
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary"))
    return total
