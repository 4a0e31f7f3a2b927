"""The oracle sees bugs: four of them lie in the stress build and are switched on one at a time, as in
tests/stress. Each has a scenario in which every row arrives once, in a cluster over that build; with its bug
it must not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from tests.spark.cluster import Cluster
from tests.spark.oracle import Broken, every_row_once
from tests.spark.producers import Producer, kept
from tests.spark.streams import Consumer
from tests.stress.players import BUILD, must_be_built

ROWS = 4000

pytestmark = [pytest.mark.row("P15"), pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(2000)]


@pytest.fixture(scope="module")
def stress_build() -> dict[str, str]:
    """What makes Java and Python take the libraries of the stress build."""
    must_be_built(BUILD / "liblwmq_jni.so")
    folder = str(BUILD)
    return {"LWMQ_LIBRARY_PATH": folder, "LD_LIBRARY_PATH": folder}


@contextlib.contextmanager
def cluster_of(folder: Path, environment: dict[str, str]) -> Iterator[Cluster]:
    made = Cluster(folder, environment)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def sound(stress_build: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(tmp_path_factory.mktemp("sound"), stress_build) as made:
        yield made


def small_window(cluster: Cluster, ipc: str) -> None:
    """The consumer holds every batch until the end, and reads the rows only then."""
    consumer = Consumer(ipc)
    cluster.run("written_in_a_small_window", ipc)
    every_row_once(consumer.column("k"), range(ROWS))


def failure_midway(cluster: Cluster, ipc: str) -> None:
    """Whoever comes next begins with the batch in which the failed query stood."""
    with kept(ipc):
        producer = Producer(ipc, pa.table({"k": range(ROWS)}), rows=100)
        rest = cluster.run("read_after_a_failure", ipc)
        producer.finish()
        every_row_once(rest, range(1500, ROWS))


def second_attempt(cluster: Cluster, ipc: str) -> None:
    """An attempt commits, its executor is lost, another attempt commits; the driver serves the stream."""
    cluster.run("halted_after_commit", ipc, str(cluster.halt), "task")
    every_row_once(Consumer(ipc).column("k"), range(ROWS))


def other_generation(cluster: Cluster, ipc: str) -> None:
    """Its own rows or DataLossError: never somebody else's."""
    found = cluster.run("read_of_another_generation", ipc)
    if found != lwmq.DataLossError.__name__:
        every_row_once(found, range(1000))


SCENARIOS: dict[str, Callable[[Cluster, str], None]] = {
    "skip_release_check": small_window,
    "acknowledge_early": failure_midway,
    "accept_twice": second_attempt,
    "forget_generation": other_generation,
}


@pytest.mark.parametrize("bug", SCENARIOS)
def test_without_a_bug_every_row_arrives_once(sound: Cluster, ipc: str, bug: str) -> None:
    SCENARIOS[bug](sound, ipc)


@pytest.mark.parametrize("bug", SCENARIOS)
def test_the_oracle_catches(stress_build: dict[str, str], ipc: str, tmp_path: Path, bug: str) -> None:
    environment = {**stress_build, "LWMQ_PLANTED": bug}
    with cluster_of(tmp_path / "cluster", environment) as planted, pytest.raises(Broken):
        SCENARIOS[bug](planted, ipc)
