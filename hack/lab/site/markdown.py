"""Conversion of the pages from GitHub's Markdown to that of MkDocs. Pure."""

import posixpath
import re

DOCS, DESIGN = "docs/", "hack/design/"
_FENCED = re.compile(r"^([ \t]*```.*?^[ \t]*```)$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]+`")
_ITEM = re.compile(r"( *)([-*]|\d+\.) ")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def converted(path: str, text: str) -> str:
    """Convert a page. `path` is relative to the repository."""
    parts = _FENCED.split(text)
    return "".join(_fence(part) if number % 2 else _prose(path, part) for number, part in enumerate(parts))


def address(path: str) -> str | None:
    """Return the path of a repository's file in the site, None for a file that the site does not have."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return f"design/{path.removeprefix(DESIGN)}" if path.startswith(DESIGN) and path.endswith(".md") else None


def diagrams(text: str) -> list[str]:
    """Return the Mermaid diagrams of a page."""
    return _DIAGRAM.findall(text)


def _fence(text: str) -> str:
    """Remove the marks for tests after the language, which superfences would read as an option."""
    return re.sub(r"\A([ \t]*```\w*) .*", r"\1", text)


def _prose(path: str, text: str) -> str:
    linked = _LINK.sub(lambda found: _link(path, found), text)
    return "\n".join(_lines(linked.split("\n")))


def _link(path: str, found: re.Match[str]) -> str:
    file, _, anchor = found[3].partition("#")
    if not file or re.match(r"\w+:", file):
        return found[0]
    target = address(posixpath.normpath(posixpath.join(posixpath.dirname(path), file)))
    if target is None:
        return found[2]
    here = posixpath.dirname(address(path) or "")
    relative = posixpath.relpath(target, here or ".")
    return f"{found[1]}[{found[2]}]({relative}{'#' if anchor else ''}{anchor})"


def _lines(lines: list[str]) -> list[str]:
    """Separate lists and tables from the paragraph above, and indent nested items by four spaces."""
    found: list[str] = []
    for line in lines:
        above = found[-1] if found else ""
        item = _ITEM.match(line)
        if item and len(item[1]) in (2, 3):
            line = " " * 4 + line.lstrip()
        elif item and not item[1] and above and not above.startswith(" ") and not _in_list(found):
            found.append("")
        if line.startswith("|"):
            if above and not above.startswith("|"):
                found.append("")
            line = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line)
        found.append(line)
    return found


def _in_list(lines: list[str]) -> bool:
    """Return whether the last paragraph is part of a list."""
    for line in reversed(lines):
        if not line:
            return False
        if _ITEM.match(line):
            return True
    return False
