"""The threads of the library: few, started once, and placed where the program wants them."""

from __future__ import annotations

from collections.abc import Iterable

from lwmq_spark._ffi import check, lib


def set_service_affinity(processors: Iterable[int] = ()) -> None:
    """Ties them to `processors`, those that run and those to come; none: where the main thread may run.

    ValueError: one of them is not there, or not allowed for this process; nothing has changed then.
    """
    numbers = list(processors)
    check(lib.lwmq_set_service_affinity(numbers, len(numbers)))
