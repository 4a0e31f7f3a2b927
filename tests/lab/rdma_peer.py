#!/usr/bin/python3
"""A peer of raw channels over RDMA, written from native/src/wire/WIRE.md with pyverbs and nothing of lwmq.

    rdma_peer.py connect HOST PORT    sends messages, and wants each back
    rdma_peer.py serve HOST PORT      sends each message back

With --hostile NAME it breaks the protocol once. It stays connected until its standard input ends.
"""

import argparse
import hmac
import os
import signal
import struct
import sys
import time
from collections import deque
from contextlib import suppress

from pyverbs.cm_enums import RAI_PASSIVE
from pyverbs.cmid import CMID, AddrInfo, ConnParam
from pyverbs.cq import CQ
from pyverbs.enums import IBV_QPT_RC, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR
from pyverbs.qp import QPCap, QPInitAttr

MAGIC, VERSION = 0x544D574C, 11
HELLO, REFUSAL, FOR_RAW_BUFFERS = 1, 2, 2
RANGE, OPENING, ACCOUNT, CLOSING, SIDE, WRITTEN = 1, 2, 3, 4, 6, 0x100
RAW, GOODBYE, END_OF_BUFFER = 0, 3, 255
NOTE_HEAD = struct.Struct("<HHI")  # bytes, taken, flags
NOTES, NOTE_BYTES, NOTHING_FOLLOWS = 64, 1024, 1
HEAD = struct.Struct("<IHHQQQ")  # kind, buffer, lap, at, word, bytes
WORD, FIRST_WORD = struct.Struct("<Q"), 56
BUFFERS, BUFFER_BYTES = 2, 64 * 1024  # of this end
NUDGE_SECONDS = 0.05


class Ended(Exception):
    """The other end has refused, closed or vanished."""


def align(number: int, to: int) -> int:
    return (number + to - 1) // to * to


def next_word(at: int, length: int) -> int:
    """Where the next word lies behind an extent whose own word lies at `at`."""
    behind = at + 8 + align(length, 8)
    return behind if length < 1024 else align(behind + 8, 64) - 8


def word_of(length: int, kind_in_word: int, lap: int) -> int:
    return length | kind_in_word << 40 | lap << 48


STRIDE = 64 + align(BUFFER_BYTES, 64)


class Peer:
    def __init__(self, cmid: CMID, psk: str) -> None:
        self.id = cmid
        self.identity, _, key = psk.partition(":")
        self.key = bytes.fromhex(key)
        self.sent, self.received = CQ(cmid.context, NOTES), CQ(cmid.context, NOTES)
        cap = QPCap(max_send_wr=NOTES, max_recv_wr=NOTES)
        cmid.create_qp(QPInitAttr(qp_type=IBV_QPT_RC, scq=self.sent, rcq=self.received, cap=cap))
        self.note = cmid.reg_msgs(NOTE_BYTES)
        self.posted = deque(cmid.reg_msgs(NOTE_BYTES) for _ in range(NOTES))
        for receive in self.posted:
            cmid.post_recv(receive)
        self.credits, self.taken = NOTES, 0
        self.stream = b""  # bytes of the connection that have come
        self.has_heard = self.is_over = False
        self.lap = [0] * BUFFERS  # of each of our buffers
        self.free = deque(range(BUFFERS))
        self.where: tuple[int, int] | None = None  # address and key of the other end's mirror
        self.landed: deque[tuple[int, bytes]] = deque()
        self.at: dict[int, int] = {}  # by buffer of the other end that we are in: its next word
        self.count = 0  # extents of the other end ever

    def post(self, kind: str, *arguments: object) -> None:
        getattr(self.id, kind)(*arguments)
        while (found := self.sent.poll(1))[0] == 0:
            pass
        if found[1][0].status != IBV_WC_SUCCESS:
            raise Ended(f"{kind}: completion status {found[1][0].status}")

    def post_note(self, note: bytes) -> None:
        self.note.write(note, len(note))
        self.post("post_send", self.note, IBV_SEND_SIGNALED, len(note))

    def send_note(self, content: bytes = b"", flags: int = 0) -> None:
        self.post_note(NOTE_HEAD.pack(len(content), self.taken, flags) + content)
        self.taken = 0
        self.credits -= 1

    def take_notes(self) -> None:
        """Takes at least one note, or says nothing once more while nothing has ever come (for soft-iWARP)."""
        until = time.monotonic() + NUDGE_SECONDS
        while (found := self.received.poll(1))[0] == 0:
            if not self.has_heard and time.monotonic() > until and self.credits > NOTES // 2:
                until = time.monotonic() + NUDGE_SECONDS
                self.send_note()
        completion = found[1][0]
        if completion.status == IBV_WC_WR_FLUSH_ERR:  # the other end has disconnected
            self.is_over = True
            return
        if completion.status != IBV_WC_SUCCESS:
            raise Ended(f"receive: completion status {completion.status}")
        self.has_heard = True
        note = self.posted[0].read(completion.byte_len, 0)
        self.id.post_recv(self.posted[0])
        self.posted.rotate(-1)
        length, taken, flags = NOTE_HEAD.unpack_from(note)
        assert length == len(note) - NOTE_HEAD.size
        self.stream += note[NOTE_HEAD.size :]
        self.credits += taken
        self.taken += 1
        self.is_over |= bool(flags & NOTHING_FOLLOWS)
        if self.taken >= 16:
            self.send_note()

    def write(self, content: bytes) -> None:
        room = NOTE_BYTES - NOTE_HEAD.size
        for at in range(0, len(content), room):
            while self.credits < 2:
                self.take_notes()
            self.send_note(content[at : at + room])

    def read(self, count: int) -> bytes:
        while len(self.stream) < count:
            if self.is_over:
                raise Ended("nothing follows")
            self.take_notes()
        taken, self.stream = self.stream[:count], self.stream[count:]
        return taken

    def hello(self) -> bytes:
        return struct.pack(
            "<4IQ2I16s16s4I120s", MAGIC, VERSION, HELLO, FOR_RAW_BUFFERS, BUFFER_BYTES, BUFFERS, 0,
            os.urandom(16), bytes(16), os.getpid(), os.getuid(), 0, 0, b"",
        )  # fmt: skip

    def challenge(self) -> bytes:
        return struct.pack("<32sII160s", os.urandom(32), len(self.identity), 0, self.identity.encode())

    def proof(self, whose: bytes, said: bytes) -> bytes:
        return hmac.digest(self.key, whose.ljust(8, b"\0") + said, "sha512") if self.key else bytes(64)

    def learn(self, hello: bytes) -> None:
        magic, version, kind = struct.unpack_from("<3I", hello)
        if kind == REFUSAL:
            raise Ended("refused: " + hello[16:].rstrip(b"\0").decode())
        assert (magic, version, kind) == (MAGIC, VERSION, HELLO)
        buffer_bytes, buffers = struct.unpack_from("<QI", hello, 16)
        self.stride = 64 + align(buffer_bytes, 64)
        self.mirror = self.id.reg_write(buffers * self.stride)

    def meet_listener(self, replayed: tuple[bytes, bytes] | None = None) -> tuple[bytes, bytes]:
        """What this end has said, which a hostile client says again."""
        client, proof = replayed or (self.hello() + self.challenge(), b"")
        self.write(client)
        hello = self.read(200)
        self.learn(hello)
        said = client + hello + self.read(200)
        assert self.read(64) == self.proof(b"listener", said), "the listener does not have the key"
        proof = proof or self.proof(b"client", said)
        self.write(proof)
        return client, proof

    def meet_client(self) -> None:
        client = self.read(400)
        self.learn(client[:200])
        said = self.hello() + self.challenge()
        self.write(said + self.proof(b"listener", client + said))
        assert self.read(64) == self.proof(b"client", client + said), "the client does not have the key"

    def say(self, kind: int, *, buffer=0, lap=0, at=0, word=0, content=b"") -> None:
        self.write(HEAD.pack(kind, buffer, lap, at, word, len(content)) + content)

    def tell_side(self, key: int | None = None) -> None:
        self.say(SIDE, at=self.mirror.buf, word=self.mirror.rkey if key is None else key)

    def write_memory(self, address: int, key: int, content: bytes) -> None:
        memory = self.id.reg_msgs(len(content))
        memory.write(content, len(content))
        self.post("post_write", memory, len(content), address, key, IBV_SEND_SIGNALED)

    def send(self, message: bytes, kind: int = RAW) -> None:
        """In a buffer of its own: its word, its bytes, and the word that ends the buffer."""
        while not self.free or self.where is None:
            self.take_piece()
        buffer = self.free.popleft()
        lap = self.lap[buffer] = (self.lap[buffer] + 1) % 65536
        word, content = word_of(len(message), kind + 1, lap), message
        end = next_word(FIRST_WORD, len(message))
        if end + 8 <= STRIDE:
            content = message.ljust(end - FIRST_WORD - 8, b"\0") + WORD.pack(word_of(0, END_OF_BUFFER, lap))
        if len(content) > 256:
            address, key = self.where
            self.write_memory(address + buffer * STRIDE + FIRST_WORD + 8, key, content)
            self.write(HEAD.pack(OPENING | WRITTEN, buffer, lap, FIRST_WORD, word, len(content)))
        else:
            self.say(OPENING, buffer=buffer, lap=lap, at=FIRST_WORD, word=word, content=content)

    def take_piece(self) -> None:
        kind, buffer, lap, at, word, count = HEAD.unpack(self.read(HEAD.size))
        if kind == SIDE:
            self.where = at, word
        elif kind == ACCOUNT:
            self.free.extend(number for number, _ in struct.iter_unpack("<HI", self.read(count)))
        elif kind & ~WRITTEN in (RANGE, OPENING):
            begin = buffer * self.stride
            if not kind & WRITTEN:
                self.mirror.write(self.read(count), count, begin + at + 8)
            self.mirror.write(WORD.pack(word), 8, begin + at)
            self.take_extents(buffer, lap, at + 8 + count)
        elif kind != CLOSING:
            raise AssertionError(f"a piece of kind {kind}")

    def take_extents(self, buffer: int, lap: int, end: int) -> None:
        """Those that begin before `end`; the buffer is given back behind its last."""
        at = self.at.get(buffer, FIRST_WORD)
        is_done = False
        while not is_done and at + 8 <= end:
            (word,) = WORD.unpack(self.mirror.read(8, buffer * self.stride + at))
            length, kind = word & (1 << 40) - 1, word >> 40 & 255
            assert word >> 48 == lap
            is_done = kind == END_OF_BUFFER
            if not is_done:
                self.landed.append((kind - 1, self.mirror.read(length, buffer * self.stride + at + 8)))
                self.count += 1
                at = next_word(at, length)
                is_done = at + 8 > self.stride
        self.at[buffer] = FIRST_WORD if is_done else at
        if is_done:
            self.say(ACCOUNT, at=self.count, word=self.count, content=struct.pack("<HI", buffer, lap))

    def receive(self) -> tuple[int, bytes]:
        while not self.landed:
            self.take_piece()
        return self.landed.popleft()

    def close(self, received: int) -> None:
        self.send(WORD.pack(received), GOODBYE)
        self.say(CLOSING)
        self.send_note(flags=NOTHING_FOLLOWS)


MESSAGES = [bytes([n]) * (n + 1 if n % 2 else 60_000 + n) for n in range(24)]
FIRST = {"lap": 1, "at": FIRST_WORD, "word": word_of(8, RAW + 1, 1), "content": bytes(8)}
HOSTILE = {
    "key": lambda p: p.tell_side(p.mirror.rkey ^ 0x55),
    "outside": lambda p: (p.tell_side(), p.say(RANGE, lap=1, at=STRIDE, word=1)),
    "beyond": lambda p: (p.tell_side(), p.say(OPENING, buffer=BUFFERS, **FIRST)),
    "written": lambda p: (p.tell_side(), p.take_piece(), p.write_memory(p.where[0] - 4096, p.where[1], b"x")),
    "taken": lambda p: p.post_note(NOTE_HEAD.pack(0, NOTES + 1, 0)),
    "length": lambda p: p.post_note(NOTE_HEAD.pack(5, 0, 0) + b"abc"),
    "headless": lambda p: p.post_note(b"abc"),
    "again": lambda p: (p.tell_side(), p.say(OPENING, **FIRST), p.say(OPENING, **FIRST)),
    "kind": lambda p: (p.tell_side(), p.say(7)),
    "flagged": lambda p: (p.tell_side(), p.say(ACCOUNT | WRITTEN)),
    "sides": lambda p: (p.tell_side(), p.tell_side()),
    "longer": lambda p: (p.tell_side(), p.say(OPENING, **FIRST | {"word": word_of(1 << 39, RAW + 1, 1)})),
}


def dial(arguments: argparse.Namespace) -> Peer:
    peer = Peer(CMID(creator=AddrInfo(dst=arguments.host, dst_service=arguments.port)), arguments.psk)
    peer.id.connect(ConnParam(retry=7, rnr_retry=7))
    return peer


def await_client(arguments: argparse.Namespace) -> Peer:
    listening = CMID(creator=AddrInfo(src=arguments.host, src_service=arguments.port, flags=RAI_PASSIVE))
    listening.listen()
    print("listening", flush=True)
    peer = Peer(listening.get_request(), arguments.psk)
    peer.id.accept(ConnParam(retry=7, rnr_retry=7))
    peer.meet_client()
    return peer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["connect", "serve"])
    parser.add_argument("host")
    parser.add_argument("port")
    parser.add_argument("--psk", default=":", help="IDENTITY:KEY")
    parser.add_argument("--hostile", choices=[*HOSTILE, "replay"])
    arguments = parser.parse_args()
    signal.alarm(100)  # nothing here waits for ever
    is_client = arguments.role == "connect"
    peer = dial(arguments) if is_client else await_client(arguments)
    said = peer.meet_listener() if is_client else None
    if arguments.hostile:
        if arguments.hostile == "replay":
            dial(arguments).meet_listener(said)
        else:
            with suppress(Ended):  # the device refuses, or the other end is quick
                HOSTILE[arguments.hostile](peer)
        print("hostile", flush=True)
        sys.stdin.read()
        return
    peer.tell_side()
    count = 0
    for message in MESSAGES if is_client else []:
        peer.send(message)
        assert peer.receive() == (RAW, message)
        count += 1
    while not is_client and (received := peer.receive())[0] == RAW:
        peer.send(received[1])
        count += 1
    peer.close(count)
    print("exchanged", count, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
