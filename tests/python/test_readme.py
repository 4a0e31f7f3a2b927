"""What README and the recipes show can be pasted and run. The programs of one section belong together: they
are started together, in this order or in the other one, and each of them ends well."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S

ROOT = Path(__file__).resolve().parents[2]
PAGES = "".join(
    (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "notebooks/RECIPES.md")
)

# What each program of a section prints, as a pattern, in the order of the page. None stands for a program
# that goes on until it is stopped.
PRINTED: dict[str, list[str | None]] = {
    "Eight lines that move a table": ["", r"(\d+\n)+"],
    "Four lines that use Spark": ["", "", r"(?s).*AA +7\.5.*UA +-2\.0.*|.*UA +-2\.0.*AA +7\.5.*"],
    "Rolling results": [r"(?s)(.*\|symbol\| *avg\(price\)\|.*){3}", None],
    "Several streams behind one address": ["", r"\[10\.1, 10\.2\]\n", r"\[9\.8, 9\.9\]\n"],
    "Into pandas, NumPy, torch, polars, DuckDB": [r"0\.(49|50)\d*\n", r"\[ *1\.9\d* +-0\.9\d* *\]\n", ""],
    "Python functions inside Spark": [r"(?s).*\|true\|.*\n1000\n"],
    "Messages in Python": [r"b'bought'\n", r"b'buy 100'\nb'EURUSD 1.0857'\n"],
    "Requests": [rf"b'144'\n{sum(n * n for n in range(1000))}\n"],
}


def _examples(section: str, language: str = "python|bash") -> list[tuple[str, str]]:
    """Language and text of the section's blocks."""
    part = re.split(r"^## ", PAGES, flags=re.MULTILINE)
    (found,) = [p for p in part if p.startswith(section + "\n")]
    return re.findall(rf"^```({language})\n(.*?)^```$", found, flags=re.MULTILINE | re.DOTALL)


# Runs one program after the other, each in a module of its own, and says what came of it.
INTERPRETER = """
import contextlib, io, json, sys, traceback
for line in sys.stdin:
    out, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(json.loads(line), "README", "exec"), {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps([out.getvalue(), error]), flush=True)
"""


class Interpreter:
    """A process that runs the programs with a Spark session: they share it, as the cells of a notebook do."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", INTERPRETER],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(self, code: str) -> SparkProgram:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        return SparkProgram(self.process)


class SparkProgram:
    """A program that an Interpreter runs, with what the tests use of Popen."""

    def __init__(self, interpreter: subprocess.Popen[str]) -> None:
        self.interpreter = interpreter
        self.returncode: int | None = None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        if self.returncode is not None:
            return "", ""
        hang = threading.Timer(timeout or HANG_S, self.interpreter.kill)
        hang.start()
        assert self.interpreter.stdout
        out, error = json.loads(self.interpreter.stdout.readline() or '["", "the interpreter was killed"]')
        hang.cancel()
        self.returncode = 1 if error else 0
        return out, error

    def kill(self) -> None:
        if self.returncode is None:
            self.interpreter.kill()


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Callable[[], Interpreter]]:
    """The one that lives, or a new one."""
    started: list[Interpreter] = []

    def living() -> Interpreter:
        if not started or started[-1].process.poll() is not None:
            started.append(Interpreter())
        return started[-1]

    yield living
    for one in started:
        one.process.communicate()


def _start(
    language: str, code: str, name: str, interpreter: Callable[[], Interpreter]
) -> subprocess.Popen[str] | SparkProgram:
    """Starts a block as it stands, but for its addresses, which are this test's own."""
    code = code.replace("ipc://", f"ipc://{name}-")
    if "lwmq.session(" in code:
        return interpreter().start(code)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = ["bash", "-c"] if language == "bash" else [sys.executable, "-c"]
    return subprocess.Popen(
        [*shell, code], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.row("L56", "M21")
@pytest.mark.parametrize("section", PRINTED)
def test_the_programs_of_a_section_run_as_they_stand(
    section: str, interpreter: Callable[[], Interpreter]
) -> None:
    _run(section, interpreter)


@pytest.mark.parametrize("section", ["Eight lines that move a table", "Messages in Python"])
def test_the_programs_of_a_section_may_start_in_the_other_order(
    section: str, interpreter: Callable[[], Interpreter]
) -> None:
    _run(section, interpreter, reverse=True)


def _run(section: str, interpreter: Callable[[], Interpreter], *, reverse: bool = False) -> None:
    examples = _examples(section)
    order = sorted(range(len(examples)), reverse=reverse)
    started = {n: _start(*examples[n], f"readme-{os.getpid()}", interpreter) for n in order}
    try:
        for n, pattern in enumerate(PRINTED[section]):
            if pattern is None:
                continue
            out, err = started[n].communicate(timeout=5 * HANG_S)
            assert started[n].returncode == 0, err
            assert re.fullmatch(pattern, out), out
            assert "Traceback" not in err
        for n, pattern in enumerate(PRINTED[section]):
            program = started[n]
            if pattern is None:
                assert isinstance(program, subprocess.Popen)
                assert program.poll() is None, program.communicate()
                program.send_signal(signal.SIGINT)
                assert "KeyboardInterrupt" in program.communicate(timeout=HANG_S)[1]
    finally:
        for program in started.values():
            program.kill()
            program.communicate()


def test_every_program_of_the_pages_is_run() -> None:
    shown = len(re.findall(r"^```(?:python|bash)$", PAGES, flags=re.MULTILINE))
    assert shown == sum(len(printed) for printed in PRINTED.values())
    assert shown == sum(len(_examples(section)) for section in PRINTED)


@pytest.mark.row("L58")
def test_the_first_program_in_cpp_is_short_and_says_hello(tmp_path: Path) -> None:
    ((_, code),) = _examples("Messages in C and C++", "cpp")
    assert len(code.splitlines()) <= 15
    source = tmp_path / "hello.cc"
    source.write_text(code.replace("ipc://hello", f"ipc://hello-{tmp_path.name}-{os.getpid()}"))
    flags = subprocess.check_output([sys.executable, "-m", "lwmq_spark.cli", "info", "--flags"], text=True)
    program = tmp_path / "hello"
    command = ["g++", "-Wall", "-Werror", source, *shlex.split(flags), "-o", program]
    subprocess.run(command, check=True, timeout=60)
    both = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate(timeout=60)[0] for one in both] == ["somebody said hello\n"] * 2
    assert [one.returncode for one in both] == [0, 0]
