"""Channels over tcp:// and tcps://: as over shared memory, between two processes that share nothing."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import describe
from tests.network import KEY, loopback


@pytest.fixture(params=["tcp", "tcps", "uring"])
def tcp(request: pytest.FixtureRequest, key_file: Path) -> str:
    """An address of this test's own."""
    settings = {"tcp": "", "tcps": f"?psk={key_file}", "uring": "?engine=uring"}[request.param]
    return free_address("tcps" if request.param == "tcps" else "tcp") + settings


def free_address(scheme: str) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"{loopback(scheme)}{probe.getsockname()[1]}/test"


ECHO = """
with lwmq.Channel(sys.argv[1], "server") as channel:
    queue = channel.send_queue()
    print("ready")
    while True:
        message = channel.receive(60)
        queue.post(message)
        if bytes(message) == b"last":
            channel.flush(60)
            sys.stdin.readline()
            break
"""


def test_messages_of_any_length_come_back_in_order(tcp: str, spawn: Callable[..., Any]) -> None:
    child = spawn(ECHO, tcp)
    assert child.line() == "ready"
    sent = [bytes([n % 251]) * (n * 37 % 5000) for n in range(5000)] + [b"x" * 60_000, b"", b"last"]
    with lwmq.Channel(tcp, "client") as channel:
        queue = channel.send_queue()
        received = []
        for n, message in enumerate(sent):
            queue.post(message)
            if n % 100 == 99:
                received += [bytes(channel.receive(60)) for _ in range(100)]
        while len(received) < len(sent):
            received.append(bytes(channel.receive(60)))
        assert received == sent
        assert channel.peer is not None
    child.tell()
    assert child.wait() == 0


SQUARE = """
with lwmq.Channel(sys.argv[1], "server") as channel:
    print("ready")
    lwmq.Replies(channel).serve(lambda frames: str(int(bytes(frames)) ** 2).encode())
"""


def test_requests_are_answered(tcp: str, spawn: Callable[..., Any]) -> None:
    child = spawn(SQUARE, tcp)
    assert child.line() == "ready"
    with lwmq.Channel(tcp, "client") as channel, lwmq.Requests(channel) as requests:
        assert bytes(requests.request(b"7", timeout=60)) == b"49"
        replies = [requests.submit(str(n).encode(), timeout=60) for n in range(500)]
        assert [int(bytes(reply.result(60))) for reply in replies] == [n * n for n in range(500)]
    child.kill()


@pytest.mark.row("L34")
def test_the_death_of_the_server_is_told_and_the_next_one_is_found(
    tcp: str, spawn: Callable[..., Any]
) -> None:
    child = spawn(ECHO, tcp)
    assert child.line() == "ready"
    with lwmq.Channel(tcp, "client", retry=0.01) as channel:
        queue = channel.send_queue()
        queue.post(b"first")
        assert bytes(channel.receive(60)) == b"first"
        child.kill()
        with pytest.raises(lwmq.PeerLostError, match=f"process {child.pid}"):
            channel.receive(60)
        successor = spawn(ECHO, tcp)
        assert successor.line() == "ready"
        channel.wait_connected(60)
        queue.post(b"second")
        assert bytes(channel.receive(60)) == b"second"
        queue.post(b"last")
        assert bytes(channel.receive(60)) == b"last"
    successor.tell()
    assert successor.wait() == 0


CROWD = """
from contextlib import ExitStack
address, count = sys.argv[1], int(sys.argv[2])
with ExitStack() as stack:
    ends = [lwmq.Channel(address, "client", linger=0, buffers=2, buffer_bytes=1024) for _ in range(count)]
    for end in ends:
        stack.enter_context(end)
        end.send_queue().post(b"here")
    for end in ends:
        assert bytes(end.receive(60)) == b"welcome"
    print("welcomed")
    sys.stdin.readline()
"""


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_crowd_of_clients_comes_in(count: int, spawn: Callable[..., Any]) -> None:
    """Each is served within the limit of its receive, over two descriptors of the server."""
    address = free_address("tcp")
    with lwmq.Listener(address, linger=0.01, buffers=2, buffer_bytes=1024) as listener:
        children = [spawn(CROWD, address, count // 5) for _ in range(5)]
        served = []
        for _ in range(count):
            served.append(listener.accept(60))
            served[-1].send_queue().post(b"welcome")
        assert [child.line() for child in children] == ["welcomed"] * len(children)
        assert [bytes(channel.receive(60)) for channel in served] == [b"here"] * count
        assert listener.statistics.accepted == count
        for child in children:  # before the channels close: a client that is there would come again
            child.kill()
        for channel in served:
            with suppress(lwmq.LwmqError):
                channel.close()


@pytest.mark.row("S04")
def test_a_close_without_a_linger_cuts_off_nothing_that_was_shipped(tcp: str) -> None:
    """More than a socket takes at once. The text counts what the peer had not told to have read."""
    sent = [bytes([n]) * 60_000 for n in range(120)]
    with lwmq.Channel(tcp, "server", linger=0, buffers=128) as server:
        client = lwmq.Channel(tcp, "client", buffers=128)
        client.wait_connected(60)
        queue = client.send_queue()
        for message in sent:
            queue.post(message)
        client.flush(60)
        with pytest.raises(lwmq.TimeoutError, match=r"0 messages were dropped .* 120 were"):
            client.close(linger=0)
        assert [bytes(server.receive(60)) for _ in sent] == sent
        with pytest.raises(lwmq.ClosedError):
            server.receive(60)


def test_what_is_wrong_with_an_address_is_said() -> None:
    with pytest.raises(lwmq.AddressError, match="the port is missing"):
        lwmq.Channel("tcp://127.0.0.1", "server")
    with pytest.raises(lwmq.LwmqError, match=r"neither credentials nor encryption.*say auth=none"):
        lwmq.Channel("tcp://*:0", "server")
    with pytest.raises(lwmq.LwmqError, match="there is 'auth=none' alone"):
        lwmq.Channel("tcp://*:0?auth=any", "server")
    lwmq.Channel("tcp://*:0?auth=none", "server", linger=0).close()
    lwmq.Listener("tcp://*:0?auth=none").close()


# ---- Credentials


def test_a_key_that_is_not_the_listeners_is_refused_with_a_text(key_file: Path, tmp_path: Path) -> None:
    address = free_address("tcps")
    other = tmp_path / "other.psk"
    other.touch(0o600)
    other.write_text(f"tests:{KEY[::-1]}\n")
    with lwmq.Listener(f"{address}?psk={key_file}") as listener:
        client = lwmq.Channel(f"{address}?psk={other}", "client", linger=0)
        with pytest.raises(lwmq.LwmqError, match="another key of identity 'tests'") as refused:
            client.wait_connected(60)
        assert KEY not in str(refused.value) and KEY[::-1] not in str(refused.value)
        client.close()
        while not listener.statistics.refused:
            time.sleep(0.01)
        assert re.search("a client was refused: .*binder does not verify", listener.statistics.refusal)


def test_credentials_come_from_the_environment_and_the_conf_file(
    key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = free_address("tcps")
    with pytest.raises(lwmq.LwmqError, match="no credentials: give psk=FILE"):
        lwmq.Channel(address, "server", linger=0)
    monkeypatch.setenv("LWMQ_PSK", str(key_file))
    with lwmq.Channel(address, "server", linger=0) as server:
        monkeypatch.delenv("LWMQ_PSK")
        conf = tmp_path / "lwmq.toml"
        conf.write_text(f'[channel]\npsk = "{key_file}"\n')
        monkeypatch.setenv("LWMQ_CONF", str(conf))
        with lwmq.Channel(address, "client", linger=0) as client:
            client.wait_connected(60)
            server.wait_connected(60)


def test_a_key_shows_nowhere(key_file: Path) -> None:
    """Neither in errors, nor in what the channel says of itself, nor in `lwmq top` and `lwmq info`."""
    address = f"{free_address('tcps')}?psk={key_file}"
    shown = []
    with (
        lwmq.Channel(address, "server", linger=0) as server,
        lwmq.Channel(address, "client", linger=0) as client,
    ):
        client.wait_connected(60)
        shown += [repr(server), repr(client), repr(client.statistics), repr(client.peer)]
        for command in (["top", "--json", "--count", "1"], ["info", "--json"], ["info", address, "--json"]):
            ran = subprocess.run(
                [sys.executable, "-m", "lwmq_spark.cli", *command],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            shown += [ran.stdout, ran.stderr]
        assert json.loads(shown[4].splitlines()[0])
        assert address.split("?")[0] in shown[4], "top shows the channel"
        server.close()
        with pytest.raises(lwmq.LwmqError) as gone:
            client.receive(60)
        shown.append(str(gone.value))
    key_file.chmod(0o644)
    with pytest.raises(lwmq.LwmqError, match="group or others have access to the secret") as refused:
        lwmq.Channel(address, "server", linger=0)
    shown.append(str(refused.value))
    assert not [text for text in shown if KEY in text]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by the command openssl")
def test_certificates_prove_both_ends(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=120)

    def credentials(name: str) -> str:
        files = {"certificate": f"{name}.pem", "private_key": f"{name}.key", "authority": "ca.pem"}
        return "&".join(f"{key}={tmp_path / file}" for key, file in files.items())

    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for ca in ("ca", "foreign-ca"):
        openssl("req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", f"/CN={ca}",
                "-keyout", f"{ca}.key", "-out", f"{ca}.pem")  # fmt: skip
    for name, ca in (("server", "ca"), ("client", "ca"), ("foreign", "foreign-ca")):
        openssl("req", "-newkey", "ed25519", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
                "-CAcreateserial", "-extfile", "names", "-days", "2", "-out", f"{name}.pem")  # fmt: skip
    address = free_address("tcps")
    child = spawn(ECHO, f"{address}?{credentials('server')}")
    assert child.line() == "ready"
    with (
        lwmq.Channel(f"{address}?{credentials('foreign')}", "client", linger=0) as foreign,
        pytest.raises(lwmq.LwmqError, match="refused the TLS handshake: tlsv1 alert unknown ca"),
    ):
        foreign.wait_connected(60)
    with lwmq.Channel(f"{address}?{credentials('client')}", "client") as channel:
        queue = channel.send_queue()
        for text in (b"x" * 60_000, b"last"):
            queue.post(text)
            assert bytes(channel.receive(60)) == text
    child.tell()
    assert child.wait() == 0


# ---- Two engines -------------------------------------------------------------------------------------------


@pytest.mark.row("K08")
def test_both_engines_serve_in_one_process(spawn: Callable[..., Any]) -> None:
    """Each end of a connection chooses for itself: all four pairs."""
    places = [free_address("tcp") for _ in range(4)]
    engines = [(ours, theirs) for ours in ("epoll", "uring") for theirs in ("epoll", "uring")]
    children = [
        spawn(ECHO, f"{place}?engine={theirs}") for place, (_, theirs) in zip(places, engines, strict=True)
    ]
    for place, child, (ours, _) in zip(places, children, engines, strict=True):
        assert child.line() == "ready"
        with lwmq.Channel(f"{place}?engine={ours}", "client") as channel:
            queue = channel.send_queue()
            for text in (b"first", bytes(50_000), b"last"):
                queue.post(text)
            assert [bytes(channel.receive(60)) for _ in range(3)] == [b"first", bytes(50_000), b"last"]
        child.tell()
        assert child.wait() == 0


# ---- What an attempt to connect waits for ------------------------------------------------------------------


def waited_for(address: str) -> tuple[str, str]:
    """What the time-outs of a channel and of a reader say."""
    with lwmq.Channel(address, "client", linger=0) as channel, pytest.raises(lwmq.TimeoutError) as by_channel:
        channel.wait_connected(0.5)
    with pytest.raises(lwmq.TimeoutError) as by_reader:
        lwmq.open_reader(address, role="client", timeout=0.5)
    return str(by_channel.value), str(by_reader.value)


def test_a_time_out_tells_of_a_process_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        for told in waited_for(f"tcp://127.0.0.1:{port}/x"):
            assert f"a process listens at 127.0.0.1:{port} and has not answered" in told


def test_a_time_out_tells_of_a_host_that_does_not_answer() -> None:
    """As behind a firewall: the kernel drops what comes to a full backlog."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first:
        first.connect(full.getsockname())
        port = full.getsockname()[1]
        for told in waited_for(f"tcp://127.0.0.1:{port}/x"):
            assert f"nothing at 127.0.0.1:{port} has answered" in told


def test_a_time_out_tells_of_a_name_that_nobody_knows() -> None:
    for told in waited_for("tcp://no-such-host.invalid:5555/x"):
        assert "nobody knows the host 'no-such-host.invalid'" in told or "no name server has answered" in told


# ---- Port 0 ------------------------------------------------------------------------------------------------


def test_whoever_serves_at_port_0_knows_the_port_that_was_chosen() -> None:
    given, chosen = "tcp://127.0.0.1:0/x", r"tcp://127\.0\.0\.1:[1-9]\d*/x"
    with lwmq.Channel(given, "server", linger=0) as server:
        assert re.fullmatch(chosen, server.address)
        with lwmq.Channel(server.address, "client", linger=0) as client:
            client.wait_connected(60)
    with lwmq.Listener(given) as listener:
        assert re.fullmatch(chosen, listener.address)
        with lwmq.Channel(listener.address, "client", linger=0), listener.accept(60) as accepted:
            accepted.wait_connected(60)
    schema = pa.schema([("n", pa.int64())])
    with (
        lwmq.open_writer(given, schema, role="server", linger=60) as writer,
        lwmq.open_reader(writer.address, role="client", timeout=60) as reader,
    ):
        assert re.fullmatch(chosen, writer.address)
        writer.write(pa.record_batch({"n": [1]}, schema=schema))
        assert reader.read_next_batch().num_rows == 1
    with lwmq.open_reader(given, role="server", timeout=60, linger=0) as reader:
        assert re.fullmatch(chosen, reader.address)
        assert describe(reader.address, 60, wait_declared=False) is not None
