"""`lwmq`: one module per verb. Each prints for people, or with --json one JSON object per line for programs.

Exit codes: 0 done · 1 failed · 2 wrong usage · 3 timed out · 4 data or a peer was lost · 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lwmq_spark.cli import (
    demo,
    doctor,
    export,
    info,
    listen,
    module,
    perf,
    post,
    record,
    recv,
    replay,
    reply,
    request,
    send,
    tail,
    top,
)
from lwmq_spark.cli._output import exit_code_of, report_failure
from lwmq_spark.errors import LwmqError, error_of

app = typer.Typer(
    name="lwmq",
    help="Arrow batches and messages between live processes and Spark, through shared memory.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 timed out, 4 data or peer lost, 130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands take them over
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for verb in (info, doctor, demo, send, recv, tail, post, listen, request, record, replay, top, export, perf):
    app.command(verb.__name__.rpartition(".")[2], epilog=None)(verb.run)
# What follows the address is the command's, options included, as of ssh and env.
app.command("reply", epilog=None, context_settings={"allow_interspersed_args": False})(reply.run)
app.add_typer(module.app, name="module")


def _show_version(asked: bool) -> None:
    if asked:
        from lwmq_spark import __version__

        print(f"lwmq {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """What is said before the command."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # closed by the shell
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - while the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that has no letter for it shows `?`
            stream.reconfigure(errors="replace")
    try:
        result = app(args=arguments, prog_name="lwmq", standalone_mode=False)
        print(end="", flush=True)
    except KeyboardInterrupt:
        return 130
    except (BrokenPipeError, SystemExit) as end:
        # Whoever read our output has seen enough. typer and rich end the program for that, with 1.
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        sys.stdout = None  # type: ignore[assignment]  # Python would complain again when it flushes at exit
        return 0
    except (LwmqError, OSError) as failure:
        report_failure(failure, as_json=_is_json(arguments))
        return exit_code_of(failure)
    except typer.Abort:
        return 130
    except typer.Exit as done:
        return done.exit_code
    except Exception as failure:
        # What typer raises for wrong usage knows how to show itself and which code it stands for.
        if hasattr(failure, "show") and hasattr(failure, "exit_code"):
            failure.show()
            return int(failure.exit_code)
        told = error_of(failure) or failure  # ours may be inside one of Spark's
        if not isinstance(told, (LwmqError, ValueError, OverflowError, *_arrow_errors())):
            raise
        report_failure(told, as_json=_is_json(arguments))
        return exit_code_of(told)
    return result if isinstance(result, int) else 0


def _is_json(arguments: list[str]) -> bool:
    """Whether ours are to be told as JSON; the command of `lwmq reply`, behind two words, has its own."""
    ours = arguments
    if arguments[:1] == ["reply"]:
        words = (place for place, word in enumerate(arguments) if "://" in word)
        ours = arguments[: next(words, len(arguments))]
    return "--json" in ours


def _arrow_errors() -> tuple[type[Exception], ...]:
    """Of files and data; none where no verb has loaded pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    return () if pyarrow is None else (pyarrow.ArrowException,)
