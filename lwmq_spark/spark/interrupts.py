"""Ctrl-C while a Spark query runs, which ends the query too.

PySpark means it to, but its handler of SIGINT asks the JVM over the connection that the interrupted call
still waits on: the request fails, the query goes on unseen, and what it reads from a stream is acknowledged
when it succeeds. In a notebook that handler is not even in force, because the kernel has one of its own for
each cell. Spark Connect interrupts the query itself.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

_CANCEL_S = 5.0  # how long the JVM may take to hear of it


def cancel_on_interrupt() -> None:
    """From now on Ctrl-C cancels the jobs of this process's SparkContext.

    The call that waits for a job ends with it, as an error of Spark's that says so; where no job runs, Ctrl-C
    is a KeyboardInterrupt as ever. Takes the place of PySpark's own handler and of Python's, of no other.
    """
    _install()
    shell = _shell()
    if shell is not None and _install not in shell.events.callbacks["pre_run_cell"]:
        shell.events.register("pre_run_cell", _install)


def _install(*_: Any) -> None:
    """Before each cell of a notebook, too: its kernel has put Python's handler there."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler or getattr(handler, "__module__", "") == "pyspark.core.context":
        signal.signal(signal.SIGINT, _interrupted)


def tell_in_one_line() -> None:
    """From now on a query whose jobs were cancelled ends in the one line that says so.

    PySpark has a class of its own for the errors that a query usually ends with, and shows those without the
    stack of Java. The end of a cancelled job is none of them.
    """
    from pyspark.errors.exceptions import captured

    told = captured.convert_exception
    if getattr(told, "__module__", "") == __name__:
        return

    def convert_exception(error: Any) -> Any:
        converted = told(error)
        text = converted._desc or ""
        if not isinstance(converted, captured.UnknownException) or "[SPARK_JOB_CANCELLED]" not in text:
            return converted
        line = text.partition(": ")[2].partition("\n")[0]
        return captured.SparkRuntimeException(desc=line, stackTrace=converted._stackTrace)

    captured.convert_exception = convert_exception


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Lets a call of the JVM that waits for a job end by itself: an exception in the midst of it makes py4j
    close connections that others use. Asks from another thread, which has a connection of its own.
    """
    if _is_in_py4j(frame):
        cancelled = threading.Event()
        asking = threading.Thread(target=_cancel, args=(cancelled,), name="lwmq-cancel", daemon=True)
        asking.start()
        asking.join(_CANCEL_S)
        if cancelled.is_set():
            return
    raise KeyboardInterrupt


def _cancel(cancelled: threading.Event) -> None:
    """Sets `cancelled` where there was something to cancel."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return
    try:
        running = context.statusTracker().getActiveJobsIds()
        context.cancelAllJobs()
    except Exception:  # the JVM has gone, and the jobs with it
        return
    if running:
        cancelled.set()


def _is_in_py4j(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False


def _shell() -> Any:
    """The IPython that runs this, as in a notebook; None elsewhere. Imports nothing."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
