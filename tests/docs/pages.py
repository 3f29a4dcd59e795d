"""Parser of the documentation: tables, fenced blocks, anchors."""

import re
from dataclasses import dataclass
from pathlib import Path

from hack.lab.sandbox.objects import REPOSITORY

DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"
CHART_README = REPOSITORY / "charts/flotilla/README.md"
PAGES = [README, CHART_README, *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_COLUMN = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    """Path in `docs`, or in the repository."""
    language: str
    mark: str
    """Second word after the fence, such as `demo`."""
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    """Return the fenced blocks of a page in one language."""
    found = []
    for info, text in _FENCE.findall(page.read_text()):
        words = info.split()
        if words[:1] == [language]:
            found.append(
                Block(str(page.relative_to(REPOSITORY)).removeprefix("docs/"), language, " ".join(words[1:]), text)
            )
    return found


def tables(text: str) -> list[list[list[str]]]:
    """Return the cells of every table with the header row, without the line of dashes."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        cells = [cell.strip() for cell in _COLUMN.split(line.strip())[1:-1]]
        if not all(set(cell) <= set("-: ") for cell in cells):
            found[-1].append(cells)
    return found


def section(page: Path, heading: str) -> str:
    """Return the text under a heading of the second level."""
    _, _, rest = page.read_text().partition(f"\n## {heading}\n")
    assert rest, f"{page.name} has no section {heading}"
    return re.split(r"\n## ", rest)[0]


def quoted(cell: str) -> list[str]:
    """Return the texts between backticks."""
    return _QUOTED.findall(cell)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub builds them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
