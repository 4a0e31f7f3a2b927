"""Ctrl-C while a Spark query runs, which ends the query too.

PySpark means it to, but its handler of SIGINT asks the JVM over the connection that the interrupted call
still waits on: the request fails, the query goes on unseen, and what it reads from a stream is acknowledged
when it succeeds. In a notebook that handler is not even in force, because the kernel has one of its own for
each cell. Spark Connect interrupts the query itself.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from types import FrameType
from typing import Any, NoReturn

_CANCEL_S = 5.0  # how long the JVM may take to hear of it


def cancel_on_interrupt() -> None:
    """From now on Ctrl-C cancels the jobs of this process's SparkContext, before it is a KeyboardInterrupt.

    Takes the place of PySpark's own handler alone; one that somebody else has set stays.
    """
    if threading.current_thread() is threading.main_thread() and _is_pysparks(
        signal.getsignal(signal.SIGINT)
    ):
        signal.signal(signal.SIGINT, _interrupted)
    shell = _shell()
    if shell is not None and _cell_ended not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _cell_ended)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Asks from another thread, which has a connection of its own: this one's may await an answer."""
    asking = threading.Thread(target=_cancel, name="lwmq-cancel", daemon=True)
    asking.start()
    asking.join(_CANCEL_S)
    raise KeyboardInterrupt


def _cell_ended(result: Any) -> None:
    if isinstance(result.error_in_exec, KeyboardInterrupt):
        _cancel()


def _cancel() -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with contextlib.suppress(Exception):  # the JVM has gone, and the jobs with it
            context.cancelAllJobs()


def _is_pysparks(handler: Any) -> bool:
    return getattr(handler, "__module__", None) == "pyspark.core.context"


def _shell() -> Any:
    """The IPython that runs this, as in a notebook; None elsewhere. Imports nothing."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
