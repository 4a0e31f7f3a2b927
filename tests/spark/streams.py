"""What the write tests share: consumers that are alive while a job runs, and plans that can be held up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import lwmq_spark as lwmq

LIMIT_S = 300.0


class Consumer:
    """Reads a stream to its end on a thread of its own, as a process outside Spark would."""

    def __init__(self, address: str, **options: Any) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.schema: pa.Schema | None = None
        self.failure: BaseException | None = None
        self._arrived = threading.Condition()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address, options), daemon=True)
        self._thread.start()
        assert self._open.wait(LIMIT_S)

    def _run(self, address: str, options: dict[str, Any]) -> None:
        try:
            with lwmq.open_reader(address, timeout=LIMIT_S, linger=0, **options) as reader:
                self._open.set()
                self.schema = reader.schema
                for batch in reader:
                    with self._arrived:
                        self.batches.append(batch)
                        self._arrived.notify_all()
        except BaseException as failure:
            self.failure = failure
        finally:
            self._open.set()
            with self._arrived:
                self._arrived.notify_all()

    @property
    def rows(self) -> int:
        with self._arrived:
            return sum(batch.num_rows for batch in self.batches)

    def wait_for_rows(self, count: int) -> None:
        """Until that many rows have come; fails when the stream ends or time runs out before."""
        with self._arrived:
            came = self._arrived.wait_for(
                lambda: self.failure is not None or sum(batch.num_rows for batch in self.batches) >= count,
                LIMIT_S,
            )
        assert came and self.failure is None, f"{self.rows} rows instead of {count}: {self.failure}"

    def table(self) -> pa.Table:
        """Everything, once the stream has ended."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), f"the stream has not ended, after {self.rows} rows"
        if self.failure is not None:
            raise self.failure
        assert self.schema is not None
        return pa.Table.from_batches(self.batches, self.schema)

    def column(self, name: str) -> list[Any]:
        """One column of everything, sorted."""
        return sorted(self.table()[name].to_pylist())


class Gate:
    """Holds up a task of a plan until the test opens it: a file that workers look for."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"

    def open(self) -> None:
        self.path.touch()

    def hold(self, partition: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """For mapInArrow: task `partition` ends only when the gate is open."""
        path, limit = self.path, LIMIT_S

        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            yield from batches
            deadline = time.monotonic() + limit
            while TaskContext.get().partitionId() == partition and not path.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"nobody opened {path}")
                time.sleep(0.01)

        return wait


def fail_first(attempts: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow: the first `attempts` attempts of each task fail, after all their rows have come."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        number = TaskContext.get().attemptNumber()
        if number < attempts:
            raise RuntimeError(f"attempt {number} was told to fail")

    return fail


def write(frame: Any, address: str, **options: Any) -> None:
    frame.write.format("lwmq").mode("append").options(**options).save(address)
