"""Runs the Java tests (JUnit 5, from Debian's junit5 package) in one JVM, one test of this suite per class.
Reports go to build/reports/jvm, where tests/rows.py finds them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests import class_archive

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).parent
CLASSES = ROOT / "build" / "dev" / "java-tests"
OUTPUT = ROOT / "build" / "reports" / "jvm"
DEBIAN_JARS = Path("/usr/share/java")
JUNIT = [
    "junit-platform-console",
    "junit-platform-launcher",
    "junit-platform-reporting",
    "junit-platform-engine",
    "junit-platform-commons",
    "junit-jupiter-api",
    "junit-jupiter-engine",
    "junit-jupiter-params",
    "opentest4j",
    "opentest4j-reporting-events",
    "opentest4j-reporting-schema",
    "apiguardian-api",
    "picocli",
    "univocity-parsers",
]
# What Spark's own launcher opens for Java 17.
OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.lang.invoke",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "sun.nio.ch",
        "sun.nio.cs",
        "sun.security.action",
    )
]
TEST_SOURCES = sorted(SOURCES.rglob("*.java"))
TEST_CLASSES = [source for source in TEST_SOURCES if source.stem.endswith("Test")]


def _class_name(source: Path) -> str:
    package = re.search(r"^package ([\w.]+);", source.read_text(encoding="utf-8"), re.MULTILINE)
    return f"{package[1]}.{source.stem}" if package else source.stem


def _class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    jars = [str(DEBIAN_JARS / f"{name}.jar") for name in JUNIT]
    return ":".join(
        [*jars, str(ROOT / "build" / "dev" / "lwmq-spark.jar"), str(Path(spec.origin).parent / "jars" / "*")]
    )


@pytest.fixture(scope="module")
def java_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Failures per test class, and the key itself for each class that ran."""
    assert (DEBIAN_JARS / "junit-jupiter-api.jar").exists(), "JUnit is missing: .ci/setup system"
    assert CLASSES.exists(), f"{CLASSES} is not built: make test-build"
    class_path = f"{CLASSES}:{_class_path()}"
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    modules = tmp_path_factory.mktemp("modules")
    (modules / "unsigned.so").write_bytes(b"of nobody's")  # for ModulesTest
    subprocess.run(
        [
            "java",
            "-ea",
            "-Xmx1g",
            *class_archive.JVM,
            *OPENED,
            "-cp",
            class_path,
            "org.junit.platform.console.ConsoleLauncher",
            "--scan-classpath",
            str(CLASSES),
            "--disable-banner",
            "--details=none",
            f"--reports-dir={OUTPUT}",
        ],
        check=False,
        timeout=1800,
        env={**os.environ, "LWMQ_MODULE_PATH": str(modules)},
    )
    results: dict[str, list[str]] = {}
    for report in OUTPUT.glob("TEST-*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            failures = results.setdefault(case.get("classname", ""), [])
            failures += [
                f"{case.get('name')}: {problem.get('message') or (problem.text or '')[:2000]}"
                for problem in [*case.findall("failure"), *case.findall("error")]
            ]
    return results


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("source", TEST_CLASSES, ids=[source.stem for source in TEST_CLASSES])
def test_java_class_passes(source: Path, java_results: dict[str, list[str]]) -> None:
    name = _class_name(source)
    ran = {key: value for key, value in java_results.items() if key == name or key.startswith(name + "$")}
    assert ran, f"no test of {name} ran"
    failures = [failure for value in ran.values() for failure in value]
    assert not failures, "\n".join(failures)
