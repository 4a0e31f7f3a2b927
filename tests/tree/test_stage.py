"""What a person sees of a build: .ci/stage."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.patience import HANG_S

STAGE = Path(__file__).resolve().parents[2] / ".ci" / "stage"
THREE_STEPS = "for i in 1 2 3; do echo [$i/3] Building C object $i.o; done; echo chatter"


def _stage(script: str, line_s: int) -> tuple[int, list[str], list[str]]:
    """Status and lines, all times as N."""
    ran = subprocess.run(
        [STAGE, "building a thing", "sh", "-c", script],
        env={**os.environ, "STAGE_LINE_S": str(line_s)},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    out, err = (re.sub(r"\d+ s$", "N s", text, flags=re.MULTILINE) for text in (ran.stdout, ran.stderr))
    return ran.returncode, out.splitlines(), err.splitlines()


def test_a_build_says_what_it_is_and_not_each_step() -> None:
    status, out, err = _stage(THREE_STEPS, 1000)
    assert (status, err) == (0, [])
    assert out[0] == "== building a thing"
    assert out[1:] in ([], ["   done in N s"])  # which is said of what took two seconds


def test_a_build_says_now_and_then_how_many_steps_are_done() -> None:
    status, out, _ = _stage(THREE_STEPS, 0)
    assert status == 0
    assert out[1:4] == [f"   {step} of 3 steps, N s" for step in (1, 2, 3)]


def test_a_build_that_fails_shows_all_but_its_steps() -> None:
    status, out, err = _stage("echo '[1/2] Building C object a.o'; echo 'a.c:1: error: no'; exit 3", 1000)
    assert (status, out) == (1, ["== building a thing"])
    assert err[0] == "a.c:1: error: no"
    assert re.fullmatch(r"== failed after \d+ s: building a thing", err[1])
