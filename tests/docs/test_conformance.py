"""The table about the Multi-Cluster Services API's conformance suite names existing tests."""

import re

from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import section, tables

TESTS = re.findall(
    r"^async def test_(\w+)", (REPOSITORY / "tests/controllers/services/test_serviceimports.py").read_text(), re.M
)


def test_every_requirement_passes_or_says_why_not_and_names_one_test_if_any() -> None:
    (table,) = tables(
        section(REPOSITORY / "hack/design/20261126-conformance.md", "Requirements and tests of this repository")
    )
    for requirement, label, result, named in table[1:]:
        assert label in ("required", "optional"), requirement
        assert re.match("passes(;|$)|fails: ", result), requirement
        if named:
            assert result.startswith("passes"), requirement
            assert len([test for test in TESTS if test.startswith(named.strip("`"))]) == 1, requirement
