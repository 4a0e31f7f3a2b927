"""`lwmq doctor` under limits: what is too little is named, with what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lwmq_spark.cli import _limits
from lwmq_spark.cli._limits import Finding

pytestmark = pytest.mark.row("P34")
MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A /proc and a /sys/fs/cgroup of our own making, with 8 GiB and no limits."""
    put(tmp_path, "proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {8 << 20} kB\n")
    put(tmp_path, "proc/self/cgroup", "0::/pod/container\n")
    put(tmp_path, "cgroup/pod/container/memory.max", "max\n")
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def memory(machine: Path) -> Finding:
    return _limits.memory(machine / "proc")


def cgroup(machine: Path) -> Finding:
    return _limits.cgroup(machine / "proc", machine / "cgroup")


def test_without_limits_everything_is_in_order(machine: Path) -> None:
    assert memory(machine).state == "ok"
    assert cgroup(machine).state == "ok"


@pytest.mark.parametrize(("free", "state"), [(1024, "ok"), (200, "warn"), (1, "fail")])
def test_the_tightest_group_counts_and_is_named(machine: Path, free: int, state: str) -> None:
    put(machine, "cgroup/pod/memory.max", f"{2048 * MIB}\n")
    put(machine, "cgroup/pod/memory.current", f"{(2048 - free + 100) * MIB}\n")
    put(machine, "cgroup/pod/memory.stat", f"anon 1\ninactive_file {100 * MIB}\n")
    finding = cgroup(machine)
    assert finding.state == state
    assert "pod/memory.max" in finding.text
    assert (finding.advice == "") == (state == "ok")


def test_the_first_version_of_groups_is_known(machine: Path) -> None:
    put(machine, "proc/self/cgroup", "3:cpu:/a\n5:memory:/a\n0::/\n")
    put(machine, "cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    put(machine, "cgroup/memory/memory.usage_in_bytes", "1\n")
    put(machine, "cgroup/memory/memory.stat", "total_inactive_file 0\n")
    put(machine, "cgroup/memory/a/memory.limit_in_bytes", f"{512 * MIB}\n")
    put(machine, "cgroup/memory/a/memory.usage_in_bytes", f"{400 * MIB}\n")
    put(machine, "cgroup/memory/a/memory.stat", "total_inactive_file 0\n")
    finding = cgroup(machine)
    assert finding.state == "warn"
    assert "117 MB of 537 MB" in finding.text


def test_little_memory_is_a_warning_with_a_way_out(machine: Path) -> None:
    put(machine, "proc/meminfo", f"MemAvailable: {100 << 10} kB\n")
    assert memory(machine).state == "warn"
    assert "window_bytes" in memory(machine).advice


def test_a_mapped_user_namespace_is_named(tmp_path: Path) -> None:
    put(tmp_path, "self/uid_map", "0 1000 1\n")
    (tmp_path / "self/ns").mkdir()
    (tmp_path / "self/ns/net").symlink_to("net:[4026531833]")
    finding = _limits.namespaces(tmp_path)
    assert (finding.state, "net:[4026531833]" in finding.text) == ("warn", True)
    assert "user namespace" in finding.advice


def doctor(*before: str, **environment: str) -> dict[str, dict[str, str]]:
    """Findings by what they are about, of a process started behind `before`."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "lwmq_spark.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [finding for finding in findings if finding["state"] == "fail"]
    assert done.returncode == bool(failed), done.stderr
    for finding in findings:
        assert finding["state"] == "ok" or finding["advice"], f"what is to be done? {finding}"
    return {finding["what"]: finding for finding in findings}


def test_limits_of_a_shell_and_a_java_that_is_none_are_named(tmp_path: Path) -> None:
    """Each failing check says what to do; all that can be looked at is looked at all the same."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho what >&2\n")
    java.chmod(0o755)
    prlimit = shutil.which("prlimit")
    assert prlimit is not None, "util-linux has prlimit"
    found = doctor(prlimit, "--nofile=64", f"--as={64 << 30}", JAVA_HOME=str(tmp_path))
    assert found["descriptors"]["state"] == "fail"
    assert "ulimit -n" in found["descriptors"]["advice"]
    assert "of 64 open" in found["descriptors"]["text"]
    assert found["address space"]["state"] == "warn"
    assert "ulimit -v unlimited" in found["address space"]["advice"]
    assert found["java"]["state"] == "fail"
    assert "JAVA_HOME" in found["java"]["advice"]
    assert found["jar"]["state"] == "ok"


@pytest.mark.row("M14")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network namespace")
def test_another_network_namespace_is_named() -> None:
    here, there = doctor(), doctor("unshare", "--net")
    assert there["shared memory"]["state"] == "ok"
    assert (here["network"]["state"], there["network"]["state"]) == ("ok", "warn")
    assert "loopback" in there["network"]["advice"]
    assert here["namespaces"]["text"] != there["namespaces"]["text"]


@pytest.mark.parametrize(
    "name", ["DataLossError", "LWMQ_DATA_LOSS", "LWMQ_E_DATA_LOSS", "LWMQ_DATA_LOSS: 7 of ipc://x"]
)
def test_an_error_is_explained_by_any_of_its_names(name: str) -> None:
    told = subprocess.check_output([sys.executable, "-m", "lwmq_spark.cli", "doctor", name], text=True)
    assert told.startswith("DataLossError\n\nCause: ")
    assert "Remedy: " in told


def test_an_error_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    command = [sys.executable, "-m", "lwmq_spark.cli", "doctor", "DateLossError"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "DataLossError" in done.stderr
