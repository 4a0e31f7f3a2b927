"""What one channel, queue or transport costs the others: bounds that hold on any machine, without a clock."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import lwmq_spark as lwmq
from tests.python.pairs import pair


@pytest.mark.row("L33")
def test_a_control_channel_answers_while_the_data_channel_beside_it_is_full(address: str) -> None:
    with (
        pair(f"{address}-data", buffers=2, buffer_bytes=4096) as (reader, writer),
        pair(f"{address}-control") as (server, client),
    ):
        data, asks, answers = writer.send_queue(), client.send_queue(), server.send_queue()
        posted = 0
        for number in range(500):
            for _ in range(10):  # the reader reads nothing: nearly all of it waits in the queue
                data.post(posted.to_bytes(8, "little") * 100)
                posted += 1
            asks.post(number.to_bytes(8, "little"))
            answers.post(server.receive(60)[0])
            assert int.from_bytes(client.receive(60)[0], "little") == number
        assert writer.statistics.buffers_free == 0
        assert data.statistics.queued > 4000
        for number in range(posted):
            assert int.from_bytes(reader.receive(60)[0][:8], "little") == number


@pytest.mark.row("L52")
def test_each_transport_costs_what_one_costs(ipc: str) -> None:
    shipped = {}
    for count in (1, 2, 4):
        places = [f"{ipc}-{count}-{n}" for n in range(count)]
        with ExitStack() as stack:
            peers = [stack.enter_context(lwmq.Channel(place, "client", linger=0)) for place in places]
            hub = stack.enter_context(lwmq.Channel(places, "server", linger=0))
            hub.wait_connected(60)
            for peer in peers:
                peer.wait_connected(60)
            queue = hub.send_queue()
            for _ in range(100):
                queue.post([b"head", bytes(1000)])
            for peer in peers:
                assert sum(len(peer.receive(60)[1]) for _ in range(100)) == 100_000
            shipped[count] = hub.statistics.bytes_shipped
            for peer in peers:  # what they have read they say when they go
                peer.close()
    assert shipped[1] > 100_000
    assert shipped == {count: count * shipped[1] for count in shipped}


@pytest.mark.row("Z08")
@pytest.mark.parametrize("depth", [1, 10, 100])
def test_a_message_of_a_bounded_queue_is_no_older_than_queue_and_buffers_hold(
    address: str, depth: int
) -> None:
    buffers, buffer_bytes = 2, 256
    in_buffers = buffers * buffer_bytes // 16  # a message of 8 bytes has a word before it
    with pair(address, buffers=buffers, buffer_bytes=buffer_bytes) as (reader, writer):
        queue = writer.send_queue("bounded_discard_oldest", capacity=depth)
        ages = []
        for turn in range(1, 301):
            for number in range((turn - 1) * 20, turn * 20):  # twenty times what the reader takes
                queue.post(number.to_bytes(8, "little"))
            ages.append(turn * 20 - 1 - int.from_bytes(reader.receive(60)[0], "little"))
        # What is in the buffers was posted while they filled: the reader takes one of twenty.
        assert max(ages) <= depth + 20 * (in_buffers + 1)
        assert max(ages) > depth
