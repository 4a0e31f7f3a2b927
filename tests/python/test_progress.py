"""The line of progress: what it says, and where it is shown."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pyarrow as pa
import pytest
from nbclient import NotebookClient

import lwmq_spark as lwmq
from lwmq_spark.meter import Meter, rows_behind

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.row("P35")

SLOW_WRITER = """
    import numpy as np, pyarrow as pa
    batch = pa.record_batch({"n": np.arange(1000)})
    with lwmq.open_writer(sys.argv[1], batch.schema, role="server") as writer:
        for _ in range(8):
            writer.write(batch)
            time.sleep(0.1)
"""
READER = """
import sys
import lwmq_spark as lwmq
with lwmq.open_reader(sys.argv[1], role="client", timeout=60) as reader:
    print(sum(batch.num_rows for batch in lwmq.progress(reader, total_rows=8000)))
"""


def test_the_text_has_rows_rates_and_lag() -> None:
    class Line:
        def show(self, text: str, rows: int) -> None:
            shown.append((text, rows))

        def end(self) -> None:
            pass

    shown: list[tuple[str, int]] = []
    meter = Meter("received", total_rows=4000, lag=lambda: 1234)
    meter._line = Line()  # type: ignore[assignment]  # as where somebody watches
    meter.add(1000, 8000)
    ((text, rows),) = shown
    assert meter.rows == rows == 1000
    assert text.startswith("received: 1,000 of 4,000 rows, ")
    assert "rows/s" in text
    assert "B/s" in text
    assert text.endswith(", 1,234 rows behind")


def test_rows_behind_are_those_that_nobody_has_acknowledged(ipc: str) -> None:
    assert rows_behind(ipc) is None
    batch = pa.record_batch({"n": np.arange(1000)})
    with lwmq.open_reader(ipc, role="server") as reader:
        writer = lwmq.open_writer(ipc, batch.schema, role="client")
        for _ in range(3):
            writer.write(batch)
        deadline = time.monotonic() + 60
        while rows_behind(ipc) != 3000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rows_behind(ipc) == 3000
        next(reader)
        next(reader)
        while rows_behind(ipc) != 2000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rows_behind(ipc) == 2000
        writer.abort("the test is over")


def test_a_terminal_sees_the_line_and_keeps_nothing_of_it(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(SLOW_WRITER, ipc)
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-c", READER, ipc]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    reader = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=other_end, text=True, env=environment
    )
    os.close(other_end)
    shown = b""
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:
        pass  # the other end is closed
    os.close(terminal)
    output, _ = reader.communicate(timeout=60)
    assert output == "8000\n"
    *lines, last = re.split(r"\x1b\[2K", shown.decode())  # the line is erased before each that follows
    assert any("received: " in line and " of 8,000 rows, " in line and "rows/s" in line for line in lines), (
        lines
    )
    assert last == "", "the line is gone at the end"
    assert writer.wait(60) == 0


def test_elsewhere_nothing_is_written(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(SLOW_WRITER, ipc)
    ended = subprocess.run(
        [sys.executable, "-c", READER, ipc], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (ended.stdout, ended.stderr) == ("8000\n", "")
    assert writer.wait(60) == 0


def test_a_notebook_shows_one_line_that_renews_itself(ipc: str, spawn: Callable[..., Any]) -> None:
    writer = spawn(SLOW_WRITER, ipc)
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nsys.argv = ['', {ipc!r}]\n{READER}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    shown = [output.data["text/plain"] for output in outputs if output.output_type == "display_data"]
    assert len(shown) == 1, outputs
    assert shown[0].startswith("received: 8,000 of 8,000 rows, ")
    assert any(output.get("text") == "8000\n" for output in outputs)
    assert writer.wait(60) == 0
