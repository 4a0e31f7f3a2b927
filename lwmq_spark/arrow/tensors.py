"""Columns for NumPy, torch and JAX, by DLPack.

    numpy.from_dlpack(tensor(batch["price"]))                   # no copy: the window, read-only
    torch.from_dlpack(tensor(batch["price"], writable=True))    # a private copy: torch may write to it

Batches lie in memory that is mapped read-only, and a write to it ends the process. A consumer that asks for
DLPack 1.0 hears that the memory is read-only and gets it where it lies. Any other consumer gets a private
copy, which `copied` counts. A consumer that asks for 1.0 and ignores the flag, as torch does, needs
`writable=True`, which always copies.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_lock = threading.Lock()
_copied = {"columns": 0, "bytes": 0}


def tensor(column: pa.Array | pa.ChunkedArray, *, writable: bool = False) -> Tensor:
    """A column as an object with `__dlpack__`. It keeps the memory of the column.

    column: numbers without nulls, which give the shape (rows,), or lists of n numbers each: (rows, n).
    writable: hand out a private copy that may be written to.
    TypeError: the values are not numbers. ValueError: nulls, lists of different lengths, several chunks.
    """
    return Tensor(column, writable=writable)


def copied() -> dict[str, int]:
    """How many `columns` and `bytes` this process has copied for consumers of DLPack."""
    with _lock:
        return dict(_copied)


class Tensor:
    """A column that DLPack consumers can take: shape (rows,), or (rows, n) for lists of n numbers."""

    __slots__ = ("_values", "_writable")

    def __init__(self, column: pa.Array | pa.ChunkedArray, *, writable: bool = False) -> None:
        self._values = _values(column)
        self._writable = writable

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. BufferError: a device other than the CPU; `copy=False` where a copy is needed."""
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"columns lie in the memory of the CPU, not of device {dl_device}")
        knows_read_only = max_version is not None and max_version >= (1, 0)
        needs_copy = self._writable or not knows_read_only
        if copy is False and needs_copy:
            raise BufferError("the memory is read-only, and this consumer needs a copy of its own")
        values = self._values
        if needs_copy or copy:
            values = values.copy()
            with _lock:
                _copied["columns"] += 1
                _copied["bytes"] += values.nbytes
        return values.__dlpack__(max_version=max_version) if knows_read_only else values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        kind = "writable copies" if self._writable else "read-only"
        return f"<Tensor {self._values.dtype} {self._values.shape}, {kind}>"


def _values(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values over the column's own memory."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            raise ValueError(
                f"a column of {column.num_chunks} chunks is no tensor: combine_chunks() makes it one"
            )
        column = column.chunk(0)
    if column.null_count:
        raise ValueError(f"a column with {column.null_count} nulls is no tensor: fill_null() first")
    kind, shape = column.type, [len(column)]
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        shape.append(_list_size(column))
        column = column.flatten()
        kind = column.type
        if column.null_count:
            raise ValueError(f"a column whose lists hold {column.null_count} nulls is no tensor")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise TypeError(f"a column of {kind} is no tensor: integers and floating-point numbers are")
    values: npt.NDArray[Any] = np.asarray(column.to_numpy(zero_copy_only=True)).reshape(shape)
    return values


def _list_size(column: pa.Array) -> int:
    """How many values each list of `column` has. ValueError: not all have as many."""
    if pa.types.is_fixed_size_list(column.type):
        return int(column.type.list_size)
    sizes = pc.list_value_length(column)
    least, most = (value.as_py() or 0 for value in pc.min_max(sizes).values())
    if least != most:
        raise ValueError(
            f"a column whose lists have {least} to {most} values is no tensor: make them equally long"
        )
    return int(most)
