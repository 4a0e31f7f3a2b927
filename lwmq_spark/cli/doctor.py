"""`lwmq doctor`: whether everything is in place, and for what is not, what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lwmq_spark.cli import _limits
from lwmq_spark.cli._limits import Finding
from lwmq_spark.cli._output import JsonOption, console, emit
from lwmq_spark.meter import human

_MARKS = {"ok": "[green]ok  [/green]", "warn": "[yellow]warn[/yellow]", "fail": "[red]fail[/red]"}
_KERNEL_WITH_FUTEX_WAITV = (5, 16)


def run(
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start a session and move rows through it.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Check the installation, this machine and, with --spark, a session. Ends with 1 if something fails.

    \b
    Examples:
      lwmq doctor
      lwmq doctor --spark
      lwmq doctor --json
    """
    failed = False
    for check in [*_CHECKS, *([_session] if spark else [])]:
        try:
            finding = check()
        except Exception as problem:
            finding = Finding(
                check.__name__.strip("_"),
                "fail",
                f"{type(problem).__name__}: {problem}",
                "if the text does not help, report it together with the output of `lwmq info --json`",
            )
        failed |= finding.state == "fail"
        if json:
            emit(**asdict(finding))
        else:
            console.print(f"{_MARKS[finding.state]} [bold]{finding.what}[/bold]: ", end="", markup=True)
            console.print(finding.text)
            if finding.advice and finding.state != "ok":
                console.print(f"     → {finding.advice}")
    if not json:
        from lwmq_spark.cli.info import CONF

        console.print(f"What each error means, and the way out: {CONF / 'ERRORS.md'}")
    return int(failed)


def _python() -> Finding:
    return Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _library() -> Finding:
    from lwmq_spark.cli.info import library

    found = library()
    text = f"{found['library']}, protocol {found['protocol']}, providers {', '.join(found['providers'])}"
    if "ipc" not in found["providers"]:
        return Finding("native library", "fail", text, "the build lost its providers: reinstall the wheel")
    return Finding("native library", "ok", text)


def _kernel() -> Finding:
    release = os.uname().release
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if numbers < _KERNEL_WITH_FUTEX_WAITV:
        return Finding(
            "kernel", "warn", release, "before 5.16 waiting takes one system call more; works all the same"
        )
    return Finding("kernel", "ok", release)


def _transfer() -> Finding:
    """A table through shared memory, from a writer to a reader of this process."""
    import pyarrow as pa

    import lwmq_spark as lwmq

    address = f"ipc://lwmq-doctor-{os.getpid()}"
    table = pa.table({"n": pa.array(range(1000), pa.int64())})

    def read() -> bool:
        with lwmq.open_reader(address, timeout=5.0) as reader:
            return bool(reader.read_all().equals(table))

    with ThreadPoolExecutor(1) as reading:
        with lwmq.open_writer(address, table.schema, linger=5.0) as writer:
            same = reading.submit(read)
            writer.write(table)
        arrived = same.result()
    if not arrived:
        return Finding(
            "shared memory", "fail", "a batch did not come back as it went", "report this as a bug"
        )
    return Finding("shared memory", "ok", "1,000 rows there and back over ipc://")


def _pyarrow() -> Finding:
    import pyarrow as pa

    return Finding("pyarrow", "ok", pa.__version__)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = "install a JDK or JRE 17 (Debian: openjdk-17-jre-headless), or point JAVA_HOME at one"
    if not java or not Path(java).exists():
        return Finding("java", "warn", f"not found{f' under JAVA_HOME={home}' if home else ''}", advice)
    answer = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=30, check=False
    ).stderr
    version = answer.split('"')[1] if '"' in answer else ""
    if not version.partition(".")[0].isdigit():
        return Finding("java", "fail", f"{java} does not say its version: {answer.strip()[:200]}", advice)
    if int(version.partition(".")[0]) < 17:
        return Finding("java", "fail", f"{version} at {java}", f"Spark 4 wants 17 or later: {advice}")
    return Finding("java", "ok", f"{version} at {java}")


def _pyspark() -> Finding:
    try:
        import pyspark
    except ImportError:
        return Finding(
            "pyspark", "warn", "not installed", "pip install 'lwmq-spark[spark]', if you want Spark"
        )
    version = pyspark.__version__
    if not version.startswith("4.3."):
        return Finding("pyspark", "warn", version, "tested with 4.3")
    home = os.environ.get("SPARK_HOME")
    if home and Path(home).resolve() != Path(pyspark.__file__).resolve().parent:
        return Finding(
            "pyspark", "warn", f"{version}, but SPARK_HOME={home}", "unset SPARK_HOME, or be sure it is 4.3"
        )
    return Finding("pyspark", "ok", version)


def _jar() -> Finding:
    """The jar is there, and carries the native core that Python loads."""
    import zipfile

    import lwmq_spark

    package = Path(lwmq_spark.__file__).parent
    jar = package / "_jars" / "lwmq-spark.jar"
    if not jar.exists():
        return Finding(
            "jar", "fail", f"{jar} is missing", "reinstall with a JDK 17 at hand (in a checkout: make dev)"
        )
    with zipfile.ZipFile(jar) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    machine = f"linux-{os.uname().machine}"
    if not any(f"/{machine}/" in name for name in libraries):
        return Finding("jar", "fail", f"holds no library for {machine}", "reinstall on this machine")
    return Finding("jar", "ok", f"{jar.name}, {human(jar.stat().st_size, 'B')}, with libraries for {machine}")


def _session() -> Finding:
    import lwmq_spark as lwmq

    address = f"ipc://lwmq-doctor-spark-{os.getpid()}"
    session = lwmq.session("lwmq doctor", master="local[1]")
    try:
        with lwmq.open_reader(address, timeout=60.0) as reader:
            session.range(1000).write.format("lwmq").mode("append").save(address)
            rows = sum(batch.num_rows for batch in reader)
    finally:
        session.stop()
    text = f"{rows:,} of 1,000 rows written by Spark {session.version} arrived"
    if rows != 1000:
        return Finding("spark session", "fail", text, "report this as a bug, with the log of the session")
    return Finding("spark session", "ok", text)


_CHECKS: list[Callable[[], Finding]] = [
    _python,
    _library,
    _kernel,
    _limits.memory,
    _limits.cgroup,
    _limits.descriptors,
    _limits.address_space,
    _limits.namespaces,
    _pyarrow,
    _transfer,
    _java,
    _pyspark,
    _jar,
]
