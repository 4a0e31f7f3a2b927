"""Filters on channels, record and replay: what passes is seen, changed, lost, kept and played again."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import lwmq_spark as lwmq
from lwmq_spark.channel import filters
from lwmq_spark.cli import main
from lwmq_spark.cli.record import quoted


def test_every_filter_says_what_can_be_set() -> None:
    known = filters()
    assert {"trace", "record", "replay", "loss", "delay", "reorder", "corrupt", "rate"} <= set(known)
    assert all(text.startswith(name) for name, text in known.items())


@pytest.mark.row("L38")
def test_a_filter_in_the_address_drops_and_counts(address: str) -> None:
    with (
        lwmq.Channel(f"loss,every=4,way=land+{address}", "server") as server,
        lwmq.Channel(address, "client") as client,
    ):
        client.wait_connected(60)
        queue = client.send_queue()
        for number in range(101):
            queue.post(b"%d" % number)
        got = [int(bytes(server.receive(60))) for _ in range(76)]
        assert got == [number for number in range(101) if number % 4 != 3]
        (loss,) = server.filters
        assert (loss.name, loss.settings, loss.seen, loss.dropped) == ("loss", "every=4,way=land", 101, 25)
        assert client.filters == []


@pytest.mark.row("L38")
def test_filters_come_and_go_while_a_channel_is_open(address: str) -> None:
    with (
        lwmq.Channel(f"filters+{address}", "server") as server,
        lwmq.Channel(address, "client") as client,
    ):
        queue = client.send_queue()
        queue.post(b"one")
        assert bytes(server.receive(60)) == b"one"
        server.add_filter("corrupt,every=1,bits=0,cut=2")
        server.add_filter("trace=/dev/null", 0)
        queue.post(b"two and more")
        assert bytes(server.receive(60)) == b"two and mo"
        assert [(state.name, state.seen) for state in server.filters] == [("trace", 1), ("corrupt", 1)]
        server.remove_filter()
        queue.post(b"three")
        assert bytes(server.receive(60)) == b"three"
        with pytest.raises(lwmq.LwmqError, match="there is no filter 'tracy'"):
            server.add_filter("tracy")
        with pytest.raises(lwmq.LwmqError, match="its address may begin with filters"):
            client.add_filter("trace")


@pytest.mark.row("L38")
def test_what_a_full_filter_holds_comes_when_the_peer_has_ended(address: str) -> None:
    """More than a filter holds: the rest waits in the peer's buffers, and then the peer goes."""
    many = 5_000
    with lwmq.Channel(f"delay=3s+{address}", "server", buffers=(64, 64)) as server:
        client = lwmq.Channel(address, "client", buffers=(64, 64))
        client.wait_connected(60)
        queue = client.send_queue()
        for number in range(many):
            queue.post(b"%06d" % number)
        time.sleep(0.3)  # what can be held is
        with suppress(lwmq.TimeoutError):
            client.close(linger=0)
        for number in range(many):
            assert bytes(server.receive(60)) == b"%06d" % number


@pytest.mark.row("L38")
@pytest.mark.parametrize("filter", ["rate=10", "rate=count=1"])
def test_a_filter_that_is_gone_holds_nobody_up(address: str, filter: str) -> None:
    with (
        lwmq.Channel(address, "server") as server,
        lwmq.Channel(f"filters+{address}", "client") as client,
    ):
        client.wait_connected(60)
        client.add_filter(filter)
        queue = client.send_queue()
        queue.post(b"x" * 1000)  # 100 s of what is allowed
        queue.post(b"behind it")
        assert len(bytes(server.receive(60))) == 1000
        client.remove_filter(0)
        assert bytes(server.receive(60)) == b"behind it"


def test_a_filter_that_both_ends_need_is_missed_in_words(address: str) -> None:
    with (
        lwmq.Channel(f"latency+{address}", "server", linger=0) as server,
        lwmq.Channel(address, "client", linger=0) as client,
    ):
        server.wait_connected(60)
        server.send_queue().post(b"x")
        with pytest.raises(lwmq.CorruptError, match=r"kind 65 .* a filter marks extents so"):
            client.receive(60)
        assert client.statistics.messages_received == 0


@pytest.mark.row("C40")
def test_latency_is_measured_on_demand(address: str) -> None:
    with (
        lwmq.Channel(f"filters+{address}", "server") as server,
        lwmq.Channel(f"filters+{address}", "client") as client,
    ):
        queue = client.send_queue()
        for level in (0, 1, 0):  # off, on, off again
            for number in range(50):
                queue.post(b"%d" % number)
                assert bytes(server.receive(60)) == b"%d" % number
            if level:
                assert server.filters[0].timed == 50
                median, longest = server.latency(0.5), server.latency(1)
                assert median is not None and longest is not None and 0 < median <= longest < 10
                client.remove_filter()
                server.remove_filter()
            elif not server.filters:
                server.add_filter("latency")
                assert server.latency(0.5) is None
                client.add_filter("latency")


@pytest.mark.row("L38")
def test_a_wrong_filter_is_an_address_error_that_says_what_there_is(address: str) -> None:
    with pytest.raises(lwmq.AddressError, match="a share of 0 to 1 is wanted"):
        lwmq.Channel(f"loss=7+{address}")
    with pytest.raises(lwmq.AddressError, match="there are: corrupt, delay"):
        lwmq.Channel(f"los=0.1+{address}")


@pytest.mark.row("L38")
def test_streams_pass_through_filters(address: str) -> None:
    import pyarrow as pa

    table = pa.table({"n": list(range(1000))})
    with lwmq.open_writer(f"delay=1ms+{address}", table.schema) as writer:
        reader = lwmq.open_reader(f"trace=/dev/null+{address}")
        closing = threading.Thread(target=lambda: (writer.write(table), writer.close()))
        closing.start()
        with reader:
            assert reader.read_all() == table
        closing.join(60)


@pytest.mark.row("L38")
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
def test_what_was_read_is_told_though_the_way_is_slow(ipc: str, leaves: bool) -> None:
    """Who has heard of the end calls nothing more; who closes says first what it has read."""
    import pyarrow as pa

    table = pa.table({"n": list(range(1000))})
    with lwmq.open_writer(ipc, table.schema) as writer:
        for _ in range(8):
            writer.write(table)
        closing = threading.Thread(target=writer.close, daemon=True)
        with lwmq.open_reader(f"rate=count=50,way=send+{ipc}") as reader:
            if leaves:
                assert sum(reader.read_next_batch(60).num_rows for _ in range(8)) == 8_000
                reader.close()
                closing.start()
            else:
                closing.start()
                assert sum(batch.num_rows for batch in reader) == 8_000
            closing.join(60)
            assert not closing.is_alive()


@pytest.mark.alone
@pytest.mark.row("L38")
def test_an_end_that_waits_for_a_slow_way_waits_no_longer_than_it_may(ipc: str) -> None:
    import pyarrow as pa

    table = pa.table({"n": [1]})
    with lwmq.open_writer(ipc, table.schema) as writer:
        writer.write(table)
        writer.write(table)
        closing = threading.Thread(target=writer.close, daemon=True)
        with lwmq.open_reader(f"rate=count=1,way=send+{ipc}") as reader:
            closing.start()
            for _ in range(2):
                reader.read_next_batch(60)
            reader.consume()
            with pytest.raises(lwmq.TimeoutError, match=r"no batch within 0\.1 s"):
                reader.read_next_batch(0.1)
            with pytest.raises(StopIteration):
                reader.read_next_batch(60)
            closing.join(60)
            assert not closing.is_alive()


@pytest.mark.row("K52")
def test_a_feed_is_recorded_and_replayed(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = tmp_path / "feed + more,100%.tape"
    messages = [[b"tick", bytes([n])] for n in range(200)]

    def feed() -> None:
        with lwmq.Channel(address, "client") as channel:
            queue = channel.send_queue()
            for message in messages:
                queue.post(message)

    feeding = threading.Thread(target=feed)
    feeding.start()
    assert main(["record", address, str(tape), "--json"]) == 0
    feeding.join(60)
    figures = json.loads(capsys.readouterr().out)
    assert (figures["messages"], figures["bytes"], figures["failed"]) == (200, 1000, 0)

    got: list[list[bytes]] = []

    def listen() -> None:
        with lwmq.Channel(f"{address}-again") as channel:
            got.extend([bytes(frame) for frame in message] for message in channel)

    listening = threading.Thread(target=listen)
    listening.start()
    assert main(["replay", str(tape), f"{address}-again", "--timeout", "30"]) == 0
    listening.join(60)
    assert got == messages


@pytest.mark.row("K52")
def test_a_damaged_tape_is_refused_before_anything_is_posted(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = tmp_path / "tape"
    with (
        lwmq.Channel(f"record={quoted(str(tape))},way=send+{address}", "server") as server,
        lwmq.Channel(address, "client") as client,
    ):
        server.send_queue().post(b"once")
        assert bytes(client.receive(60)) == b"once"
    whole = tape.read_bytes()
    tape.write_bytes(whole[:-9])
    assert main(["replay", str(tape), f"{address}-again", "--json"]) == 1
    assert "is torn: its last extent" in json.loads(capsys.readouterr().out)["text"]
    tape.write_bytes(whole[:-1] + b"x")
    assert main(["replay", str(tape), f"{address}-again", "--json"]) == 1
    assert "is damaged" in json.loads(capsys.readouterr().out)["text"]
