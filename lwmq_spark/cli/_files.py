"""Arrow IPC, Parquet and CSV files as record batches, one batch in memory at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

FORMATS = ("arrow", "parquet", "csv")
_SUFFIXES = {
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
}
_ARROW_FILE_MAGIC = b"ARROW1"


def format_of(path: str, given: str | None) -> str:
    """The format by option, else by the file's name; `-` is an Arrow IPC stream. ValueError: the choices."""
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"format {given!r} is none of {', '.join(FORMATS)}")
        return given
    if path == "-":
        return "arrow"
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"{path}: cannot tell the format from {suffix!r}; say --format {'|'.join(FORMATS)}")
    return _SUFFIXES[suffix]


class Source:
    """A file to read: `schema`, and `batches` of at most `batch_rows` rows."""

    def __init__(self, path: str, format: str, batch_rows: int) -> None:
        self._stack = ExitStack()
        self.schema, self.batches = _OPENERS[format](path, batch_rows, self._stack)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()


def _open_arrow(path: str, batch_rows: int, stack: ExitStack) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa

    if path == "-":
        reader = stack.enter_context(pa.ipc.open_stream(sys.stdin.buffer))
        return reader.schema, _sliced(iter(reader), batch_rows)
    source = stack.enter_context(pa.memory_map(path))
    if source.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC:
        file = stack.enter_context(pa.ipc.open_file(source))
        return file.schema, _sliced((file.get_batch(i) for i in range(file.num_record_batches)), batch_rows)
    source.seek(0)
    reader = stack.enter_context(pa.ipc.open_stream(source))
    return reader.schema, _sliced(iter(reader), batch_rows)


def _open_parquet(path: str, batch_rows: int, stack: ExitStack) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    file = stack.enter_context(pq.ParquetFile(path, memory_map=True))
    return file.schema_arrow, file.iter_batches(batch_size=batch_rows)


def _open_csv(path: str, batch_rows: int, stack: ExitStack) -> tuple[Any, Iterator[Any]]:
    import pyarrow.csv as csv

    reader = stack.enter_context(csv.open_csv(sys.stdin.buffer if path == "-" else path))
    return reader.schema, _sliced(iter(reader), batch_rows)


def _sliced(batches: Iterator[Any], batch_rows: int) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, batch_rows):
            yield batch.slice(start, batch_rows)


_OPENERS: dict[str, Callable[[str, int, ExitStack], tuple[Any, Iterator[Any]]]] = {
    "arrow": _open_arrow,
    "parquet": _open_parquet,
    "csv": _open_csv,
}


class Sink:
    """A file to write: `write(batch)`. It is complete when the `with` block ends without a failure."""

    def __init__(self, path: str, format: str, schema: Any) -> None:
        self._stack = ExitStack()
        if format == "parquet":
            import pyarrow.parquet as pq

            writer = self._stack.enter_context(pq.ParquetWriter(path, schema))
            self.write: Callable[[Any], None] = writer.write_batch
            return
        import pyarrow as pa

        target: Any = sys.stdout.buffer if path == "-" else path
        if format == "csv":
            import pyarrow.csv as csv

            self.write = self._stack.enter_context(csv.CSVWriter(target, schema)).write_batch
        elif path == "-" or Path(path).suffix == ".arrows":
            self.write = self._stack.enter_context(pa.ipc.new_stream(target, schema)).write_batch
        else:
            self.write = self._stack.enter_context(pa.ipc.new_file(target, schema)).write_batch

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()
