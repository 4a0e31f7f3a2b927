"""Where a reader begins: partitions and sequence numbers, as the library takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lwmq_spark import errors
from lwmq_spark._ffi import SLICE_S, ffi, lib
from lwmq_spark.arrow.endpoint import describe
from lwmq_spark.options import whole

PARTITION_MAX = (1 << 32) - 1
Start = Literal["earliest", "latest"] | int


def ranges_of(address: str, partitions: list[int] | None, start: Start | Mapping[int, Start] | None) -> Any:
    """The `lwmq_range` array for what was asked; None for everything from the earliest. ValueError."""
    if partitions is None and not isinstance(start, Mapping):
        partitions = _partitions_of(address, start)
    if isinstance(start, Mapping):
        if partitions is not None and set(partitions) != set(start):
            raise ValueError(f"partitions {sorted(partitions)} and start {sorted(start)} name different ones")
        wanted = dict(start)
    elif partitions is not None:
        wanted = dict.fromkeys(partitions, "earliest" if start is None else start)
    else:
        return None
    if not wanted:
        raise ValueError("no partition to read: partitions is empty")
    ranges = ffi.new("lwmq_range[]", len(wanted))
    for entry, (partition, first) in zip(ranges, wanted.items(), strict=True):
        entry.partition = whole("partition", partition, 0, PARTITION_MAX)
        entry.start = _seq(first)
        entry.end = lib.LWMQ_SEQ_END
    return ranges


def _partitions_of(address: str, start: Start | None) -> list[int] | None:
    """The partitions that `start` is meant for; None for all, from the earliest.

    A stream that is not there yet has its latest where it begins.
    """
    if start is None or start == "earliest":
        return None
    if start != "latest":
        raise ValueError(
            f"start={start!r} needs partitions=[...], or a start per partition: {{0: {start!r}}}"
        )
    try:
        return list(range(len(describe(address, timeout=SLICE_S).partitions)))
    except errors.TimeoutError:
        return None


def _seq(start: Start) -> int:
    if start == "earliest":
        return int(lib.LWMQ_SEQ_EARLIEST)
    if start == "latest":
        return int(lib.LWMQ_SEQ_LATEST)
    if isinstance(start, int) and not isinstance(start, bool) and 0 <= start < int(lib.LWMQ_SEQ_END):
        return start
    raise ValueError(f"start {start!r} is neither 'earliest', 'latest' nor a sequence number")
