"""Building a batch in place: the columns are NumPy arrays that lie in the block.

    with writer.allocate(rows=65_536) as batch:
        batch["price"][:] = prices
        batch["time"][:] = times
    # left in order: published; left by an exception: given back

Only fixed-width columns have a place before their values are known; a schema with others is a SchemaError
that names the field. Columns without nulls take no bitmap; `allocate(rows, nulls=("price",))` adds one, all
valid at first.

An array keeps the block where it is for as long as it lives, whatever becomes of the builder and the writer.
Behind `commit` it can only be read. NumPy gives no way to reach arrays that were made from ours, such as
slices: where some of these live, `commit` publishes a copy, so that no committed batch ever changes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lwmq_spark._ffi import CallLock, OfOneProcess
from lwmq_spark.arrow.layout import ALIGNMENT, Encoded, template_of
from lwmq_spark.errors import ClosedError, SchemaError

_INTERVAL = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as it lies: NumPy's type of one value, and values per row (0: one bit per row)."""

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
    """A batch without bitmaps: where everything lies, and its metadata."""

    rows: int
    offsets: list[tuple[int, int]]
    end: int
    head: bytes


class Blueprint:
    """Where the columns of a schema lie for any number of rows. Made once per writer."""

    def __init__(self, schema: pa.Schema) -> None:
        """SchemaError names the first field whose width is not fixed."""
        self.columns = [_column(field) for field in schema]
        self.names = {column.name: index for index, column in enumerate(self.columns)}
        self._template = template_of(schema)
        self._last: _Plain | None = None

    def plain(self, rows: int) -> _Plain:
        """What all batches of `rows` rows without bitmaps have in common; the last answer is kept."""
        last = self._last
        if last is None or last.rows != rows:
            offsets, end = self._place(rows, ())
            last = self._last = _Plain(
                rows, offsets, end, self.head(rows, [0] * len(self.columns), offsets, end)
            )
        return last

    def offsets(self, rows: int, nulls: Collection[str]) -> tuple[list[tuple[int, int]], int]:
        """(offset, bytes) of bitmap and values per column, and the end of the block."""
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


class _Arrays:
    """The arrays that a builder has handed out, over the bytes of its block."""

    def __init__(self) -> None:
        # Each with its root, which nobody else sees, and from which nothing else was made: NumPy has whatever
        # is made from an array refer to the root.
        self._handed: list[tuple[weakref.ref[npt.NDArray[Any]], weakref.ref[npt.NDArray[Any]]]] = []

    def hand(self, root: npt.NDArray[Any], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`array`, which was made from `root`."""
        self._handed.append((weakref.ref(root), weakref.ref(array)))
        return array

    def have_offspring(self) -> bool:
        """Whether there are arrays that were made from ours, such as slices."""
        return any(_references(root) > (array() is not None) for root, array in self._handed)

    def close(self) -> None:
        """They can only be read from now on."""
        for _, handed in self._handed:
            if (array := handed()) is not None:
                array.flags.writeable = False
        self._handed.clear()


def _references(to: weakref.ref[Any]) -> int:
    """How many strong references there are."""
    return sys.getrefcount(to()) - _OF_THE_QUESTION if to() is not None else 0


_OF_THE_QUESTION = 0  # references that the asking itself makes: what is found where there is one
_OF_THE_QUESTION = _references(weakref.ref(_referred_to_once := {1})) - 1


class BatchBuilder(OfOneProcess):
    """A batch under construction in a block; made by `StreamWriter.allocate`. Used once. Threads take turns
    with `commit` and `discard`; what they write into the arrays is theirs to order.

    One that was forgotten gives its block back when the last of its arrays has gone.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        rows: int,
        nulls: Collection[str],
        memory: memoryview,
        publish: Callable[[int, int], None],
        publish_copy: Callable[[Encoded], None],
        discard: Callable[[], None],
    ) -> None:
        """`memory`: the block, which stays for as long as anything refers to it. `publish(bytes, rows)` or
        `discard()` is called once, `publish_copy(encoded)` before the second where arrays stay writeable.
        """
        self._blueprint = blueprint
        self._rows = rows
        self._memory: memoryview | None = memory
        self._publish = publish
        self._publish_copy = publish_copy
        self._discard = discard
        self._arrays = _Arrays()
        self._lock = CallLock()
        self._offsets, self._end = blueprint.offsets(rows, nulls)
        self._nulls = frozenset(nulls)
        if nulls:
            for index, column in enumerate(blueprint.columns):
                if column.name in nulls:
                    self._root(2 * index)[:] = 0xFF

    @property
    def rows(self) -> int:
        """How many rows there is room for."""
        return self._rows

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """The values of column `name`, to be written to: shape (rows,), or (rows, n) for lists and binary of
        size n.

        Booleans are their bitmap: uint8, one bit per row, lowest first (`numpy.packbits(...,
        bitorder="little")`). Decimals are (rows, words) of uint64, lowest word first. Other types are NumPy's
        own of the same width.
        """
        index = self._index(name)
        column = self._blueprint.columns[index]
        root = self._root(2 * index + 1)
        if column.values == 0:
            return self._arrays.hand(root, root[:])
        return self._arrays.hand(root, root.view(column.dtype).reshape((self._rows, *column.shape)))

    def validity(self, name: str) -> npt.NDArray[np.uint8]:
        """The bitmap of column `name`, 1 where there is a value.

        All ones at first. KeyError: not in `nulls`.
        """
        index = self._index(name)
        if name not in self._nulls:
            raise KeyError(f"column {name!r} was allocated without nulls: allocate(rows, nulls=[{name!r}])")
        root = self._root(2 * index)
        return self._arrays.hand(root, root[:])

    def commit(self, rows: int | None = None) -> None:
        """Publish the first `rows` rows, all by default, without a copy. The arrays can only be read after.

        Where a slice, or another array that was made from one of them, still lives, a copy is published
        (`bytes_copied` of the writer's statistics); that waits for room as `write` does, and after
        TimeoutError the builder is as it was. What shares an array's memory otherwise, such as a memoryview
        or a tensor, is not to be written to after.
        """
        with self._lock:
            memory = self._check_open()
            count = self._rows if rows is None else rows
            if not 0 <= count <= self._rows:
                raise ValueError(f"commit of {count} rows, allocated were {self._rows}")
            if self._arrays.have_offspring():
                head = self._head(count)
                body = pa.py_buffer(memory).slice(len(head), self._end - len(head))
                self._publish_copy(Encoded([(0, head), (len(head), body)], self._end, count, False))
                self._end_loan()
                self._discard()
                return
            self._arrays.close()
            head = self._head(count)
            memory[: len(head)] = head
            self._end_loan()
            self._publish(self._end, count)

    def _end_loan(self) -> None:
        self._arrays.close()
        self._memory = None  # what keeps the block now is the arrays alone

    def _head(self, count: int) -> bytes:
        if count == self._rows and not self._nulls:
            return self._blueprint.plain(count).head
        counts = []
        for index, column in enumerate(self._blueprint.columns):
            valid = count
            if column.name in self._nulls:
                bits = np.unpackbits(self._root(2 * index), count=count, bitorder="little")
                valid = int(np.count_nonzero(bits))
            counts.append(count - valid)
        return self._blueprint.head(count, counts, self._offsets, self._end)

    def discard(self) -> None:
        """Give the block back. After `commit` it does nothing."""
        with self._lock:
            if self._memory is not None:
                self._end_loan()
                self._discard()

    def __enter__(self) -> BatchBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and self._memory is not None:
            self.commit()
        else:
            self.discard()

    def __repr__(self) -> str:
        state = "published or given back" if self._memory is None else "open"
        columns = len(self._blueprint.columns)
        return f"<BatchBuilder of {self._rows} rows, {columns} columns, {self._end} bytes, {state}>"

    def _root(self, index: int) -> npt.NDArray[np.uint8]:
        memory = self._check_open()
        offset, size = self._offsets[index]
        return np.frombuffer(memory, dtype=np.uint8, count=size, offset=offset)

    def _index(self, name: str) -> int:
        try:
            return self._blueprint.names[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are {', '.join(self._blueprint.names)}") from None

    def _check_open(self) -> memoryview:
        memory = self._memory
        if memory is None:
            raise ClosedError("the batch was published or given back")
        return memory


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
    """NumPy's type of the same width and meaning, where there is one."""
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
