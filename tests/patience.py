"""How long a test waits for what comes at once.

No test asserts a time: a figure belongs to tests/bench. What could wait for ever gets this limit. It is many
times what an idle machine needs, so that the tests pass on one that is slow and busy, too.
"""

from __future__ import annotations

HANG_S = 60.0
