"""Building a batch in place: its columns are NumPy arrays that lie in the window.

    with writer.allocate(rows=65_536) as batch:
        batch["price"][:] = prices
        batch["time"][:] = times
    # published here, or given back if an exception has left the block

A column needs a fixed width, so that it has a place before its values are known. A schema with another column
is a SchemaError that names the field. A column has a bitmap of validity if `allocate(rows, nulls=("price",))`
names it; at first all its values are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lwmq_spark.arrow.layout import ALIGNMENT, template_of
from lwmq_spark.errors import ClosedError, SchemaError

_INTERVAL = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in memory: NumPy's type of one value, and the values per row (0: one bit per row)."""

    name: str
    dtype: np.dtype[Any]
    values: int
    shape: tuple[int, ...]
    nullable: bool
    nodes: int  # 2 for lists of fixed size: the list and its values

    def bytes(self, rows: int) -> int:
        return (rows + 7) // 8 if self.values == 0 else rows * self.values * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Plain:
    """The layout and the metadata of a batch without bitmaps."""

    rows: int
    offsets: list[tuple[int, int]]
    end: int
    head: bytes


class Blueprint:
    """Where the columns of a schema lie, for any number of rows. A writer makes one."""

    def __init__(self, schema: pa.Schema) -> None:
        """SchemaError names the first field whose width is not fixed."""
        self.columns = [_column(field) for field in schema]
        self.names = {column.name: index for index, column in enumerate(self.columns)}
        self._template = template_of(schema)
        self._last: _Plain | None = None

    def plain(self, rows: int) -> _Plain:
        """What batches of `rows` rows without bitmaps have in common; the last result is kept."""
        last = self._last
        if last is None or last.rows != rows:
            offsets, end = self._place(rows, ())
            last = self._last = _Plain(
                rows, offsets, end, self.head(rows, [0] * len(self.columns), offsets, end)
            )
        return last

    def offsets(self, rows: int, nulls: Collection[str]) -> tuple[list[tuple[int, int]], int]:
        """(offset, bytes) of the bitmap and the values of each column, and the end of the block."""
        if nulls:
            return self._place(rows, nulls)
        plain = self.plain(rows)
        return plain.offsets, plain.end

    def _place(self, rows: int, nulls: Collection[str]) -> tuple[list[tuple[int, int]], int]:
        at = self._template.head_bytes
        found = []
        for column in self.columns:
            for size in ((rows + 7) // 8 if column.name in nulls else 0, column.bytes(rows)):
                found.append((at, size))
                at = (at + size + ALIGNMENT - 1) & -ALIGNMENT
        return found, at

    def head(self, rows: int, null_counts: list[int], offsets: list[tuple[int, int]], end: int) -> bytes:
        """The metadata of `rows` rows at these offsets."""
        nodes: list[tuple[int, int]] = []
        buffers: list[tuple[int, int]] = []
        for index, column in enumerate(self.columns):
            bitmap, values = offsets[2 * index], offsets[2 * index + 1]
            nodes.append((rows, null_counts[index]))
            buffers.append((bitmap[0], (rows + 7) // 8 if bitmap[1] else 0))
            if column.nodes == 2:
                nodes.append((rows * column.shape[0], 0))
                buffers.append((values[0], 0))
            buffers.append((values[0], column.bytes(rows)))
        return self._template.head(rows, nodes, buffers, end)


class BatchBuilder:
    """A batch under construction in the window. `StreamWriter.allocate` makes it. One thread uses it, once.

    The array of a column belongs to the batch: it must not be written to after `commit` or `discard`.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        rows: int,
        nulls: Collection[str],
        memory: memoryview,
        publish: Callable[[int, int], None],
        discard: Callable[[], None],
    ) -> None:
        """memory: the block. Either `publish(bytes, rows)` or `discard()` is called, once."""
        self._blueprint = blueprint
        self._rows = rows
        self._memory = memory
        self._publish = publish
        self._discard = discard
        self._open = True
        self._offsets, self._end = blueprint.offsets(rows, nulls)
        self._nulls = frozenset(nulls)
        if nulls:
            for index, column in enumerate(blueprint.columns):
                if column.name in nulls:
                    self._bytes(2 * index)[:] = 0xFF

    @property
    def rows(self) -> int:
        """The number of rows that there is room for."""
        return self._rows

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """The values of column `name`, to be filled: shape (rows,), or (rows, n) for lists and binary of n.

        Booleans are a bitmap of uint8, one bit per row, the lowest bit first (`numpy.packbits(...,
        bitorder="little")`). Decimals have shape (rows, words) of uint64, the lowest word first. Other types
        are NumPy's of the same width. KeyError: no such column. ClosedError: committed or discarded.
        """
        index = self._index(name)
        column = self._blueprint.columns[index]
        values = self._bytes(2 * index + 1)
        if column.values == 0:
            return values
        return values.view(column.dtype).reshape((self._rows, *column.shape))

    def validity(self, name: str) -> npt.NDArray[np.uint8]:
        """The bitmap of column `name`: uint8, one bit per row, the lowest first; 1 stands for a value.

        At first every bit is 1. KeyError: the column was not named in `nulls`.
        """
        index = self._index(name)
        if name not in self._nulls:
            raise KeyError(f"column {name!r} was allocated without nulls: allocate(rows, nulls=[{name!r}])")
        return self._bytes(2 * index)

    def commit(self, rows: int | None = None) -> None:
        """Publish the first `rows` rows, by default all of them, without a copy.

        ValueError: more rows than were allocated. ClosedError: committed or discarded before.
        """
        self._check_open()
        count = self._rows if rows is None else rows
        if not 0 <= count <= self._rows:
            raise ValueError(f"commit of {count} rows, allocated were {self._rows}")
        head = self._head(count)
        self._memory[: len(head)] = head
        self._open = False
        self._publish(self._end, count)

    def _head(self, count: int) -> bytes:
        if count == self._rows and not self._nulls:
            return self._blueprint.plain(count).head
        counts = []
        for index, column in enumerate(self._blueprint.columns):
            valid = count
            if column.name in self._nulls:
                bits = np.unpackbits(self._bytes(2 * index), count=count, bitorder="little")
                valid = int(np.count_nonzero(bits))
            counts.append(count - valid)
        return self._blueprint.head(count, counts, self._offsets, self._end)

    def discard(self) -> None:
        """Give the block back. Does nothing after `commit`."""
        if self._open:
            self._open = False
            self._discard()

    def __enter__(self) -> BatchBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and self._open:
            self.commit()
        else:
            self.discard()

    def __repr__(self) -> str:
        state = "open" if self._open else "published or given back"
        columns = len(self._blueprint.columns)
        return f"<BatchBuilder of {self._rows} rows, {columns} columns, {self._end} bytes, {state}>"

    def _bytes(self, index: int) -> npt.NDArray[np.uint8]:
        self._check_open()
        offset, size = self._offsets[index]
        return np.frombuffer(self._memory, dtype=np.uint8, count=size, offset=offset)

    def _index(self, name: str) -> int:
        try:
            return self._blueprint.names[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._blueprint.names)}") from None

    def _check_open(self) -> None:
        if not self._open:
            raise ClosedError("the batch was published or given back")


def _column(field: pa.Field) -> _Column:
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    shape: tuple[int, ...] = ()
    nodes = 1
    if pa.types.is_fixed_size_list(kind):
        shape, kind, nodes = (kind.list_size,), kind.value_type, 2
        if pa.types.is_boolean(kind):
            raise _no_place(field)
    if pa.types.is_boolean(kind):
        return _Column(field.name, np.dtype(np.uint8), 0, (), field.nullable, nodes)
    if pa.types.is_decimal(kind):
        words = kind.bit_width // 64
        if words == 0:
            return _Column(field.name, np.dtype(np.int32), 1, (), field.nullable, nodes)
        return _Column(field.name, np.dtype(np.uint64), words, (words,), field.nullable, nodes)
    if nodes == 1 and pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        return _Column(field.name, np.dtype(np.uint8), width, (width,), field.nullable, nodes)
    dtype = _dtype(kind)
    if dtype is None or pa.types.is_nested(kind):
        raise _no_place(field)
    return _Column(field.name, dtype, shape[0] if shape else 1, shape, field.nullable, nodes)


def _dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """NumPy's type of the same width and meaning; None if there is none."""
    if kind == pa.month_day_nano_interval():
        return _INTERVAL
    if pa.types.is_timestamp(kind):
        return np.dtype(f"datetime64[{kind.unit}]")
    if pa.types.is_duration(kind):
        return np.dtype(f"timedelta64[{kind.unit}]")
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return np.dtype(np.int32)
    if pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return np.dtype(np.int64)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        width: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return width
    return None


def _no_place(field: pa.Field) -> SchemaError:
    return SchemaError(
        f"field {field.name!r}: {field.type} has no fixed width, so that it has no place before its "
        "values are known: use write(), or a schema of fixed-width columns"
    )
