"""Commands that start processes of ours, in a folder with a package of our name, such as a checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "lwmq_spark"
LWMQ = Path(sys.executable).with_name("lwmq")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder whose lwmq_spark, and whose json, end whoever imports them."""
    for name in ("lwmq_spark", "json"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise SystemExit('imported {name} of the folder')\n")
    return tmp_path


def test_perf_measures_in_a_folder_with_a_package_of_our_name(trap: Path, ipc: str) -> None:
    command = [LWMQ, "perf", ipc, "--seconds", "0.2", "--json"]
    ran = subprocess.run(command, cwd=trap, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "of the folder" not in ran.stdout + ran.stderr


def test_a_part_of_the_demo_starts_in_a_folder_with_a_package_of_our_name(trap: Path) -> None:
    """Also where ours is not installed, and was found by a folder on the path."""
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
from lwmq_spark.cli.demo.director import started
with started(None, "consumer", "no-address", "plot.png", 1) as child:
    child.report()
"""
    isolated = [sys.executable, "-P", "-c", code]
    ran = subprocess.run(isolated, cwd=trap, capture_output=True, text=True, timeout=100, check=False)
    assert "'no-address': the address has no scheme" in ran.stderr, ran.stderr
    assert "of the folder" not in ran.stderr


def test_processes_of_python_are_started_in_one_place() -> None:
    """Which keeps the caller's folder out; others only name the interpreter."""
    started = re.compile(r"(Popen|run|call|check_output|spawn\w*|exec\w*)\(\s*\[?\s*sys\.executable")
    for source in PACKAGE.rglob("*.py"):
        assert not started.search(source.read_text(encoding="utf-8")), source
