"""`lwmq reply`: answers requests with what a command prints."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lwmq_spark.cli._messages import SeparatorOption, role_of, separator_of, show
from lwmq_spark.cli._output import JsonOption, duration, printable, problems
from lwmq_spark.errors import ENDS_OF_PEER

if TYPE_CHECKING:
    from lwmq_spark.channel.requests import Frames

_TOLD_MAX = 200  # characters of what a command that failed has said


class CommandError(Exception):
    """The command has not answered: the asker gets the text."""


def run(
    address: Annotated[str, typer.Argument(help="Where to reply, such as ipc://prices.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What answers; no shell.")],
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after that many.")] = None,
    separator: SeparatorOption = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="TIME", parser=duration(), help="Of COMMAND: then it is killed.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Answer each request that comes to ADDRESS with what COMMAND prints.

    COMMAND is run for each request, one at a time. It reads the frames from stdin, a tab between them; what
    it prints is the reply, but for the newline at its end: one frame, with --separator cut into several.
    Where it ends with another code than 0, the asker gets a failure with the last line of its stderr.
    Askers, such as `lwmq request`, come and go in turns; where one has bound ADDRESS, say
    ADDRESS?role=client. With --json each reply is printed.

    \b
    Examples:
      lwmq reply ipc://echo cat
      lwmq reply ipc://load uptime
      lwmq reply --json -n 1 ipc://greetings sh -c 'echo "hello $(cat)"'
    """
    import lwmq_spark as lwmq

    between = separator_of(separator)
    if shutil.which(command[0]) is None:
        raise typer.BadParameter(f"there is no command {command[0]!r}")

    def answer(frames: Frames) -> list[bytes]:
        try:
            said = _said_by(command, (b"\t" if between is None else between).join(frames), timeout)
        except CommandError as problem:
            problems.print(printable(f"lwmq: a request of {len(bytes(frames)):,} bytes: {problem}"))
            raise
        reply = [said] if between is None else said.split(between)
        if json:
            show(reply, between, as_json=True)
        return reply

    with lwmq.Channel(address, role_of(address, "server")) as channel:
        replies = lwmq.Replies(channel)
        while count is None or replies.statistics.answered + replies.statistics.failed < count:
            with suppress(*ENDS_OF_PEER):
                replies.serve_one(answer)


def _said_by(command: list[str], asked: bytes, timeout: float | None) -> bytes:
    """What `command` prints when it reads `asked`, but for a newline at its end. CommandError."""
    name = command[0]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise CommandError(f"{name} took longer than {timeout} s") from None
    except OSError as problem:
        raise CommandError(f"{name} cannot be run: {problem.strerror}") from None
    if done.returncode != 0:
        code, last = done.returncode, done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        how = f"ended with code {code}" if code > 0 else f"died of signal {-code}"
        raise CommandError(f"{name} {how}" + (f": {last[:_TOLD_MAX]}" if last else ""))
    return done.stdout.removesuffix(b"\n")
