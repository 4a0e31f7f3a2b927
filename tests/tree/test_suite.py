"""What `make test` makes of tests that fail, with tests that were planted for it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INI = """
[pytest]
timeout = 5
addopts = --import-mode=importlib -p no:cacheprovider
markers =
    alone
    once
"""
# Fails at its first call in the run of the suite.
FLAKY = """
    from pathlib import Path

    def fails_once(name):
        seen = Path(__file__).with_name(f"{name}.seen")
        if not seen.exists():
            seen.touch()
            raise ValueError(f"{name} is slow today")
"""


@dataclass
class Ran:
    status: int
    closing: str
    reports: Path


@pytest.fixture
def run(tmp_path: Path) -> object:
    """Runs the suite over files with these names and texts."""

    def run(known: str = "", /, **files: str) -> Ran:
        (tmp_path / "pytest.ini").write_text(INI)
        (tmp_path / "known.txt").write_text(known)
        for name, text in files.items():
            file = tmp_path / "tests" / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.with_suffix(".py").write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "tests.suite", "--workers=2", "--without-lint", "-p", "no:nbmake"]
        places = [f"--reports={tmp_path / 'reports'}", f"--known={tmp_path / 'known.txt'}"]
        pytest_s = ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path), str(tmp_path / "tests")]
        done = subprocess.run(
            [*command, *places, *pytest_s], cwd=ROOT, text=True, capture_output=True, check=False, timeout=300
        )
        assert "\n== " in done.stdout, done.stdout + done.stderr
        closing = re.split(r"\n={9,} .* ={9,}\n", done.stdout)[-1]
        return Ran(done.returncode, closing, tmp_path / "reports")

    return run


def test_a_test_that_passes_when_it_runs_alone_is_told_and_the_run_is_green(run) -> None:
    ran = run(
        test_some=FLAKY
        + """
    def test_flaky():
        fails_once("flaky")

    def test_good():
        pass
    """
    )
    assert ran.status == 0, ran.closing
    assert "FLAKY tests/test_some.py::test_flaky: ValueError: flaky is slow today" in ran.closing
    assert "== 0 failed, 2 passed, 0 skipped, 1 flaky in " in ran.closing
    assert (ran.reports / "flaky.txt").read_text().startswith("tests/test_some.py::test_flaky: ValueError")
    report = ElementTree.parse(ran.reports / "pytest.xml")
    assert {case.get("name") for case in report.iter("testcase")} == {"test_flaky", "test_good"}
    (flaky,) = report.iter("flakyFailure")
    assert "is slow today" in str(flaky.get("message"))
    assert not list(report.iter("failure"))


def test_what_is_a_fault_is_red_and_named_with_its_reason(run) -> None:
    # All but the crash stand in one file: where a worker crashes, pytest-xdist may leave out the last files.
    ran = run(
        "2026-01-02 tests/test_faults.py::test_was_repaired",
        test_faults=FLAKY
        + """
    import time
    from hypothesis import given, strategies

    def test_always():
        assert 1 == 2, "never equal"

    def test_hangs():
        time.sleep(60)

    def test_was_repaired():
        fails_once("known")

    def test_kill_loses_one():
        fails_once("a message")

    @given(strategies.just(1))
    def test_property(one):
        fails_once("property")
    """,
        test_alone=FLAKY
        + """
    import pytest

    @pytest.mark.alone
    def test_counts():
        fails_once("counted")
    """,
        test_broken="this is no Python",
        test_crash="""
    def test_crash():
        import os
        os._exit(1)
    """,
    )
    assert ran.status == 1
    assert "FLAKY" not in ran.closing
    failed = set(re.findall(r"^FAILED (?:\S*/)?(\S+)", ran.closing, flags=re.MULTILINE))
    assert failed == {
        "test_faults.py::test_always",
        "test_faults.py::test_hangs",
        "test_faults.py::test_was_repaired",
        "test_faults.py::test_kill_loses_one",
        "test_alone.py::test_counts",
        "test_broken.py",
        "test_crash.py::test_crash",
        "test_faults.py::test_property",
    }
    for reason in ("never equal", "Timeout (>5", "a message is slow", "crashed while running", "SyntaxError"):
        assert reason in ran.closing
    assert re.search(r"machine: \d+ cores, .*\nstart: load .*memory free .*\nend: load .*\n== ", ran.closing)
    assert len(ran.closing.splitlines()) <= 200


def test_a_worker_that_dies_outside_of_a_test_makes_the_run_red(run) -> None:
    """While it collects, pytest-xdist gives the whole run up, and says that there was nothing to do."""
    ran = run(
        test_early="""
    import os

    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        os._exit(1)

    def test_good():
        pass
    """
    )
    assert ran.status == 1
    assert "FAILED worker gw0 of the run parallel" in ran.closing


def test_more_than_three_are_red_and_three_hundred_end_in_two_hundred_lines(run) -> None:
    ran = run(
        test_many=FLAKY
        + """
    import pytest

    @pytest.mark.parametrize("n", range(300))
    def test_many(n):
        fails_once(n)
    """
    )
    assert ran.status == 1
    assert "FLAKY" not in ran.closing
    assert len(ran.closing.splitlines()) <= 200
    assert re.search(r"\.\.\. and \d+ more that failed\n", ran.closing)
    assert "== 300 failed, 0 passed" in ran.closing
