"""The fuzz targets of this folder: every input of the corpus; with LWMQ_SLOW=1 a minute of libFuzzer each.

`corpus/<target>` begins with golden bytes of `tests/wire` and with conversations in order; the input of a
finding is added to it. Everyday the targets are plain programs of the dev build that run the corpus once; the
preset `fuzz` (clang, address and undefined-behaviour sanitizers) has libFuzzer drive them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
TARGETS = sorted(source.stem.removesuffix("_fuzz") for source in Path(__file__).parent.glob("*_fuzz.cc"))
SECONDS = 60


@pytest.mark.row("L13")
@pytest.mark.row("L40")
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_of_the_corpus_passes(target: str) -> None:
    program = ROOT / "build" / "dev" / "fuzz" / f"{target}_fuzz"
    assert program.exists(), f"{program} is not built: make native-test"
    ran = subprocess.run([program, CORPUS / target], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    assert ran.stdout.startswith(f"{len(list((CORPUS / target).iterdir()))} inputs passed"), ran.stdout


def has_libfuzzer() -> bool:
    compiler = shutil.which("clang++-14")
    if compiler is None:
        return False
    resources = subprocess.run(
        [compiler, "-print-resource-dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return any(Path(resources, "lib", "linux").glob("libclang_rt.fuzzer-*.a"))


@pytest.fixture(scope="module")
def fuzzers() -> Path:
    """The folder with the programs of the preset `fuzz`."""
    if not has_libfuzzer():
        pytest.skip("clang-14 and libclang-rt-14-dev, which bring libFuzzer, are not installed")
    folder = ROOT / "build" / "fuzz" / "fuzz"
    assert folder.exists(), f"{folder} is not built: LWMQ_SLOW=1 make test-build"
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", TARGETS)
def test_a_minute_of_new_inputs_finds_nothing(target: str, fuzzers: Path, tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.mkdir()
    ran = subprocess.run(
        [
            fuzzers / f"{target}_fuzz",
            f"-max_total_time={SECONDS}",
            "-timeout=100",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={tmp_path}/",
            found,
            CORPUS / target,
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS + 600,
        check=False,
    )
    inputs = {path.name: path.read_bytes().hex() for path in tmp_path.glob("*-*")}
    assert ran.returncode == 0, f"{inputs}\n{ran.stderr[-6000:]}"
