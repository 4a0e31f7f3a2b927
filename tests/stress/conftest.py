"""The driver is built once per session; a machine that is busy makes the first time a minute."""

from __future__ import annotations

import pytest

from .players import become_reaper, build_driver


@pytest.fixture(scope="session", autouse=True)
def driver() -> None:
    build_driver()
    become_reaper()
