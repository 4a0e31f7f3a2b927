"""`lwmq export` between looks: numbers that stay, scrapers that come and hang up."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import urllib.request
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import lwmq_spark as lwmq
from lwmq_spark import observer
from lwmq_spark.cli import main
from lwmq_spark.cli._prometheus import exposition
from lwmq_spark.observer import Entry, Observer

pytestmark = pytest.mark.row("C41")


def numbers(looking: Observer, address: str) -> list[str]:
    """The label `number` of our channels at `address`; "1" where there is none."""
    return sorted(
        sample.labels.get("number", "1")
        for family in text_string_to_metric_families(exposition(looking))
        for sample in family.samples
        if sample.name == "lwmq_channel_messages_sent_total"
        and (sample.labels["pid"], sample.labels["address"]) == (str(os.getpid()), address)
    )


def test_a_number_stays_with_its_channel_and_the_lowest_that_is_free_is_the_next(ipc: str) -> None:
    looking = Observer()
    first = lwmq.Channel(ipc, "server", linger=0)
    second = lwmq.Channel(ipc, "client", linger=0)
    assert numbers(looking, ipc) == ["1", "2"]
    first.close()
    assert numbers(looking, ipc) == ["2"]
    for _ in range(3):  # who opens one after the other makes no series after series
        with lwmq.Channel(ipc, "server", linger=0):
            assert numbers(looking, ipc) == ["1", "2"]
            assert numbers(Observer(), ipc) == ["1", "2"]
    second.close()


def one(address: str, opened_ns: int) -> Entry:
    return Entry("channel", address, "", opened_ns, "connected", None, {})


def test_two_that_were_opened_in_the_same_nanosecond_differ() -> None:
    giving = observer._Numbers()
    for _ in range(2):
        found = [one("ipc://x", 7), one("ipc://x", 7), one("ipc://y", 7), one("ipc://x", 5)]
        giving.give(found)
        assert [entry.number for entry in found] == [2, 3, 1, 1]


def test_scrapers_get_the_format_they_ask_for_and_may_hang_up(ipc: str) -> None:
    serving = subprocess.Popen(
        [sys.executable, "-m", "lwmq_spark.cli", "export", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert serving.stderr is not None
        url = serving.stderr.readline().split()[-1]
        assert urlsplit(url).hostname == "127.0.0.1"
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 30) as hasty:
                hasty.sendall(b"GET /met")
                # Without lingering a close is a reset, which the server reads or writes into.
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wanted = {"Accept": "application/openmetrics-text;version=1.0.0"}
        request = urllib.request.Request(url, headers=wanted)
        with lwmq.Channel(ipc, "server", linger=0), urllib.request.urlopen(request, timeout=60) as response:
            families = openmetrics.text_string_to_metric_families(response.read().decode())
            kinds = {family.name: family.type for family in families}
        assert kinds["lwmq_process"] == "info"
        assert kinds["lwmq_channel_messages_sent"] == "counter"
        assert kinds["lwmq_channel_messages_queued"] == "gauge"
    finally:
        serving.send_signal(signal.SIGINT)
        _, problems = serving.communicate(timeout=60)
    assert problems == ""
    assert serving.returncode == 130


def test_json_has_the_processes_that_top_knows(ipc: str, capsys: pytest.CaptureFixture[str]) -> None:
    with lwmq.Channel(ipc, "server", linger=0):
        assert main(["export", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (mine,) = [process for process in found["processes"] if process["pid"] == os.getpid()]
    assert ipc in [channel["address"] for channel in mine["channels"]]


def test_a_port_in_use_is_told_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["export", "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in capsys.readouterr().err
