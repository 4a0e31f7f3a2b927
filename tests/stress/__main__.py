"""`python -m tests.stress --kills 10000 [--seed S] [--first N] [--queues]`: rounds with a death in each."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

from . import oracle, players, rounds
from .case import draw, draw_channel_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--go-on", action="store_true", help="do not end with the first failure")
    parser.add_argument(
        "--queues", action="store_true", help="of channels and listeners, all kinds of queues"
    )
    options = parser.parse_args()
    players.must_be_built(players.DRIVER)
    players.become_reaper()
    began, failures = time.monotonic(), 0
    for number in range(options.first, options.first + options.kills):
        rng = random.Random(f"{options.seed}-{number}")
        case = draw_channel_case(rng, number) if options.queues else draw(rng, number)
        try:
            rounds.run(case)
        except oracle.Broken as error:
            failures += 1
            again = rounds.again(options.seed, number, options.queues)
            print(f"round {number}: {error}\nagain: {again}", flush=True)
            if not options.go_on:
                return 1
    noticed = sorted(oracle.noticed_ms)
    times = "no death was to be noticed"
    if noticed:
        times = (
            f"a death was noticed after {statistics.median(noticed):.2f} ms, p99 "
            f"{noticed[len(noticed) * 99 // 100]:.1f} ms, at most {noticed[-1]:.1f} ms ({len(noticed)} times)"
        )
    print(
        f"{options.kills} rounds from {options.first}, seed {options.seed}: {failures} failures in "
        f"{time.monotonic() - began:.0f} s; {times}"
    )
    return 1 if failures else 0


sys.exit(main())
