"""The site: MkDocs builds all pages, every link and anchor exists there, and Mermaid can read the pictures."""

import json
import shutil
from pathlib import Path

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.site.__main__ import faults, main, mermaid, pages
from hack.lab.site.markdown import converted, diagrams

pytestmark = pytest.mark.timeout(600)


def test_marks_for_tests_and_links_into_the_code_are_removed() -> None:
    text = "See [labels](../../agent/api/labels.py), [a decision](../../hack/design/x.md#why).\n```sh helm\nls\n```\n"
    expected = "See labels, [a decision](../design/x.md#why).\n```sh\nls\n```\n"
    assert converted("docs/guides/move.md", text) == expected


def test_lists_and_tables_are_separated_from_the_text_above() -> None:
    text = "Two:\n- a\n  - b\n- c\n\nTable:\n| `x\\|y` |\n|---|\n"
    assert converted("docs/a.md", text) == "Two:\n\n- a\n    - b\n- c\n\nTable:\n\n| `x|y` |\n|---|\n"


def test_there_are_pictures() -> None:
    assert sum(len(diagrams(text)) for path, text in pages().items() if path.startswith("docs/")) >= 14


def test_every_page_is_in_the_navigation() -> None:
    listed = (REPOSITORY / "hack/lab/site/mkdocs.yml").read_text()
    assert [path for path in pages() if path.startswith("docs/") and path.removeprefix("docs/") not in listed] == []


@pytest.mark.full("Installs Mermaid.")
@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_a_picture_that_mermaid_cannot_read_is_reported() -> None:
    page = "```mermaid\nflowchart LR\n  a --> b\n```\n\n```mermaid\nflowchart LR\n  a --> --> b\n```\n"
    (fault,) = faults(mermaid(), {"docs/a.md": page})
    assert fault.startswith("docs/a.md, diagram 2: Parse error")


@pytest.mark.full("Installs MkDocs.")
def test_the_site_is_built_from_all_pages_and_finds_words(tmp_path: Path) -> None:
    assert main(["--folder", str(tmp_path)]) == 0
    for path in pages():
        if path.startswith("docs/") and path != "docs/README.md":
            assert (tmp_path / "site" / path.removeprefix("docs/").removesuffix(".md") / "index.html").exists(), path
    found = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    assert any("flotilla drain" in each["text"] for each in found)
    assert not any(each["location"].startswith("design/") for each in found)
