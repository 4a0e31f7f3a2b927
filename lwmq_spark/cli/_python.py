"""Python processes of ours: they import the lwmq_spark that runs here, whatever lies in the folder."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lwmq_spark


def start(*arguments: object, through: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
    """`python -P arguments`, where -P keeps the folder of the caller out; `options` are those of Popen.

    `through`: a command that runs the one behind it, such as nsenter with its arguments.
    """
    command = [*through, sys.executable, "-P", *map(str, arguments)]
    return subprocess.Popen(command, env=_environment(), **options)


def _environment() -> dict[str, str]:
    """Also where we were not installed: as in a checkout that was found by the folder we were started in."""
    home = str(Path(lwmq_spark.__file__).absolute().parents[1])
    environment = dict(os.environ)
    if home not in (*site.getsitepackages(), site.getusersitepackages()):
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = home if not known else f"{home}{os.pathsep}{known}"
    return environment
