"""One address, many clients: threads, a selector or an event loop that serve them."""

from __future__ import annotations

import asyncio
import collections
import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import lwmq_spark as lwmq
from lwmq_spark import errors
from lwmq_spark._ffi import identity
from lwmq_spark.channel import Listener, Selector
from tests.patience import HANG_S, until


def asks(address: str, name: str, times: int = 10) -> list[str]:
    """As a client, one question after the other."""
    with lwmq.Channel(address, "client") as channel:
        queue = channel.send_queue()
        answers = []
        for number in range(times):
            queue.post(f"{name} {number}".encode())
            answers.append(bytes(channel.receive(60)).decode())
        return answers


def answers_to(name: str, times: int = 10) -> list[str]:
    return [f"yes, {name} {number}" for number in range(times)]


def test_each_client_has_a_channel_and_a_thread(address: str) -> None:
    def serve(channel: lwmq.Channel) -> None:
        with channel:
            queue = channel.send_queue()
            for message in channel:
                queue.post(b"yes, " + bytes(message))

    with Listener(address) as listener, ThreadPoolExecutor() as pool:
        threads: list[threading.Thread] = []

        def accept() -> None:
            for channel in listener:
                threads.append(threading.Thread(target=serve, args=(channel,)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        names = [f"client-{n}" for n in range(8)]
        for name, answers in zip(names, pool.map(lambda name: asks(address, name), names), strict=True):
            assert answers == answers_to(name)
        assert listener.statistics.accepted == 8
        assert repr(listener) == f"<Listener {address}, 8 accepted, 0 waiting>"
        listener.close()
        listener.close()  # twice is once
        for thread in (accepting, *threads):
            thread.join(60)
            assert not thread.is_alive()
        assert listener.closed
        assert repr(listener) == f"<Listener {address} closed>"
        with pytest.raises(lwmq.ClosedError, match="listener on"):
            listener.accept()


def test_one_thread_serves_a_listener_and_its_clients(address: str) -> None:
    names = [f"client-{n}" for n in range(8)]
    queues: dict[lwmq.Channel, lwmq.SendQueue] = {}
    gone: list[lwmq.Channel] = []
    with Listener(address) as listener, Selector() as selector, ThreadPoolExecutor() as pool:
        selector.add(listener)
        with pytest.raises(ValueError, match=r"listener on .* was added to this selector before"):
            selector.add(listener)
        asked = [pool.submit(asks, address, name) for name in names]
        while len(gone) < len(names):
            try:
                channel, message = selector.receive(60)
            except lwmq.ClosedError as exc:
                gone.append(exc.channel)
                continue
            if channel not in queues:
                queues[channel] = channel.send_queue()
            queues[channel].post(b"yes, " + bytes(message))
        for name, future in zip(names, asked, strict=True):
            assert future.result(60) == answers_to(name)
        assert sorted(map(id, gone)) == sorted(map(id, queues))
        assert len(selector) == 0, "they leave by themselves"
        selector.remove(listener)
        selector.remove(listener)
        with lwmq.Channel(address, "client", linger=0) as client, pytest.raises(lwmq.TimeoutError):
            client.wait_connected(60)
            selector.receive(0.1)
        selector.add(listener)
        with pytest.raises(lwmq.ClosedError) as ended:  # the one that came and went meanwhile
            selector.receive(60)
        gone.append(ended.value.channel)
        assert selector.select(0) is None
        listener.close()
        with pytest.raises(lwmq.TimeoutError):
            selector.receive(0.05)
        for channel in gone:
            channel.close()


def test_an_event_loop_serves_a_listener_and_its_clients(address: str) -> None:
    async def serve(channel: lwmq.Channel) -> None:
        async with channel:
            queue = channel.send_queue()
            async for message in channel:
                queue.post(b"yes, " + bytes(message))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        names = [f"client-{n}" for n in range(8)]
        async with Listener(address) as listener:
            tasks: list[asyncio.Task[None]] = []

            async def accept() -> None:
                async for channel in listener:
                    task = asyncio.create_task(serve(channel))
                    tasks.append(task)

            accepting = asyncio.create_task(accept())
            with ThreadPoolExecutor(8) as pool:
                asked = [loop.run_in_executor(pool, asks, address, name) for name in names]
                for name, answers in zip(names, await asyncio.gather(*asked), strict=True):
                    assert answers == answers_to(name)
            await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await asyncio.wait_for(accepting, 60)

    asyncio.run(main())


def test_a_cancelled_accept_loses_no_client(address: str) -> None:
    async def main() -> None:
        async with Listener(address) as listener:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(listener.accept_async(), 0.01)
            with lwmq.Channel(address, "client", linger=0) as client:
                client.send_queue().post(b"here")
                async with await asyncio.wait_for(listener.accept_async(), 60) as channel:
                    assert bytes(await channel.receive_async()) == b"here"

    asyncio.run(main())


def test_a_channel_of_a_listener_is_for_one_client(address: str) -> None:
    with Listener(address, linger=1) as listener:
        first = lwmq.Channel(address, "client")
        channel = listener.accept(60)
        assert (channel.role, channel.address) == ("server", address)
        queue = channel.send_queue()
        first.send_queue().post(b"left behind")
        peer = channel.peer
        assert peer is not None
        assert (peer.connected, peer.pid, peer.uid) == (True, os.getpid(), os.getuid())
        assert peer.instance == identity().instance
        assert channel.peers == [peer]
        first.flush(60)
        with suppress(lwmq.TimeoutError):  # nobody has read it yet
            first.close(linger=0)
        assert [bytes(message) for message in channel] == [b"left behind"]
        for _ in range(2):
            with pytest.raises(lwmq.ClosedError, match="its client has gone"):
                channel.receive()
        with pytest.raises(lwmq.ClosedError, match="its client has gone"):
            queue.post(b"to nobody")
        assert "its client has gone" in repr(channel)
        assert channel.peer is not None
        assert not channel.peer.connected
        with lwmq.Channel(address, "client", linger=0) as second:
            second.send_queue().post(b"another")
            with pytest.raises(lwmq.ClosedError):
                channel.receive(0.05)
            with listener.accept(60) as other:
                assert bytes(other.receive(60)) == b"another"
        channel.close()


def test_a_client_that_is_killed_is_lost_once(ipc: str, spawn: Callable[..., Any]) -> None:
    code = """
        channel = lwmq.Channel(sys.argv[1], "client")
        queue = channel.send_queue()
        queue.post(b"from one that dies")
        channel.flush()
        print("sent")
        time.sleep(60)
    """
    with Listener(ipc) as listener, Selector() as selector:
        selector.add(listener)
        child = spawn(code, ipc)
        assert child.line() == "sent"
        channel, message = selector.receive(60)
        assert bytes(message) == b"from one that dies"
        assert channel.peer is not None
        assert channel.peer.pid == child.pid
        assert channel.peer.instance != identity().instance
        child.kill()
        with pytest.raises(lwmq.PeerLostError) as lost:
            selector.receive(60)
        assert lost.value.channel is channel
        with pytest.raises(lwmq.TimeoutError):
            selector.receive(0.05)
        with pytest.raises(lwmq.ClosedError):
            channel.receive(0.05)
        channel.close()


def test_requests_of_many_clients_are_answered_at_one_address(address: str) -> None:
    def serve(channel: lwmq.Channel) -> None:
        with channel:
            lwmq.Replies(channel).serve(lambda frames: bytes(frames).upper())

    with Listener(address) as listener, ExitStack() as stack, ThreadPoolExecutor() as pool:
        asking = []
        for _ in range(4):
            client = stack.enter_context(lwmq.Channel(address, "client", linger=0))
            asking.append(stack.enter_context(lwmq.Requests(client)))
        served = [pool.submit(serve, listener.accept(60)) for _ in asking]
        replies = [asked.submit(f"by {n}".encode(), timeout=60) for n, asked in enumerate(asking)]
        assert [bytes(reply.result(60)) for reply in replies] == [b"BY 0", b"BY 1", b"BY 2", b"BY 3"]
        stack.close()
        for future in served:
            future.result(60)  # ended with its client


def _processor_time_of_a_second() -> float:
    """Of this process, which has nothing to do: next to none. A thread that spins takes what it gets."""
    before = time.process_time()
    time.sleep(1)
    return time.process_time() - before


@pytest.mark.alone
def test_a_server_that_asks_a_client_hears_of_its_end(address: str) -> None:
    with Listener(address, linger=0) as listener:
        client = lwmq.Channel(address, "client", linger=0)
        with listener.accept(60) as channel, lwmq.Requests(channel) as asking:
            reply = asking.submit(b"are you there?", timeout=60)
            time.sleep(0.05)
            client.close()
            with pytest.raises((lwmq.ClosedError, lwmq.PeerLostError)):
                reply.result(60)
            assert _processor_time_of_a_second() < 0.5, "nobody spins over a channel that has ended"
            with pytest.raises(lwmq.LwmqError):
                asking.request(b"and now?", timeout=60)


@pytest.mark.alone
def test_a_call_back_of_a_client_that_has_gone_ends(address: str) -> None:
    came: list[bytes] = []
    with Listener(address, linger=0) as listener:
        client = lwmq.Channel(address, "client")
        channel = listener.accept(60)
        channel.on_message(lambda message: came.append(bytes(message)))
        client.send_queue().post(b"one")
        client.close()
        until(lambda: came)
        assert came == [b"one"]
        time.sleep(0.05)  # meanwhile it has ended
        assert _processor_time_of_a_second() < 0.5, "nobody spins over a channel that has ended"
        channel.close()


def test_of_the_end_of_a_client_one_thread_of_many_is_told(ipc: str) -> None:
    """Two took its channel, one heard the end and the other that it was over: the first word is the last."""
    ended: collections.Counter[lwmq.Channel] = collections.Counter()
    stop = threading.Event()
    with lwmq.Listener(ipc) as listener, lwmq.Selector() as selector:
        selector.add(listener)

        def receive() -> None:
            while not stop.is_set():
                try:
                    selector.receive(0.1)
                except lwmq.ClosedError as end:
                    assert end.channel is not None
                    ended[end.channel] += 1
                except lwmq.TimeoutError:
                    continue

        receivers = [threading.Thread(target=receive) for _ in range(2)]
        for receiver in receivers:
            receiver.start()
        for _ in range(300):
            with lwmq.Channel(ipc, "client") as client:
                client.send_queue().post(b"x")
        try:
            until(lambda: len(ended) >= 300)
        finally:
            stop.set()
            for receiver in receivers:
                receiver.join()
    assert len(ended) == 300 and set(ended.values()) == {1}


def test_clients_that_nobody_accepts_see_the_close(address: str) -> None:
    listener = Listener(address)
    with lwmq.Channel(address, "client", linger=0) as client:
        client.wait_connected(60)
        listener.close()
        with pytest.raises(lwmq.ClosedError):
            client.receive(60)


def test_a_listener_that_is_forgotten_frees_the_address(address: str) -> None:
    listener = Listener(address)
    with pytest.raises(lwmq.AddressError):
        Listener(address)
    with pytest.raises(lwmq.AddressError):
        lwmq.Channel(address, "server")
    del listener
    gc.collect()
    with Listener(address) as other:
        client = lwmq.Channel(address, "client", linger=0)
        channel = other.accept(60)
        del channel  # goes, and the client sees it
        gc.collect()
        with pytest.raises(lwmq.ClosedError):
            client.receive(60)
        client.close()


def test_options_are_those_of_channels(address: str) -> None:
    with (
        Listener(
            f"{address}?buffer_bytes=4KiB&linger=0",
            receive_queue="bounded_discard_oldest",
            receive_capacity=2,
        ) as listener,
        lwmq.Channel(address, "client", linger=0) as client,
    ):
        queue = client.send_queue()
        with listener.accept(60) as channel:
            for number in range(5):
                queue.post(str(number).encode())
            client.flush(60)
            until(lambda: channel.statistics.messages_received == 5)
            assert [bytes(channel.receive(60)) for _ in range(2)] == [b"3", b"4"]
            with pytest.raises(lwmq.MessageTooBigError):
                channel.send_queue().post(bytes(5000))
    for wrong in ({"buffers": (1,)}, {"receive_queue": "no_such"}, {"buffer_bytes": -1}):
        with pytest.raises(ValueError):
            Listener(address, **wrong)  # type: ignore[arg-type]
    with pytest.raises(lwmq.AddressError, match="timeout"):
        Listener(f"{address}?timeout=1s")
    with pytest.raises(TypeError, match="channels and listeners"):
        Selector().add("no channel")  # type: ignore[arg-type]


def test_raw_buffers_of_many_clients(address: str) -> None:
    with Listener(address, raw=True, linger=0) as listener, ExitStack() as stack:
        for n in range(3):
            client = stack.enter_context(lwmq.Channel(address, "client", raw=True, linger=0))
            channel = stack.enter_context(listener.accept(60))
            with client.get_buffer(60) as buffer:
                buffer.data[:1] = bytes([n])
                buffer.send(1)
            with channel.receive_buffer(60) as received:
                assert bytes(received.data) == bytes([n])


REFUSED = """
    with lwmq.Channel(sys.argv[1], "client", raw=True, linger=0) as raw:
        try:
            raw.wait_connected(60)
        except lwmq.VersionError:
            print("refused")
"""


def test_a_refused_client_is_counted_with_the_reason(ipc: str, spawn: Callable[..., Any]) -> None:
    with Listener(ipc) as listener:
        child = spawn(REFUSED, ipc)
        assert child.line() == "refused"
        state = until(lambda: listener.statistics if listener.statistics.refused else None)
        assert state.accepted == 0
        assert f"process {child.pid} was refused" in state.refusal


def test_a_server_counts_whom_it_refuses(ipc: str, spawn: Callable[..., Any]) -> None:
    with lwmq.Channel(ipc, "server", linger=0) as server:
        assert server.peer is None
        assert spawn(REFUSED, ipc).line() == "refused"
        until(lambda: server.statistics.clients_refused >= 1)


def test_an_accept_in_a_forked_child_is_refused(ipc: str) -> None:
    with Listener(ipc) as listener:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                listener.accept(0)
            except errors.ClosedError as exc:
                code = 0 if "forked" in str(exc) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        with lwmq.Channel(ipc, "client", linger=0) as client:
            client.send_queue().post(b"still served")
            with listener.accept(60) as channel:
                assert bytes(channel.receive(60)) == b"still served"


def test_a_client_that_says_nothing_is_seen_and_greeted(address: str) -> None:
    with Listener(address, linger=0) as listener, Selector() as selector, ExitStack() as stack:
        greeted: list[lwmq.Channel] = []

        def greet(channel: lwmq.Channel) -> None:
            channel.send_queue().post(b"welcome")
            greeted.append(channel)

        selector.add(listener, on_client=greet)
        with pytest.raises(TypeError, match="goes with a listener"):
            selector.add(stack.enter_context(lwmq.Channel(f"{address}-other", linger=0)), on_client=greet)
        clients = [stack.enter_context(lwmq.Channel(address, "client", linger=0)) for _ in range(3)]
        for client in clients:
            client.wait_connected(60)
        end = time.monotonic() + HANG_S
        while len(greeted) < 3:
            assert time.monotonic() < end, "somebody is not greeted"
            with pytest.raises(lwmq.TimeoutError):
                selector.receive(0.1)
        assert [bytes(client.receive(60)) for client in clients] == [b"welcome"] * 3
        assert set(selector) == set(greeted)
        assert all(channel in selector for channel in greeted)
        assert clients[0] not in selector


def test_a_greeting_that_fails_loses_no_client(address: str) -> None:
    def fails(channel: lwmq.Channel) -> None:
        raise ValueError("no greeting")

    with Listener(address, linger=0) as listener, Selector() as selector:
        selector.add(listener, on_client=fails)
        with lwmq.Channel(address, "client", linger=0) as client:
            client.send_queue().post(b"all the same")
            with pytest.raises(ValueError, match="no greeting"):
                selector.receive(60)
            assert bytes(selector.receive(60)[1]) == b"all the same"


def test_a_client_is_greeted_by_the_call_of_its_own_listener(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it could not be added at first, such as for want of descriptors."""
    greeted: list[str] = []
    add, failures = Selector.add, [OSError("no descriptors")]

    def add_at_last(self: Selector, channel: Any, on_client: Any = None) -> None:
        if isinstance(channel, lwmq.Channel) and failures:
            raise failures.pop()
        add(self, channel, on_client)

    with Listener(f"{address}-a") as a, Listener(f"{address}-b") as b, Selector() as selector:
        selector.add(a, on_client=lambda _: greeted.append("a"))
        selector.add(b, on_client=lambda _: greeted.append("b"))
        monkeypatch.setattr(Selector, "add", add_at_last)
        with lwmq.Channel(f"{address}-b", "client", linger=0) as client:
            client.send_queue().post(b"x")
            with pytest.raises(OSError, match="no descriptors"):
                selector.receive(60)
            assert bytes(selector.receive(60)[1]) == b"x"
    assert greeted == ["b"]


def test_a_selector_takes_requests_of_many_clients(address: str) -> None:
    replies: dict[lwmq.Channel, lwmq.Replies] = {}
    with Listener(address, linger=0) as listener, Selector() as selector, ThreadPoolExecutor() as pool:
        selector.add(listener, on_client=lambda channel: replies.update({channel: lwmq.Replies(channel)}))

        def ask(name: bytes) -> bytes:
            with lwmq.Channel(address, "client", linger=0) as channel, lwmq.Requests(channel) as asking:
                return bytes(asking.request(name, timeout=60))

        asked = [pool.submit(ask, f"client {n}".encode()) for n in range(4)]
        gone = 0
        while gone < 4:
            try:
                channel, message = selector.receive(60)
            except lwmq.ClosedError:
                gone += 1
                continue
            request = replies[channel].request_of(message)
            assert request is not None
            request.reply(bytes(request.frames).upper())
        assert [future.result(60) for future in asked] == [f"CLIENT {n}".encode() for n in range(4)]


def test_requests_that_a_client_has_left_are_all_handled(address: str) -> None:
    with Listener(address, linger=0) as listener:
        client = lwmq.Channel(address, "client", linger=0)
        asking = lwmq.Requests(client)
        left = [asking.submit(str(number).encode(), timeout=60) for number in range(10)]
        channel = listener.accept(60)
        client.flush(60)
        asking.close()
        with suppress(lwmq.TimeoutError):  # nobody has read them
            client.close()
        handled: list[bytes] = []
        lwmq.Replies(channel).serve(lambda frames: handled.append(bytes(frames)) or b"for nobody")
        assert handled == [str(number).encode() for number in range(10)]
        assert len(left) == 10
        with suppress(lwmq.TimeoutError):  # replies that nobody waits for
            channel.close()


def test_select_gives_no_channel_whose_end_was_told(address: str) -> None:
    with Listener(address, linger=0) as listener, Selector() as selector:
        selector.add(listener)
        with lwmq.Channel(address, "client", linger=0) as client:
            client.send_queue().post(b"here")
            channel, _ = selector.receive(60)
        assert selector.select(60) is channel
        with pytest.raises(lwmq.ClosedError):
            channel.receive(60)
        assert selector.select(0.05) is None
        assert channel not in selector


@pytest.mark.parametrize("serves", ["accept", "receive"])
def test_a_signals_handler_closes_the_listener_that_it_interrupts(ipc: str, spawn: Any, serves: str) -> None:
    code = """
        listener = lwmq.Listener(sys.argv[1], linger=0)
        selector = lwmq.Selector()
        selector.add(listener)
        def close(*_):
            listener.close()
            if sys.argv[2] == "receive":
                raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, close)
        print("up")
        try:
            listener.accept() if sys.argv[2] == "accept" else selector.receive()
        except (lwmq.ClosedError, KeyboardInterrupt) as exc:
            print(type(exc).__name__)
        with lwmq.Listener(sys.argv[1], linger=0):
            print("free")
    """
    child = spawn(code, ipc, serves)
    assert child.line() == "up"
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGTERM)
    assert child.line() == {"accept": "ClosedError", "receive": "KeyboardInterrupt"}[serves]
    assert child.line() == "free"
    assert child.wait() == 0


def test_handlers_that_raise_lose_neither_clients_nor_the_process(ipc: str, spawn: Any) -> None:
    code = """
        class Late(Exception): pass
        def late(*_): raise Late
        listener = lwmq.Listener(sys.argv[1], linger=0)
        signal.signal(signal.SIGALRM, late)
        accepted = 0
        print("up")
        end, least = time.monotonic() + 3, time.monotonic() + 60
        while time.monotonic() < end or (not accepted and time.monotonic() < least):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.003, 0.0007)
                channel = listener.accept(0.05)
                signal.setitimer(signal.ITIMER_REAL, 0)
                accepted += 1
                channel.close(linger=0)
            except (Late, lwmq.TimeoutError):
                pass
            finally:
                while True:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                        break
                    except Late:
                        pass
        print("some" if accepted else "none")
    """
    child = spawn(code, ipc)
    assert child.line() == "up"
    while not select.select([child.process.stdout], [], [], 0)[0]:
        with lwmq.Channel(ipc, "client", linger=0) as client, suppress(lwmq.LwmqError):
            client.wait_connected(0.05)
    assert child.line() == "some"
    assert child.wait() == 0


def test_more_clients_than_may_wait_lose_nothing(ipc: str, spawn: Any) -> None:
    code = """
        small = {"linger": 0, "buffers": 2, "buffer_bytes": 256}
        channels = [lwmq.Channel(sys.argv[1], "client", **small) for _ in range(300)]
        for number, channel in enumerate(channels):
            channel.send_queue().post(str(number).encode())
        print("posted")
        sys.stdin.readline()
    """
    with Listener(ipc, linger=0, buffers=2, buffer_bytes=256) as listener, Selector() as selector:
        child = spawn(code, ipc)
        assert child.line() == "posted"
        time.sleep(1)  # as many as may are waiting
        selector.add(listener)
        came = {int(bytes(selector.receive(60)[1])) for _ in range(300)}
        assert came == set(range(300))
        state = listener.statistics
        assert (state.accepted, state.refused) == (300, 0), state
        child.tell()
        child.wait()
        for channel in list(selector):
            channel.close()


def test_a_listener_has_no_role_and_does_not_try_again(ipc: str) -> None:
    for option in ("role=client", "retry=3s"):
        with pytest.raises(lwmq.AddressError, match=option.partition("=")[0]):
            Listener(f"{ipc}?{option}")


def test_a_client_that_could_not_be_added_is_added_later(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Listener(address, linger=0) as listener, Selector() as selector:
        selector.add(listener)

        def fails(channel: lwmq.Channel) -> None:
            raise lwmq.LwmqError("no descriptors")

        with lwmq.Channel(address, "client", linger=0) as client:
            client.send_queue().post(b"all the same")
            with monkeypatch.context() as patched:
                patched.setattr(selector, "add", fails)
                for _ in range(2):
                    with pytest.raises(lwmq.LwmqError, match="no descriptors"):
                        selector.receive(60)
            assert bytes(selector.receive(60)[1]) == b"all the same"
            assert listener.statistics.accepted == 1
