"""The threads of the library: few, started once, and placed where the program wants them."""

from __future__ import annotations

from collections.abc import Iterable

from lwmq_spark._ffi import check, lib


def set_service_affinity(processors: Iterable[int] = ()) -> None:
    """Ties them to `processors`, those that run and those to come; none: where the main thread may run.

    LwmqError: no such processor, or none of them is allowed for this process.
    """
    numbers = list(processors)
    check(lib.lwmq_set_service_affinity(numbers, len(numbers)))
