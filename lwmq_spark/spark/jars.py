"""Where the jar is, and what a user's own list of jars says about it."""

from __future__ import annotations

import re
from pathlib import Path

from lwmq_spark.errors import LwmqError

JAR_NAME = "lwmq-spark.jar"
_OURS = re.compile(r"lwmq-spark[^/]*\.jar")


def jar() -> Path:
    """The jar of this installation. LwmqError where there is none."""
    path = Path(__file__).resolve().parent.parent / "_jars" / JAR_NAME
    if not path.is_file():
        raise LwmqError(
            f"{path} is missing: reinstall lwmq-spark with a JDK 17 at hand (in a checkout: make dev)"
        )
    return path


def split(jars: str | None) -> list[str]:
    """The entries of a list such as `spark.jars`."""
    return [entry.strip() for entry in (jars or "").split(",") if entry.strip()]


def appended(entries: str | None, entry: str) -> str:
    """The list with `entry` behind the user's own, once."""
    mine = split(entries)
    return ",".join(mine if entry in mine else [*mine, entry])


def foreign(jars: str | None) -> str | None:
    """An entry that is another copy of our jar: two of them on one class path would mix."""
    own = str(jar())
    for entry in split(jars):
        path = entry.removeprefix("file://").removeprefix("file:")
        if _OURS.fullmatch(Path(path).name) and path != own and Path(path).resolve() != Path(own):
            return entry
    return None
