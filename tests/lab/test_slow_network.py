"""tcp:// and tcps:// over round trips of 300 ms that lose and reorder packets: the loopback of a guest."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.lab.guests import OLD, run_in_guest
from tests.lab.jobs import NATIVE_TESTS

NETWORK = "tc qdisc add dev lo root netem delay 150ms 15ms loss 1% reorder 5%"
_ENDS_AND_ORDER = [
    "BringsExtents", "Holds512Buffers", "DeliversWhat", "WakesWho", "SaysWhoThePeerIs",
]  # fmt: skip
TESTS = {
    "conformance.transport_test": ":".join(f"*{name}*/tcp:*{name}*/tcps" for name in _ENDS_AND_ORDER),
    "providers.tcps_test": "Tcps.Takes*:Tcps.Refuses*:TcpsCertificates.ProveBothEnds*",
    "stream.carrier_test": "*",
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", TESTS)
def test_over_a_slow_network(tmp_path: Path, program: str) -> None:
    run = shlex.join([f"{NATIVE_TESTS}/{program}", f"--gtest_filter={TESTS[program]}"])
    status = run_in_guest(tmp_path, OLD, ["bash", "-c", f"{NETWORK} && ping -c 2 127.0.0.1; exec {run}"])
    output = (tmp_path / "output").read_text()
    assert status == 0, output[-8000:]
    assert "[  PASSED  ]" in output
