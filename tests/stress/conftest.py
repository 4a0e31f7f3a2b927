from __future__ import annotations

import pytest

from .players import DRIVER, become_reaper, must_be_built


@pytest.fixture(scope="session", autouse=True)
def driver() -> None:
    must_be_built(DRIVER)
    become_reaper()
