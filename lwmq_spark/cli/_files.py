"""Arrow IPC, Parquet and CSV files as record batches, one batch in memory at a time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from lwmq_spark.cli._output import problems

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
        if given == "parquet" and path == "-":
            raise ValueError("parquet is read and written out of order, and - is a pipe: say arrow or csv")
        return given
    if path == "-":
        return "arrow"
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"{path}: cannot tell the format from {suffix!r}; say --format {'|'.join(FORMATS)}")
    return _SUFFIXES[suffix]


class Source:
    """A file to read: `schema`, and `batches` of at most `batch_rows` rows. ValueError: it is damaged."""

    def __init__(self, path: str, format: str, batch_rows: int) -> None:
        self._stack = ExitStack()
        self._path = path
        with _named(path):
            self.schema, self._batches = _OPENERS[format](path, batch_rows, self._stack)

    @property
    def batches(self) -> Iterator[Any]:
        with _named(self._path):
            yield from self._batches

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()


@contextmanager
def _named(path: str) -> Iterator[None]:
    """pyarrow does not say of which file it complains."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as problem:
        raise ValueError(f"{path}: {problem}") from None


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
    """A file to write: opened when made, then `begin(schema)`, `write(batch)` and `finish()`.

    It is FILE.part until `finish` gives it its name; a `with` block that ends before leaves that, and says
    so, if anything was written. `grows`: it has its name from the beginning, as has what another file cannot
    take the place of, such as a pipe or a file with a second name. OSError: it cannot be written.
    """

    def __init__(self, path: str, format: str, *, grows: bool = False) -> None:
        import pyarrow as pa

        self._format = format
        self._is_stream = path == "-" or Path(path).suffix == ".arrows"
        self._stack = ExitStack()
        self._file = file = Path(path)
        self._part: Path | None = None
        self._is_begun = False
        if path == "-":
            self._target: Any = sys.stdout.buffer
            return
        if file.is_file():
            file.open("r+b").close()  # one that may not be written is not replaced either
        if not grows and _may_be_replaced(file):
            self._file = file.resolve()  # a link stays, and what it leads to is replaced
            self._part = self._file.with_name(f"{self._file.name}.part")
        self._target = self._stack.enter_context(pa.OSFile(str(self._part or file), "wb"))
        if self._part is not None and self._file.exists():
            self._part.chmod(stat.S_IMODE(self._file.stat().st_mode))

    def begin(self, schema: Any) -> None:
        """Before the first batch, once."""
        import pyarrow as pa

        if self._format == "parquet":
            import pyarrow.parquet as pq

            writer = self._stack.enter_context(pq.ParquetWriter(self._target, schema))
            self.write: Callable[[Any], None] = writer.write_batch
        elif self._format == "csv":
            import pyarrow.csv as csv

            self.write = self._stack.enter_context(csv.CSVWriter(self._target, schema)).write_batch
        elif self._is_stream:
            self.write = self._stack.enter_context(pa.ipc.new_stream(self._target, schema)).write_batch
        else:
            options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
            made = self._stack.enter_context(pa.ipc.new_file(self._target, schema, options=options))
            self.write = _with_growing_dictionaries(made.write_batch)
        self._is_begun = True

    def finish(self) -> None:
        """The file is complete, and has its name."""
        self._stack.close()
        if self._part is not None:
            self._part.replace(self._file)  # where that fails it stays what it is, and __exit__ says so
            self._part = None

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *failure: object) -> None:
        with suppress(Exception):  # the failure that ended it is told
            self._stack.close()
        if self._part is not None and self._is_begun:
            problems.print(f"lwmq: what came until then is in {self._part}")
        elif self._part is not None:
            self._part.unlink(missing_ok=True)


def _with_growing_dictionaries(write: Callable[[Any], None]) -> Callable[[Any], None]:
    """An IPC file has one dictionary per field, which may grow; a stream may replace it with each batch."""
    import pyarrow as pa

    known: Any = None  # no rows, and the dictionaries so far

    def write_grown(batch: Any) -> None:
        nonlocal known
        if not batch.num_rows:
            return
        if known is not None:
            (batch,) = pa.Table.from_batches([known, batch]).unify_dictionaries().to_batches()[-1:]
        known = batch.slice(0, 0)
        write(batch)

    return write_grown


def _may_be_replaced(file: Path) -> bool:
    """Whether another file can take its place, and nobody has it by another way."""
    there = file.resolve()
    if file.exists():
        about = there.stat()
        is_one = stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and not os.path.ismount(there)
        if not is_one or file.absolute().is_relative_to("/dev") or file.absolute().is_relative_to("/proc"):
            return False
    return os.access(there.parent, os.W_OK) and len(os.fsencode(there.name)) < 250
