"""Which pages an Arrow batch lies in: the proof that nothing was copied asks the kernel, not the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def mappings(word: str, *, writable: bool) -> list[tuple[int, int]]:
    """Address ranges here that are shared and of a file whose name has `word` in it.

    Those that this process may write to count only if `writable`.
    """
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        fields = line.split(maxsplit=5)
        if (
            len(fields) == 6
            and word in fields[5]
            and fields[1][3] == "s"
            and (writable or fields[1][1] == "-")
        ):
            low, high = fields[0].split("-")
            found.append((int(low, 16), int(high, 16)))
    return _joined(sorted(found))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def addresses_of(batch: Any) -> Iterator[tuple[int, int]]:
    """(address, bytes) of every buffer of a batch, nested ones included."""
    for column in batch.columns:
        for buffer in column.buffers():
            if buffer is not None and buffer.size:
                yield buffer.address, buffer.size
