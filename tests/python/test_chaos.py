"""Any call on any object from any thread at any time, closed in the middle: nobody hangs, nothing crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SECONDS = 40

# Pairs of channels, one after the other in each of two threads; up to four threads call what they like of a
# pair, its queues, a selector and a router, for up to 0.3 s; now and then one of the calls is close.
CHILD = """
import faulthandler, random, threading

address, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
faulthandler.dump_traceback_later(seconds + 300, exit=True)
KINDS = ["multi_unbounded", "multi_unbounded_tagged", "bounded_discard_oldest", "bounded_discard_newest",
         "bounded_discard_oldest_tagged", "bounded_discard_newest_tagged"]
RECEIVING = ["mono_unbounded", "multi_unbounded", "bounded_discard_oldest", "bounded_discard_newest"]
BYTES = [0, 1, 8, 64, 200]

class World:
    def __init__(self, where, chance):
        queue = chance.choice(RECEIVING)
        receive = {"receive_queue": queue, "buffer_bytes": chance.choice([256, 4096, 65536])}
        if queue.startswith("bounded"):
            receive["receive_capacity"] = chance.choice([1, 10, 1000])
        where = chance.choice(["", "filters+", "latency+"]) + where
        self.channels = [
            lwmq.Channel(where, "server", linger=0, **receive),
            lwmq.Channel(where, "client", linger=0),
        ]
        self.queues = []
        for channel in self.channels:
            for kind in chance.sample(KINDS, chance.randrange(1, 3)):
                bound = {"capacity": chance.choice([1, 7, 100])} if kind.startswith("bounded") else {}
                self.queues.append(channel.send_queue(kind, **bound))
        self.selector, self.router = lwmq.Selector(), lwmq.Router()

def ask(channel):
    with lwmq.Requests(channel) as requests:
        requests.request(b"z", timeout=0.002)

CALLS = [  # how often, and what, of a world, a channel and a queue of it
    (300, lambda w, c, q, r: q.post(bytes(r.choice(BYTES)))),
    (50, lambda w, c, q, r: q.post([b"t", bytes(r.choice(BYTES))])),
    (50, lambda w, c, q, r: q.post_many([b"x"] * r.randrange(20))),
    (200, lambda w, c, q, r: c.try_receive()),
    (50, lambda w, c, q, r: c.receive_many(16, 0)),
    (50, lambda w, c, q, r: c.receive_bytes(16, 0.001)),
    (40, lambda w, c, q, r: c.receive(0.002)),
    (30, lambda w, c, q, r: (c.statistics, q.statistics)),
    (20, lambda w, c, q, r: setattr(q, "priority", r.randrange(1, 8))),
    (20, lambda w, c, q, r: w.selector.add(c)),
    (20, lambda w, c, q, r: w.selector.remove(c)),
    (20, lambda w, c, q, r: w.selector.receive(0.001)),
    (20, lambda w, c, q, r: w.router.add(r.choice(["#", "t", "*"]), q)),
    (10, lambda w, c, q, r: w.router.forget(q)),
    (20, lambda w, c, q, r: w.router.post([b"t", b"y"])),
    (10, lambda w, c, q, r: c.on_message(lambda message: None)),
    (10, lambda w, c, q, r: c.on_message(None)),
    (5, lambda w, c, q, r: c.add_filter(r.choice(["latency", "loss=0.1", "delay=1ms"]))),
    (5, lambda w, c, q, r: c.remove_filter(0)),
    (10, lambda w, c, q, r: c.flush(0.001)),
    (2, lambda w, c, q, r: ask(c)),
    (1, lambda w, c, q, r: (repr(c), repr(q))),
    (1, lambda w, c, q, r: c.fileno()),
    (1, lambda w, c, q, r: c.close(linger=0)),
    (1, lambda w, c, q, r: c.close(linger=0.001)),
]
WEIGHTS = [weight for weight, _ in CALLS]

def call(world, done, seed):
    chance = random.Random(seed)
    while not done.is_set():
        (_, something), = chance.choices(CALLS, WEIGHTS)
        try:
            something(world, chance.choice(world.channels), chance.choice(world.queues), chance)
        except (lwmq.LwmqError, ValueError):
            pass

def live(name):
    chance, worlds = random.Random(f"{seed}-{name}"), 0
    while time.monotonic() < end:
        worlds += 1
        scheme = chance.choice(["loop", "ipc", "ipc"])
        world, done = World(f"{scheme}://{address}-{name}-{worlds}", chance), threading.Event()
        threads = [threading.Thread(target=call, args=(world, done, chance.random()))
                   for _ in range(chance.choice([1, 2, 4]))]
        for thread in threads: thread.start()
        time.sleep(chance.random() * 0.3)
        done.set()
        for thread in threads: thread.join()
        for channel in chance.sample(world.channels, 2):
            try:
                channel.close(linger=0)
            except lwmq.LwmqError:
                pass
    lived.append(worlds)

end, lived = time.monotonic() + seconds, []
lives = [threading.Thread(target=live, args=(name,)) for name in "ab"]
for one in lives: one.start()
for one in lives: one.join()
print("lived", min(lived) > seconds / 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_call_at_any_time_hangs_nobody_and_crashes_nothing(
    ipc: str, spawn: Callable[..., Any], seed: int
) -> None:
    child = spawn(CHILD, ipc.removeprefix("ipc://"), SECONDS, seed)
    assert child.rest() == "lived True\n"
    assert child.wait() == 0
