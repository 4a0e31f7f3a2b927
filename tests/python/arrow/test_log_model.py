"""A stream against a model of its log: whoever comes, leaves or gives up, no gap and no duplicate."""

from __future__ import annotations

import itertools
import os
from contextlib import nullcontext, suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint, StreamReader, StreamWriter, describe
from tests.patience import HANG_S

SCHEMA = pa.schema([("n", pa.int64())])
PARTITIONS = 2
_numbers = itertools.count()


class Log(RuleBasedStateMachine):
    """One stream that is kept by an endpoint; a batch is a number, and its reader takes them one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"loop://model-{os.getpid()}-{next(_numbers)}"
        self.endpoint = Endpoint(self.address)
        self.writers: list[StreamWriter] = [self._open_writer()]  # one stays, so that the stream does not end
        self.reader: StreamReader | None = None
        self.unconsumed: list[tuple[int, int, StreamWriter]] = []  # number, partition, whose; by arrival
        self.lent = 0  # how many of them the reader has been lent: the last of these is not yet consumed
        self.next_number = 0
        self.written = [0] * PARTITIONS

    def _open_writer(self) -> StreamWriter:
        return lwmq.open_writer(
            self.address, SCHEMA, partitions=PARTITIONS, window_bytes="1MiB", buffer_bytes="64KiB", timeout=60
        )

    @rule()
    @precondition(lambda self: len(self.writers) < 3)
    def a_writer_comes(self) -> None:
        self.writers.append(self._open_writer())

    @rule(which=st.integers(0, 2), partition=st.integers(0, PARTITIONS - 1), rows=st.integers(0, 3))
    def a_batch_is_written(self, which: int, partition: int, rows: int) -> None:
        number, self.next_number = self.next_number, self.next_number + 1
        writer = self.writers[which % len(self.writers)]
        writer.write(pa.record_batch({"n": [number] * (rows + 1)}, schema=SCHEMA), partition=partition)
        self.unconsumed.append((number, partition, writer))
        self.written[partition] += 1
        # Another writer's next batch may overtake one that is on its way; two numbers that are there may not.
        while sum(p.next_seq for p in describe(self.address, timeout=60).partitions) != sum(self.written):
            pass

    @rule(which=st.integers(1, 2))
    @precondition(lambda self: len(self.writers) > 1)
    def a_writer_leaves_and_hears_whether_all_of_its_own_was_consumed(self, which: int) -> None:
        writer = self.writers.pop(min(which, len(self.writers) - 1))
        left = any(owner is writer for _, _, owner in self.unconsumed)
        with pytest.raises(lwmq.TimeoutError) if left else nullcontext():
            writer.close(linger=0.01 if left else HANG_S)

    @rule(name=st.sampled_from([None, "me"]), credit=st.integers(1, 3))
    @precondition(lambda self: self.reader is None)
    def a_reader_comes(self, name: str | None, credit: int) -> None:
        self.reader = lwmq.open_reader(self.address, name=name, credit=credit, timeout=60)
        self.lent = 0

    @rule()
    @precondition(lambda self: self.reader is not None)
    def a_batch_is_read(self) -> None:
        assert self.reader is not None
        if self.lent and self.unconsumed:
            self.unconsumed.pop(0)
            self.lent = 0
        if not self.unconsumed:
            with pytest.raises(lwmq.TimeoutError):
                self.reader.read_next_batch(timeout=0.01)
            return
        number, partition, _ = self.unconsumed[0]
        batch = next(self.reader)
        last: Any = self.reader.last
        assert (batch["n"][0].as_py(), last.partition) == (number, partition)
        self.lent = 1

    @rule(consume=st.booleans())
    @precondition(lambda self: self.reader is not None)
    def a_reader_leaves(self, consume: bool) -> None:
        assert self.reader is not None
        self.reader.close(linger=0, consume=consume)
        self.reader = None
        if consume and self.lent:
            self.unconsumed.pop(0)
        self.lent = 0

    @invariant()
    def the_endpoint_counts_what_was_written(self) -> None:
        if sum(self.written):
            state = describe(self.address, timeout=60)
            assert [p.next_seq for p in state.partitions] == self.written

    def teardown(self) -> None:
        if self.reader is not None:
            self.reader.close(linger=0)
        for writer in self.writers:
            writer.abort()
        with suppress(lwmq.TimeoutError):  # says what was not read, if anything
            self.endpoint.close(linger=0)


TestLog = Log.TestCase
TestLog.settings = settings(
    max_examples=30, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
