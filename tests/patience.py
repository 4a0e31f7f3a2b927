"""How long a test waits for what comes at once.

No test asserts a time: a figure belongs to tests/bench. What could wait for ever gets this limit. It is many
times what an idle machine needs, so that the tests pass on one that is slow and busy, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

HANG_S = 60.0


def until(look: Callable[[], Any], seconds: float = HANG_S) -> Any:
    """What `look` answers as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.005)
    return found
