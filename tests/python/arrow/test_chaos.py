"""Writers and readers in several processes at random, some of them killed: what is read is what was written.

A third of the rounds has nobody who dies, gives up or is impatient; there every reader gets every batch, and
nobody an error. In the others any `LwmqError` is an answer; a hang, a crash, a wrong order or a lease that
changes is none.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SECONDS = 40
PATIENCE_S = 200  # for an answer; no player waits longer than a minute for anything
PROCESSES = 4

# Plays what it is told on its standard input, each part in a thread of its own, and prints how it went.
PLAYER = """
import contextlib, gc, itertools, json, random, threading, traceback
import pyarrow as pa

SCHEMA = pa.schema([("writer", pa.int32()), ("partition", pa.int32()), ("number", pa.int64()),
                    ("text", pa.string()), ("list", pa.list_(pa.int16()))])

def batch_of(writer, partition, number, rows):
    base = range(number * 1000 + writer, number * 1000 + writer + rows)
    return pa.record_batch([[writer] * rows, [partition] * rows, [number] * rows,
                            [None if i % 7 == 0 else str(i) * (i % 5) for i in base],
                            [None if i % 11 == 0 else list(range(i % 4)) for i in base]], schema=SCHEMA)

def write(part, chance, done):
    writer = lwmq.open_writer(part["address"], SCHEMA, **part["options"])
    try:
        numbers = [0] * writer.partitions
        for _ in range(part["batches"]):
            partition = chance.randrange(writer.partitions)
            number = numbers[partition]
            rows = chance.choice([1, 2, 10, 50, 300])
            writer.write(batch_of(part["writer"], partition, number, rows), partition)
            numbers[partition] += 1
            done.append([part["writer"], partition, number])
            if chance.random() < 0.1: time.sleep(chance.random() * 0.02)
        end = "close" if part["calm"] else chance.choice(["close", "at once", "abort", "drop", "two threads"])
        if end == "close": writer.close()
        elif end == "at once": writer.close(linger=0)
        elif end == "abort": writer.abort("chaos")
        elif end == "two threads":
            other = threading.Thread(target=writer.abort)
            other.start()
            try: writer.write(batch_of(part["writer"], 0, numbers[0], 1), 0)
            finally: other.join()
    except lwmq.LwmqError:
        with contextlib.suppress(lwmq.LwmqError): writer.abort("failed")
        raise

def read(part, chance, done):
    reader = lwmq.open_reader(part["address"], **part["options"])
    held, last = [], {}
    try:
        for batch in itertools.islice(reader, part["most"]):
            batch.validate(full=True)
            key = tuple(column[0].as_py() for column in batch.columns[:3])
            for column, value in zip(batch.columns, key):
                assert column.unique().to_pylist() == [value], key
            before = last.get(key[:2])
            assert before is None or key[2] in (before, before + 1), (key, before)
            last[key[:2]] = key[2]
            if not done or done[-1] != list(key): done.append(list(key))
            if chance.random() < part["holds"]: held.append((batch, batch.to_pydict()))
            if len(held) > 5: held.pop(chance.randrange(len(held)))
            if chance.random() < 0.1: time.sleep(chance.random() * 0.005)
            del batch
        if part["calm"] or chance.random() < 0.7: reader.close()
        else: del reader
    finally:
        time.sleep(0.05)
        gc.collect()
        for batch, content in held: assert batch.to_pydict() == content, "a lease was written over"

def play(part):
    done, error, bug = [], None, None
    try:
        {"write": write, "read": read}[part["does"]](part, random.Random(part["seed"]), done)
    except lwmq.LwmqError as exc:
        error = repr(exc)
    except BaseException:
        bug = traceback.format_exc()
    with printing:
        print(json.dumps({"part": part["part"], "done": done, "error": error, "bug": bug}), flush=True)

printing = threading.Lock()
print("ready", flush=True)
for line in sys.stdin:
    threading.Thread(target=play, args=(json.loads(line),), daemon=True).start()
os._exit(0)
"""


class Players:
    """The processes. `answers(part)` waits for what became of a part; None where its process was killed."""

    def __init__(self, spawn: Callable[..., Any]) -> None:
        self._spawn = spawn
        self._answers: queue.SimpleQueue[dict[str, Any] | int] = queue.SimpleQueue()
        self._processes = [self._start() for _ in range(PROCESSES)]
        self._where: dict[int, int] = {}  # part -> pid
        self._killed: set[int] = set()

    def _start(self) -> Any:
        child = self._spawn(PLAYER)
        assert child.line() == "ready"
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        return child

    def _listen(self, child: Any) -> None:
        while line := child.line():
            with contextlib.suppress(json.JSONDecodeError):  # half of one, of a process that was killed
                self._answers.put(json.loads(line))
        self._answers.put(child.pid)

    def play(self, part: dict[str, Any], chance: random.Random) -> None:
        child = chance.choice(self._processes)
        self._where[part["part"]] = child.pid
        child.tell(json.dumps(part))

    def kill_one(self, chance: random.Random) -> None:
        place = chance.randrange(PROCESSES)
        self._killed.add(self._processes[place].pid)
        self._processes[place].kill()
        self._processes[place] = self._start()

    def answers(self) -> Iterator[dict[str, Any]]:
        """One for each part that is played by a process that lives."""
        while self._where:
            answer = self._answers.get(timeout=PATIENCE_S)
            if isinstance(answer, int):
                assert answer in self._killed, f"process {answer} ended by itself"
                self._where = {part: pid for part, pid in self._where.items() if pid != answer}
            else:
                del self._where[answer["part"]]
                yield answer


def draw(address: str, chance: random.Random, numbers: Iterator[int]) -> tuple[bool, list[dict[str, Any]]]:
    """The parts of a round, and whether it is a calm one."""
    calm = chance.random() < 1 / 3
    writers, readers = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2, 3])
    retain = "until_acked" if calm else chance.choice(["all", "until_acked", "none"])
    holds = chance.choice([0, 0.1] if calm and readers == 1 else [0] if calm else [0, 0.1, 0.5])
    common: dict[str, Any] = {"address": address, "calm": calm, "holds": holds}
    timeout = 60 if calm else 2
    stream = {
        "partitions": chance.choice([1, 1, 2, 3]),
        "retain": retain,
        "readers": readers if calm else chance.choice([1, readers]),
        "linger": 60 if calm else chance.choice([0, 0.2, 1]),
        "timeout": timeout,
        "buffer_bytes": chance.choice([16384, 65536]),
        "window_bytes": 16 << 20 if retain == "all" else chance.choice([131072, 1 << 20]),
    }
    parts = [
        {"does": "write", "writer": i, "batches": chance.choice([0, 1, 5, 50, 200]), "options": stream}
        for i in range(writers)
    ]
    for i in range(readers):
        options = {
            "timeout": timeout,
            "writers": writers if calm else chance.choice([None, writers]),
            "name": f"reader {i}" if calm else chance.choice([None, "one"]),
            "credit": chance.choice([None, 1, 100]),
            "trust": chance.choice(["user", "user", "verify"]),
            "linger": 60 if calm else chance.choice([0, 0.2]),
            "follow": not calm and chance.random() < 0.1,
        }
        most = None if calm else chance.choice([None, None, 1, 10, 60])
        parts.append({"does": "read", "most": most, "options": options})
    chance.shuffle(parts)
    return calm, [{**common, **part, "part": next(numbers), "seed": chance.random()} for part in parts]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("seed", range(3))
def test_writers_and_readers_at_random_lose_nothing_and_hang_nobody(
    between: str, spawn: Callable[..., Any], seed: int
) -> None:
    players, numbers, end = Players(spawn), itertools.count(), time.monotonic() + SECONDS
    for round_number in itertools.count():
        if time.monotonic() > end:
            break
        chance = random.Random(f"{seed}-{round_number}")
        calm, parts = draw(f"{between}-{round_number}", chance, numbers)
        for part in parts:
            players.play(part, chance)
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.02)
        if not calm and chance.random() < 0.25:
            time.sleep(chance.random() * 0.15)
            players.kill_one(chance)
        by_number = {part["part"]: part for part in parts}
        written: list[list[int]] = []
        read: list[list[list[int]]] = []
        for answer in players.answers():
            part = by_number[answer["part"]]
            assert answer["bug"] is None, f"round {round_number}: {part}\n{answer['bug']}"
            assert not calm or answer["error"] is None, f"round {round_number}: {answer['error']} in {parts}"
            if part["does"] == "write":
                written += answer["done"]
            else:
                read.append(answer["done"])
        for batches in read if calm else ():
            assert sorted(batches) == sorted(written), f"round {round_number}: {parts}"
