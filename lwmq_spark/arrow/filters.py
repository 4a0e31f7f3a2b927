"""Filters of readers, as values of the C interface; and the bounds by which batches are skipped."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lwmq_spark._ffi import ffi, lib

Filter = tuple[str, str, Any]
"""A column, a comparison, and a value, as of `pyarrow.parquet`."""

BOUNDS = b"lwmq.bounds"  # in the metadata of a stream's schema: names of columns, each on a line

_COMPARISONS = {
    "==": lib.LWMQ_EQUAL,
    "=": lib.LWMQ_EQUAL,
    "<": lib.LWMQ_LESS,
    "<=": lib.LWMQ_LESS_OR_EQUAL,
    ">": lib.LWMQ_GREATER,
    ">=": lib.LWMQ_GREATER_OR_EQUAL,
}
_OF_NULL = {"is": lib.LWMQ_IS_NULL, "is not": lib.LWMQ_IS_NOT_NULL}
_INT64 = range(-(2**63), 2**63)
_EPOCH = datetime.datetime(1970, 1, 1)


def declare_bounds(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """`schema` with bounds of `columns`; None: as it is. KeyError, TypeError, ValueError: not names of it."""
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise TypeError(f"bounds is a list of names, not a name: did you mean [{columns!r}]?")
    for name in columns:
        if name not in schema.names:
            raise KeyError(f"no column {name!r}; there are {', '.join(schema.names)}")
        if "\n" in name:
            raise ValueError(f"a column with a line break in its name has no bounds: {name!r}")
    return schema.with_metadata({**(schema.metadata or {}), BOUNDS: "\n".join(columns).encode()})


def encode(filters: Sequence[Filter]) -> tuple[Any, list[Any]]:
    """The filters as `lwmq_filter[]`, and what has to live as long as it.

    TypeError, ValueError: a comparison or a value that there is not; the text names it.
    """
    array = ffi.new("lwmq_filter[]", len(filters))
    kept: list[Any] = []
    for out, given in zip(array, filters, strict=True):
        try:
            column, comparison, value = given
        except (TypeError, ValueError) as exc:
            raise TypeError(f"a filter is (column, comparison, value), not {given!r}") from exc
        kept.append(ffi.new("char[]", column.encode()))
        out.column = kept[-1]
        if comparison in _OF_NULL and value is None:
            out.comparison = _OF_NULL[comparison]
        elif comparison in _COMPARISONS and value is not None:
            out.comparison = _COMPARISONS[comparison]
            _set_value(out, value, kept)
        else:
            raise ValueError(
                f"the filter {given!r} is none of ==, <, <=, >, >= with a value, or `is`, `is not` with None"
            )
    return array, kept


def _set_value(out: Any, value: Any, kept: list[Any]) -> None:
    if hasattr(value, "as_py"):
        value = value.as_py()  # of pyarrow
    if hasattr(value, "item"):
        value = value.item()  # of NumPy
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in _INT64:
            raise ValueError(f"the value of a filter has 64 bits, and {value} needs more")
        out.literal_kind, out.integer = lib.LWMQ_LITERAL_INTEGER, value
    elif isinstance(value, float):
        out.literal_kind, out.real = lib.LWMQ_LITERAL_REAL, value
    elif isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        kept.append(ffi.from_buffer(data))
        out.literal_kind, out.bytes, out.byte_count = lib.LWMQ_LITERAL_BYTES, kept[-1], len(data)
    elif isinstance(value, datetime.datetime):
        utc = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        out.literal_kind = lib.LWMQ_LITERAL_MICROSECONDS
        out.integer = (utc - _EPOCH) // datetime.timedelta(microseconds=1)
    elif isinstance(value, datetime.date):
        out.literal_kind, out.integer = lib.LWMQ_LITERAL_DAYS, (value - _EPOCH.date()).days
    else:
        raise TypeError(
            f"a filter compares with int, float, str, bytes, date or datetime, not {type(value).__name__}"
        )
