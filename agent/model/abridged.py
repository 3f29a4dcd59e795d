"""The first of a list, for messages: `a, b and 3 more`."""

from collections.abc import Sequence

_MORE = {", ": " and {} more", "; ": "; and {} more"}


def abridged(items: Sequence[str], most: int, joiner: str = ", ", *, in_brackets: bool = False) -> str:
    """The first items, joined, and how many are left out: `a, b and 3 more`, `a; b; and 3 more`, `a; b (and 3 more)`.

    :param joiner: a comma between names, a semicolon between sentences
    """
    shown, hidden = joiner.join(items[:most]), len(items) - most
    if hidden <= 0:
        return shown
    return shown + (" (and {} more)" if in_brackets else _MORE[joiner]).format(hidden)
