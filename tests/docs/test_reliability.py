"""Each promise names an existing test that verifies it."""

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import DOCS, quoted, tables

PAGE = DOCS / "reference/reliability.md"
ROWS = [row for table in tables(PAGE.read_text()) if table[0][-1] == "shown by" for row in table[1:]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_what_happens_at_a_fault_is_shown_by_tests_that_exist(row: list[str]) -> None:
    names = quoted(row[-1])
    assert names
    assert all((REPOSITORY / "tests" / name).is_file() for name in names)
