"""The wheel of `make wheels`: alone, away from the checkout, it has everything, for each Python it is for."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests.patience import HANG_S

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "native" / "VERSION").read_text(encoding="utf-8").strip()
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
WRITER = """
import sys, pyarrow, lwmq_spark
table = pyarrow.table({"n": range(100_000)})
with lwmq_spark.open_writer(sys.argv[1], table.schema) as writer:
    writer.write(table)
"""
READER = """
import sys, lwmq_spark
with lwmq_spark.open_reader(sys.argv[1]) as reader:
    table = reader.read_all()
print(table.num_rows, sum(table["n"].to_pylist()))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    assert len(wheels) == 1, f"dist/ has {len(wheels)} wheels: make wheels"
    return wheels[0]


@pytest.fixture
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return BytesParser().parsebytes(files.read(f"lwmq_spark-{VERSION}.dist-info/METADATA"))


def test_one_wheel_serves_python_3_11_and_later_on_systems_from_glibc_2_34_on(wheel: Path) -> None:
    named = re.fullmatch(rf"lwmq_spark-{VERSION}-cp311-abi3-manylinux_2_(\d+)_(\w+)\.whl", wheel.name)
    assert named, wheel.name
    assert named[2] == platform.machine()
    # What is built on a newer system than Debian 12 asks for newer symbols.
    newest = 34 if platform.libc_ver()[1] <= "2.36" else int(platform.libc_ver()[1].split(".")[1])
    assert int(named[1]) <= newest


def test_a_wheel_has_the_package_its_libraries_headers_jar_and_conf_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
        for name in (ROOT / "conf").iterdir():
            assert files.read(f"lwmq_spark/_conf/{name.name}") == name.read_bytes()
        with zipfile.ZipFile(io.BytesIO(files.read("lwmq_spark/_jars/lwmq-spark.jar"))) as jar:
            manifest = jar.read("META-INF/MANIFEST.MF").decode()
            native = f"org/lwmq/native/linux-{platform.machine()}"
            assert {f"{native}/liblwmq.so", f"{native}/liblwmq_jni.so"} <= set(jar.namelist())
    assert f"Implementation-Version: {VERSION}" in manifest.splitlines()
    assert {name for name in names if not name.endswith((".py", ".pyi")) and ".dist-info/" not in name} == {
        *(f"lwmq_spark/_conf/{path.name}" for path in (ROOT / "conf").iterdir()),
        "lwmq_spark/_include/lwmq/lwmq.h",
        "lwmq_spark/_include/lwmq/lwmq_tli.h",
        "lwmq_spark/_jars/lwmq-spark.jar",
        "lwmq_spark/_lib/liblwmq.so",
        "lwmq_spark/_lib/liblwmq_jni.so",
        "lwmq_spark/_native.abi3.so",
        "lwmq_spark/_native_messages.abi3.so",
        "lwmq_spark/py.typed",
    }


def test_the_metadata_of_a_wheel_names_its_version_its_pythons_and_what_its_extras_bring(
    metadata: Message,
) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("lwmq-spark", VERSION)
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"spark", "connect", "demo", "notebook"} <= set(metadata.get_all("Provides-Extra", []))
    required = set(metadata.get_all("Requires-Dist", []))
    assert 'pyspark[connect]==4.3.*; extra == "connect"' in required
    assert 'lwmq-spark[demo]; extra == "notebook"' in required
    assert metadata.get_payload().startswith("# lwmq_spark\n")


def _files(archive: zipfile.ZipFile, within: str = "") -> Iterator[tuple[str, bytes]]:
    """Those of jars, too."""
    for name in archive.namelist():
        content = archive.read(name)
        yield within + name, content
        if name.endswith(".jar"):
            with zipfile.ZipFile(io.BytesIO(content)) as jar:
                yield from _files(jar, f"{within}{name}!")


def test_nothing_in_a_wheel_knows_the_machine_that_built_it(wheel: Path, tmp_path: Path) -> None:
    paths = {f"{path}/".encode() for path in (ROOT, sys.prefix, sys.base_prefix, Path.home())}
    run_paths = {}
    with zipfile.ZipFile(wheel) as files:
        for name, content in _files(files):
            assert not [path for path in paths if path in content], name
            if not content.startswith(b"\x7fELF"):
                continue
            library = tmp_path / "library.so"
            library.write_bytes(content)
            dynamic = subprocess.check_output(["readelf", "--dynamic", "--wide", library], text=True)
            run_paths[name] = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)
    in_jar = f"lwmq_spark/_jars/lwmq-spark.jar!org/lwmq/native/linux-{platform.machine()}"
    assert run_paths == {
        "lwmq_spark/_native.abi3.so": ["$ORIGIN/_lib"],
        "lwmq_spark/_native_messages.abi3.so": ["$ORIGIN/_lib"],
        "lwmq_spark/_lib/liblwmq.so": [],
        "lwmq_spark/_lib/liblwmq_jni.so": ["$ORIGIN"],
        f"{in_jar}/liblwmq.so": [],
        f"{in_jar}/liblwmq_jni.so": ["$ORIGIN"],
    }


def _interpreter(version: str) -> Path:
    """On the PATH, or installed by pyenv and not chosen."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    for path in found:
        asked = [path, "-c", "import ensurepip, venv"]
        if path is not None and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return Path(path)
    pytest.skip(f"no python{version} with venv on this machine")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_wheel_installed_without_compiler_and_jdk_moves_a_table_between_two_processes(
    wheel: Path, tmp_path: Path, version: str
) -> None:
    subprocess.run([_interpreter(version), "-m", "venv", tmp_path / "venv"], check=True)
    bin_ = tmp_path / "venv" / "bin"
    environment = {"PATH": str(bin_), "HOME": str(tmp_path)}
    subprocess.run([bin_ / "python", *PIP, wheel], check=True)
    address = f"ipc://wheel-{version}-{os.getpid()}"
    reader, writer = (
        subprocess.Popen(
            [bin_ / "python", "-c", code, address],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for code in (READER, WRITER)
    )  # fmt: skip
    try:
        answers = [one.communicate(timeout=2 * HANG_S) for one in (writer, reader)]
    finally:
        for one in (writer, reader):
            one.kill()
            one.wait()
    assert answers == [("", ""), ("100000 4999950000\n", "")]
    info = subprocess.check_output([bin_ / "lwmq", "info", "--json"], cwd=tmp_path, env=environment)
    installed = json.loads(info)
    assert (installed["version"], installed["library"]) == (VERSION, VERSION)
    assert (Path(installed["conf"]) / "README.md").is_relative_to(tmp_path)
    assert (Path(installed["conf"]) / "README.md").is_file()


@pytest.mark.row("P01")
def test_an_installed_wheel_moves_rows_through_spark(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run([sys.executable, *PIP, "--no-deps", "--target", site, wheel], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    asked = "import lwmq_spark; print(lwmq_spark.__file__, lwmq_spark.__version__)"
    answer = subprocess.check_output([sys.executable, "-c", asked], cwd=tmp_path, env=environment, text=True)
    where = answer.split()
    assert Path(where[0]).is_relative_to(site)
    assert where[1] == VERSION
    verdict = subprocess.run(
        [sys.executable, site / "bin" / "lwmq", "doctor", "--spark", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    found = {item["what"]: item["state"] for item in map(json.loads, verdict.stdout.splitlines())}
    assert "fail" not in found.values(), verdict.stdout
    assert found["native library"] == "ok"
    assert found["spark session"] == "ok", found


@pytest.mark.parametrize("call", ["lwmq.session()", "lwmq.configure(None)", "lwmq.attach(None)"])
def test_spark_that_is_missing_is_told_with_the_extra_that_brings_it(call: str, tmp_path: Path) -> None:
    said = _last_words(tmp_path, "sys.modules['pyspark'] = None", call)
    assert said == "ModuleNotFoundError: pyspark is not installed: pip install 'lwmq-spark[spark]'"


def test_what_spark_connect_lacks_is_told_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    before = "sys.modules['grpc'] = None; os.environ['SPARK_REMOTE'] = 'sc://localhost:1'"
    said = _last_words(tmp_path, before, "lwmq.session()")
    assert said.startswith("ImportError: ") and "grpcio" in said
    assert said.endswith("Spark Connect needs pip install 'lwmq-spark[connect]'")


def _last_words(folder: Path, before: str, call: str) -> str:
    """The last line of a program that fails."""
    program = folder / "program.py"
    program.write_text(f"import os, sys\nimport lwmq_spark as lwmq\n{before}\n{call}\n")
    ran = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    assert ran.returncode == 1, ran.stderr
    return ran.stderr.strip().splitlines()[-1]
