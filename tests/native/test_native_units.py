"""Runs the native tests (GoogleTest programs under build/dev/tests) as tests of this suite: one for each
group of cases, so that what has failed has a name and can be run alone.

Their XML reports go to build/dev/reports, where tests/rows.py finds them.
"""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
SOURCES = Path(__file__).parent
SUITES = sorted(SOURCES.rglob("*_test.cc"))
GROUP = re.compile(r"^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,", re.MULTILINE)
BEGINS = re.compile(r"^(\w+/)?(\w+)(/\w+)?\.$", re.MULTILINE)  # of a group, as --gtest_list_tests writes it

# They count, or give the product a short time-out on purpose.
ALONE = {
    ("channel/own_threads_test.cc", "OwnThreads"),
    ("channel/steady_state_test.cc", "SteadyState"),
    ("stream/stall_test.cc", "SlowReader"),
}


def _executable(source: Path) -> Path:
    executable = BUILD / "tests" / ".".join(source.relative_to(SOURCES).with_suffix("").parts)
    assert executable.exists(), f"{executable} is not built: make native-test"
    return executable


def _groups(source: Path) -> list[str]:
    return list(dict.fromkeys(GROUP.findall(source.read_text(encoding="utf-8"))))


def _parameters() -> Iterator[object]:
    for source in SUITES:
        file = str(source.relative_to(SOURCES))
        for group in _groups(source):
            marks = [pytest.mark.alone] if (file, group) in ALONE else []
            yield pytest.param(source, group, id=f"{file}-{group}", marks=marks)


def _failures(output: str) -> str:
    """GoogleTest's lines on what has failed, without those on what has not."""
    lines = [
        line for line in output.splitlines() if not line.startswith(("Running main", "[=", "[-", "[  P"))
    ]
    return "\n".join(lines)[-8000:]


@pytest.mark.parametrize(("source", "group"), list(_parameters()))
def test_native_group_passes(source: Path, group: str) -> None:
    executable = _executable(source)
    report = BUILD / "reports" / f"{executable.name}.{group}.xml"
    ran = subprocess.run(
        [
            executable,
            "--gtest_brief=1",
            f"--gtest_filter={group}.*:*/{group}.*:{group}/*.*:*/{group}/*.*",
            f"--gtest_output=xml:{report}",
        ],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ran.returncode == 0, f"\n{ran.stderr[-4000:]}\n{_failures(ran.stdout)}"
    assert ElementTree.parse(report).getroot().get("tests") != "0", f"no test ran:\n{ran.stdout}"


@pytest.mark.parametrize("source", SUITES, ids=[str(source.relative_to(SOURCES)) for source in SUITES])
def test_every_group_of_a_program_is_run(source: Path) -> None:
    listed = subprocess.check_output([_executable(source), "--gtest_list_tests"], text=True, timeout=60)
    found = {match[2] for match in BEGINS.finditer(listed)}
    assert found <= set(_groups(source))
    assert found, listed
