"""What the README shows can be run as it is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _examples(section: str, language: str = "python") -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = [p for p in part if p.startswith(section + "\n")]
    return re.findall(rf"^```{language}\n(.*?)^```$", found, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.row("L58")
def test_the_first_program_in_cpp_is_short_and_says_hello(tmp_path: Path) -> None:
    (code,) = _examples("Messages", "cpp")
    assert len(code.splitlines()) <= 15
    source = tmp_path / "hello.cc"
    source.write_text(code.replace("ipc://hello", f"ipc://hello-{tmp_path.name}-{os.getpid()}"))
    flags = subprocess.check_output([sys.executable, "-m", "lwmq_spark.cli", "info", "--flags"], text=True)
    program = tmp_path / "hello"
    command = ["g++", "-Wall", "-Werror", source, *shlex.split(flags), "-o", program]
    subprocess.run(command, check=True, timeout=60)
    both = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate(timeout=60)[0] for one in both] == ["somebody said hello\n"] * 2
    assert [one.returncode for one in both] == [0, 0]


@pytest.mark.row("L56", "M21")
def test_the_example_of_requests_and_replies_runs() -> None:
    (code,) = [example for example in _examples("Messages") if "Requests" in example]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["b'144'", str(sum(n * n for n in range(1000)))]
