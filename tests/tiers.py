"""The tiers of tests: which tests `hack/test`, `hack/test --full` and `hack/test --all` run."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

FIRST, FULL, ALL = "first", "full", "all"
EVERYTHING = "tests/"
"""The argument of a run of a whole tier."""
SELDOM = frozenset({"seldom"})
"""Marks of tests that only the tier `all` runs."""
LATER = frozenset({"full", "realnodes"})
"""Marks of tests that the first tier leaves to `hack/test --full`."""


def runs(marks: Iterable[str], tier: str) -> bool:
    """Return True if a tier runs a test with these marks. Pure.

    :param tier: `first` runs what bears no mark of a later tier; `full` runs only what `first` leaves out, so that
        both together run once every test that is not `seldom`; `all` runs everything
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
    """Keep the tests of the tier, and those named on the command line (of a named file without `seldom` ones).

    Workers skip tests marked `alone`.
    """
    _check_reasons(items)
    names = _Names.of(config)
    beside_others = hasattr(config, "workerinput")
    left_out = [
        item
        for item in items
        if not names.select(item) or (beside_others and not names.name(item) and item.get_closest_marker("alone"))
    ]
    dropped = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in dropped]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


@dataclass(frozen=True)
class _Names:
    """Tests named on the command line, and the tier for all other tests."""

    tier: str
    files: frozenset[Path]
    tests: tuple[tuple[Path, str], ...]

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """Read the arguments. The second look names files of the tier, and no others."""
        folder = config.invocation_params.dir
        parts = [(folder / argument.partition("::")[0], argument.partition("::")[2]) for argument in config.args]
        again = config.getoption("--second-look", default=False)
        files = frozenset(path.resolve() for path, test in parts if path.suffix == ".py" and not test and not again)
        return cls(tier_of(config), files, tuple((path.resolve(), test) for path, test in parts if test))

    def name(self, item: pytest.Item) -> bool:
        """Return True if the command line names the test itself."""
        rest = item.nodeid.partition("::")[2]
        return any(
            path == item.path and (rest == test or rest.startswith((f"{test}[", f"{test}::")))
            for path, test in self.tests
        )

    def select(self, item: pytest.Item) -> bool:
        """Return True if this run includes the test."""
        marks = _marks(item)
        in_file = item.path in self.files and not SELDOM & marks
        return self.name(item) or in_file or runs(marks, self.tier)


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def _check_reasons(items: list[pytest.Item]) -> None:
    """Raise UsageError for a mark `full` that gives no reason."""
    for item in items:
        for mark in item.iter_markers("full"):
            if len(mark.args) != 1 or not str(mark.args[0]).endswith("."):
                raise pytest.UsageError(f"{item.nodeid}: full needs one sentence as its reason, with a full stop")
