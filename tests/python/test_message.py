"""Messages: frames that travel together, and views that keep them."""

from __future__ import annotations

import array
import datetime
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lwmq_spark as lwmq
from lwmq_spark._ffi import CallCount, CallLock, CallLocks, Condition, native_messages
from lwmq_spark.message import (
    COPY_BYTES_MAX,
    Timestamp,
    _owners,
    ns_to_ticks,
    ticks_to_datetime,
    ticks_to_ns,
)
from tests.patience import until


@pytest.mark.row("L55", "M01")
def test_a_message_is_a_sequence_of_frames() -> None:
    message = lwmq.Message([b"head", memoryview(b"body"), bytearray(b"tail"), b""])
    assert len(message) == 4
    assert [bytes(frame) for frame in message] == [b"head", b"body", b"tail", b""]
    assert bytes(message[-2]) == b"tail"
    assert bytes(message) == b"headbodytail"
    assert message == lwmq.Message([b"head", b"body", b"tail", b""])
    assert repr(message) == "<Message of 4 frames, 12 bytes>"
    with pytest.raises(IndexError, match="frame 4 of a message of 4"):
        message[4]
    assert len(lwmq.Message()) == 0


def test_a_frame_is_a_read_only_memoryview_that_keeps_its_message_alive() -> None:
    message = lwmq.Message([b"x" * 1000])
    frame = message[0]
    alive = weakref.ref(message)
    del message
    assert isinstance(frame, memoryview)
    assert frame.readonly
    part = frame[10:20]
    del frame
    gc.collect()
    assert bytes(part) == b"x" * 10
    assert alive() is not None
    del part
    assert alive() is None


def test_a_message_that_was_not_made_says_so() -> None:
    empty = lwmq.Message.__new__(lwmq.Message)
    for use in (len, bytes, lambda m: m[0], lambda m: m.reference(), repr):
        with pytest.raises(ValueError, match="was not made"):
            use(empty)
    made = lwmq.Message(b"x")
    with pytest.raises(ValueError, match="made before"):
        made.__init__(b"y")  # type: ignore[misc]
    assert bytes(made) == b"x"


def test_messages_frames_and_turns_that_are_gone_leave_nothing_on_their_types() -> None:
    class Named(lwmq.Message):
        """With a dict, and so one that Python's collector looks at."""

    def make() -> list[type]:
        lock = CallLock()
        held = [lock, lock.within(1), CallLocks((lock,)), CallCount(), Condition()]
        made = [*held, lwmq.Message([b"a"]), Named([b"b"])]
        return [*map(type, made), native_messages.Message, type(made[-1][0].obj)]

    def references() -> list[int]:
        gc.collect()
        return [sys.getrefcount(kind) for kind in kinds]

    kinds = make()
    before = references()
    for _ in range(100):
        make()
    assert references() == before


@pytest.mark.parametrize("index", ["0", None, slice(0, 1), 1.0])
def test_an_index_that_is_no_number_is_a_type_error(index: object) -> None:
    with pytest.raises(TypeError):
        lwmq.Message(b"x")[index]  # type: ignore[index]


@pytest.mark.row("Z01", "Z03")
@pytest.mark.parametrize(
    "size", [0, 1, 63, 64, 65, 127, 128, 129, 4096, COPY_BYTES_MAX - 1, COPY_BYTES_MAX, COPY_BYTES_MAX + 1]
)
def test_size_makes_no_difference_to_the_user(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    message = lwmq.Message(data[:size])
    assert len(message) == 1
    assert bytes(message[0]) == data[:size]


@pytest.mark.parametrize(
    ("size", "kind", "sequence"),
    [
        *((size, bytes, list) for size in (0, 1, 100, 16384, 16385, COPY_BYTES_MAX + 1)),
        *((size, bytearray, tuple) for size in (0, 16384, COPY_BYTES_MAX, COPY_BYTES_MAX + 1)),
        *((size, memoryview, iter) for size in (0, 16384, COPY_BYTES_MAX + 1)),
        (100, bytes, iter),
    ],
)
def test_what_the_frames_lie_in_makes_no_difference(size: int, kind: Any, sequence: Any) -> None:
    parts = [kind(bytes([n]) * size) for n in range(100)]
    message = lwmq.Message(sequence(parts))
    assert message.frames == parts
    if kind is bytearray and size <= COPY_BYTES_MAX:
        parts[0].extend(b"nobody holds it once it was copied")
    with pytest.raises(TypeError, match="not int"):
        lwmq.Message(sequence([*parts[:3], 7]))
    with pytest.raises(TypeError, match="encode"):
        lwmq.Message(sequence([*parts[:3], "text"]))


@pytest.mark.row("Z02")
def test_large_frames_are_not_copied_and_their_owner_is_let_go_once() -> None:
    owner = np.zeros(COPY_BYTES_MAX + 1, np.uint8)
    alive = weakref.ref(owner)
    message = lwmq.Message([owner, b"small"])
    assert _owners.kept_count >= 1
    assert np.frombuffer(message[0], np.uint8).ctypes.data == owner.ctypes.data
    frame = message[0]
    del owner, message
    gc.collect()
    assert alive() is not None
    del frame
    gc.collect()
    deadline = time.monotonic() + 60
    while alive() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive() is None


@pytest.mark.row("Z02")
def test_who_owns_a_large_buffer_hears_once_when_it_may_be_changed() -> None:
    calls: list[int] = []
    owners = [bytearray(COPY_BYTES_MAX + 1), bytearray(COPY_BYTES_MAX + 2), bytearray(7)]
    message = lwmq.Message(owners, on_release=lambda: calls.append(len(owners[0])))
    owners[2].extend(b"copied")
    frame = message[1]
    del message
    gc.collect()
    time.sleep(0.05)  # meanwhile nobody calls
    assert calls == []
    with pytest.raises(BufferError):
        owners[0].extend(b"shown")
    del frame
    until(lambda: calls == [COPY_BYTES_MAX + 1])
    owners[0].extend(b"free")
    owners[1].extend(b"free")
    time.sleep(0.05)  # meanwhile nobody calls again
    assert len(calls) == 1


@pytest.mark.parametrize("frames", [b"x" * (COPY_BYTES_MAX + 1), [b"a", bytearray(9)], []])
def test_what_is_copied_may_be_changed_at_once(frames: Any) -> None:
    calls: list[None] = []
    message = lwmq.Message(frames, "precise", on_release=lambda: calls.append(None))
    if message.tobytes().startswith(b"x"):
        assert calls == []
        del message
        until(lambda: calls == [None])
    else:
        assert calls == [None]


def test_a_buffer_is_free_when_each_channel_has_shipped_it(address: str) -> None:
    free = threading.Event()
    picture = bytearray(b"1" * 100_000)
    options: dict[str, Any] = {"linger": 0, "buffer_bytes": "1MiB", "buffers": 2}
    with (
        lwmq.Channel(address, "server", **options) as first,
        lwmq.Channel(f"{address}-2", "server", **options) as second,
    ):
        message = lwmq.Message([picture], on_release=free.set)
        for server in (first, second):
            server.send_queue().post(message)
        del message
        with lwmq.Channel(address, "client", **options) as client:
            assert bytes(client.receive(60)) == picture
            assert not free.wait(0.1)
            with lwmq.Channel(f"{address}-2", "client", **options) as other:
                assert bytes(other.receive(60)) == picture
                assert free.wait(60)
                picture.extend(b"free")


def test_a_message_that_cannot_be_made_calls_nobody() -> None:
    calls: list[None] = []
    for wrong in ("text", [bytearray(COPY_BYTES_MAX + 1), 7]):
        with pytest.raises(TypeError):
            lwmq.Message(wrong, on_release=lambda: calls.append(None))
    with pytest.raises(ValueError, match="timestamp"):
        lwmq.Message([bytearray(COPY_BYTES_MAX + 1)], "now", on_release=lambda: calls.append(None))  # type: ignore[arg-type]
    gc.collect()  # what other tests have left goes, too
    until(lambda: _owners.kept_count == 0)
    assert calls == []

    async def later() -> None: ...

    for wrong in (7, later):
        with pytest.raises(TypeError, match="on_release is a function without arguments"):
            lwmq.Message(b"x", on_release=wrong)


def test_an_on_release_that_raises_is_logged_and_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(with_what: BaseException) -> None:
        raise with_what

    lwmq.Message(b"copied", on_release=lambda: fail(ValueError("at once")))
    for failure in (ValueError("later"), SystemExit(3)):
        lwmq.Message(bytearray(COPY_BYTES_MAX + 1), on_release=lambda failure=failure: fail(failure))
    free = threading.Event()
    lwmq.Message(bytearray(COPY_BYTES_MAX + 1), on_release=free.set)
    assert free.wait(60)
    until(lambda: caplog.text.count("on_release of a message has failed") == 3)
    assert all(text in caplog.text for text in ("at once", "later", "SystemExit: 3"))


def test_any_contiguous_buffer_is_a_frame() -> None:
    numbers = array.array("i", [1, 2, 3])
    assert lwmq.Message(numbers).tobytes() == numbers.tobytes()
    matrix = np.arange(6).reshape(2, 3)
    assert lwmq.Message([matrix]).tobytes() == matrix.tobytes()
    with pytest.raises(ValueError, match="contiguous"):
        lwmq.Message([matrix[:, 1]])
    for count in (1, 100_000):  # whatever makes the copy: memoryview knows no dates
        with pytest.raises(ValueError, match="dtype 'M'"):
            lwmq.Message([np.zeros(count, "M8[s]")])


@pytest.mark.row("S07")
def test_timestamps_of_three_sources_travel_with_their_frames(address: str) -> None:
    noon = datetime.datetime(2025, 3, 1, 12, tzinfo=datetime.UTC)
    with lwmq.Channel(address, role="server") as server, lwmq.Channel(address, role="client") as client:
        queue = client.send_queue()
        message = lwmq.Message([b"a", b"b", b"c"], timestamp="precise")
        message.set_timestamp(1, noon)
        message.set_timestamp(-1, None)
        queue.post(message)
        queue.post(lwmq.Message(b"alone", timestamp="system"))
        queue.post(b"without")
        received = server.receive(60)
        first, second, third = received.timestamps
        assert first is not None and abs(ticks_to_ns(first) - time.time_ns()) < 20e9
        assert second is not None and ticks_to_datetime(second) == noon
        assert third is None
        assert (first, second, third) == tuple(message.timestamps)
        alone = server.receive(60)
        assert abs(ticks_to_ns(alone.timestamp() or 0) - time.time_ns()) < 20e9
        assert server.receive(60).timestamps == [None]


@pytest.mark.row("S07")
def test_ticks_are_100_ns_since_1601() -> None:
    assert ticks_to_datetime(0) == datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
    assert ticks_to_ns(ns_to_ticks(1_700_000_000_123_456_789)) == 1_700_000_000_123_456_700
    assert ticks_to_datetime(ns_to_ticks(0)) == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    message = lwmq.Message(b"x", timestamp=2**64 - 1)
    assert message.timestamps == [2**64 - 1]


def test_timestamps_that_are_none_get_their_own_sentence() -> None:
    message = lwmq.Message(b"x")
    wrong: list[tuple[Timestamp, type[Exception], str]] = [
        ("sometime", ValueError, "none of system, precise"),  # type: ignore[list-item]
        (0, ValueError, "0 are no ticks"),
        (2**64, ValueError, "no ticks"),
        (datetime.datetime(2025, 3, 1), ValueError, r"no time zone: did you mean \.astimezone"),
        (1.5, TypeError, "not float"),  # type: ignore[list-item]
    ]
    for timestamp, error, text in wrong:
        with pytest.raises(error, match=text):
            message.set_timestamp(0, timestamp)
    with pytest.raises(IndexError, match="frame 1 of a message of 1"):
        message.set_timestamp(1, "precise")
    assert message.timestamps == [None]


def test_slips_that_everyone_makes_get_their_own_sentence() -> None:
    for wrong in ("text", ["text"], [b"a", "text"]):
        with pytest.raises(TypeError, match=r"takes bytes, not str: did you mean \.encode\(\)\?"):
            lwmq.Message(wrong)
    with pytest.raises(TypeError, match="not int"):
        lwmq.Message(7)
    with pytest.raises(TypeError, match="frames of bytes or buffers, not float"):
        lwmq.Message([1.5])


def test_an_owner_that_raises_when_it_is_let_go_is_reported_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Owner(bytearray):
        failure: BaseException

        def __del__(self) -> None:
            raise self.failure

    reported: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_value))
    gc.collect()  # what other tests have left goes first
    until(lambda: _owners.kept_count == 0)
    kept = _owners.kept_count
    for failure in (ValueError("not today"), KeyboardInterrupt(), SystemExit(3)):
        owner = Owner(COPY_BYTES_MAX + 1)
        owner.failure = failure
        message = lwmq.Message(owner)
        del message, owner
        until(lambda expected=failure: reported and reported[-1] is expected)
    # And behind them one that does not: the thread that lets go of owners lives.
    values = np.zeros(COPY_BYTES_MAX + 1, np.uint8)
    alive = weakref.ref(values)
    message = lwmq.Message(values)
    del message, values
    until(lambda: alive() is None)
    until(lambda: _owners.kept_count == kept)


def test_an_owner_may_post_when_it_is_let_go() -> None:
    class Owner(bytearray):
        def __del__(self) -> None:
            posted.append(lwmq.Message(np.zeros(COPY_BYTES_MAX + 1, np.uint8)))

    posted: list[lwmq.Message] = []
    message = lwmq.Message(Owner(COPY_BYTES_MAX + 1))
    del message
    until(lambda: len(posted) == 1)
    assert len(posted.pop()[0]) == COPY_BYTES_MAX + 1


def test_a_message_is_equal_to_a_list_of_its_frames() -> None:
    message = lwmq.Message([b"a", b"bc"])
    assert message == [b"a", b"bc"] and message == message.frames
    assert message != [b"a"] and message != (b"a", b"bc") and message != b"abc"
    assert [bytes(frame) for frame in message.frames[1:]] == [b"bc"]


FORKED = """
import gc, signal, threading
released = threading.Event()
message = lwmq.Message(bytearray(1 << 20), on_release=released.set)
if (pid := os.fork()) == 0:
    second = threading.Event()
    del message
    later = lwmq.Message(bytearray(1 << 20), on_release=second.set)
    del later
    os._exit(0 if released.wait(60) and second.wait(60) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), released.is_set())
del message
print(released.wait(60))
"""


def test_buffers_of_messages_made_before_a_fork_are_released_on_both_sides(spawn: Callable[..., Any]) -> None:
    assert spawn(FORKED).rest().split() == ["0", "False", "True"]


INTERRUPTED = """
import faulthandler, threading
faulthandler.dump_traceback_later(60, exit=True)
from lwmq_spark.message import _owners
made = []
signal.signal(signal.SIGUSR1, lambda *_: made.append(lwmq.Message(bytearray(1 << 20))))
start = threading.Thread.start
def start_and_interrupt(thread):
    start(thread)
    os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread.start = start_and_interrupt
made.append(lwmq.Message(bytearray(1 << 20)))
names = [thread.name for thread in threading.enumerate()]
print(len(made), _owners.kept_count, names.count("lwmq-frames"))
"""


def test_a_signal_handler_makes_messages_while_the_first_is_made(spawn: Callable[..., Any]) -> None:
    assert spawn(INTERRUPTED).rest().split() == ["2", "2", "1"]
