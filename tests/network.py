"""Addresses of tests that go over a network."""

from __future__ import annotations

import os

KEY = "5ec2e7" * 8  # of the tests' pre-shared key


def loopback(scheme: str = "tcp") -> str:
    """Where an address of `scheme` (tcp, tcps) begins: before its port.

    With LWMQ_TEST_VSOCK in the environment, as in the lab, it is one of vsock in the place of TCP, and with
    LWMQ_TEST_RDMA one of RDMA, which has no tcps.
    """
    if "LWMQ_TEST_RDMA" in os.environ:
        return "rdma://localhost:"
    if "LWMQ_TEST_VSOCK" in os.environ:
        return scheme.replace("tcp", "vsock") + "://1:"
    return f"{scheme}://127.0.0.1:"
