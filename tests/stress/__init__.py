"""Processes that are killed and stopped, at named points of the shared-memory protocol and at random times.

`python -m tests.stress --kills 10000` runs a loop of it; the tests of this folder run some rounds each.
"""
