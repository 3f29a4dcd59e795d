"""Shortened lists for messages: `a, b and 3 more`."""

from collections.abc import Sequence

_MORE = {", ": " and {} more", "; ": "; and {} more"}


def abridged(items: Sequence[str], most: int, joiner: str = ", ", *, in_brackets: bool = False) -> str:
    """Join the first items, and count the rest: `a, b and 3 more`, `a; b; and 3 more`, or `a; b (and 3 more)`.

    :param most: maximum number of items to show
    :param joiner: comma between names, semicolon between sentences
    :param in_brackets: whether to put the count in brackets
    """
    shown, hidden = joiner.join(items[:most]), len(items) - most
    if hidden <= 0:
        return shown
    return shown + (" (and {} more)" if in_brackets else _MORE[joiner]).format(hidden)
