"""Whether Spark, Java and the jar fit together, said before any job runs.

Each check returns a sentence that names what is wrong and the remedy, or None.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path

from lwmq_spark.errors import LwmqError, VersionError
from lwmq_spark.spark.jars import foreign, jar

SPARK = (4, 3)
JAVA = 17
NO_PYSPARK = "pyspark is not installed: pip install 'lwmq-spark[spark]'"


def pyspark_is_missing() -> bool:
    return importlib.util.find_spec("pyspark") is None


def check(user_jars: str | None = None) -> None:
    """VersionError with every sentence, if there is one. `user_jars`: the user's own `spark.jars`."""
    found = [pyspark_problem(), java_problem(), jar_problem(user_jars)]
    sentences = [sentence for sentence in found if sentence]
    if sentences:
        raise VersionError("; ".join(sentences))


def spark_problem(version: str) -> str | None:
    """Of a Spark that calls itself `version`."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) >= SPARK:
        return None
    wanted = ".".join(map(str, SPARK))
    return f"Spark is {version}, but lwmq needs {wanted} or later: pip install 'pyspark=={wanted}.*'"


def pyspark_problem() -> str | None:
    """Of the pyspark that Python imports."""
    if pyspark_is_missing():
        return NO_PYSPARK
    import pyspark

    return spark_problem(pyspark.__version__)


def java_problem() -> str | None:
    """Of the Java that pyspark will start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = f"install a JDK or JRE {JAVA} (Debian: openjdk-17-jre-headless), or point JAVA_HOME at one"
    if not java or not Path(java).exists():
        return f"no Java was found{f' under JAVA_HOME={home}' if home else ''}: {remedy}"
    version = _java_version(java)
    if version is None:
        return f"{java} does not say its version: {remedy}"
    if version < JAVA:
        return f"{java} is Java {version}, but Spark needs {JAVA} or later: {remedy}"
    return None


def jar_problem(user_jars: str | None = None) -> str | None:
    """Of our jar: there, for this machine, and the only one."""
    try:
        path = jar()
    except LwmqError as exc:
        return str(exc)
    other = foreign(user_jars)
    if other is not None:
        return f"spark.jars already has {other}, another lwmq jar than {path}: configure() adds the right one"
    machine = f"linux-{os.uname().machine}"
    if machine not in _machines(path, path.stat().st_mtime_ns):
        return f"{path} holds no native library for {machine}: reinstall lwmq-spark on this machine"
    return None


@cache
def _java_version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else None


@cache
def _machines(path: Path, changed_ns: int) -> frozenset[str]:
    """The machines that the jar has native libraries for. `changed_ns`: a new jar is looked at anew."""
    with zipfile.ZipFile(path) as archive:
        names = [Path(name) for name in archive.namelist() if name.endswith("/liblwmq.so")]
    return frozenset(name.parent.name for name in names)
