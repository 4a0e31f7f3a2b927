"""Prints the requirements of extras of pyproject.toml, one per line, with what the build itself needs.

pip can install a project with its extras, but not the requirements alone; developers build in place.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """The requirements of the project, of its build and of `extras`; extras that name extras are followed."""
    document = tomllib.loads(Path(__file__).parent.with_name("pyproject.toml").read_text(encoding="utf-8"))
    project = document["project"]
    found: dict[str, None] = dict.fromkeys(document["build-system"]["requires"] + project["dependencies"])
    waiting = list(extras)
    while waiting:
        for entry in project["optional-dependencies"][waiting.pop()]:
            if own := re.fullmatch(re.escape(project["name"]) + r"\[(.+)\]", entry):
                waiting += own[1].split(",")
            else:
                found[entry] = None
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
