"""Converts error messages of CEL's C++ library into those of the reference implementation, cel-go. Pure.

For an unknown variable with fields, `xxxx.name`, the library reports the whole chain at its last dot. cel-go reports
the variable at its own position.
"""

import re

_CHAIN = re.compile(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): undeclared reference to '(?P<chain>\.?\w+(?:\.\w+)+)'"
    r" \(in container ''\)(?P<shown>\n \| [^\n]*\n \| [^\n]*)?"
)
_WIDE, _WIDE_MARK = "\N{FULLWIDTH FULL STOP}", "\N{FULLWIDTH CIRCUMFLEX ACCENT}"


def as_reference(reason: str, expression: str) -> str:
    """Return the library's message about an expression in cel-go's words."""
    return _CHAIN.sub(lambda match: _rewritten(match, expression), reason)


def _rewritten(match: re.Match[str], expression: str) -> str:
    lines = expression.split("\n")
    line, column = int(match["line"]), int(match["column"])
    if line > len(lines):
        return match[0]
    reported = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    start = _start(match["chain"], expression, reported)
    if start is None:
        return match[0]
    before = expression[:start]
    line, column = before.count("\n") + 1, start - before.rfind("\n")
    dot = "." if match["chain"].startswith(".") else ""
    name = dot + match["chain"].removeprefix(".").partition(".")[0]
    shown = _shown(lines[line - 1], column) if match["shown"] else ""
    return f"ERROR: <input>:{line}:{column}: undeclared reference to '{name}' (in container ''){shown}"


def _start(chain: str, expression: str, reported: int) -> int | None:
    """Return the start of the chain that contains `reported`, or precedes it as in `has(`; None if not found."""
    pattern = re.compile(r"(?<!\w)" + r"\s*\.\s*".join(map(re.escape, chain.removeprefix(".").split("."))) + r"(?!\w)")
    return next((each.start() for each in pattern.finditer(expression) if each.end() > reported), None)


def _shown(line: str, column: int) -> str:
    """Return the line and, below it, a mark under a column, as cel-go does."""
    text = line.replace("\t", " ")
    dots = "".join("." if each.isascii() else _WIDE for each in text[: column - 1])
    mark = "^" if text[column - 1 : column].isascii() else _WIDE_MARK
    return f"\n | {text}\n | {dots}{mark}"
