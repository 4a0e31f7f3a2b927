"""What the verbs for messages share: their content as people write and read it, posting, receiving."""

from __future__ import annotations

import math
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lwmq_spark.cli._output import emit, printable
from lwmq_spark.errors import ClosedError, LwmqError, MessageTooBigError, PeerLostError, TimeoutError
from lwmq_spark.message import ticks_to_ns
from lwmq_spark.options import CHANNEL, Role, parse_address

if TYPE_CHECKING:
    from lwmq_spark.channel import Channel
    from lwmq_spark.message import Message

_FRAME_BYTES = 64  # of a head, and more than the library adds
_POSTED_AT_ONCE = 64  # messages that wait in the queue of a peer that is slow
_LOOK_S = 0.2  # whether the peer is there still
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.05

ContentsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="MESSAGE", help="Each one message; none: each line of stdin.")
]
Base64Option = Annotated[bool, typer.Option("--base64", help="Each frame is given in base64.")]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--separator", "-s", metavar="TEXT", help=r"What is between frames; \t is a tab."),
]


def separator_of(text: str | None) -> bytes | None:
    """What is between frames, as it is written on a command line."""
    if text == "":
        raise typer.BadParameter("a separator of no characters separates nothing")
    return None if text is None else text.replace(r"\t", "\t").encode(errors="surrogateescape")


def contents(messages: list[str] | None, separator: bytes | None, base64: bool) -> Iterable[list[bytes]]:
    """The frames of each message: of the command line, or of stdin, a line each, as they come.

    BadParameter: no base64; it names the message, at once for those of the command line.
    """
    if messages:
        # What is no UTF-8 there comes as surrogates, and goes as what it was.
        lines = [text.encode(errors="surrogateescape") for text in messages]
        return list(_cut(lines, separator, base64))
    return _cut((line.removesuffix(b"\n") for line in stdin()), separator, base64)


def stdin() -> BinaryIO:
    """OSError: the shell has closed it."""
    if sys.stdin is None:
        raise OSError("stdin is closed: nothing can be read from there")
    return sys.stdin.buffer


def _cut(lines: Iterable[bytes], separator: bytes | None, base64: bool) -> Iterator[list[bytes]]:
    for number, line in enumerate(lines, 1):
        frames = [line] if separator is None else line.split(separator)
        if base64:
            try:
                frames = [b64decode(frame, validate=True) for frame in frames]
            except ValueError as problem:
                raise typer.BadParameter(f"message {number} is no base64: {problem}") from None
        yield frames


def show(frames: Iterable[Any], separator: bytes | None, *, as_json: bool, **further: Any) -> None:
    """One message on stdout: a line, or with --json an object.

    On a terminal what is not printable is escaped; files and pipes have every byte as it came. In JSON
    `frames` are base64, `texts` the same where a frame is UTF-8, else null.
    """
    parts = [bytes(frame) for frame in frames]
    if as_json:
        texts = [_text_or_none(part) for part in parts]
        emit(**further, bytes=sum(map(len, parts)), frames=parts, texts=texts)
        return
    line = (b"\t" if separator is None else separator).join(parts)
    if sys.stdout.isatty():
        line = printable(line.decode(errors="backslashreplace"), but="\t").encode()
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _text_or_none(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def timestamps_ns(message: Message) -> list[int | None]:
    """Of its frames, since 1970."""
    return [None if ticks is None else ticks_to_ns(ticks) for ticks in message.timestamps]


def too_big(which: str, frames: Iterable[Any], exc: MessageTooBigError) -> MessageTooBigError:
    """The same, with the buffers that would do."""
    needed = sum(len(frame) + _FRAME_BYTES for frame in frames) + _FRAME_BYTES
    megabytes = 1 << max(0, math.ceil(needed / 2**20) - 1).bit_length()
    remedy = f"larger buffers: ADDRESS?buffer_bytes={megabytes}mb, on both sides"
    return MessageTooBigError(f"{which}: {exc}; {remedy}")


def role_of(address: str, ours: Role) -> Role | None:
    """For a verb of which two must not meet: `ours`, unless the address says another one."""
    return None if "role" in parse_address(address, CHANNEL).options else ours


class Posting:
    """A channel that posts, and stops when nobody reads. `messages` and `payload` bytes were posted.

    A reader that has read all may go, and leave the rest to the next one.
    """

    def __init__(
        self, channel: Channel, timeout: float | None, on_answer: Callable[[Message], object]
    ) -> None:
        self._channel = channel
        self._end: LwmqError | None = None
        channel.on_message(on_answer, on_end=self._note_end)
        self._queue = channel.send_queue()
        self._timeout = timeout
        self.messages = self.payload = 0

    def post(self, message: Message | list[bytes]) -> None:
        """Waits while the peer is slow. TimeoutError. PeerLostError: it went without having read.

        MessageTooBigError names the message.
        """
        self.check()
        try:
            self._queue.post(message)
        except MessageTooBigError as exc:
            raise too_big(f"message {self.messages + 1}", message, exc) from None
        self.messages += 1
        self.payload += sum(len(frame) for frame in message)
        if self.messages % _POSTED_AT_ONCE == 0:
            self.ship()

    def ship(self) -> None:
        """Waits until all that was posted has left; errors as of `post`."""
        end = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            self.check()
            left = _LOOK_S if end is None else min(_LOOK_S, max(0.0, end - time.monotonic()))
            try:
                self._channel.flush(left)
                return
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    where = self._channel.address
                    raise TimeoutError(f"not everything left within {self._timeout} s for {where}") from None

    def wait_read(self) -> None:
        """Waits until all was read; errors as of `post`.

        Answers are taken meanwhile, as a close does not: a peer that waits for room for them reads nothing.
        """
        self.ship()
        end = math.inf if self._timeout is None else time.monotonic() + self._timeout
        pause = _FIRST_PAUSE_S
        while unread := self._channel.statistics.messages_unread:
            self.check()
            if time.monotonic() >= end:
                where = self._channel.address
                raise TimeoutError(f"{unread} messages were not read within {self._timeout} s by {where}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self.check()

    def check(self) -> None:
        """PeerLostError and others: what has ended it, as far as that was heard."""
        if self._end is not None:
            raise self._end

    def _note_end(self, end: LwmqError) -> None:
        if not isinstance(end, ClosedError):
            self._end = end
        elif self._channel.statistics.messages_lost:
            self._end = PeerLostError(str(end))


@contextmanager
def posting(address: str, timeout: float | None, on_answer: Callable[[Message], object]) -> Iterator[Posting]:
    """Posts to whoever is at `address`, and ends when that one has read everything.

    `on_answer` gets what comes from there meanwhile, on another thread.
    `timeout`: of the first wait for it, of each that follows, and of the last. TimeoutError: nobody came, or
    it did not read. PeerLostError: it went without having read.
    """
    import lwmq_spark as lwmq

    with lwmq.Channel(address, linger="forever" if timeout is None else timeout) as channel:
        channel.wait_connected(timeout)
        posting = Posting(channel, timeout, on_answer)
        yield posting
        posting.wait_read()
        try:
            channel.close()
        except TimeoutError as unread:
            if timeout is None:  # only the peer's end has ended that linger
                raise PeerLostError(str(unread)) from None
            raise
        posting.check()  # what was heard just before the close


def received(
    channel: Channel, count: int | None, *, follow: bool, timeout: float | None
) -> Iterator[Message]:
    """What comes, until the peer has closed (with `follow` until for ever), or `count` messages came.

    Ends when `timeout` seconds bring none. TimeoutError: there was not one. PeerLostError: the peer died.
    """
    came = 0
    while count is None or came < count:
        try:
            message = channel.receive(timeout)
        except (ClosedError, PeerLostError) as end:
            if follow:
                continue
            if isinstance(end, ClosedError):
                return
            raise
        except TimeoutError:
            if came:
                return
            raise
        came += 1
        yield message
