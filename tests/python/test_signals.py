"""What a signal's handler raises, between any two steps of the main thread, leaves nothing locked or lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lwmq_spark._ffi import CallCount, CallLock, CallLocks, Condition
from tests.patience import HANG_S

# The main thread does DO again and again, and a handler ends that hundreds of times. Another thread uses the
# same objects, with what is hit once more at the end, when all is closed.
CHILD = """
import faulthandler, random, threading
from contextlib import suppress
import pyarrow as pa

class Hit(Exception): pass

def hit(*_):
    raise Hit

address, seconds = sys.argv[1], 1.5
faulthandler.dump_traceback_later(300, exit=True)
signal.signal(signal.SIGALRM, hit)
random.seed(7)
stop, others = threading.Event(), 0

def use(do):
    global others
    while not stop.is_set():
        do()
        others += 1
        time.sleep(0.0005)

def hit_often(do, done=lambda: None):
    hits, end = 0, time.monotonic() + seconds
    while time.monotonic() < end or hits <= 100 or others <= 10:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0004 + 1e-6)
            while True:
                do()
        except Hit:
            hits += 1
        done()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return hits

{case}
print(hits > 100, others > 10)
"""

CASES = {
    "post": """
with lwmq.Channel(address, "server", linger=0) as server, lwmq.Channel(address, "client", linger=0) as client:
    queue = server.send_queue("multi_unbounded")
    def drain():
        while not stop.is_set():
            with suppress(lwmq.TimeoutError):
                client.receive_many(256, 0.01)
    other = threading.Thread(target=use, args=(lambda: queue.post([b"o"]),))
    threads = [threading.Thread(target=drain), other]
    for thread in threads: thread.start()
    def do():
        queue.post([b"a", b"b"])
        queue.post(b"c")
        queue.post_many([b"d"])
        queue.statistics
    hits = hit_often(do)
    stop.set()
    for thread in threads: thread.join()
    while client.try_receive() is not None: pass
    queue.post([b"still"])
    assert bytes(client.receive(60)) == b"still"
""",
    "receive": """
with lwmq.Channel(address, "server", linger=0) as server, lwmq.Channel(address, "client", linger=0) as client:
    queue = server.send_queue("multi_unbounded")
    def receive():
        with suppress(lwmq.TimeoutError):
            client.receive(0.001)
        with suppress(lwmq.TimeoutError):
            client.receive_many(8, 0)
    threads = [threading.Thread(target=use, args=(do,)) for do in (lambda: queue.post(b"o"), receive)]
    for thread in threads: thread.start()
    hits = hit_often(receive)
    stop.set()
    for thread in threads: thread.join()
    while client.try_receive() is not None: pass
    queue.post(b"still")
    assert bytes(client.receive(60)) == b"still"
""",
    "request": """
with lwmq.Channel(address, "server", linger=0) as server, lwmq.Channel(address, "client", linger=0) as client:
    serving = threading.Thread(target=lwmq.Replies(server).serve, args=(lambda frames: frames,))
    serving.start()
    with lwmq.Requests(client) as requests:
        def other():
            said = b"%d" % others
            assert bytes(requests.submit(said).result(60)) == said
        thread = threading.Thread(target=use, args=(other,))
        thread.start()
        hits = hit_often(lambda: requests.request(b"main"))
        hits += hit_often(lambda: requests.submit(b"main").result())
        stop.set()
        thread.join()
        assert bytes(requests.request(b"still", timeout=60)) == b"still"
        for _ in range(6000):
            if requests.statistics.outstanding == 0: break
            time.sleep(0.01)
        state = requests.statistics
        assert state.outstanding == 0 and state.answered >= others, state
    server.close(linger=0)
    serving.join()
""",
    "router": """
with lwmq.Channel(address, "server", linger=0) as server:
    queue, router = server.send_queue("multi_unbounded"), lwmq.Router()
    def change():
        with suppress(lwmq.LwmqError):
            router.add("main", queue)
        with suppress(lwmq.LwmqError):
            router.remove("main", queue)
    def other():
        router.add(f"other.{others}", queue)
        len(router), repr(router)
        router.remove(f"other.{others}", queue)
    thread = threading.Thread(target=use, args=(other,))
    thread.start()
    hits = hit_often(change)
    stop.set()
    thread.join()
    assert router.post([b"other"]) == 0
""",
    "arrow": """
schema = pa.schema([("n", pa.int64())])
batch = pa.record_batch({"n": [1, 2, 3]}, schema=schema)
writer = lwmq.open_writer(address, schema, role="server")
def read():
    global others
    with lwmq.open_reader(address, role="client") as reader:
        for one in reader:
            assert one == batch
            others += 1
thread = threading.Thread(target=read)
thread.start()
hits = hit_often(lambda: writer.write(batch))
writer.close(linger=60)
thread.join()
""",
}


@pytest.mark.parametrize("case", CASES)
def test_a_handler_that_raises_leaves_nothing_locked_or_lost(
    ipc: str, spawn: Callable[..., Any], case: str
) -> None:
    child = spawn(CHILD.replace("{case}", CASES[case]), ipc)
    assert child.rest() == "True True\n"
    assert child.wait() == 0


# A handler that looks, or closes, while the thread that it has interrupted uses the same object.
AGAIN = {
    "an await": """
current = [None]
def handle():
    if current[0] is not None:
        current[0].close(linger=0)
async def one(number):
    with lwmq.Channel(f"{address}-{number}", "server", linger=0) as channel:
        current[0] = channel
        async with asyncio.timeout(0.002):
            with suppress(lwmq.ClosedError):
                while True:
                    await channel.receive_async()
async def use():
    number = 0
    while not is_over():
        number += 1
        with suppress(asyncio.TimeoutError, lwmq.ClosedError):
            await one(number)
start(handle)
asyncio.run(use())
""",
    "a router": """
channel = lwmq.Channel(address, "server", linger=0)
queue, router = channel.send_queue("multi_unbounded"), lwmq.Router()
start(lambda: (len(router), repr(router)))
while not is_over():
    router.add("a", queue)
    router.remove("a", queue)
""",
}


@pytest.mark.parametrize("case", AGAIN)
def test_a_handler_that_uses_what_its_thread_is_in_hangs_nobody(
    ipc: str, spawn: Callable[..., Any], case: str
) -> None:
    child = spawn(
        f"""
import asyncio, faulthandler, random
from contextlib import suppress
faulthandler.dump_traceback_later(300, exit=True)
address, fired, end = sys.argv[1], 0, time.monotonic() + 2
def is_over():
    return time.monotonic() >= end and fired > 100
def start(do):
    def handler(*_):
        global fired
        fired += 1
        with suppress(lwmq.LwmqError, RuntimeError):
            do()
        if not is_over():
            signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0005 + 1e-6)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
{AGAIN[case]}
signal.setitimer(signal.ITIMER_REAL, 0)
print(fired > 100)
""",
        ipc,
    )
    assert child.rest() == "True\n"
    assert child.wait() == 0


# What a handler calls on the thread that it has interrupted, in the middle of a request.
HANDLERS = {
    "requests.close()": "ClosedError",
    "requests.request(b'x')": "LwmqError",
    "client.close(linger=0)": "RuntimeError",
    "requests.submit(b'x').cancel()": "answered",
    "time.sleep(0.05)": "answered",
}


@pytest.mark.parametrize("after_s", [0.005, 0.2])  # while the main thread is in the channel, and behind that
@pytest.mark.parametrize("call", HANDLERS)
def test_a_handler_that_calls_back_in_hangs_nobody(
    ipc: str, spawn: Callable[..., Any], call: str, after_s: float
) -> None:
    child = spawn(
        f"""
        import faulthandler, threading
        faulthandler.dump_traceback_later(300, exit=True)
        handled = threading.Event()
        def handle(*_):
            try:
                {call}
            finally:
                handled.set()
        signal.signal(signal.SIGALRM, handle)
        server = lwmq.Channel(sys.argv[1], "server", linger=0)
        client = lwmq.Channel(sys.argv[1], "client", linger=0)
        requests = lwmq.Requests(client)
        client.wait_connected(60)
        def answer():
            request = lwmq.Replies(server).receive(60)
            signal.setitimer(signal.ITIMER_REAL, {after_s})  # who asks is inside of its call
            handled.wait(60)
            request.reply(b"y")
        answering = threading.Thread(target=answer)
        answering.start()
        try:
            print("answered" if bytes(requests.request(b"x")) == b"y" else "wrong")
        except Exception as exc:
            print(type(exc).__name__)
        answering.join()
        for one in (requests, client, server):
            try:
                one.close()
            except lwmq.LwmqError:
                pass
        """,
        ipc,
    )
    expected = {HANDLERS[call]}
    if "client" in call:
        expected.add("ClosedError")  # where nothing of the channel is held, its close is one
    if "requests.close" in call:
        expected.add("answered")  # by a reply that was there before the close, which ends behind the handler
    assert child.line() in expected
    assert child.wait() == 0


def test_a_wait_that_signals_interrupt_ends_in_time(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        from lwmq_spark._ffi import Condition
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        condition = Condition()
        with condition:
            started = time.monotonic()
            print(condition.wait(0.5), 0.4 < time.monotonic() - started < 60)
        """,
        ipc,
    )
    assert child.line() == "False True"


def test_turns_are_taken_together_and_left_where_one_of_them_is_in_use() -> None:
    locks = (CallLock(), CallLock(), CallLock())
    inside = []

    def use() -> None:
        with CallLocks(locks):
            inside.append(True)

    thread = threading.Thread(target=use)
    with locks[2]:
        thread.start()
        time.sleep(0.05)  # meanwhile it waits
        assert not inside
    thread.join(60)
    assert inside
    with locks[0], locks[1], locks[2]:
        pass
    with pytest.raises(TypeError, match="item 1 is no CallLock"):
        CallLocks((CallLock(), CallCount()))  # type: ignore[arg-type]


def test_a_count_is_empty_when_the_last_has_left() -> None:
    count = CallCount()
    count.empty()
    left = []
    inside = threading.Semaphore(0)

    def stay() -> None:
        with count:
            inside.release()
            time.sleep(0.05)
            left.append(True)

    threads = [threading.Thread(target=stay) for _ in range(3)]
    with count:
        for thread in threads:
            thread.start()
        for _ in threads:
            assert inside.acquire(timeout=HANG_S)
    count.empty()
    assert len(left) == 3
    for thread in threads:
        thread.join()


def test_a_condition_is_one_of_threading_as_far_as_a_future_needs_it() -> None:
    condition = Condition()
    for call in (condition.release, condition.notify_all, condition.wait):
        with pytest.raises(RuntimeError, match="not inside of this condition"):
            call()
    woken = []

    def wait() -> None:
        with condition, condition:  # twice, and left for the wait
            woken.append(condition.wait(60))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(woken) < 3:
        with condition:
            condition.notify_all()
    for thread in threads:
        thread.join(60)
    assert woken == [True] * 3
    with condition:
        started = time.monotonic()
        assert not condition.wait(0.05)
        assert time.monotonic() - started >= 0.05
        with pytest.raises(TypeError):
            condition.wait("soon")  # type: ignore[arg-type]
    condition.acquire()
    condition.release()
