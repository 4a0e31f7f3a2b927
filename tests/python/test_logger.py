"""An application of a few lines: a logger that keeps each message of a feed in a file, and plays it again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq

MESSAGES = 5000

FEED = """
    with lwmq.Channel(sys.argv[1], role="client") as channel:
        queue = channel.send_queue()
        for number in range(int(sys.argv[2])):
            frames = [str(number).encode(), b"x" * (number % 300), b""][: 1 + number % 3]
            queue.post(lwmq.Message(frames, timestamp="precise" if number % 2 else None))
"""


def write(path: Path, feed: Iterable[lwmq.Message]) -> None:
    """Logs what comes: for each message its frames, each as length, ticks and bytes."""
    with path.open("wb") as file:
        for message in feed:
            file.write(struct.pack("<I", len(message)))
            for frame, ticks in zip(message, message.timestamps, strict=True):
                file.write(struct.pack("<QQ", len(frame), ticks or 0))
                file.write(frame)


def read(path: Path) -> Iterator[lwmq.Message]:
    """The messages of a log."""
    with path.open("rb") as file:
        while head := file.read(4):
            frames, stamps = [], []
            for _ in range(struct.unpack("<I", head)[0]):
                size, ticks = struct.unpack("<QQ", file.read(16))
                frames.append(file.read(size))
                stamps.append(ticks)
            message = lwmq.Message(frames)
            for index, ticks in enumerate(stamps):
                message.set_timestamp(index, ticks or None)
            yield message


@pytest.mark.row("K52")
def test_a_logger_keeps_all_messages_of_a_feed_and_plays_them_again(
    ipc: str, spawn: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with lwmq.Channel(ipc, role="server") as feed:
        child = spawn(FEED, ipc, MESSAGES)
        write(first, feed)
    assert child.wait(60) == 0
    kept = list(read(first))
    assert [int(bytes(message[0])) for message in kept] == list(range(MESSAGES))
    assert all((message.timestamp() is not None) == bool(number % 2) for number, message in enumerate(kept))
    # Again, through another channel into another file: byte by byte the same.
    again = ipc + "-again"
    receiver = lwmq.Channel(again, role="server")
    with lwmq.Channel(again, role="client") as player:
        queue = player.send_queue()
        for message in read(first):
            queue.post(message)
        write(second, (receiver.receive(60) for _ in range(MESSAGES)))
    receiver.close(0)
    assert second.read_bytes() == first.read_bytes()
