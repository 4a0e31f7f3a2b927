"""On which processors the library's threads run."""

from __future__ import annotations

from collections.abc import Iterable

from lwmq_spark._ffi import check, lib


def set_service_affinity(processors: Iterable[int] = ()) -> None:
    """Tie the library's threads, also those to come, to `processors`, given by number.

    No processors: the threads run where the main thread may. ValueError: a processor does not exist, or is
    not allowed for this process; then nothing has changed.
    """
    numbers = list(processors)
    check(lib.lwmq_set_service_affinity(numbers, len(numbers)))
