"""vsock://, vsocks:// and rdma:// where a kernel has devices for them: the suites of tcp, in a guest.

One guest runs all tests that were selected (beside.py); what is here waits for the outcome of each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.lab.beside import read, wait_for_guest
from tests.lab.guests import NEW, OLD, run_in_guest
from tests.lab.jobs import IWARP, NATIVE_TESTS, ROCE, VSOCK, Job, Place, native_jobs


@pytest.fixture(scope="module", params=[OLD, pytest.param(NEW, marks=pytest.mark.slow)])
def outputs(request: pytest.FixtureRequest, lab: Path) -> dict[str, str]:
    """What each program has printed in the guest, where it ran the tests that this session has selected."""
    wait_for_guest(lab / request.param)
    return {path.stem: read(path) for path in (lab / request.param).glob("*.txt")}


def _of(*places: str) -> list[ParameterSet]:
    return [
        pytest.param(job, marks=[] if job.everyday else pytest.mark.slow)
        for job in native_jobs()
        if job.place in places
    ]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("job", _of("vsock"), ids=str)
def test_over_vsock(outputs: dict[str, str], job: Job) -> None:
    _check(outputs, job)


@pytest.mark.row("M08", "M09", "M10", "M11")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("job", _of("rxe", "siw"), ids=str)
def test_over_rdma(outputs: dict[str, str], job: Job) -> None:
    _check(outputs, job)


def _check(outputs: dict[str, str], job: Job) -> None:
    assert job.test, f"{job.program} is not built: make native-test"
    output = outputs.get(job.output, "the guest did not come to this program")
    if output.startswith("not run: "):
        pytest.skip(output.strip())
    name = re.escape(job.test)
    each = rf"^\[ RUN      \] {name}\n(.*?)^\[ +(OK|FAILED|SKIPPED) +\] {name}\b"
    found = next(reversed([*re.finditer(each, output, re.M | re.S)]), None)
    assert found, f"{job.program} ended before the end of {job.test}:\n{output[-4000:]}"
    if found[2] == "SKIPPED":
        pytest.skip(found[1].strip().rpartition("\n")[2])
    assert found[2] == "OK", found[1]


PYTEST = [sys.executable, "-m", "pytest", "-q", "-n0"]


def _pass(folder: Path, command: list[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """What the command prints in a guest of its own, where it succeeds."""
    status = run_in_guest(folder, OLD, command, environment)
    output = (folder / "output").read_text()
    assert status == 0, output[-8000:]
    return output


# Channels, requests, a killed server and keys; a stream that is served at ipc:// and vsock:// at once.
PYTHON = [
    "test_tcp.py::test_messages_of_any_length_come_back_in_order[tcp]",
    "test_tcp.py::test_requests_are_answered[tcp]",
    "test_tcp.py::test_the_death_of_the_server_is_told_and_the_next_one_is_found",
    "test_tcp.py::test_a_key_that_is_not_the_listeners_is_refused_with_a_text",
    "test_network_streams.py::test_an_endpoint_serves_this_host_and_a_network_at_once",
    "test_network_streams.py::test_a_client_on_the_same_host_maps_the_windows_of_the_writer",
    "test_network_streams.py::test_streams_are_encrypted_with_a_shared_key",
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_python_over_vsock(tmp_path: Path) -> None:
    _pass(tmp_path, [*PYTEST, *(f"tests/python/{test}" for test in PYTHON)], VSOCK.environment)


@pytest.mark.row("L04", "M13")
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_guest_without_a_network_card_reaches_its_host(tmp_path: Path) -> None:
    """The host is the guest of the lab, because this machine may lack the module vhost_vsock."""
    _pass(tmp_path, ["bash", "tests/lab/host_and_guest.sh"], VSOCK.environment)
    assert (tmp_path / "host_said").read_text() == "serves\nhello from process 0\n", "0: of another machine"
    assert (tmp_path / "guest_said").read_text() == "said hello\n"


# The same over RDMA; a stream that is served at ipc:// and rdma:// at once.
OVER_RDMA = [
    "test_tcp.py::test_messages_of_any_length_come_back_in_order[tcp]",
    "test_tcp.py::test_requests_are_answered[tcp]",
    "test_tcp.py::test_the_death_of_the_server_is_told_and_the_next_one_is_found[epoll]",
    "test_network_streams.py::test_an_endpoint_serves_this_host_and_a_network_at_once",
    "test_network_streams.py::test_a_client_on_the_same_host_maps_the_windows_of_the_writer",
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_python_over_rdma(tmp_path: Path) -> None:
    tests = [f"tests/python/{test}" for test in OVER_RDMA]
    _pass(tmp_path, [*PYTEST, *tests], {"LWMQ_TEST_RDMA": "localhost"})


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", [ROCE, IWARP], ids=["rxe", "siw"])
def test_a_thousand_connections_leave_nothing(tmp_path: Path, place: Place) -> None:
    run = [NATIVE_TESTS / "providers.rdma_test", "--gtest_filter=*LeaveNothing"]
    assert "[  PASSED  ] 2 tests" in _pass(tmp_path, run, place.environment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hosts_exchange_messages_and_a_stream_until_one_vanishes(tmp_path: Path) -> None:
    folders = {role: tmp_path / role for role in ("serves", "connects")}
    for folder in folders.values():
        folder.mkdir()

    def run(role: str) -> str:
        host = {"LAB_WIRE": str(tmp_path), "LAB_HOST": "1" if role == "serves" else "2", "LAB_MEMORY": "2G"}
        return _pass(folders[role], [sys.executable, "-m", "tests.lab.two_hosts", role], host)

    with ThreadPoolExecutor(2) as hosts:
        serving, connecting = hosts.map(run, folders)
    assert "read 40000" in connecting
    assert re.search("^lost: .*at 10.77.0.2:.* gives no sign of life", serving, re.M), serving


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_peer_of_other_making_talks_to_the_provider_and_a_hostile_one_is_told_of(tmp_path: Path) -> None:
    if not Path("/usr/lib/python3/dist-packages/pyverbs").exists():
        pytest.skip("not run: python3-pyverbs is missing")
    _pass(tmp_path, [*PYTEST, "tests/lab/rdma_peer_cases.py"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_spark_job_reads_and_writes_over_rdma(tmp_path: Path) -> None:
    _pass(tmp_path, [sys.executable, "-m", "tests.lab.spark_over_rdma"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_figures_stand_beside_those_of_perftest(tmp_path: Path) -> None:
    output = _pass(tmp_path, ["bash", "tests/lab/rdma_figures.sh"])
    print(output)
    assert output.count("one-way latency") == 2, output
