"""Guests of the lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.lab.jobs import ROOT

OLD, NEW = "linux-image-amd64", "linux-image-6.12-amd64"  # Debian's names of their kernels


def run_in_guest(
    folder: Path, kernel: str, command: list[str | Path], environment: Mapping[str, str] | None = None
) -> int:
    """The exit status of the command in a guest. `folder`/output has what it prints. Skips without a lab."""
    ours = {name: value for name, value in os.environ.items() if name != "LWMQ_SLOW"}
    ran = subprocess.run(
        [ROOT / "tests/lab/lab", "run", folder, *command],
        env={**ours, "LAB_KERNEL": kernel, "LAB_TIMEOUT": "1500", **(environment or {})},
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    if ran.returncode == 125:
        pytest.skip(f"not run: {ran.stderr.strip()}")
    return ran.returncode
