"""Exchanges of Arrow batches: the answers are those of Spark, whatever is lost or full."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lwmq_spark as lwmq
from tests.spark.cluster import Cluster
from tests.spark.exchanges import CONF

pytestmark = pytest.mark.row("P30")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("driver"), conf=CONF)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), conf={"exchange": True})
    yield made
    made.close()


# ---- Rows and plans ------------------------------------------------------------------------------------


def test_rows_of_every_type_come_into_the_partitions_of_spark(driver: Cluster) -> None:
    assert driver.run("each_type") == []


def test_plans_of_every_shape_have_the_answers_of_spark(driver: Cluster, tmp_path: Path) -> None:
    equal = driver.run("shapes", str(tmp_path / "parquet"))
    assert [name for name, is_equal in equal.items() if not is_equal] == []


def test_adaptive_execution_coalesces_splits_reuses_and_reads_locally(driver: Cluster) -> None:
    """Cases of Celeborn's SkewJoinSuite and ReusedExchangeSuite, and of Uniffle's AQERepartition,
    AQESkewedJoin and GetReader."""
    found = driver.run("adapted")
    assert [name for name, one in found.items() if not one["same"]] == []
    assert "AQEShuffleRead coalesced" in found["coalesced"]["words"]
    assert "skewed" in found["skewed"]["words"]
    assert "skewed" in found["skewed on both sides"]["words"]
    assert "ReusedExchange" in found["reused"]["words"]
    assert "AQEShuffleRead local" in found["local"]["words"]


def test_exchanges_within_stages_and_jobs_have_the_answers_of_spark(driver: Cluster) -> None:
    """Cases of Celeborn's CelebornFetchFailureSuite, and of Uniffle's FailingTasks, NullOfKeyOrValue,
    MapSideCombine, CombineByKey and GroupByKey."""
    right = driver.run("stages")
    assert [name for name, is_right in right.items() if not is_right] == []


def test_stages_count_what_they_write_and_read(driver: Cluster) -> None:
    """As Uniffle's WriteAndReadMetrics."""
    got = driver.run("counted")
    assert got["written"] == got["read"] == 5000 + 3, "the rows, and the sums of three partitions"
    assert got["bytes written"] == got["bytes read"] > 5000 * 16


def test_a_cartesian_product_reads_its_exchanges_again_and_again(driver: Cluster) -> None:
    assert driver.run("cartesian") == [60_000, 200]


def test_what_stays_with_spark_works_and_says_why(driver: Cluster) -> None:
    got = driver.run("declined")
    assert got["rdd"] == 1000
    assert got["round robin"] == 1000
    assert got["intervals"] == 10
    assert set(got["reasons"]) == {"stays with Spark's shuffle: partitioning by RoundRobinPartitioning"}
    assert "a column of type INTERVAL" in got["texts"]["interval"]
    assert "two fields" in got["texts"]["twins"]
    assert "up to 4096" in got["texts"]["many"]
    assert "RoundRobinPartitioning" in got["texts"]["no key"]
    assert "spark.lwmq.exchange.enabled is false" in got["texts"]["off"]


def test_a_session_without_it_says_what_is_missing(spark: Any) -> None:
    with pytest.raises(lwmq.LwmqError, match=r"lwmq\.session\(exchange=True\)"):
        lwmq.exchange(spark.range(10), "id", partitions=2)


# ---- Memory --------------------------------------------------------------------------------------------


def test_memory_is_used_again_and_given_back_with_its_shuffle(driver: Cluster) -> None:
    got = driver.run("repeated", 300 if os.environ.get("LWMQ_SLOW") == "1" else 20)
    assert got["used"] == 0
    assert got["threads"][0] == got["threads"][1] == ["lwmq-gauges"]
    assert got["descriptors"][1] <= got["descriptors"][0]
    assert got["mapped"][1] <= got["mapped"][0]
    later = got["made"][1] - got["made"][0]  # of at least as many queries; the first one has made nearly all
    assert later < got["made"][0] / 2, "queries make their memory anew"


def test_what_exceeds_the_memory_goes_to_a_file(tmp_path: Path) -> None:
    conf = {**CONF, "spark.lwmq.exchange.memory": "1m"}
    with closing(Cluster(tmp_path / "driver", conf=conf)) as driver:
        got = driver.run("spilled")
    assert got["same"]
    assert got["spilled"] > 10_000_000
    assert got["used"] == 0
    assert not list((tmp_path / "driver" / "scratch").rglob("temp_shuffle*"))


@pytest.mark.row("P27", "C41")
def test_the_driver_shows_the_memory_of_each_executor_to_prometheus(tmp_path: Path) -> None:
    """Outputs outlive their tasks, so there is something to see."""
    sink = "spark.metrics.conf.*.sink.prometheusServlet"
    conf = {
        "exchange": True,
        "spark.ui.enabled": True,
        "spark.ui.port": 0,
        f"{sink}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sink}.path": "/metrics/prometheus",
    }
    with closing(Cluster(tmp_path / "driver", conf=conf)) as driver:
        figures = driver.run("gauges")
    assert sorted(name.partition("executor_")[2] for name in figures) == [
        f"{number}_exchange_used_bytes_{kind}" for number in (0, 1) for kind in ("Number", "Value")
    ]


# ---- Several executors ---------------------------------------------------------------------------------


def test_executors_fetch_from_each_other(cluster: Cluster) -> None:
    got = cluster.run("executors_of_exchange")
    assert got["total"] == got["expected"]
    assert got["far"] > 2_000_000


@pytest.mark.parametrize("when", ["map", "fetch"])
def test_an_executor_killed_around_an_exchange_changes_no_answer(
    cluster: Cluster, tmp_path: Path, when: str
) -> None:
    for seed in range(20 if os.environ.get("LWMQ_SLOW") == "1" else 3):
        rng = random.Random(seed)
        got, want = cluster.run(
            "killed_around_an_exchange", str(tmp_path), when, rng.randrange(4), rng.randrange(20)
        )
        assert got == want, f"seed {seed}"


def test_an_executor_that_dies_with_its_map_output_changes_no_answer(cluster: Cluster) -> None:
    for seed in range(20 if os.environ.get("LWMQ_SLOW") == "1" else 3):
        cluster.halt.touch()
        got = cluster.run("executors_of_exchange")
        assert not cluster.halt.exists(), "nobody was killed"
        assert got["total"] == got["expected"], f"seed {seed}"


LEAVING = {
    "decommissioned": {
        "spark.decommission.enabled": True,
        "spark.storage.decommission.enabled": True,
        "spark.storage.decommission.shuffleBlocks.enabled": True,
    },
    "idle": {
        "spark.dynamicAllocation.enabled": True,
        "spark.dynamicAllocation.minExecutors": 0,
        "spark.dynamicAllocation.maxExecutors": 2,
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    },
}


@pytest.mark.parametrize("how", LEAVING)
def test_an_executor_that_leaves_in_order_changes_no_answer(tmp_path: Path, how: str) -> None:
    """Its map outputs are computed again, as those of an executor that dies."""
    with closing(Cluster(tmp_path / "driver", conf={"exchange": True, **LEAVING[how]})) as driver:
        got = driver.run("outlived", how)
    assert got["before"] == got["behind"] == got["expected"]
    assert got["executors"] > 0
