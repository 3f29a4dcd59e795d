"""The table of what the conformance suite of the Multi-Cluster Services API requires names tests that are there."""

import re

from agent.sandbox.objects import REPOSITORY
from tests.docs.pages import DOCS, section, tables

TESTS = re.findall(
    r"^async def test_(\w+)", (REPOSITORY / "tests/controllers/test_serviceimports.py").read_text(), re.M
)


def test_every_requirement_that_passes_is_one_test_and_all_others_say_why_not() -> None:
    (table,) = tables(section(DOCS / "links.md", "Have exports served"))
    for requirement, label, result, named in table[1:]:
        assert label in ("required", "optional"), requirement
        if result.startswith("passes"):
            assert len([test for test in TESTS if test.startswith(named.strip("`"))]) == 1, requirement
        else:
            assert result.startswith("not tried: "), requirement
            assert not named, requirement
