"""What tests/rows.py prints: every mark of a test names a row, and stands where it is seen."""

from __future__ import annotations

from tests import rows


def test_every_mark_names_a_row_and_every_row_of_this_tree_has_its_tests() -> None:
    found = rows.collect()
    for id in ("L14", "M01", "S05", "Z06", "K51"):  # of native, Python and Java tests
        assert found[id].tests, id
