"""Many channels by one thread in turns, and the threads that serve them."""

from __future__ import annotations

import asyncio
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark._ffi import SLICE_S
from lwmq_spark.channel import Router, Selector
from lwmq_spark.channel.channel import ReceiveKind
from tests.patience import HANG_S

Pairs = list[tuple[lwmq.Channel, lwmq.Channel]]


@pytest.fixture
def pairs(address: str) -> Iterator[Pairs]:
    with ExitStack() as stack:
        made = []
        for n in range(5):
            ends = [
                stack.enter_context(lwmq.Channel(f"{address}-{n}", role, linger=0))  # type: ignore[arg-type]
                for role in ("server", "client")
            ]
            for end in ends:
                end.wait_connected(60)
            made.append((ends[0], ends[1]))
        yield made
        for pair in made:
            for channel in pair[::-1]:
                with suppress(lwmq.LwmqError):
                    channel.close()


@pytest.mark.row("K26", "K16")
def test_senders_with_unequal_rates_get_equal_service(pairs: Pairs) -> None:
    with Selector() as selector:
        for n, (server, client) in enumerate(pairs):
            selector.add(server)
            queue = client.send_queue()
            for _ in range(30 * (1 + 10 * n)):
                queue.post(bytes([n]))
            client.flush(60)
        first = [selector.receive(60) for _ in range(100)]
        served = [bytes(message)[0] for _, message in first]
        assert [served.count(n) for n in range(5)] == [20] * 5
        assert all(pairs[bytes(message)[0]][0] is channel for channel, message in first)


@pytest.mark.row("K26", "K11")
def test_a_selector_is_readable_while_a_channel_may_have_something(pairs: Pairs) -> None:
    """What a poller does: receives until there is nothing, polls, and so on; no wake-up is lost."""
    with Selector() as selector, selectors.DefaultSelector() as poller:
        for server, _ in pairs:
            selector.add(server)
        poller.register(selector, selectors.EVENT_READ)
        queues = [client.send_queue() for _, client in pairs]

        def post() -> None:
            for number in range(2000):
                queues[number % 5].post(number.to_bytes(2, "little"))
                if number % 7 == 0:
                    time.sleep(0.0001)

        posting = threading.Thread(target=post)
        posting.start()
        got: list[int] = []
        while len(got) < 2000:
            assert poller.select(60), f"nobody has news after {len(got)}"
            while (received := selector.try_receive()) is not None:
                channel, message = received
                got.append(int.from_bytes(message[0], "little"))
                assert channel is pairs[got[-1] % 5][0]
        posting.join()
        assert sorted(got) == list(range(2000))
        for _ in range(20):  # the end of a meeting may ring once more
            assert selector.try_receive() is None
            if not (still := poller.select(0.05)):
                break
        assert not still


@pytest.mark.row("K26", "K11")
def test_asyncio_awaits_a_selector_and_those_who_come_to_its_listener(address: str) -> None:
    async def next_of(selector: Selector) -> tuple[lwmq.Channel, bytes]:
        while True:
            try:
                channel, message = await selector.receive_async()
                return channel, bytes(message)
            except lwmq.ClosedError as exc:  # a client has left, and the others go on
                assert exc.channel in served

    async def serve(selector: Selector) -> list[bytes]:
        got = []
        while len(got) < 40:
            channel, content = await asyncio.wait_for(next_of(selector), 60)
            got.append(content)
            channel.send_queue().post(content)
        with pytest.raises(asyncio.TimeoutError):  # cancelled: what comes later is the next one's
            await asyncio.wait_for(next_of(selector), 0.05)
        late.set()
        return [*got, (await asyncio.wait_for(next_of(selector), 60))[1]]

    def ask(number: int) -> None:
        with lwmq.Channel(address, "client") as client:
            queue = client.send_queue()
            for round_ in range(20):
                queue.post(f"{number}/{round_}".encode())
                assert bytes(client.receive(60)) == f"{number}/{round_}".encode()
            if number == 0:
                assert late.wait(60)
                queue.post(b"late")

    late = threading.Event()
    served: list[lwmq.Channel] = []
    with lwmq.Listener(address) as listener, Selector() as selector:
        selector.add(listener, served.append)
        askers = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for asker in askers:
            asker.start()
        got = asyncio.run(serve(selector))
        for asker in askers:
            asker.join()
        for channel in served:
            channel.close(0)
    assert len(served) == 2
    assert Counter(got) == Counter(
        [f"{number}/{round_}".encode() for number in range(2) for round_ in range(20)] + [b"late"]
    )


@pytest.mark.row("K26")
def test_a_task_that_awaits_a_selector_hears_of_its_close(pairs: Pairs) -> None:
    async def run() -> None:
        selector = Selector()
        selector.add(pairs[0][0])
        waits = asyncio.create_task(selector.receive_async())
        await asyncio.sleep(0.05)
        selector.close()
        with pytest.raises(lwmq.ClosedError):
            await asyncio.wait_for(waits, 60)

    asyncio.run(run())


@pytest.mark.row("K43", "K44")
def test_channels_come_and_go_while_the_others_go_on(pairs: Pairs) -> None:
    with Selector() as selector:
        for server, _ in pairs[:3]:
            selector.add(server)
        with pytest.raises(ValueError, match="added to this selector before"):
            selector.add(pairs[0][0])
        with pytest.raises(lwmq.TimeoutError, match="3 channels"):
            selector.receive(0.05)
        queues = [client.send_queue() for _, client in pairs]
        late = threading.Timer(0.1, lambda: (selector.add(pairs[3][0]), queues[3].post(b"late")))
        late.start()
        channel, message = selector.receive(60)
        assert (channel, bytes(message)) == (pairs[3][0], b"late")
        late.join()
        selector.remove(pairs[0][0])
        pairs[1][0].close(linger=0)
        for queue in (queues[0], queues[2]):
            with suppress(lwmq.ClosedError):
                queue.post(b"there")
        channel, message = selector.receive(60)
        assert (channel, bytes(message)) == (pairs[2][0], b"there")
        with pytest.raises(lwmq.TimeoutError):
            selector.receive(0.05)


@pytest.mark.row("K44")
def test_connections_come_and_go_under_load_and_the_others_lose_nothing(address: str) -> None:
    """A work pool: a router posts to what is there, a selector receives the answers."""
    count, each, visitors = 3, 2000, 40
    heard: dict[int, list[int]] = {n: [] for n in range(count)}
    with ExitStack() as stack:
        selector, router = stack.enter_context(Selector()), Router()
        stays = {}

        def take(timeout: float) -> bool:
            try:
                channel, message = selector.receive(timeout)
            except (lwmq.TimeoutError, lwmq.ClosedError):  # nothing, or a visitor that left
                return False
            if channel in stays:
                heard[stays[channel]].append(int.from_bytes(message[1], "little"))
            return True

        for n in range(count):
            server, client = (
                stack.enter_context(lwmq.Channel(f"{address}-{n}", role, linger=60))  # type: ignore[arg-type]
                for role in ("server", "client")
            )
            selector.add(server)
            router.add("all", client.send_queue("multi_unbounded"))
            stays[server] = n
        done = threading.Event()

        def visit() -> None:
            for n in range(visitors):
                place = f"{address}-visitor-{n}"
                with (
                    suppress(lwmq.TimeoutError),  # what it had not read yet
                    lwmq.Channel(place, "server", linger=0) as server,
                    lwmq.Channel(place, "client", linger=0) as client,
                ):
                    selector.add(server)
                    queue = client.send_queue("multi_unbounded")
                    router.add("all", queue)
                    time.sleep(0.005)
                    router.forget(queue)
            done.set()

        visiting = threading.Thread(target=visit)
        visiting.start()
        posted = 0
        while posted < each or not done.is_set():
            router.post([b"all", posted.to_bytes(4, "little")])
            posted += 1
            while take(0):
                pass
        visiting.join(60)
        ends = time.monotonic() + 60
        while min(map(len, heard.values())) < posted and time.monotonic() < ends:
            take(0.1)
    assert heard == {n: list(range(posted)) for n in range(count)}


@pytest.mark.row("K43", "K44")
def test_channels_close_at_once_beside_a_thread_that_waits_for_them(address: str) -> None:
    selector = Selector()
    count = round(2 * HANG_S / SLICE_S)
    small: dict[str, Any] = {"buffers": 2, "buffer_bytes": 256, "linger": 0}
    channels = [lwmq.Channel(f"{address}-{n}", "server", **small) for n in range(count)]
    for channel in channels:
        selector.add(channel)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            selector.receive(60)
        except lwmq.LwmqError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    begin = time.monotonic()
    for channel in channels:
        channel.close()
    assert time.monotonic() - begin < HANG_S, "none waits for the slice to end"
    assert len(selector) == 0
    selector.remove(channels[0])
    selector.close()
    selector.close()
    waiting.join(60)
    assert [type(error) for error in ended] == [lwmq.ClosedError]
    for call in (lambda: selector.receive(0), lambda: selector.select(0), lambda: selector.add(channels[0])):
        with pytest.raises(lwmq.ClosedError):
            call()


@pytest.mark.row("K26", "S02")
@pytest.mark.parametrize("kind", ["mono_unbounded", "multi_unbounded"])
def test_others_receive_from_a_channel_beside_its_selector(address: str, kind: ReceiveKind) -> None:
    count = 3000
    came: list[int] = []

    def direct(channel: lwmq.Channel) -> None:
        while len(came) < 2 * count:
            with suppress(lwmq.TimeoutError):
                came.append(int(bytes(channel.receive(0.01))))

    with ExitStack() as stack:
        selector = stack.enter_context(Selector())
        servers, queues = [], []
        for n in range(2):
            make = partial(lwmq.Channel, f"{address}-{n}", linger=0)
            servers.append(stack.enter_context(make("server", receive_queue=kind)))
            queues.append(stack.enter_context(make("client")).send_queue())
            selector.add(servers[-1])
        threads = [threading.Thread(target=direct, args=(server,)) for server in servers]
        for thread in threads:
            thread.start()
        for number in range(2 * count):
            queues[number % 2].post(b"%d" % number)
            if number % 20 == 0:
                with suppress(lwmq.TimeoutError):
                    came.append(int(bytes(selector.receive(0.001)[1])))
        while len(came) < 2 * count:
            with suppress(lwmq.TimeoutError):
                came.append(int(bytes(selector.receive(0.01)[1])))
        for thread in threads:
            thread.join(60)
    assert sorted(came) == list(range(2 * count))


@pytest.mark.row("K26")
def test_a_receive_that_does_not_wait_finds_what_is_there(pairs: Pairs) -> None:
    with Selector() as selector:
        for server, _ in pairs:
            selector.add(server)
        queues = [client.send_queue() for _, client in pairs]
        for n in (3, 0, 4, 4, 1):
            with pytest.raises(lwmq.TimeoutError, match="5 channels"):
                selector.receive(0)
            queues[n].post(b"x")
            pairs[n][1].flush(60)
            assert selector.receive(0)[0] is pairs[n][0]


def _threads() -> dict[str, list[Path]]:
    """Those of the library, by name."""
    found: dict[str, list[Path]] = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            name = (task / "comm").read_text().strip()
            if name in ("lwmq-channels", "lwmq-connect", "lwmq-ipc", "lwmq-loop"):
                found.setdefault(name, []).append(task)
    return found


@pytest.mark.row("K04")
def test_the_number_of_threads_is_fixed_and_they_are_made_once(pairs: Pairs) -> None:
    before = _threads()
    assert set(before) <= {"lwmq-channels", "lwmq-connect", "lwmq-ipc"} and len(before) >= 2
    assert all(len(tasks) == 1 for tasks in before.values())
    for server, client in pairs:
        client.send_queue().post(b"x")
        assert server.receive(60)
    assert _threads() == before


# In a process of its own, where no thread of the library runs yet.
THREADS = """
import os, sys, threading
from pathlib import Path
import lwmq_spark as lwmq

def ours():
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return sorted(name for name in names if name.startswith("lwmq"))

assert ours() == []
kept = [lwmq.Channel(f"loop://threads-{os.getpid()}", role) for role in ("server", "client")]
print(*ours())
kept += [lwmq.Channel(f"ipc://threads-{os.getpid()}-0", role) for role in ("server", "client")]
kept[2].wait_connected(60)
print(*ours())
for number in range(1, 40):
    scheme = ("ipc", "loop")[number % 2]
    address = f"{scheme}://threads-{os.getpid()}-{number}"
    pair = [lwmq.Channel(address, role, receive_queue="multi_unbounded") for role in ("server", "client")]
    for end, other in (pair, pair[::-1]):
        end.send_queue().post(b"x")
        other.receive(60)
    kept += pair
listener = lwmq.Listener(f"ipc://threads-{os.getpid()}")
for _ in range(20):
    kept.append(lwmq.Channel(listener.address, "client"))
    kept.append(listener.accept(60))
print(*ours())
for channel in kept:
    channel.on_message(print)
assert ours() == sorted({*ours()}), "each once"
print(*[thread.name for thread in threading.enumerate() if thread is not threading.main_thread()])
"""


@pytest.mark.row("K04")
def test_exactly_so_many_threads_and_all_of_them_with_the_first_channel_between_processes() -> None:
    ran = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    inside, first, later, called = ran.stdout.splitlines()
    assert inside == "lwmq-channels lwmq-connect", "a transport's own thread starts with its first use"
    assert first == "lwmq-channels lwmq-connect lwmq-ipc"
    assert later == first, "those of the first channel serve them all"
    assert called == "lwmq calls", "and one calls back, for all of them"


# In a process of its own, where no thread of the library runs yet.
AFFINITY = """
import os, sys
from pathlib import Path
import lwmq_spark as lwmq
import pyarrow as pa
from lwmq_spark.channel import set_service_affinity

def masks():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("lwmq-"):
            found.setdefault(name, set()).add(tuple(sorted(os.sched_getaffinity(int(task.name)))))
    return found

def refused(*processors):
    try:
        set_service_affinity(processors)
    except lwmq.LwmqError as error:
        return str(error)

allowed = sorted(os.sched_getaffinity(0))
for processors in ([900], [allowed[0], 900], [5000]):
    assert f"processor {processors[-1]}" in refused(*processors), processors
last, rest = {(allowed[-1],)}, {tuple(allowed)}
set_service_affinity([allowed[-1]])
schema = pa.schema([("n", pa.int64())])
writer = lwmq.open_writer(sys.argv[1] + "-stream", schema, role="server")
server = lwmq.Channel(sys.argv[1], "server")
client = lwmq.Channel(sys.argv[1], "client")
client.wait_connected(60)
names = {"lwmq-channels", "lwmq-connect", "lwmq-ipc", "lwmq-endpoint"}
assert names <= set(masks()) and all(mask == last for mask in masks().values()), masks()
assert os.sched_getaffinity(0) == set(allowed), "ours is as it was"
assert "processor 900" in refused(900) and all(mask == last for mask in masks().values())
client.send_queue().post(b"still")
assert server.receive(60)
set_service_affinity()
assert all(mask == rest for mask in masks().values()), masks()
client.close(); server.close(); writer.abort('over'); writer.close(linger=0)
print("placed")
"""


@pytest.mark.row("S09", "C66")
def test_the_librarys_threads_run_where_they_are_told(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(AFFINITY, ipc)
    assert child.rest() == "placed\n"
    assert child.wait() == 0


def test_several_threads_that_receive_greet_each_client_once(ipc: str) -> None:
    clients, greeted, heard, raised = 200, Counter[lwmq.Channel](), Counter[bytes](), list[BaseException]()
    stop = threading.Event()

    def receive() -> None:
        while not stop.is_set():
            try:
                heard[bytes(selector.receive(0.05)[1])] += 1
            except lwmq.TimeoutError:
                pass
            except BaseException as exc:
                raised.append(exc)

    with lwmq.Listener(ipc, linger=0) as listener, lwmq.Selector() as selector:
        selector.add(listener, on_client=lambda channel: greeted.update([channel]))
        threads = [threading.Thread(target=receive) for _ in range(3)]
        for thread in threads:
            thread.start()
        others = []
        for number in range(clients):
            others.append(lwmq.Channel(ipc, "client", linger=0))
            others[-1].send_queue().post(b"%d" % number)
        end = time.monotonic() + 60
        while len(heard) < clients and time.monotonic() < end:
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        assert (len(heard), set(heard.values()), raised) == (clients, {1}, [])
        assert (len(greeted), set(greeted.values())) == (clients, {1})
        for channel in [*others, *greeted]:
            channel.close(linger=0)
