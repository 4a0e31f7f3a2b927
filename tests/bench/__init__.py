"""Figures: ours, the best peers' and the physical limit, taken in one run on one machine.

    make bench                               everything; JSON in build/bench/, a table on the terminal
    make bench BENCH="--only native wake"    parts of it: native, large, handed, posts, channels, beside,
                                             wake, threads, shares, cores, python, apart, delegation,
                                             arrow, spark
    make bench BENCH="--rounds 5"

The hypervisor of a virtual machine may move its cores, which changes everything by a factor of four and more.
So a bare cache-line ping-pong runs before and after each measurement; figures are kept only where both agree
on the state of the machine (smt, near, far), and are compared only within one state.

A rival that is not installed is left out, with a line that says so; `.ci/setup rivals` installs what it can.
"""
