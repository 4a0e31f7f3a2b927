"""Runs the whole suite, as `make test` does, and ends with what somebody needs who sees the last lines alone.

    python -m tests.suite --workers N [--without-lint] [--reports DIRECTORY] [arguments for pytest]

Tests marked `alone` run behind the others, one by one. What fails among the others is run a second time,
alone. Where it passes then, it is printed as FLAKY and the run can still be green. Three rules keep that
honest:

- At most three tests may need it, and none that `tests/known_flaky.txt` names.
- A test marked `once` is never run again: a lost message that is seen once is a fault. The tests of stress,
  fuzz, model and hypothesis, and those with kill, chaos or soak in their name, have that mark from here.
- A crash, a time-out of pytest, and what is left behind are faults at once.

Under build/reports lie `pytest.xml`, for all runs, and `flaky.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
ONCE = re.compile(r"tests/(stress|fuzz|model)/|kill|chaos|soak")
TIMED_OUT = re.compile(r"\bTimeout \(>?\d")  # as pytest-timeout says it
FLAKY_MAX = 3
REASON_LINES = 25
CLOSING_LINES = 195  # and what make and .ci/run add


# ---- In each pytest ------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite")
    group.addoption("--group", choices=["parallel", "alone"], help="without or with the mark `alone` only")
    group.addoption("--only", help="file with the names of the tests to run, one per line")
    group.addoption("--outcome", help="file for what tests.suite has to know of this run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if ONCE.search(item.nodeid) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("once")
    group, only = config.getoption("--group"), config.getoption("--only")
    names = set(Path(only).read_text(encoding="utf-8").splitlines()) if only is not None else None

    def is_chosen(item: pytest.Item) -> bool:
        is_alone = item.get_closest_marker("alone") is not None
        return (group is None or is_alone == (group == "alone")) and (names is None or item.nodeid in names)

    left_out = [item for item in items if not is_chosen(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_chosen(item)]


def pytest_configure(config: pytest.Config) -> None:
    if (path := config.getoption("--outcome")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(Path(path)))


class _Recorder:
    """What of a run of pytest the suite has to know. With pytest-xdist it lives where the reports arrive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.failures: dict[str, dict[str, Any]] = {}
        self.lost: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """A worker ended; with an error, pytest-xdist runs on without it, and without some of its tests."""
        if error:
            self.lost.append(node.gateway.id)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._fails(report.nodeid, report, may_run_again=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            is_crash = report.when not in ("setup", "call", "teardown")
            hangs = TIMED_OUT.search(report.longreprtext) is not None
            self._fails(report.nodeid, report, not is_crash and not hangs and "once" not in report.keywords)
        elif report.skipped or report.when == "call":
            self.outcomes.setdefault(report.nodeid, report.outcome)

    def _fails(self, name: str, report: Any, may_run_again: bool) -> None:
        self.outcomes[name] = "failed"
        reason = report.longreprtext
        crash = getattr(report.longrepr, "reprcrash", None)
        first = (crash.message if crash else reason).strip().splitlines()
        before = self.failures.get(name)
        self.failures[name] = {
            "first": before["first"] if before else first[0] if first else "no reason given",
            "reason": f"{before['reason']}\n{reason}" if before else reason,
            "may_run_again": may_run_again and (before is None or before["may_run_again"]),
        }

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        outcome = {
            "outcomes": self.outcomes,
            "failures": self.failures,
            "lost": self.lost,
            "left_behind": getattr(config, "left_behind", []),
        }
        self.path.write_text(json.dumps(outcome), encoding="utf-8")


# ---- Around them ---------------------------------------------------------------------------------------


@dataclass
class Run:
    """One run of pytest that is over."""

    status: int
    report: Path
    outcomes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)  # workers
    left_behind: list[str] = field(default_factory=list)


@dataclass
class Suite:
    """The runs of one suite, and what is wrong."""

    reports: Path
    arguments: list[str]
    known: set[str]  # that are given no second run
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # reason per test, or per part of the suite
    flaky: dict[str, str] = field(default_factory=dict)  # first line of its failure, per test
    runs: list[Run] = field(default_factory=list)

    def run(self, name: str, *arguments: str) -> Run:
        """Starts pytest. Its failures are not yet those of the suite."""
        outcome, report = self.reports / f"{name}.json", self.reports / f"{name}.xml"
        for old in (outcome, report):
            old.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "tests.suite", "--continue-on-collection-errors"]
        files = [f"--outcome={outcome}", f"--junitxml={report}"]
        status = subprocess.run([*command, *files, *arguments], check=False).returncode
        run = Run(status, report)
        if outcome.exists():
            found = json.loads(outcome.read_text(encoding="utf-8"))
            run.outcomes, run.failures = found["outcomes"], found["failures"]
            run.lost, run.left_behind = found["lost"], found["left_behind"]
            outcome.unlink()
        self.runs.append(run)
        for what in run.left_behind:
            self.failures[f"LEFT BEHIND: {what}"] = f"by the run {name}"
        for worker in run.lost:  # unless it is told as the crash of a test
            if not any(f"worker '{worker}' crashed" in told["reason"] for told in run.failures.values()):
                self.failures[f"worker {worker} of the run {name}"] = "it died outside of a test: see above"
        nothing_to_do = run.status == pytest.ExitCode.NO_TESTS_COLLECTED
        if run.status and not nothing_to_do and not run.failures and not run.left_behind:
            self.failures[f"pytest, {name}"] = f"ended with status {run.status}: see above"
        return run

    def run_all(self, workers: str) -> None:
        # A worker that has crashed is not started again: with --dist=loadfile, xdist then hands it the same
        # test for ever, or hangs. The other workers go on.
        parallel = ["-n", workers, "--dist=loadfile", "--max-worker-restart=0", "--group=parallel"]
        first = self.run("parallel", *parallel, *self.arguments)
        self.counts.update(first.outcomes.values())
        again = [name for name, failure in first.failures.items() if failure["may_run_again"]]
        again = [name for name in again if name not in self.known]
        passed: set[str] = set()
        if 0 < len(again) <= FLAKY_MAX:
            only = self.reports / "again.txt"
            only.write_text("\n".join(again), encoding="utf-8")
            second = self.run("again", "-n0", f"--only={only}", *self.arguments)
            only.unlink()
            passed = {name for name in again if second.outcomes.get(name) == "passed"}
        for name, failure in first.failures.items():
            if name in passed:
                self.flaky[name] = failure["first"]
                self.counts.update(failed=-1, passed=1)
            else:
                repaired = "\nIt was repaired once: known_flaky.txt has it" if name in self.known else ""
                self.failures[name] = failure["reason"] + repaired
        third = self.run("alone", "-n0", "--group=alone", *self.arguments)
        self.counts.update(third.outcomes.values())
        self.failures |= {name: failure["reason"] for name, failure in third.failures.items()}

    def write_reports(self) -> None:
        """One JUnit file for all runs. What passed when it was run again has a `flakyFailure` there."""
        everything = ElementTree.Element("testsuites")
        flaky = {_junit_name(name) for name in self.flaky}
        for run in self.runs:
            if not run.report.exists():
                continue
            tree = ElementTree.parse(run.report).getroot()
            run.report.unlink()
            if run.report.stem == "again":
                continue
            for case in tree.iter("testcase"):
                if (case.get("classname"), case.get("name")) in flaky:
                    for failure in [*case.findall("failure"), *case.findall("error")]:
                        failure.tag = "flakyFailure"
            everything.extend(tree.iter("testsuite"))
        ElementTree.ElementTree(everything).write(self.reports / "pytest.xml", encoding="utf-8")
        lines = [f"{name}: {first}\n" for name, first in self.flaky.items()]
        (self.reports / "flaky.txt").write_text("".join(lines), encoding="utf-8")


def known_flaky(file: Path) -> set[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return {line.split(maxsplit=1)[1] for line in lines if line and not line.startswith("#")}


def _junit_name(test: str) -> tuple[str, str]:
    """Class and name under which a JUnit report has the test."""
    path, bracket, parameters = test.partition("[")
    file, *names = path.split("::")
    module = re.sub(r"\.py$", "", file).replace("/", ".")
    return ".".join([module, *names[:-1]]), names[-1] + bracket + parameters if names else ""


def closing(suite: Suite, machine: list[str], seconds: float) -> list[str]:
    """The last lines of the log."""
    flaky = [f"FLAKY {name}: {first}" for name, first in suite.flaky.items()]
    summary = ", ".join(f"{suite.counts[what]} {what}" for what in ("failed", "passed", "skipped"))
    if suite.flaky:
        summary += f", {len(suite.flaky)} flaky"
    if beside := len([name for name in suite.failures if "::" not in name]):
        summary += f", {beside} wrong beside the tests"
    minutes = f"{int(seconds // 3600)}:{int(seconds // 60 % 60):02}:{int(seconds % 60):02}"
    after = [*flaky, *machine, f"== {summary} in {seconds:.0f}s ({minutes}) =="]
    lines: list[str] = []
    room = CLOSING_LINES - len(after) - len(suite.failures)
    for name, reason in suite.failures.items():
        said = reason.rstrip().splitlines()[-REASON_LINES:]
        if len(said) > room:
            said = []
        room -= len(said)
        lines += [f"FAILED {name}", *(f"    {line}" for line in said)]
    more = len(lines) + len(after) - CLOSING_LINES
    if more > 0:
        lines = [*lines[: -more - 1], f"... and {more + 1} more that failed"]
    return [*lines, *after]


def _machine() -> str:
    disk = shutil.disk_usage(ROOT)
    memory = dict(re.findall(r"^(\w+): +(\d+)", Path("/proc/meminfo").read_text(), flags=re.MULTILINE))
    return (
        f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}, memory free "
        f"{int(memory['MemAvailable']) / 2**20:.1f} GiB, disk free {disk.free / 2**30:.1f} GiB"
    )


def _model() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else "a processor of unknown model"


def start_lint() -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["make", "lint"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.suite", description=(__doc__ or "").split("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--workers", required=True)
    parser.add_argument("--without-lint", action="store_true")
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "reports")
    parser.add_argument("--known", type=Path, default=ROOT / "tests" / "known_flaky.txt")
    options, arguments = parser.parse_known_args()
    options.reports.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    machine = [f"machine: {os.cpu_count()} cores, {_model()}", f"start: {_machine()}"]
    suite = Suite(options.reports, arguments, known_flaky(options.known))
    lint = None if options.without_lint else start_lint()  # beside tests, of which many wait
    suite.run_all(options.workers)
    if lint is not None:
        said, _ = lint.communicate()
        print(said, end="", flush=True)
        if lint.returncode != 0:
            suite.failures["lint"] = said
    suite.write_reports()
    machine.append(f"end: {_machine()}")
    print("\n" + "\n".join(closing(suite, machine, time.monotonic() - began)), flush=True)
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
