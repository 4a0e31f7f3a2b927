"""Writers and readers on three hosts, where processes are killed, cables pulled and rates limited.

Every row has a number. A writer that is started again asks the endpoint how far its predecessor has come, and
goes on there. A reader that is started again has the name of its predecessor, and gets what that one had not
moved past. So each batch is there, in order, and none is there twice: but for those that a killed reader had
got and not acknowledged, at most its credit.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lwmq_spark.arrow import Endpoint, describe
from tests.namespaces import Namespace
from tests.patience import HANG_S

Host = tuple[Namespace, str, str]
Runs = list[list[tuple[int, ...]]]
Start = Callable[..., subprocess.Popen[str]]

WRITERS, ROWS, CREDIT = 4, 250, 8
READ = [[0, 1], [2], [3]]  # the partitions of each reader; a writer has one

WRITER = f"""
    from lwmq_spark.arrow import describe
    writer, address, batches = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    schema = pa.schema([("writer", pa.int64()), ("n", pa.int64())])
    options = {{"window_bytes": "1MiB", "timeout": 300, "stall": 120, "linger": 120}}
    with lwmq.open_writer(address, schema, partitions={WRITERS}, **options) as w:
        for batch in range(describe(address).partitions[writer].next_seq, batches):
            rows = np.arange(batch * {ROWS}, (batch + 1) * {ROWS})
            w.write(pa.record_batch([np.full({ROWS}, writer), rows], schema=schema), partition=writer)
        sys.stdin.readline()
"""

READER = f"""
    name, address, partitions = sys.argv[1], sys.argv[2], [int(p) for p in sys.argv[3].split(",")]
    options = {{"credit": {CREDIT}, "timeout": 300, "stall": 120, "linger": 120, "role": "client"}}
    with lwmq.open_reader(address, name=name, partitions=partitions, follow=True, **options) as reader:
        while True:
            try:
                batch = next(reader)
            except lwmq.PeerLostError as lost:
                if "the producer" not in str(lost): raise
                continue
            n = batch["n"].to_numpy()
            assert (np.diff(n) == 1).all() and batch["writer"].unique().to_pylist() == [reader.last.partition]
            # In one call: this process may be killed between two.
            sys.stdout.write(f"{{reader.last.partition}} {{reader.last.seq}} {{n[0]}} {{len(n)}}\\n")
            sys.stdout.flush()
"""


@dataclass
class Reader:
    """A reader of one name. `runs`: what each process that played it has got: partition, seq, row, rows."""

    partitions: list[int]
    host: Host
    process: subprocess.Popen[str]
    runs: Runs

    def listen(self) -> None:
        """Collect what the process of now prints."""
        run: list[tuple[int, ...]] = []
        self.runs.append(run)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            run.append(tuple(map(int, line.split())))  # noqa: PERF401, others look at it meanwhile

    def last(self, partition: int) -> int:
        return max((seq for run in self.runs for p, seq, *_ in run if p == partition), default=-1)


class Players:
    """Four writers and three readers, each on a host, where it can be killed and started again."""

    def __init__(self, hosts: list[Host], port: int, start: Start, batches: int) -> None:
        self._start, self._port, self._batches = start, port, batches
        self._threads: list[threading.Thread] = []
        self.writers = [self._write(number, hosts[number % 3]) for number in range(WRITERS)]
        self.readers = [self._read(number, hosts[(number + 1) % 3]) for number in range(len(READ))]
        wait_until(lambda: describe(self._address(hosts[0])).producers_open == WRITERS)

    def _address(self, host: Host) -> str:
        return f"tcp://{host[1]}:{self._port}/numbers"

    def _write(self, number: int, host: Host) -> tuple[Host, subprocess.Popen[str]]:
        return host, self._start(host[0], WRITER, number, self._address(host), self._batches)

    def _read(self, number: int, host: Host, runs: Runs | None = None) -> Reader:
        partitions = ",".join(map(str, READ[number]))
        process = self._start(host[0], READER, f"r{number}", self._address(host), partitions)
        reader = Reader(READ[number], host, process, [] if runs is None else runs)
        listener = threading.Thread(target=reader.listen, daemon=True)
        listener.start()
        self._threads.append(listener)
        return reader

    def kill_writers(self, numbers: list[int], host: Host) -> None:
        """The next ones start, on `host`, when the endpoint has everything of these."""
        for number in numbers:
            self.writers[number][1].kill()
        wait_until(lambda: describe(self._address(host)).producers_open == WRITERS - len(numbers))
        for number in numbers:
            self.writers[number] = self._write(number, host)
        wait_until(lambda: describe(self._address(host)).producers_open == WRITERS)

    def kill_reader(self, number: int, host: Host) -> None:
        reader = self.readers[number]
        reader.process.kill()
        self.readers[number] = self._read(number, host, reader.runs)

    def leave(self, host: Host, others: list[Host], chance: random.Random) -> None:
        """Kills all on `host`, and starts them on others."""
        for number, reader in enumerate(self.readers):
            if reader.host is host:
                self.kill_reader(number, chance.choice(others))
        here = [number for number, (where, _) in enumerate(self.writers) if where is host]
        self.kill_writers(here, chance.choice(others))

    @property
    def come(self) -> float:
        """Which part of all batches has come."""
        came = [reader.last(p) + 1 for reader in self.readers for p in reader.partitions]
        return sum(came) / WRITERS / self._batches

    def wait_for(self, part: float) -> None:
        before, deadline = -1.0, 0.0
        while (come := self.come) < part:
            for process in [writer for _, writer in self.writers] + [one.process for one in self.readers]:
                assert process.poll() is None, f"{process.args} has ended by itself: {process.returncode}"
            if come != before:
                before, deadline = come, time.monotonic() + HANG_S
            assert time.monotonic() < deadline, f"nothing comes behind {come}"
            time.sleep(0.01)

    def finish(self) -> None:
        """Lets all end: a writer when everything of it was acknowledged."""
        for _, writer in self.writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert [writer.wait(2 * HANG_S) for _, writer in self.writers] == [0] * WRITERS
        for reader in self.readers:
            reader.process.kill()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Nothing was lost, nothing doubled, nothing out of order."""
        for reader in self.readers:
            for partition in reader.partitions:
                end = 0
                for run in reader.runs:
                    mine = [entry[1:] for entry in run if entry[0] == partition]
                    if not mine:
                        continue
                    first = mine[0][0]
                    assert end - CREDIT <= first <= end, f"partition {partition}: {first} behind {end}"
                    assert mine == [(seq, seq * ROWS, ROWS) for seq in range(first, first + len(mine))]
                    end = max(end, first + len(mine))
                assert end == self._batches, f"partition {partition}: {end} of {self._batches} batches"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def limit_rate(where: Namespace, rate: str) -> None:
    """In both directions of the cable."""
    tbf = ["root", "tbf", "rate", rate, "burst", "32kb", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "replace", "dev", where.cable, *tbf], check=True)
    where.run("tc", "qdisc", "replace", "dev", "eth0", *tbf)


@contextlib.contextmanager
def pulled(where: Namespace) -> Iterator[None]:
    where.run("ip", "link", "set", "eth0", "down")
    try:
        yield
    finally:
        where.run("ip", "link", "set", "eth0", "up")


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    seed = getattr(request, "param", None) or random.randrange(1 << 30)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.usefixtures("engine")
def test_kills_a_pulled_cable_and_a_limited_rate_lose_and_double_nothing(
    hosts: list[Host], port: int, start: Start, chance: random.Random
) -> None:
    """100,000 rows."""
    with Endpoint(f"tcp://*:{port}/numbers?auth=none", linger=60):
        players = Players(hosts, port, start, batches=100)
        for where, _, _ in hosts:
            limit_rate(where, "4mbit")
        players.wait_for(0.1)
        players.kill_reader(0, chance.choice(hosts))
        players.wait_for(0.3)
        players.kill_writers([chance.randrange(WRITERS)], chance.choice(hosts))
        players.wait_for(0.5)
        with pulled(chance.choice(hosts)[0]):
            time.sleep(0.3)
        players.kill_reader(chance.choice([1, 2]), chance.choice(hosts))
        players.wait_for(0.7)
        players.kill_writers([chance.randrange(WRITERS)], chance.choice(hosts))
        players.wait_for(1)
        players.finish()
    players.check()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chance", [1, 2, 3], indirect=True)
def test_a_million_rows_come_through_chaos_and_a_host_that_vanishes(
    hosts: list[Host], port: int, start: Start, chance: random.Random
) -> None:
    steps = 20
    with Endpoint(f"tcp://*:{port}/numbers?auth=none", linger=60):
        players = Players(hosts, port, start, batches=1000)
        for where, _, _ in hosts:
            limit_rate(where, "20mbit")
        left = hosts
        for step in range(steps):
            players.wait_for(step / steps)
            where, *_ = host = chance.choice(left)
            what = chance.randrange(5)
            print(f"step {step}: {what} on {where.cable}")
            if step == steps // 2:  # from now on the endpoint has half-open connections there
                where.run("ip", "link", "set", "eth0", "down")
                gone, left = host, [other for other in hosts if other is not host]
                players.leave(gone, left, chance)
            elif what == 0:
                players.kill_reader(chance.randrange(len(READ)), host)
            elif what == 1:
                players.kill_writers([chance.randrange(WRITERS)], host)
            elif what == 2:
                with pulled(where):
                    time.sleep(chance.random() * 3)
            elif what == 3:
                limit_rate(where, chance.choice(["5mbit", "20mbit", "200mbit"]))
            else:  # they die where nobody hears of it before the cable is back
                with pulled(where):
                    for number, reader in enumerate(players.readers):
                        if reader.host is host:
                            players.kill_reader(number, host)
                    time.sleep(chance.random())
        players.wait_for(1)
        players.finish()
    players.check()
