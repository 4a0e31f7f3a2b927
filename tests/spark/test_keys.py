"""An application that authenticates: its streams over tcps:// have keys, which nobody sees."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.addresses import free_port
from tests.spark.cluster import Cluster
from tests.spark.producers import Producer
from tests.spark.streams import Consumer

ROWS = 4000
SECRET = secrets.token_hex(32)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two executors. The application's secret comes from a file, as that of an administrator."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "conf").mkdir(mode=0o700)
    (folder / "events").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(f"spark.authenticate.secret {SECRET}\n")
    made = Cluster(
        folder / "driver",
        {"SPARK_CONF_DIR": str(folder / "conf")},
        {
            "spark.authenticate": True,
            "spark.ui.enabled": True,
            "spark.ui.port": 0,
            "spark.eventLog.enabled": True,
            "spark.eventLog.dir": str(folder / "events"),
            "spark.eventLog.compress": False,
        },
    )
    try:
        made.run("wait_for_executors", 2)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def port() -> int:
    """Of the driver's JVM: several streams behind one."""
    return free_port("127.0.0.1")


def key_of(ticket: str) -> str:
    return ticket.rpartition(":")[2]


def test_streams_over_tls_need_no_credentials_and_show_no_key(
    cluster: Cluster, port: int, tmp_path: Path
) -> None:
    """A producer and a consumer outside of the application have tickets. Executors need none."""
    source, sink = f"tcps://127.0.0.1:{port}/source", f"tcps://127.0.0.1:{port}/sink"
    files = [tmp_path / "source.psk", tmp_path / "sink.psk"]
    tickets = [
        cluster.run("ticket", address, str(file)) for address, file in zip([source, sink], files, strict=True)
    ]
    assert [file.read_text() for file in files] == [ticket + "\n" for ticket in tickets]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert len({key_of(ticket) for ticket in tickets}) == 2

    cluster.start("doubled", source, sink)
    producer = Producer(f"{source}?psk={files[0]}", pa.table({"k": range(ROWS)}), partitions=2, role="client")
    consumer = Consumer(f"{sink}?psk={files[1]}", role="client")
    assert consumer.column("k") == list(range(0, 2 * ROWS, 2))
    producer.finish()
    explained = cluster.answer()
    assert source in explained

    published = f"tcps://127.0.0.1:{free_port('127.0.0.1')}/published"
    rows, told = cluster.run("published", published)
    assert rows == list(range(1000))
    tickets.append(cluster.run("ticket", published))

    seen = {"explain": explained, "publish": told}
    seen |= {f"UI {number}": page for number, page in enumerate(cluster.run("shown"))}
    assert any(source in page for page in seen.values() if page is not explained), "the UI shows the plan"
    folder = cluster.folder.parent
    for path in folder.rglob("*"):
        if path.is_file() and path.parent != folder / "conf":
            seen[str(path)] = path.read_bytes().decode("latin-1")
    assert any("events" in name and "SparkListenerApplicationStart" in text for name, text in seen.items())
    for name, text in seen.items():
        assert SECRET not in text, name
        for ticket in tickets:
            assert key_of(ticket) not in text, name


def test_a_ticket_opens_its_stream_alone(cluster: Cluster, port: int, tmp_path: Path) -> None:
    address, other = f"tcps://127.0.0.1:{port}/one", f"tcps://127.0.0.1:{port}/other"
    cluster.run("ticket", address, str(tmp_path / "one.psk"))
    cluster.run("written", other, 10)
    with pytest.raises(lwmq.LwmqError, match="the client's key is for 'one', and it asks for 'other'"):
        lwmq.open_reader(f"{other}?psk={tmp_path / 'one.psk'}", role="client", timeout=60)
    (tmp_path / "guess.psk").write_text(cluster.run("ticket", other)[:-2] + "00\n")
    (tmp_path / "guess.psk").chmod(0o600)
    with pytest.raises(lwmq.LwmqError, match="it has another key of identity"):
        lwmq.open_reader(f"{other}?psk={tmp_path / 'guess.psk'}", role="client", timeout=60)
    cluster.run("ticket", other, str(tmp_path / "other.psk"))
    assert Consumer(f"{other}?psk={tmp_path / 'other.psk'}", role="client").column("k") == list(range(10))


def test_without_an_application_that_authenticates_there_are_no_tickets() -> None:
    with pytest.raises(lwmq.LwmqError, match=r"a session with spark\.authenticate=true, .* such as tcps"):
        lwmq.ticket("ipc://x")
    with pytest.raises(lwmq.LwmqError, match="no credentials: give psk=FILE"):
        lwmq.open_writer("tcps://127.0.0.1:7000/nobody-has-its-key", pa.schema([("k", pa.int64())]))
