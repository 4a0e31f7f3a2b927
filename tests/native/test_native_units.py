"""Runs the native tests (GoogleTest executables under build/dev/tests) as tests of this suite, one each.

Their XML reports go to build/dev/reports, where tests/rows.py finds them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
SOURCES = Path(__file__).parent


def _executable(source: Path) -> Path:
    name = ".".join(source.relative_to(SOURCES).with_suffix("").parts)
    return BUILD / "tests" / name


SUITES = sorted(SOURCES.rglob("*_test.cc"))


@pytest.mark.parametrize("source", SUITES, ids=[str(s.relative_to(SOURCES)) for s in SUITES])
def test_native_suite_passes(source: Path) -> None:
    executable = _executable(source)
    assert executable.exists(), f"{executable} is not built: make native-test"
    report = BUILD / "reports" / f"{executable.name}.xml"
    ran = subprocess.run(
        [executable, "--gtest_brief=1", f"--gtest_output=xml:{report}"],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ran.returncode == 0, f"\n{ran.stdout[-8000:]}\n{ran.stderr[-4000:]}"
    assert "PASSED" in ran.stdout or "OK" in ran.stdout, f"no test ran in {source.name}:\n{ran.stdout}"
