"""What runs in the lab: native tests over vsock and RDMA. Only the address differs from those over TCP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NATIVE_TESTS = ROOT / "build" / "dev" / "tests"

_CONFORMANCE = [
    "call_back", "channel", "close", "listener", "loan", "notice", "one_way", "peer", "raw", "requests",
    "router", "send_queue", "tear_down", "transport",
]  # fmt: skip
# Too slow for every day while software emulates the processor.
_ONLY_IN_FULL = [
    "MovesABlobOfAnySize", "MovesABufferOfManyMegabytes", "InAnyOrderLeaksNothing",
    "RunsManyChannelsSideBySide", "BringsEverything", "Certificates",
    "WhatWasShownBeforeACloseComesWhole", "StandsACrowd",
]  # fmt: skip
# They expect that bytes have arrived when the call that sends them returns, which holds for TCP on loopback;
# or that a processor is faster than an emulated one.
_ONLY_OVER_TCP = [
    "TcpAddress", "StandsACrowd/tcps", "TimesAreOverInTheirOrder", "ASelectorServesChannelsInTurns",
    "WhatASelectorHasWaitedForIsTakenInTurns", "SaysItsLastFiguresBehindAClose",
    "HoldsNothingBack", "FreesABufferWhoseExtentsWereReleased", "FreesABufferOfRuns",
    "ASelectorLetsAChannelThatWasSilentJoin",
]  # fmt: skip


# An emulated processor is too slow for hundreds of queue pairs at once.
_NOT_OVER_RDMA = [*_ONLY_OVER_TCP, "StandsACrowd", "ByUring", "LeaveNothing"]
_EVERY_DAY_OVER = {
    "rxe": ["conformance.transport_test", "conformance.channel_test", "providers.rdma_test",
            "stream.carrier_test"],
    "siw": ["conformance.transport_test", "providers.rdma_test"],
}  # fmt: skip


class Place(NamedTuple):
    """A network of the guest."""

    name: str
    environment: dict[str, str]
    device: str = "/"  # exists where the guest has the network


VSOCK = Place("vsock", {"LWMQ_TEST_VSOCK": "1"})
ROCE = Place(
    "rxe", {"LWMQ_TEST_RDMA": "10.77.0.1", "LWMQ_TEST_RDMA_TOO": "10.77.1.1"}, "/sys/class/infiniband/rxe0"
)
# Within one host, connections of soft-iWARP go by the loopback interface, and those of soft-RoCE by none that
# could be cut.
IWARP = Place(
    "siw",
    {
        "LWMQ_TEST_RDMA": "10.77.1.1",
        "LWMQ_TEST_RDMA_CUT": "tc qdisc add dev lo root netem loss 100%",
        "LWMQ_TEST_RDMA_MEND": "tc qdisc del dev lo root",
    },
    "/sys/class/infiniband/siw0",
)
PLACES = {place.name: place for place in (VSOCK, ROCE, IWARP)}


class Job(NamedTuple):
    """One test of one program in one place."""

    program: str
    test: str  # as the program knows it; empty: the program is not built, so nobody knows its tests
    everyday: bool
    place: str = VSOCK.name

    @property
    def output(self) -> str:
        return f"{self.place}.{self.program}"

    @property
    def environment(self) -> dict[str, str]:
        environment = PLACES[self.place].environment
        if self.place == VSOCK.name or self.program != "stream.carrier_test":
            return environment
        return {**environment, "LWMQ_TEST_RDMA": "localhost"}  # its addresses take no settings: auth=none

    def __str__(self) -> str:
        return f"{self.output}-{self.test}"


def native_jobs() -> Iterator[Job]:
    conformance = [f"conformance.{name}_test" for name in _CONFORMANCE]
    sockets = ["providers.vsock_test", "providers.tcp_test", "providers.tcps_test", "stream.carrier_test"]
    for program in [*conformance, *sockets]:
        for test in list_tests(program, "*/tcp:*/tcps" if program in conformance else "*"):
            if not any(part in test for part in _ONLY_OVER_TCP):
                everyday = not test.endswith("/tcps") and not any(part in test for part in _ONLY_IN_FULL)
                yield Job(program, test, everyday)
    for place, programs in _EVERY_DAY_OVER.items():
        for program in [*conformance, "providers.rdma_test", "stream.carrier_test"]:
            for test in list_tests(program, "*/tcp" if program in conformance else "*"):
                if not any(part in test for part in _NOT_OVER_RDMA):
                    everyday = program in programs and not any(part in test for part in _ONLY_IN_FULL)
                    yield Job(program, test, everyday, place)


def list_tests(program: str, matching: str) -> list[str]:
    """The tests of a program of GoogleTest."""
    path = NATIVE_TESTS / program
    if not path.exists():
        return [""]
    command = [path, "--gtest_list_tests", f"--gtest_filter={matching}"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    suite, found = "", []
    for line in listed.splitlines():
        name = line.partition("#")[0].rstrip()
        if not name.startswith(" "):
            suite = name
        else:
            found.append(suite + name.strip())
    return found
