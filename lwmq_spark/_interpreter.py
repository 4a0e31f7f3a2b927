"""Which interpreter of the process this is: the library works in the first one alone."""

from __future__ import annotations

import importlib
from typing import Any


def check_main_interpreter() -> None:
    """ImportError in a subinterpreter.

    Threads of ours live as long as the process, and a subinterpreter waits for all of its threads when it
    ends: a channel left open there would keep the process from ending.
    """
    interpreters = _module()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "lwmq_spark works in the main interpreter of a process, not in a subinterpreter: its threads "
            "would keep the process from ending. Use it in a process of its own (mod_wsgi: "
            "WSGIApplicationGroup %{GLOBAL})"
        )


def _module() -> Any:
    """What knows interpreters, as Python 3.11 and 3.13 name it; None where Python was built without."""
    for name in ("_xxsubinterpreters", "_interpreters"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
