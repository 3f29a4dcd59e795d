"""Settings for experts: `NAME=VALUE`, several separated by commas. Pure."""

import difflib
from collections.abc import Sequence


class InvalidTuning(ValueError):
    """An item that cannot be used; the message names the remedy."""


def read(texts: Sequence[str], *, experts: Sequence[str], others: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of settings by name, in the order given. Raises InvalidTuning.

    :param experts: names of the settings for experts
    :param others: names of settings with a flag of their own
    """
    found: dict[str, list[str]] = {}
    for item in (part.strip() for text in texts for part in text.split(",")):
        if not item:
            continue
        name, equals, value = item.partition("=")
        if name in others:
            raise InvalidTuning(f"{name} has a flag of its own: use --{name}")
        if name not in experts:
            close = difflib.get_close_matches(name, experts, n=1)
            hint = f": did you mean {close[0]}?" if close else "; the page Settings lists all"
            raise InvalidTuning(f"no setting for experts is named {name!r}{hint}")
        if not equals:
            raise InvalidTuning(f"{name} needs a value: write {name}=VALUE")
        found.setdefault(name, []).append(value)
    return found
