"""What the README shows can be run as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _examples(section: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = [p for p in part if p.startswith(section + "\n")]
    return re.findall(r"^```python\n(.*?)^```$", found, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.row("L56", "M21")
def test_the_example_of_requests_and_replies_runs() -> None:
    (code,) = [example for example in _examples("Messages") if "Requests" in example]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["b'144'", str(sum(n * n for n in range(1000)))]
