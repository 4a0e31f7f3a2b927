"""Writers and clients that come and go for LWMQ_SOAK_MINUTES (30), and a reader and a server that stay.

Memory, descriptors and mappings of every process stay what they were after the first minutes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

MINUTES = float(os.environ.get("LWMQ_SOAK_MINUTES", "30"))
SAMPLE_S = 5.0

READER = """
    import statistics, threading
    import lwmq_spark.aio
    endpoint = lwmq.Endpoint(sys.argv[1], linger=0)
    latencies, lock = [], threading.Lock()
    def read():
        with lwmq.open_reader(sys.argv[1], follow=True, name="soak") as reader:
            for batch in reader:
                with lock:
                    latencies.append(time.time_ns() - reader.last.timestamp_ns)
                del batch
    threading.Thread(target=read, daemon=True).start()
    print("serves")
    for line in sys.stdin:
        with lock:
            taken, latencies = latencies, []
        print(len(taken), int(statistics.median(taken)) if taken else 0)
"""
WRITER = """
    import numpy as np, pyarrow as pa, random
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    random.seed(int(sys.argv[2]))
    while True:
        with lwmq.open_writer(sys.argv[1], schema, role="client", window_bytes="16MiB") as writer:
            for _ in range(random.randrange(1, 200)):
                rows = random.choice((1, 100, 3000, 50_000))
                writer.write(pa.record_batch({"n": np.arange(rows), "s": ["x"] * rows}, schema=schema))
                time.sleep(0.004)
"""

# Takes messages and answers requests, of clients at one address and of peers that come over two ways.
SERVER = """
    import contextlib, statistics, threading
    latencies, lock = [], threading.Lock()
    listener = lwmq.Listener(sys.argv[1])
    selector = lwmq.Selector()
    selector.add(listener)
    replies = {}
    def serve():
        while True:
            try:
                channel, message = selector.receive()
            except lwmq.LwmqError as end:
                replies.pop(end.channel, None)
                with contextlib.suppress(lwmq.TimeoutError):  # not all that we replied was read
                    end.channel.close(0)
                continue
            if len(message) == 1:
                with lock:
                    latencies.append(time.time_ns() - int.from_bytes(bytes(message[0])[:8], "little"))
            else:
                if channel not in replies:
                    replies[channel] = lwmq.Replies(channel)
                request = replies[channel].request_of(message)
                request.reply(request.frames[0]) if len(request.frames[0]) % 3 else request.fail("no")
    threading.Thread(target=serve, daemon=True).start()
    def follow():
        with lwmq.Channel([sys.argv[1] + "-a", sys.argv[1] + "-b"], "server", redundant=True) as both:
            while True:
                try:
                    both.receive()
                except lwmq.LwmqError:
                    pass
    threading.Thread(target=follow, daemon=True).start()
    print("serves")
    for line in sys.stdin:
        with lock:
            taken, latencies = latencies, []
        print(len(taken), int(statistics.median(taken)) if taken else 0)
"""
CLIENT = """
    import random
    from lwmq_spark.channel import send_queue
    random.seed(int(sys.argv[2]))
    ways = [sys.argv[1] + "-a", sys.argv[1] + "-b"]

    def post(queue):
        data = time.time_ns().to_bytes(8, "little") + bytes(random.choice((0, 50, 500, 5000, 50_000)))
        queue.post(data, tag=random.randrange(4) if "tagged" in queue.kind else 0)
        time.sleep(0.002)

    def queue_of(channel, kind):
        return channel.send_queue(kind, capacity=20 if kind.startswith("bounded") else None)

    def talk():
        with lwmq.Channel(sys.argv[1], "client", secure_erase=random.random() < 0.3) as channel:
            queues = [queue_of(channel, kind) for kind in random.sample([*send_queue.KINDS], 2)]
            with lwmq.Requests(channel) as requests:
                for _ in range(random.randrange(1, 200)):
                    post(random.choice(queues))
                    if random.random() < 0.2:
                        what = bytes(random.randrange(1, 100))
                        asked = requests.submit(what, timeout=random.choice((0, 5)))
                        asked.cancel() if random.random() < 0.2 else None

    def talk_over_two_ways():
        filters = random.choice(("", "loss=0.2+", "delay=1ms+"))
        with lwmq.Channel([filters + ways[0], ways[1]], "client", redundant=True, linger=1) as channel:
            queue = channel.send_queue()
            for _ in range(random.randrange(1, 100)):
                post(queue)

    def talk_at_home():
        address = f"loop://soak-{os.getpid()}"
        takes = {"receive_queue": "bounded_discard_oldest", "receive_capacity": 10}
        with lwmq.Channel(address, "server", **takes) as here:
            with lwmq.Channel(address, "client", linger=0) as there:
                queue = there.send_queue()
                for _ in range(50):
                    post(queue)
                    here.try_receive()

    while True:
        try:
            random.choice((talk, talk, talk_over_two_ways, talk_at_home))()
        except lwmq.TimeoutError:  # of a close: not all was read
            pass
"""


@dataclass
class Sample:
    """What one process holds."""

    memory: int
    descriptors: int
    mappings: int


def sample(pid: int) -> Sample:
    process = psutil.Process(pid)
    mappings = Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")
    return Sample(process.memory_info().rss, process.num_fds(), mappings)


class Part:
    """Who stays, and tells how many messages have come and how long they took, and who comes and goes."""

    def __init__(self, stays: Any, others: list[Any]) -> None:
        self.stays, self.others = stays, others
        assert stays.line() == "serves"
        self.samples: dict[int, list[Sample]] = {child.pid: [] for child in (stays, *others)}
        self.latencies: list[int] = []
        self.messages = 0
        deadline = time.monotonic() + 60
        while self._ask()[0] == 0:
            assert time.monotonic() < deadline, "nothing comes"
            time.sleep(0.1)

    def _ask(self) -> tuple[int, int]:
        assert all(other.process.poll() is None for other in self.others), "one has ended"
        self.stays.tell()
        count, latency = map(int, self.stays.line().split())
        return count, latency

    def look(self) -> None:
        count, latency = self._ask()
        assert count > 0, f"nothing has come for {SAMPLE_S} s, after {self.messages} messages"
        self.messages += count
        self.latencies.append(latency)
        for pid, taken in self.samples.items():
            taken.append(sample(pid))

    def judge(self) -> list[str]:
        third = len(self.latencies) // 3
        early, late = (
            statistics.median(part) for part in (self.latencies[third : 2 * third], self.latencies[-third:])
        )
        times = f"{early / 1e3:.0f} us, later {late / 1e3:.0f} us"
        report = [f"{self.messages} messages in {MINUTES:g} min; {times}"]
        for pid, taken in self.samples.items():
            before, after = taken[third : 2 * third], taken[-third:]
            for what, slack in (("memory", 24 << 20), ("descriptors", 4), ("mappings", 16)):
                was = max(getattr(s, what) for s in before)
                now = statistics.median(getattr(s, what) for s in after)
                report.append(f"process {pid}: {what} up to {was}, later {now:.0f}")
                assert now <= was + slack, "\n".join(report)
        return report


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60) + 600)
def test_memory_descriptors_and_mappings_stay_flat(ipc: str, spawn: Callable[..., Any]) -> None:
    stream, server = f"{ipc}-stream", f"{ipc}-server"
    parts = [
        Part(spawn(READER, stream), [spawn(WRITER, stream, seed) for seed in range(2)]),
        Part(spawn(SERVER, server), [spawn(CLIENT, server, seed) for seed in range(2)]),
    ]
    end = time.monotonic() + MINUTES * 60
    while time.monotonic() < end:
        time.sleep(min(SAMPLE_S, MINUTES * 60 / 30))
        for part in parts:
            part.look()
    for part in parts:
        for other in part.others:
            other.kill()
    for part in parts:
        print("\n".join(part.judge()))
