"""Readers and writers in another network namespace, where ipc://name means another name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lwmq_spark as lwmq
from lwmq_spark.arrow import Endpoint
from tests.namespaces import Namespace, why_not

ROOT = Path(__file__).resolve().parents[2]
TABLE = pa.table({"k": range(100)})

PROGRAM = """
import sys
import pyarrow as pa
import lwmq_spark as lwmq
from lwmq_spark.arrow import describe

address, what, timeout = *sys.argv[1:3], float(sys.argv[3])
schema = pa.schema([("k", pa.int64())])
try:
    if what == "reader":
        with lwmq.open_reader(address, role="client", timeout=timeout) as reader:
            print(reader.read_all().num_rows)
    elif what == "reader that binds":
        lwmq.open_reader(address, timeout=timeout).schema
    elif what == "writer":
        lwmq.open_writer(address, schema, role="client", timeout=timeout)
    else:
        describe(address, timeout)
except lwmq.LwmqError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Namespace]:
    if reason := why_not():
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.close()


def run(elsewhere: Namespace, address: str, what: str) -> str:
    done = subprocess.run(
        elsewhere.command(sys.executable, "-c", PROGRAM, address, what, "1"),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("what", ["reader", "reader that binds", "writer", "describe"])
def test_who_waits_in_vain_is_told_of_the_other_network_namespace(elsewhere: Namespace, what: str) -> None:
    address = f"ipc://elsewhere-{os.getpid()}-{what.replace(' ', '-')}"
    with Endpoint(address, linger=0):
        said = run(elsewhere, address, what)
    ours = Path("/proc/self/ns/net").stat().st_ino
    assert said.startswith("TimeoutError ") and address in said
    assert f"process {os.getpid()} of this host serves it in network namespace {ours}" in said
    assert f"this process is in {elsewhere.id}" in said
    assert "use an address that is a path" in said


def test_a_path_crosses_network_namespaces(elsewhere: Namespace, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/crosses"
    with Endpoint(address, linger=0):
        with lwmq.open_writer(address, TABLE.schema, role="client", linger=60.0) as writer:
            writer.write(TABLE)
            done = subprocess.Popen(
                elsewhere.command(sys.executable, "-c", PROGRAM, address, "reader", "60"),
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert done.communicate(timeout=60)[0] == "100\n"
