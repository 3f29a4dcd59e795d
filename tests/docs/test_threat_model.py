"""Each threat names a test of its mitigation, or is listed as unmitigated."""

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import DOCS, quoted, tables

ROWS = [row for table in tables((DOCS / "reference/threat-model.md").read_text()) for row in table[1:]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-3][:40])
def test_what_stands_against_a_threat_is_shown_by_tests_that_exist(row: list[str]) -> None:
    *_, held, shown = row
    for name in quoted(shown):
        assert (REPOSITORY / "tests" / name).is_file()
    assert quoted(shown) or "**nothing**" in held or "No test of its own" in held
