"""The tiers of tests: which tests `hack/test`, `hack/test --full` and `hack/test --all` run."""

from collections.abc import Iterable

import pytest

FIRST, FULL, ALL = "first", "full", "all"
SELDOM = frozenset({"seldom"})
"""Marks of tests that only the tier `all` runs."""
LATER = frozenset({"full", "realnodes"})
"""Marks of tests that the first tier leaves to `hack/test --full`."""


def runs(marks: Iterable[str], tier: str) -> bool:
    """Return True if a tier runs a test with these marks. Pure.

    :param tier: `first` runs what bears no mark of a later tier; `full` runs only what `first` leaves out, so that
        both together run every test once; `all` runs everything
    """
    found = set(marks)
    if tier == ALL:
        return True
    return not found & SELDOM and bool(found & LATER) == (tier == FULL)


def tier_of(config: pytest.Config) -> str:
    """Return the tier that the command line asks for."""
    if config.getoption("--all"):
        return ALL
    return FULL if config.getoption("--full") else FIRST


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose a tier."""
    group = parser.getgroup("tiers").addoption
    group("--full", action="store_true", help="run what hack/test leaves out: the tests that are marked `full`")
    group("--all", action="store_true", help="run every test, also those marked `seldom`, with all examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier; a test or file that the command line names runs in any tier.

    A named file leaves out tests that are marked `seldom`. Workers leave out what is marked `alone`.
    """
    _check_reasons(items)
    if any("::" in each for each in config.args):
        return
    tier, named = tier_of(config), {each for each in config.args if each.endswith(".py")}
    beside_others = hasattr(config, "workerinput")
    left_out = [
        item
        for item in items
        if not (_is_named(item, named) if named and tier == FIRST else runs(_marks(item), tier))
        or (beside_others and item.get_closest_marker("alone"))
    ]
    dropped = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in dropped]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def _is_named(item: pytest.Item, named: set[str]) -> bool:
    file = item.nodeid.partition("::")[0]
    return not SELDOM & _marks(item) and (any(map(file.endswith, named)) or runs(_marks(item), FIRST))


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def _check_reasons(items: list[pytest.Item]) -> None:
    """Raise UsageError for a mark `full` that gives no reason."""
    for item in items:
        for mark in item.iter_markers("full"):
            if len(mark.args) != 1 or not str(mark.args[0]).endswith("."):
                raise pytest.UsageError(f"{item.nodeid}: full needs one sentence as its reason, with a full stop")
