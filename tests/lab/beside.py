"""The guests of test_networks.py run beside all other tests: they start with the first test of a session."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.lab.jobs import NATIVE_TESTS, PLACES, ROOT, Job

SECONDS_OF_A_PROGRAM = 120
# What has failed runs once more: an emulated processor is slower than some tests wait for.
RUN = f"""
run() {{
  local output=/run/lab/$1.txt device=$2 failed
  shift 2
  [ -e "$device" ] || {{ echo "not run: the guest has no $device" >$output; return; }}
  timeout {SECONDS_OF_A_PROGRAM} "$@" >$output 2>&1 </dev/null && return
  echo "ended with status $?" >>$output
  failed=$(sed -n 's/^\\[  FAILED  \\] \\([^ ,]*\\).* ([0-9]* ms)$/\\1/p' $output | paste -sd:)
  [ -z "$failed" ] || timeout {SECONDS_OF_A_PROGRAM} "$1" --gtest_filter="$failed" >>$output 2>&1 </dev/null
}}
"""


def start(folder: Path, items: Iterable[pytest.Item]) -> subprocess.Popen[bytes] | None:
    """One guest after the other, each for its kernel's tests among `items`. None: there are none."""
    selected: dict[str, dict[str, list[Job]]] = {}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if isinstance(job := parameters.get("job"), Job) and not item.get_closest_marker("skip"):
            selected.setdefault(parameters["outputs"], {}).setdefault(job.output, []).append(job)
    guests = []
    for kernel, outputs in selected.items():
        control = folder / kernel
        control.mkdir(parents=True)
        lines = [RUN]
        for output, jobs in outputs.items():
            (control / f"{output}.flags").write_text(
                "--gtest_filter=" + ":".join(job.test for job in jobs) + "\n"
            )
            command = [f"{NATIVE_TESTS}/{jobs[0].program}", f"--gtest_flagfile=/run/lab/{output}.flags"]
            words = [f"{name}={shlex.quote(value)}" for name, value in jobs[0].environment.items()]
            device = PLACES[jobs[0].place].device
            lines.append(f"{' '.join(words)} run {output} {device} {shlex.join(command)}")
        (control / "all.sh").write_text("\n".join([*lines, ""]))
        run = f"LAB_KERNEL={kernel} tests/lab/lab run {control} bash /run/lab/all.sh"
        guests.append(f"{run} 2>{control}/why; echo $? >{control}/ended")
    if not guests:
        return None
    return subprocess.Popen(
        ["bash", "-c", "\n".join(guests)],
        cwd=ROOT,
        env={**os.environ, "LWMQ_SLOW": "", "LAB_TIMEOUT": "1500"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for_guest(control: Path) -> None:
    """Until the guest has ended. Skips if it could not start."""
    while not (ended := read(control / "ended")).strip():
        time.sleep(0.1)
    if ended.strip() == "125":
        pytest.skip(f"not run: {read(control / 'why').strip()}")


def read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
