"""Slips and misfortunes: each is an error of its own class whose text says where, with which numbers, and
what to do. What the limits of memory and descriptors do to a stream is in arrow/test_pressure.py.
"""

from __future__ import annotations

import copy
import datetime
import os
import pickle
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import lwmq_spark as lwmq
from lwmq_spark._ffi import lib
from lwmq_spark.arrow.endpoint import describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
MAGIC = 0x514D574C
VERSION = lib.lwmq_protocol_version()
HELLO, REFUSAL = 1, 2


def batch(rows: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(rows), "s": ["x"] * rows}, schema=SCHEMA)


def socket_name(name: str, uid: int | None = None) -> bytes:
    """Where a process listens for `ipc://name`, in the abstract space."""
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in name.encode():
        value = (value ^ byte) * 0x0000000001000000000000000000013B % (1 << 128)
    return b"\0lwmq/" + str(os.geteuid() if uid is None else uid).encode() + b"/" + f"{value:032x}".encode()


# ---- Addresses


@pytest.mark.row("L13")
@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("flights", "'flights': the address has no scheme: did you mean 'ipc://flights'?"),
        ("./flights", "did you mean 'ipc://flights'"),
        ("/tmp/flights", "did you mean 'ipc:///tmp/flights'"),
        ("ipc:/flights", "did you mean 'ipc://flights'"),
        ("ipx://flights", "did you mean 'ipc://flights'"),
        ("ipc://flights ", "a blank behind the name: did you mean 'ipc://flights'?"),
        ("loop://flights  ?buffers=3", "did you mean 'loop://flights'"),
        (" ipc://flights", "did you mean 'ipc://flights'"),
        ("IPC://flights", "did you mean 'ipc://flights'"),
        ("ipc://a,ipc://b", "a stream has one, a channel takes several as a list"),
        ("", "'': the address has no scheme; there are: .*ipc"),
        ("ftp://flights", "'ftp://flights': no provider claims this scheme; there are: .*ipc"),
        ("ipc://", "ipc://: the name has 0 characters, possible are 1 to 119"),
        ("ipc://" + "x" * 120, "the name has 120 characters, possible are 1 to 119"),
        ("ipc://x:0", "ipc://x:0: the port is '0', possible are 1 to 65535"),
        ("ipc://x:65536", "the port is '65536', possible are 1 to 65535"),
        ("ipc://x:", "the port is '', possible are 1 to 65535"),
        ("ipc://x:y", "the port is 'y', possible are 1 to 65535"),
        ("ipc:///tmp/", "a file name is missing behind the last '/'"),
        ("ipc:///" + "d" * 120, "the path has 121 bytes, a socket file may have 107"),
        ("ipc://x\n", "a control character in the name"),
        ("loop://" + "x" * 120, "a name of 1 to 119 bytes stands behind loop://, not 120"),
        (
            "ipc://x?speed=high",
            "option 'speed' of 'ipc://x\\?speed=high' is unknown; allowed are buffer_bytes",
        ),
        ("ipc://x?timeout=soon", "option 'timeout' of .*'soon' is not a duration: write 100ms"),
        ("ipc://x\0y", r"address 'ipc://x\\x00y' has a NUL byte"),
        ("ipc://x?name=a\0b", "has a NUL byte"),
    ],
)
def test_an_address_that_is_none_is_refused_by_everybody(address: str, text: str) -> None:
    for open_it in (
        lambda: lwmq.open_writer(address, SCHEMA),
        lambda: lwmq.open_reader(address),
        lambda: lwmq.Channel(address),
    ):
        with pytest.raises(lwmq.AddressError, match=text):
            open_it()


@pytest.mark.parametrize(
    "option", ["timeout=5s", "stall=1s", "window_bytes=1MiB", "partitions=7", "retain=all"]
)
def test_an_option_of_streams_is_refused_by_channels(ipc: str, option: str) -> None:
    key = option.partition("=")[0]
    with pytest.raises(
        lwmq.AddressError, match=f"option '{key}' of .* is none of a channel's; allowed are .*role"
    ):
        lwmq.Channel(f"{ipc}?{option}")


@pytest.mark.parametrize(
    ("address", "kind", "text"),
    [
        (b"ipc://x", TypeError, "not bytes: did you mean .decode()?"),
        (5, TypeError, "an address is a str such as 'ipc://flights', not int"),
        (None, TypeError, "not NoneType"),
        (["ipc://x", 5], TypeError, "not int"),
        (
            ["ipc://x", "ipc://y?linger=1s"],
            lwmq.AddressError,
            "'linger' of .* is none of one transport's",
        ),
        (["ipc://x", "ipc://y?retry=soon"], lwmq.AddressError, "'retry' of .*'soon' is not a duration"),
        (["ipc://x", "y"], lwmq.AddressError, "'y': the address has no scheme: did you mean 'ipc://y'"),
    ],
)
def test_what_is_no_address_of_a_channel_is_refused(address: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text.replace("?", "[?]").replace("()", r"\(\)")):
        lwmq.Channel(address)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"buffers": (1,)}, ValueError, "for both directions, or"),
        ({"buffers": (1, "x")}, ValueError, "buffers_receive: 'x' is not a count: a whole number"),
        (
            {"buffers": (1, 1 << 40)},
            ValueError,
            "buffers_receive: '1099511627776' is out of bounds: 0 to 4000 are possible",
        ),
        (
            {"buffer_bytes": 1 << 70},
            ValueError,
            "buffer_bytes: '1180591620717411303424' is not a whole number of bytes, at most 92",
        ),
        (
            {"receive_queue": "bounded_discard_oldest", "receive_capacity": -1},
            ValueError,
            "receive_capacity -1",
        ),
        ({"receive_queue": "bounded_discard_oldest", "receive_capacity": "x"}, TypeError, "not str"),
    ],
)
def test_numbers_that_a_channel_cannot_have_are_refused(
    ipc: str, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        lwmq.Channel(ipc, **options)


def test_slips_with_queues_selectors_and_routers_have_words_of_their_own(ipc: str) -> None:
    anything: Any = 5
    with lwmq.Channel(ipc, linger=0) as channel, lwmq.Selector() as selector:
        with pytest.raises(TypeError, match="a selector takes channels and listeners, not int"):
            selector.add(anything)
        for capacity, kind in (("5", TypeError), (2.5, TypeError), (-1, ValueError), (1 << 64, ValueError)):
            with pytest.raises(kind, match=f"capacity of a bounded_discard_oldest queue, {capacity!r}:"):
                channel.send_queue("bounded_discard_oldest", capacity=capacity)  # type: ignore[arg-type]
        for weight, kind in ((-1, ValueError), (1 << 40, ValueError), ("x", TypeError)):
            with pytest.raises(kind, match=f"weight {weight!r}:"):
                channel.set_weights([weight] * 5)  # type: ignore[list-item]
        with pytest.raises(ValueError, match="signal 1099511627776:"):
            channel.signal_on_message(1 << 40)
        queue, router = channel.send_queue("multi_unbounded"), lwmq.Router()
        for tag, kind in (("x", TypeError), (-1, ValueError), (1 << 64, ValueError)):
            with pytest.raises(kind, match=f"tag {tag!r}:"):
                queue.post(b"x", tag=tag)  # type: ignore[arg-type]
        with pytest.raises(lwmq.LwmqError, match="an unbounded queue has room at once: no timeout, here 1 s"):
            queue.post(b"x", timeout=1)
        with pytest.raises(ValueError, match=r"pattern 'a\\x00b' has a NUL byte"):
            router.add("a\0b", queue)
        with pytest.raises(ValueError, match=r"group 'a\\x00b' has a NUL byte"):
            router.add("a", queue, group="a\0b")
        with pytest.raises(TypeError, match="pattern 5: a str is wanted, not int"):
            router.add(anything, queue)
        for call_with in (lambda wrong: router.add("a", wrong), router.forget):
            with pytest.raises(TypeError, match="a route leads to a send queue, not to int"):
                call_with(anything)
        with pytest.raises(TypeError, match="a selector has channels and listeners, not int"):
            selector.remove(anything)
        with pytest.raises(TypeError, match="queue is a send queue of the channel, not int"):
            lwmq.Replies(channel, queue=anything)
        with pytest.raises(ValueError, match=r"filter 'loss=0.1\\x00b' has a NUL byte"):
            channel.add_filter("loss=0.1\0b")
        for limit, kind in ((0, ValueError), (2.5, TypeError)):
            with pytest.raises(kind, match=f"limit {limit}:"):
                channel.receive_many(limit)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="place -1:"):
            channel.latency(0.5, -1)

        async def awaits(_message: lwmq.Message) -> None: ...

        with pytest.raises(TypeError, match="on_message\\(\\) calls from a thread: in asyncio, `async for"):
            channel.on_message(awaits)
        with lwmq.Listener(f"{ipc}-l") as listener:
            for wrong in (awaits, 5):
                with pytest.raises(TypeError, match="on_client is a function of one channel"):
                    selector.add(listener, on_client=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="later than 1601"):
            lwmq.Message(b"x", timestamp=datetime.datetime(1, 1, 1, tzinfo=datetime.UTC))
        with pytest.raises(ValueError, match="frame -1: 0 to"):
            router.add("a", queue, frame=-1)
        pointers = np.array([object()])
        calls: list[Callable[[Any], Any]] = [lwmq.Message, queue.post, lambda x: queue.post_many([x])]
        for call in calls:
            for frames in (pointers, [pointers]):
                with pytest.raises(TypeError, match="not of Python objects"):
                    call(frames)


def test_numbers_of_numpy_are_numbers(address: str) -> None:
    with (
        lwmq.Channel(
            address,
            "server",
            linger=np.float32(0),
            buffer_bytes=np.int64(8192),
            buffers=np.int32(4),
            retry=np.int8(1),
        ) as server,
        lwmq.Channel(address, "client", linger=0, buffer_bytes=8192, buffers=4) as client,
    ):
        server.wait_connected(60)
        queue = server.send_queue("multi_unbounded_tagged")
        queue.post(b"x", tag=np.uint64(7))
        assert [bytes(m) for m in client.receive_many(np.int64(4), np.float64(10))] == [b"x"]  # type: ignore[arg-type]


def test_fields_of_a_buffer_may_have_any_names(address: str) -> None:
    prices = np.array([(1.0, 2.0)], dtype=[("Open", "f8"), ("Close", "f8")])
    rows = np.array([(1.0, "x")], dtype=[("price", "f8"), ("name", object)])
    with (
        lwmq.Channel(address, "server", linger=0) as server,
        lwmq.Channel(address, "client", linger=0) as client,
    ):
        server.wait_connected(60)
        queue = server.send_queue()
        queue.post([prices])
        queue.post(prices)
        queue.post_many([prices])
        for _ in range(3):
            assert np.frombuffer(client.receive(60)[0], prices.dtype) == prices
        for frames in (rows, [rows]):
            with pytest.raises(TypeError, match="not of Python objects"):
                queue.post(frames)


@pytest.mark.parametrize("role", ["auto", "client", "server"])
def test_a_file_in_the_place_of_a_socket_is_told(tmp_path: Path, role: Any) -> None:
    place = tmp_path / "prices.parquet"
    place.write_bytes(b"of somebody's")
    address = f"ipc://{place}"
    with (
        pytest.raises(lwmq.AddressError, match=f"{address}: a file that is no socket lies there"),
        lwmq.Channel(address, role, linger=0) as channel,
    ):
        channel.receive(60)
    assert place.read_bytes() == b"of somebody's"


@pytest.mark.parametrize("role", ["server", "client", "auto"])
def test_a_directory_that_is_not_there_is_told_at_once_with_the_remedy(tmp_path: Path, role: Any) -> None:
    missing = tmp_path / "missing" / "deeper"
    address = f"ipc://{missing}/flights"
    told = f"{address}: {missing} is no directory: create it"
    for open_it in (
        lambda: lwmq.open_writer(address, SCHEMA, role=role, timeout=HANG_S),
        lambda: lwmq.open_reader(address, role=role, timeout=HANG_S),
        lambda: lwmq.Channel(address, role),
    ):
        with pytest.raises(lwmq.AddressError, match=told):
            open_it()
    (tmp_path / "missing").write_text("a file")
    with pytest.raises(lwmq.AddressError, match=f"{missing} is no directory"):
        lwmq.Channel(address, role)


def test_a_link_to_a_socket_that_comes_later_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with lwmq.Channel(f"ipc://{tmp_path}/link", "client", linger=0) as client:
        with pytest.raises(lwmq.TimeoutError):
            client.wait_connected(0.15)  # it has tried
        with lwmq.Channel(f"ipc://{tmp_path}/real", "server", linger=0):
            client.wait_connected(60)


def test_a_second_server_is_told_who_serves(ipc: str) -> None:
    with lwmq.Endpoint(ipc):
        text = f"{ipc} is served already, by process {os.getpid()}"
        with pytest.raises(lwmq.AddressError, match=text):
            lwmq.open_writer(ipc, SCHEMA, role="server")
        with pytest.raises(lwmq.AddressError, match=text):
            lwmq.Endpoint(ipc)
        with pytest.raises(lwmq.AddressError, match=text):
            lwmq.Channel(ipc, role="server")


# ---- Strangers


class Stranger:
    """Something else than lwmq that listens where a server should; answers each client with `answer`."""

    def __init__(self, name: str, answer: bytes) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(socket_name(name))
        self._listener.listen()
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with closing(client):
                client.recv(4096)
                if self._answer:
                    client.send(self._answer)

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)


@pytest.mark.parametrize("opened", ["writer", "reader"])
def test_a_server_of_another_protocol_version_is_a_version_error_with_both(ipc: str, opened: str) -> None:
    answer = struct.pack("<III", MAGIC, VERSION + 1, HELLO) + bytes(600)
    with (
        Stranger(ipc.removeprefix("ipc://"), answer),
        pytest.raises(
            lwmq.VersionError,
            match=f"{ipc}: the listener speaks version {VERSION + 1} of the protocol, the client {VERSION}",
        ),
    ):
        if opened == "writer":
            lwmq.open_writer(ipc, SCHEMA, timeout=60)
        else:
            lwmq.open_reader(ipc, timeout=60)


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"x", struct.pack("<III", MAGIC, VERSION, HELLO), bytes(600)],
)
def test_something_else_that_listens_there_is_corrupt(ipc: str, answer: bytes) -> None:
    with Stranger(ipc.removeprefix("ipc://"), answer), pytest.raises(lwmq.CorruptError, match=ipc):
        lwmq.open_reader(ipc, timeout=60, role="client")


def test_a_listener_that_never_answers_is_a_timeout(ipc: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(socket_name(ipc.removeprefix("ipc://")))
        listener.listen()
        with pytest.raises(lwmq.TimeoutError, match=ipc):
            lwmq.open_reader(ipc, timeout=0.5, role="client")


def test_a_client_that_talks_nonsense_is_told_so_and_others_are_served(ipc: str) -> None:
    with suppress(lwmq.TimeoutError), lwmq.Endpoint(ipc, linger=0):
        for nonsense in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0",
            struct.pack("<III", MAGIC, VERSION + 1, HELLO) + bytes(600),
        ):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(60)
                client.connect(socket_name(ipc.removeprefix("ipc://")))
                client.send(nonsense)
                answer = client.recv(4096)
            magic, version, kind, status = struct.unpack_from("<IIIi", answer)
            assert (magic, version, kind) == (MAGIC, VERSION, REFUSAL)
            assert status != 0
            told = rb"version %d of the protocol, the listener %d|a hello of \d+ bytes" % (
                VERSION + 1,
                VERSION,
            )
            assert re.search(told, answer), answer
        with lwmq.open_writer(ipc, SCHEMA, linger=0) as writer:
            writer.write(batch())
            writer.abort()


AS_ANOTHER_USER = """
    open_reader = lwmq.open_reader  # imported while the files can still be read
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    try:
        open_reader(sys.argv[1], role="client", timeout=60)
        print("let in")
    except lwmq.LwmqError as exc:
        print(type(exc).__name__, exc)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_is_turned_away_and_told_whose_the_address_is(spawn: Callable[..., Any]) -> None:
    path = Path(f"/tmp/lwmq-test-{os.getpid()}-served")
    try:
        with lwmq.Endpoint(f"ipc://{path}"):
            path.chmod(0o777)
            said = spawn(AS_ANOTHER_USER, f"ipc://{path}").line()
            assert f"user 0 listens there (process {os.getpid()}), which is not our user" in said, said
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_who_has_taken_a_name_of_ours_gets_nothing_of_us(
    ipc: str, spawn: Callable[..., Any]
) -> None:
    squatter = spawn(
        """
        import socket
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(bytes.fromhex(sys.argv[1]))
        listener.listen()
        print("there", flush=True)
        listener.accept()[0].settimeout(60)
        sys.stdin.readline()
        """,
        socket_name(ipc.removeprefix("ipc://")).hex(),
    )
    assert squatter.line() == "there"
    told = rf"user 65534 listens there \(process {squatter.pid}\), which is not our user"
    with pytest.raises(lwmq.LwmqError, match=told):
        lwmq.open_reader(ipc, timeout=60, role="client")
    squatter.tell()
    assert squatter.wait() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_client_of_another_user_is_refused_by_the_listener(ipc: str, spawn: Callable[..., Any]) -> None:
    with lwmq.Endpoint(ipc):
        child = spawn(
            """
            import socket
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.connect(bytes.fromhex(sys.argv[1]))
            client.settimeout(60)
            print(client.recv(4096)[16:].split(b"\\0")[0].decode())
            """,
            socket_name(ipc.removeprefix("ipc://")).hex(),
        )
        assert child.line() == "the client runs as user 65534, the listener as user 0"


# ---- Schemas and sizes


def test_a_second_writer_with_another_schema_is_told_the_field_and_both_types(address: str) -> None:
    with lwmq.open_writer(address, SCHEMA, linger=0) as writer:
        other = pa.schema([("n", pa.int64()), ("s", pa.float64())])
        with pytest.raises(
            lwmq.SchemaError, match=f"field 's' is double, but string in the stream {address}"
        ):
            lwmq.open_writer(address, other)
        with pytest.raises(lwmq.SchemaError, match=r"2 fields against|3 fields against"):
            lwmq.open_writer(address, SCHEMA.append(pa.field("more", pa.int8())))
        with pytest.raises(lwmq.SchemaError, match="field 's' is int64, but string in the stream"):
            writer.write(pa.record_batch({"n": [1], "s": [1]}))
        assert writer.write(batch()) == 3
        writer.abort()


def test_a_batch_larger_than_the_window_is_an_error_with_both_numbers(address: str) -> None:
    with lwmq.open_writer(address, SCHEMA, buffer_bytes="64KiB", window_bytes="128KiB", linger=0) as writer:
        with pytest.raises(lwmq.MessageTooBigError, match=r"(?s)\d{6,}.*131072"):
            writer.write(pa.record_batch({"n": [1], "s": ["x" * 300_000]}, schema=SCHEMA))
        assert writer.write(batch()) == 3
        writer.abort()


# ---- Streams that are not there


def test_a_window_that_can_never_be_had_is_refused_at_the_opening_with_both_numbers(address: str) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for said in ({"window_bytes": machine}, {"buffer_bytes": machine // 8}):
        whole = address if "window_bytes" in said else f"{address}?buffers=8"
        with pytest.raises(lwmq.LwmqError, match=r"a window of \d+ bytes, and this process may hold \d+ in"):
            lwmq.open_writer(whole, SCHEMA, timeout=HANG_S, **said)


def test_a_stream_that_never_existed_is_waited_for_and_then_named(ipc: str) -> None:
    with pytest.raises(lwmq.TimeoutError, match=rf"{ipc}: nobody serves this address; .*\(waited 0\.3 s\)"):
        lwmq.open_reader(ipc, role="client", timeout=0.3)
    with (
        lwmq.open_reader(ipc, timeout=1.5, linger=0) as reader,
        pytest.raises(lwmq.TimeoutError, match=f"no producer declared the stream {ipc} within 1.5 s"),
    ):
        _ = reader.schema


def test_a_stream_that_was_read_to_its_end_is_waited_for_not_empty(address: str) -> None:
    with lwmq.Endpoint(address, linger=0):
        with (
            lwmq.open_reader(address, timeout=60) as reader,
            lwmq.open_writer(address, SCHEMA, linger=60) as writer,
        ):
            writer.write(batch())
            assert next(reader).num_rows == 3
            reader.consume()
        assert describe(address).state == "consumed"
        with (
            lwmq.open_reader(address, timeout=60) as late,
            pytest.raises(lwmq.TimeoutError, match=f"no batch within 0.3 s on {address}, after 0 batches"),
        ):
            late.read_next_batch(timeout=0.3)


def test_a_stream_that_was_aborted_says_why_behind_what_was_visible(address: str) -> None:
    with lwmq.Endpoint(address, linger=0):
        writer = lwmq.open_writer(address, SCHEMA)
        writer.write(batch())
        writer.abort("feed handler lost its line")
        with lwmq.open_reader(address, timeout=60) as reader:
            assert next(reader).num_rows == 3
            with pytest.raises(lwmq.AbortedError, match="feed handler lost its line"):
                next(reader)


def test_offsets_that_cannot_be_are_refused_with_what_there_is(address: str) -> None:
    with suppress(lwmq.TimeoutError), lwmq.Endpoint(address, linger=0):
        writer = lwmq.open_writer(address, SCHEMA)
        writer.write(batch())
        for start in (-1, 1.5, True, "newest"):
            with pytest.raises(ValueError, match="is neither 'earliest', 'latest' nor a sequence number"):
                lwmq.open_reader(address, start={0: start})  # type: ignore[dict-item]
        text = "partition 0: numbers 17 to the end were asked for; the next one to be written is 1"
        nothing = "partition 3 was asked for; the stream has 1"
        for start, said in (({0: 17}, text), ({3: 0}, nothing)):
            with (
                lwmq.open_reader(address, start=start, timeout=60) as reader,
                pytest.raises(lwmq.LwmqError, match=said),
            ):
                next(reader)
        writer.abort()


def test_offsets_that_were_released_are_a_data_loss_that_names_the_ways_out(address: str) -> None:
    with lwmq.Endpoint(address, linger=0), lwmq.open_writer(address, SCHEMA, linger=0) as writer:
        for _ in range(3):
            writer.write(batch())
        with lwmq.open_reader(address, timeout=60, name="first") as reader:
            next(reader), next(reader), next(reader)
            reader.consume()
            text = r"batch 0 was asked for, the oldest kept is 3.*Ways out: retain=\"all\""
            with (
                lwmq.open_reader(address, start={0: 0}, timeout=60) as late,
                pytest.raises(lwmq.DataLossError, match=text),
            ):
                next(late)
        writer.abort()


# ---- Use after the end, and code of the caller's that fails


def test_a_closed_writer_and_a_closed_reader_say_so(address: str) -> None:
    with lwmq.Endpoint(address, linger=0):
        writer = lwmq.open_writer(address, SCHEMA)
        reader = lwmq.open_reader(address, timeout=60)
        writer.abort()
        reader.close()
        for call in (lambda: writer.write(batch()), lambda: writer.allocate(3), lambda: writer.commit()):
            with pytest.raises(lwmq.ClosedError, match=f"the writer of {address} is closed"):
                call()
        for call in (lambda: next(reader), lambda: reader.consume(), lambda: reader.statistics):
            with pytest.raises(lwmq.ClosedError, match=f"the reader of {address} is closed"):
                call()


def test_an_iterator_of_the_caller_that_raises_aborts_with_its_text(address: str) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch()
        raise ValueError("row 4 has no price")

    with lwmq.Endpoint(address, linger=0):
        with (
            pytest.raises(ValueError, match="row 4 has no price"),
            lwmq.open_writer(address, SCHEMA) as writer,
        ):
            writer.write(pa.RecordBatchReader.from_batches(SCHEMA, rows()))
        with lwmq.open_reader(address, timeout=60) as reader:
            assert next(reader).num_rows == 3
            with pytest.raises(lwmq.AbortedError, match="ValueError: row 4 has no price"):
                next(reader)


def test_what_lives_in_one_process_is_neither_pickled_nor_copied(ipc: str) -> None:
    numbers = pa.schema([("n", pa.int64())])
    with (
        lwmq.open_writer(f"{ipc}-stream", numbers, role="server", linger=0) as writer,
        lwmq.Listener(ipc) as listener,
        lwmq.Channel(ipc, "client", linger=0) as channel,
        lwmq.Requests(channel) as requests,
        lwmq.Selector() as selector,
    ):
        router = lwmq.Router()
        builder = writer.allocate(3)
        handles = [listener, channel, channel.send_queue(), requests, selector, router, lwmq.Message([b"x"])]
        handles += [requests.submit(b"x"), builder]
        for handle in handles:
            for attempt in (pickle.dumps, copy.copy, copy.deepcopy, cloudpickle.dumps):
                with pytest.raises(TypeError, match="is neither pickled nor copied"):
                    attempt(handle)
        with pytest.raises(TypeError, match=f"Channel {ipc}.* make one where it is used"):
            cloudpickle.dumps(lambda rows: channel.send_queue().post(rows))
        with listener.accept(HANG_S) as peer:
            peer.receive(HANG_S)  # what was asked, so that nothing is lost
        builder.discard()
        writer.abort("nobody reads")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("open_writer(ipc, SCHEMA, windw_bytes='1MiB')", "unknown: did you mean 'window_bytes'"),
        ("open_reader(ipc, partition=[0])", "'partition' is unknown: did you mean 'partitions'"),
        ("Channel(ipc, bufers=3)", "'bufers' is unknown: did you mean 'buffers'"),
        ("Listener(ipc, role='server')", "'role' is unknown; allowed are address, buffer_bytes"),
    ],
)
def test_a_keyword_that_nobody_knows_names_the_one_that_may_be_meant(call: str, said: str, ipc: str) -> None:
    with pytest.raises(TypeError) as refused:
        eval(f"lwmq.{call}", {"lwmq": lwmq, "ipc": ipc, "SCHEMA": SCHEMA})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("open_writer(ipc, SCHEMA, job='j', task=-1)", "task -1: 0 to 4294967295 are possible"),
        ("open_writer(ipc, SCHEMA, job='j', job_tasks=1 << 32)", "job_tasks 4294967296: 0 to 4294967295"),
        ("open_writer(ipc, SCHEMA, job='j', attempt=1 << 64)", f"attempt {1 << 64}: 0 to {(1 << 64) - 1}"),
        ("open_writer(ipc, SCHEMA, job='j', epoch=-1)", f"epoch -1: 0 to {(1 << 64) - 1}"),
        ("open_reader(ipc, partitions=[1 << 32])", "partition 4294967296: 0 to 4294967295"),
        ("open_reader(ipc, partitions=[-1])", "partition -1: 0 to 4294967295"),
        ("open_reader(ipc, start={1 << 40: 0})", "partition 1099511627776: 0 to 4294967295"),
    ],
)
def test_a_number_that_does_not_fit_is_refused_with_both_numbers(call: str, said: str, ipc: str) -> None:
    with pytest.raises(ValueError) as refused:
        eval(f"lwmq.{call}", {"lwmq": lwmq, "ipc": ipc, "SCHEMA": SCHEMA})
    assert said in str(refused.value)


def test_a_limit_on_files_is_an_error_and_no_signal(spawn: Callable[..., Any], ipc: str) -> None:
    child = spawn(
        """
        import resource, signal
        import pyarrow as pa
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as in a program that is not Python's
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            lwmq.open_writer(sys.argv[1], pa.schema([("n", pa.int64())]), role="server")
        except lwmq.LwmqError as exc:
            print(exc, flush=True)
        """,
        ipc,
    )
    assert re.search(r"segment .* of \d+ bytes is larger than the 4096 bytes .*ulimit -f", child.line())
    assert child.wait() == 0


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("channel.receive('1s')", "a number of seconds, or None for no limit, not '1s'"),
        ("channel.receive_many(5, '1s')", "a number of seconds"),
        ("channel.wait_connected(b'1')", "a number of seconds"),
        ("queue.post(b'x', timeout='1s', may_discard=False)", "a number of seconds"),
        ("channel.wait_peer('known')", "the Peer that it said last, or None, not 'known'"),
        ("queue.post({b'a': b'b'})", "bytes, a buffer or a list of them, not dict"),
        ("queue.post({b'a', b'b'})", "bytes, a buffer or a list of them, not set"),
        ("lwmq.Replies(channel).serve(coroutine)", "in asyncio, `await replies.receive_async"),
    ],
)
def test_what_is_no_time_message_or_handler_is_refused_with_what_is(call: str, what: str) -> None:
    async def coroutine(frames: object) -> None: ...

    with lwmq.Channel("loop://bad-input", "server", linger=0) as channel:
        queue = channel.send_queue("bounded_discard_newest", capacity=1)
        names = {"channel": channel, "queue": queue, "lwmq": lwmq, "coroutine": coroutine}
        with pytest.raises(TypeError) as refused:
            eval(call, names)
        assert what in str(refused.value)
        with pytest.raises(ValueError, match="nan seconds"):
            channel.receive(float("nan"))
