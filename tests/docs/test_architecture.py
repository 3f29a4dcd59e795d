"""Paths in docs/contribute/architecture.md exist, and each of its twenty questions has one answer."""

import re
from pathlib import Path

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import DOCS, quoted, section, tables

PAGES = ("contribute/architecture.md", "contribute/contributing.md")
TREES = ("agent", "webhook", "tests", "hack", "docs", "charts")


def places(name: str) -> set[str]:
    """Return the repository paths that a page names, without the arguments of commands."""
    text = re.sub(r"^```.*?^```$", "", (DOCS / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    words = (found.split()[0] for found in quoted(text))
    return {word.rstrip("/") for word in words if word.partition("/")[0] in TREES and "/" in word}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_named_is_there(name: str) -> None:
    assert {place for place in places(name) if not (REPOSITORY / place).exists()} == set()


@pytest.mark.parametrize("page", sorted((REPOSITORY / "hack/design").glob("*.md")), ids=lambda page: page.stem)
def test_modules_that_decisions_name_are_there(page: Path) -> None:
    named = {found for found in quoted(page.read_text()) if re.fullmatch(r"[\w/]+/\w+\.py", found)}
    roots = (REPOSITORY, REPOSITORY / "agent", REPOSITORY / "tests")
    assert {found for found in named if not any((root / found).exists() for root in roots)} == set()


def test_every_package_is_in_the_table_of_layers() -> None:
    folders = (REPOSITORY / "agent").iterdir()
    packages = {f"agent/{each.name}" for each in folders if (each / "__init__.py").exists()}
    (table,) = tables(section(DOCS / "contribute/architecture.md", "Layers"))
    named = {found for row in table[1:] for found in quoted(row[0])}
    assert packages <= named


def test_each_of_the_twenty_questions_has_an_answer() -> None:
    text = section(DOCS / "contribute/architecture.md", "Twenty questions")
    (table,) = tables(text)
    assert re.findall(r"^(\d+)\. \S.*\?$", text, re.MULTILINE) == [str(number) for number in range(1, 21)]
    assert [row[0] for row in table[1:]] == [str(number) for number in range(1, 21)]
    assert all(len(quoted(row[1])) == 1 for row in table[1:])
