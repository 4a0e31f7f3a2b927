"""TPC-H behind exchanges of Arrow batches: the answers are those of DuckDB."""

from __future__ import annotations

import math
import os
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.spark.cluster import Cluster
from tests.spark.exchanges import CONF
from tests.spark.tpch import QUERIES, TABLES, generate

pytestmark = pytest.mark.row("P30")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, 1.0 if os.environ.get("LWMQ_SLOW") == "1" else 0.1)
    return folder


def same(ours: list[list[Any]], theirs: list[tuple[Any, ...]]) -> bool:
    """Whether two answers are equal. Spark rounds an average of decimals to six places, DuckDB does not."""
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(ours, theirs, strict=True)
    )


def same_value(ours: str | None, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(theirs, int | float | Decimal):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-12, abs_tol=1e-6)
    return ours == str(theirs)


@pytest.mark.parametrize("adaptive", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_all_answers_of_tpch_are_those_of_duckdb(tables: Path, tmp_path: Path, adaptive: bool) -> None:
    engine = duckdb.connect()
    for table in TABLES:
        engine.execute(f"create view {table} as select * from '{tables}/{table}.parquet'")
    conf = {**CONF, "spark.sql.adaptive.enabled": adaptive}
    with closing(Cluster(tmp_path / "driver", conf=conf)) as driver:
        for number, query in QUERIES.items():
            answer = driver.run("tpch", str(tables), number)
            expected = engine.execute(query).fetchall()
            assert same(answer["rows"], expected), f"Q{number}: {answer['rows'][:3]}, not {expected[:3]}"
            ours, theirs = answer["exchanges"]
            assert ours > 0 and theirs == 0, f"Q{number}: {ours} exchanges of ours, {theirs} of Spark"
