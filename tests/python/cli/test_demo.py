"""`make demo`: the main job on real data. Three processes, and pandas as the judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.row("L01")
@pytest.mark.row("P34")
def test_the_demo_streams_every_flight_through_spark_and_agrees_with_pandas(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "lwmq_spark.cli", "demo", "--json", "--output", str(tmp_path)],
        capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["matches_pandas"] is True
    assert figures["read"]["rows"] == 336_776
    assert figures["read"]["bytes"] > 3 * figures["read"]["window_bytes"]
    assert figures["read"]["bytes_copied"] == 0
    assert figures["write"]["bytes_copied"] == 0
    assert figures["planned_before_last_batch_s"] > 0, "Spark was to read while the producer wrote"
    assert (tmp_path / "delays.png").stat().st_size > 10_000
