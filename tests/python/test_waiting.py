"""Waits: Ctrl-C ends them, they cost nothing, the GIL is free; a fork is refused; asyncio stays free."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark import aio
from lwmq_spark._ffi import SLICE_S, CallLock
from tests.patience import HANG_S
from tests.python.pairs import pair

SCHEMA = pa.schema([("n", pa.int64())])
MANY = round(2 * HANG_S / SLICE_S)  # waits that would take far too long, slice by slice

INTERRUPTED = {
    "read": "lwmq.open_reader(address).read_next_batch()",
    "schema": "lwmq.open_reader(address).schema",
    "open": "lwmq.open_reader(address, role='client')",
    "receive": "lwmq.Channel(address).receive()",
    "connect": "lwmq.Channel(address).wait_connected()",
    "close": "w = lwmq.open_writer(address, schema); w.write(batch); w.close()",
    "room": "w = lwmq.open_writer(address, schema, window_bytes=65536, buffer_bytes=4096)\n"
    "    while True: w.write(batch)",
    "describe": "lwmq.arrow.describe(address)",
}


@pytest.mark.parametrize("wait", INTERRUPTED)
def test_ctrl_c_ends_the_wait(ipc: str, spawn: Callable[..., Any], wait: str) -> None:
    child = spawn(
        f"""
import pyarrow as pa, lwmq_spark.arrow
address = sys.argv[1]
schema = pa.schema([("n", pa.int64())])
batch = pa.record_batch({{"n": list(range(100))}}, schema=schema)
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("waits")  # inside: a busy machine may take long to come to the wait
    {INTERRUPTED[wait]}
except KeyboardInterrupt:
    print("interrupted")
        """,
        ipc,
    )
    assert child.line() == "waits"
    time.sleep(0.4)
    os.kill(child.pid, signal.SIGINT)
    assert child.line() == "interrupted"
    assert child.wait() == 0


def test_nothing_is_lost_when_a_wait_is_interrupted(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        signal.signal(signal.SIGUSR1, lambda *_: None)
        with lwmq.open_reader(sys.argv[1]) as reader:
            print("waits")
            print([batch["n"][0].as_py() for batch in reader])
        """,
        ipc,
    )
    assert child.line() == "waits"
    with lwmq.open_writer(ipc, SCHEMA) as writer:
        for value in range(50):
            os.kill(child.pid, signal.SIGUSR1)
            writer.write(pa.record_batch({"n": [value]}))
            os.kill(child.pid, signal.SIGUSR1)
    assert child.line() == str(list(range(50)))


@pytest.mark.alone
@pytest.mark.row("K17")
def test_processes_that_are_connected_and_have_nothing_to_do_use_no_processor_time(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    """Each inside a call: one waits for a batch, one for a message, one for its last batch to be read."""
    writer = spawn(
        """
        import pyarrow as pa
        writer = lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]))
        writer.write(pa.record_batch({"n": [1]}))
        sys.stdin.readline()
        writer.write(pa.record_batch({"n": [2]}))
        print("closes")
        writer.close()
        """,
        ipc,
    )
    reader = spawn(
        """
        reader = lwmq.open_reader(sys.argv[1])
        first = next(reader)
        print("read")
        second = next(reader)
        print("read")
        sys.stdin.readline()
        reader.close()
        """,
        ipc,
    )
    messages = f"{ipc}-messages"
    receivers = [
        spawn(
            """
            channel = lwmq.Channel(sys.argv[1], sys.argv[2])
            channel.send_queue().post(b"hello")
            channel.receive()
            print("connected")
            channel.receive()
            """,
            messages,
            role,
        )
        for role in ("server", "client")
    ]
    assert reader.line() == "read"
    assert [each.line() for each in receivers] == ["connected"] * 2
    processes = [writer, reader, *receivers]
    time.sleep(1)  # what follows an activity is over
    before = [processor_seconds(each.pid) for each in processes]
    time.sleep(3)
    used = [processor_seconds(each.pid) - spent for each, spent in zip(processes, before, strict=True)]
    assert max(used) < 0.3, f"{used} s of processor time in 3 s: more than a tenth of a core"
    writer.tell()
    assert (reader.line(), writer.line()) == ("read", "closes")
    before_close = processor_seconds(writer.pid)
    time.sleep(2)  # meanwhile it waits
    assert processor_seconds(writer.pid) - before_close < 0.2
    reader.tell()
    for each in receivers:
        each.kill()


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, on processors so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def test_the_gil_is_free_while_a_thread_waits(address: str) -> None:
    """What the one waits for comes when the other has run more often than a slice of the wait ends."""
    writers: list[lwmq.StreamWriter] = []

    def tick() -> None:
        for _ in range(round(2 * HANG_S / SLICE_S)):
            time.sleep(0.001)
        writers.append(lwmq.open_writer(address, SCHEMA, linger=0))

    with lwmq.open_reader(address, timeout=HANG_S, linger=0) as reader:
        thread = threading.Thread(target=tick)
        thread.start()
        assert reader.schema == SCHEMA
        thread.join()
        writers[0].abort()


def test_a_forked_child_is_refused_and_the_parent_goes_on(ipc: str, spawn: Callable[..., Any]) -> None:
    child = spawn(
        """
        import pyarrow as pa
        schema = pa.schema([("n", pa.int64())])
        writer = lwmq.open_writer(sys.argv[1], schema)
        reader = lwmq.open_reader(sys.argv[1], timeout=60)
        channel = lwmq.Channel(sys.argv[1] + "-channel")
        queue = channel.send_queue()
        batch = pa.record_batch({"n": [1]}, schema=schema)
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (
                lambda: writer.write(batch),
                lambda: next(reader),
                lambda: channel.receive(0),
                lambda: queue.post(b"x"),
                lambda: writer.statistics,
                lambda: lwmq.open_reader(sys.argv[1] + "-other", timeout=1),
            ):
                try:
                    call()
                except lwmq.ClosedError as exc:
                    refused += "forked" in str(exc)
            writer.close(); reader.close(); channel.close()
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        writer.write(batch)
        print(next(reader).num_rows)
        writer.abort()
        reader.close(linger=0)
        channel.close(linger=0)
        """,
        ipc,
    )
    assert child.line() == "6"
    assert child.line() == "1"
    assert child.wait() == 0


def test_a_forked_child_waits_for_no_thread_of_its_parent(ipc: str, spawn: Callable[..., Any]) -> None:
    """A call-back that was running, and a request whose keeper is not there."""
    child = spawn(
        """
        import faulthandler, threading
        faulthandler.dump_traceback_later(300, exit=True)
        called = lwmq.Channel(sys.argv[1], "server", linger=0)
        other = lwmq.Channel(sys.argv[1], "client", linger=0)
        inside, over = threading.Event(), threading.Event()
        called.on_message(lambda message: (inside.set(), over.wait(60)))
        other.send_queue().post(b"x")
        assert inside.wait(60)
        requests = lwmq.Requests(other)
        reply = requests.submit(b"never answered", timeout=60)
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (
                reply.result,
                lambda: requests.statistics,
                lambda: called.on_message(print),
            ):
                try:
                    call()
                except lwmq.ClosedError as exc:
                    refused += "forked" in str(exc)
            called.on_message(None)
            called.close()
            requests.close()
            refused += "of another process" in repr(requests)
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        over.set()
        requests.close()
        called.close()
        """,
        ipc,
    )
    assert child.line() == "4"
    assert child.wait() == 0


def test_threads_get_their_turn_in_the_order_they_came() -> None:
    lock = CallLock()
    order: list[int] = []

    def use(number: int) -> None:
        with lock:
            order.append(number)

    threads = []
    with lock:
        for number in range(5):
            threads.append(threading.Thread(target=use, args=(number,)))
            threads[-1].start()
            time.sleep(0.02)
    for thread in threads:
        thread.join(60)
    assert sorted(order) == list(range(5))
    assert order[0] == 0


def _seconds_of(call: Callable[[], object]) -> float:
    started = time.monotonic()
    with pytest.raises(lwmq.TimeoutError):
        call()
    return time.monotonic() - started


def test_a_time_out_is_ones_own_however_many_threads_wait_for_the_same(address: str) -> None:
    with lwmq.Channel(address, "server", linger=0) as channel, lwmq.Selector() as selector:
        selector.add(channel)
        queue = channel.send_queue("bounded_discard_newest", capacity=1)
        queue.post(b"nobody is there")
        calls: list[Callable[[float], object]] = [
            channel.receive,
            lambda timeout: channel.receive_many(5, timeout),
            channel.wait_connected,
            channel.flush,
            selector.receive,
            lambda timeout: queue.post(b"no room", timeout=timeout, may_discard=False),
            queue.wait_room,
        ]
        for call in calls:
            with ThreadPoolExecutor(MANY + 10) as pool:
                waits = [pool.submit(_seconds_of, partial(call, 0.3)) for _ in range(MANY)]
                looks = [pool.submit(_seconds_of, partial(call, 0)) for _ in range(10)]
            # In turns, slice by slice, the last of them would be told far later.
            assert all(0.3 <= wait.result() < HANG_S for wait in waits), call
            assert all(look.result() < HANG_S for look in looks), call
        with contextlib.suppress(lwmq.TimeoutError):
            channel.close()


def test_who_never_waits_does_not_wait_for_another_thread(address: str) -> None:
    with pair(address) as (server, client), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.receive)
        time.sleep(0.05)
        before = time.monotonic()
        for _ in range(MANY):
            assert server.try_receive() is None
        assert time.monotonic() - before < HANG_S, "each has waited for a slice of the other"
        client.send_queue().post(b"for the other")
        assert bytes(waiting.result(60)) == b"for the other"


def test_a_time_out_is_ones_own_however_many_tasks_wait_for_the_same(address: str) -> None:
    async def run() -> None:
        with lwmq.Channel(address, "server", linger=0) as channel:
            queue = channel.send_queue("bounded_discard_newest", capacity=1)
            queue.post(b"nobody is there")
            calls: list[Callable[[float], Any]] = [
                lambda timeout: aio.post(queue, b"no room", timeout=timeout),
                lambda timeout: aio.wait_connected(channel, timeout),
                lambda timeout: aio.flush(channel, timeout),
                lambda timeout: aio.wait_peer(channel, None, timeout),
                lambda timeout: aio.receive(channel, timeout),
            ]
            for call in calls:
                for timeout in (0.3, 0):
                    before = time.monotonic()
                    outcomes = await asyncio.gather(
                        *(call(timeout) for _ in range(MANY)), return_exceptions=True
                    )
                    assert timeout <= time.monotonic() - before < HANG_S
                    assert {type(outcome) for outcome in outcomes} == {lwmq.TimeoutError}
                    assert address in str(outcomes[0])
                with pytest.raises(ValueError, match="nan"):
                    await call(math.nan)
            for waiter in (channel.waiter, channel.watcher):
                end = time.monotonic() + HANG_S
                while waiter._rota._waits and time.monotonic() < end:
                    await asyncio.sleep(SLICE_S / 10)
                assert not waiter._rota._waits, "of what is over nothing stays"
            with contextlib.suppress(lwmq.TimeoutError):
                channel.close()

    asyncio.run(run())


def test_tasks_that_wait_for_room_all_get_it(address: str) -> None:
    async def run() -> None:
        with pair(address, buffers=2, buffer_bytes=1024) as (reader, writer):
            queue = writer.send_queue("bounded_discard_newest", capacity=2)
            posts = [asyncio.create_task(aio.post(queue, bytes([n]) * 500, timeout=60)) for n in range(100)]
            got = {bytes(await aio.receive(reader, 60))[0] for _ in range(100)}
            await asyncio.gather(*posts)
            assert got == set(range(100))

    asyncio.run(run())


def test_async_for_reads_batches_while_the_loop_goes_on(address: str) -> None:
    async def main() -> list[int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.002)
                ticks += 1

        async def produce() -> None:
            writer = lwmq.open_writer(address, SCHEMA)
            for value in range(5):
                await aio.write(writer, pa.record_batch({"n": [value]}))
                before = ticks
                while ticks < before + 10:
                    await asyncio.sleep(0.001)
            await aio.close(writer)

        ticking = asyncio.create_task(tick())
        reader = lwmq.open_reader(address)
        producing = asyncio.create_task(produce())
        values = [batch["n"][0].as_py() async for batch in reader]
        await producing
        await aio.close(reader)
        ticking.cancel()
        return values

    assert asyncio.run(asyncio.wait_for(main(), HANG_S)) == list(range(5))


def test_async_for_receives_messages_and_a_cancelled_wait_loses_nothing(address: str) -> None:
    async def main() -> list[bytes]:
        with lwmq.Channel(address, "server") as server, lwmq.Channel(address, "client") as client:
            with pytest.raises(lwmq.TimeoutError, match=r"no message within 0\.05 s"):
                await aio.receive(client, timeout=0.05)
            queue = server.send_queue()
            for value in range(5):
                queue.post(bytes([value]))
            received = [bytes(await aio.receive(client, timeout=60))]
            async for message in client:
                received.append(bytes(message))
                if len(received) == 5:
                    break
            return received

    assert asyncio.run(main()) == [bytes([value]) for value in range(5)]


def test_an_interpreter_ends_while_a_thread_waits(ipc: str) -> None:
    code = (
        "import threading, sys, time, lwmq_spark as lwmq\n"
        "reader = lwmq.open_reader(sys.argv[1])\n"
        "threading.Thread(target=reader.read_next_batch, daemon=True).start()\n"
        "time.sleep(0.3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, ipc], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_batch_of_megabytes_is_copied_with_the_gil_released(address: str) -> None:
    large = pa.record_batch({"n": np.arange(1 << 21)}, schema=SCHEMA)
    stamps: list[float] = []
    stop = threading.Event()

    def stamp() -> None:
        while not stop.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0)

    def another_ran_meanwhile() -> bool:
        writer = lwmq.open_writer(address, SCHEMA, buffer_bytes="32MiB", window_bytes="128MiB")
        stamps.clear()
        started = time.perf_counter()
        writer.write(large)
        ended = time.perf_counter()
        writer.abort()
        return any(started < moment < ended for moment in stamps.copy())

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=stamp)
    thread.start()
    try:
        sys.setswitchinterval(HANG_S)  # nobody loses the lock, who does not release it
        until = time.monotonic() + HANG_S
        while not another_ran_meanwhile():  # where all cores are busy, the other is not on one in time
            assert time.monotonic() < until
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


SERVES = """
servers = [lwmq.Channel(address, "server", linger=0) for address in sys.argv[1:]]
print("up")
sys.stdin.readline()
for server in servers:
    assert bytes(server.receive(60)) == b"at last"
print("heard")
sys.stdin.readline()
"""


@pytest.mark.row("K16", "Z21")
def test_servers_that_do_not_answer_hold_up_no_other_connection(ipc: str, spawn: Callable[..., Any]) -> None:
    addresses = [f"{ipc}-{number}" for number in range(150)]
    stopped = spawn(SERVES, *addresses)
    assert stopped.line() == "up"
    os.kill(stopped.pid, signal.SIGSTOP)
    clients = [lwmq.Channel(address, "client", linger=60) for address in addresses]
    try:
        for client in clients:
            client.send_queue().post(b"at last")
        time.sleep(1.0)  # each has found out
        took = []
        for number in range(3):
            healthy = spawn(SERVES, f"{ipc}-healthy-{number}")
            assert healthy.line() == "up"
            begun = time.monotonic()
            with lwmq.Channel(f"{ipc}-healthy-{number}", "client", linger=60) as channel:
                channel.wait_connected(60)
                took.append(time.monotonic() - begun)
                channel.send_queue().post(b"at last")
                healthy.tell()
                assert healthy.line() == "heard"
            healthy.kill()
        assert min(took) < HANG_S / 4, took  # one after the other, 150 would take 30 to 60 s
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    stopped.tell()
    assert stopped.line() == "heard"
    for client in clients:
        client.close()
