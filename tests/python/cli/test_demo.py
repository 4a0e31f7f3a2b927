"""`make demo`: the main job on real data. Three processes, and pandas as the judge."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from lwmq_spark.cli.demo import draw, report
from tests.namespaces import why_not


@pytest.fixture
def delays() -> pd.DataFrame:
    """Two airlines: one early, one late and later than the plots tell apart; nobody flies at noon."""
    rows = [
        ("Early Air", 5, 10, -3.0),
        ("Late Air", 5, 20, 7.5),
        ("Late Air", 11, 1, 168.0),
        ("Late Air", 13, 1, None),
    ]
    return pd.DataFrame(rows, columns=["airline", "hour", "flights", "departure_delay"])


def shown(*what: Any) -> list[str]:
    """The lines at a terminal of 80 columns without colours."""
    console = Console(width=80, file=io.StringIO(), color_system=None, force_terminal=True)
    console.print(*what)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_the_plot_in_the_terminal_has_every_hour_and_tells_early_from_none(delays: pd.DataFrame) -> None:
    _, hours, late, early, *legend = shown(draw.cells(delays))
    assert hours.split() == ["00", "03", "06", "09", "12", "15", "18", "21"]
    start = hours.index("00")
    assert late.startswith("Late Air") and early.startswith("Early Air")
    assert late[start:].rstrip() == " " * 10 + "░░" + " " * 10 + "██"
    assert early[start:].rstrip() == " " * 10 + "··"
    meanings = " ".join(" ".join(legend).split())
    assert meanings == (
        "minutes: ·· early ░░ 0 to 9 ▒▒ 10 to 19 ▓▓ 20 to 39 ██ 40 and more blank: no departures"
    )


def test_the_plot_says_what_it_clips_and_what_is_missing(delays: pd.DataFrame) -> None:
    axes, bar = draw.heat_map(delays).axes
    (image,) = axes.images
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"{hour:02d}" for hour in range(24)]
    assert image.get_array().count() == 3
    assert image.colorbar.extend == "both"
    assert bar.get_ylabel() == "minutes (gray: early, red: 40 to 168)"
    assert "white cells: no departures" in axes.get_xlabel()


def test_the_figures_of_the_demo_fit_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report.console, "width", 80)
    leg = {
        "rows": 336_776,
        "bytes": 56_100_000,
        "seconds": 1.194,
        "bytes_copied": 0,
        "bytes_on_the_cable": 0,
        "window_bytes": 16 << 20,
    }
    figures = {
        "read": leg,
        "write": leg | {"rows": 207},
        "planned_before_last_batch_s": 1.14,
        "proof": "page " * 30,
    }
    report.show(figures | {"matches_pandas": True, "plot": "delays.png", "seconds": 20.8})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].rstrip() == "producer → Spark  336,776 rows, 56.1 MB in 1.194 s: 282 k rows/s, 47 MB/s"
    assert max(map(len, lines)) <= 80
    assert all(line[16:18] == "  " for line in lines), "what is folded stays in its column"


def demo(folder: Path, *options: str) -> dict[str, Any]:
    """The figures of a run that has ended well."""
    ran = subprocess.run(
        [sys.executable, "-m", "lwmq_spark.cli", "demo", "--json", "--output", str(folder), *options],
        capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert figures["matches_pandas"] is True
    assert figures["read"]["rows"] == 336_776
    assert figures["read"]["bytes"] > 3 * figures["read"]["window_bytes"]
    assert figures["read"]["bytes_copied"] == 0
    assert figures["write"]["bytes_copied"] == 0
    assert figures["planned_before_last_batch_s"] > 0, "Spark was to read while the producer wrote"
    assert (folder / "delays.png").stat().st_size > 10_000
    return figures


@pytest.mark.row("L01")
@pytest.mark.row("P34")
def test_the_demo_streams_every_flight_through_spark_and_agrees_with_pandas(tmp_path: Path) -> None:
    assert demo(tmp_path)["read"]["bytes_on_the_cable"] == 0


def test_the_demo_runs_on_three_hosts(tmp_path: Path) -> None:
    """The columns that the job uses cross one cable, and the result the other one."""
    if reason := why_not():
        pytest.skip(reason)
    figures = demo(tmp_path, "--hosts", "3")
    read, write = figures["read"], figures["write"]
    assert read["bytes"] / 10 < read["bytes_on_the_cable"] < read["bytes"] / 2
    assert write["bytes_on_the_cable"] > write["bytes"]


def test_the_demo_knows_one_host_and_three() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "lwmq_spark.cli", "demo", "--hosts", "2"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "--hosts 2: possible are 1 and 3" in ran.stderr
