"""`pip install .`: the wheel alone, away from the checkout, has everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.row("P01")
@pytest.mark.timeout(3600)
def test_an_installed_wheel_moves_rows_through_spark(tmp_path: Path) -> None:
    site = tmp_path / "site"
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, "no wheel in dist/: make wheel"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--no-build-isolation", "--target", site, wheels[-1]], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    asked = "import lwmq_spark; print(lwmq_spark.__file__, lwmq_spark.__version__)"
    answer = subprocess.check_output([sys.executable, "-c", asked], cwd=tmp_path, env=environment, text=True)
    where = answer.split()
    assert Path(where[0]).is_relative_to(site)
    assert where[1] == (ROOT / "native" / "VERSION").read_text(encoding="utf-8").strip()
    verdict = subprocess.run(
        [sys.executable, site / "bin" / "lwmq", "doctor", "--spark", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    found = {item["what"]: item["state"] for item in map(json.loads, verdict.stdout.splitlines())}
    assert "fail" not in found.values(), verdict.stdout
    assert found["native library"] == "ok"
    assert found["spark session"] == "ok", found
