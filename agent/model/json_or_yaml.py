"""Documents that users and peers put into annotations and Secrets: JSON, else YAML as Go's strict readers take it.

PyYAML is imported only when something is not JSON: it costs more than everything else we do to a pod (ruling 7).
"""

from typing import Any

import msgspec


class InvalidDocument(ValueError):
    """Text that is neither JSON nor YAML without surprises; the message says where, and may quote a piece of it."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason
        """The same without a word of the text."""


LIMIT = 256 * 1024
"""Characters of a document, and of one in YAML with its aliases written out: annotations take no more."""
YAML_LIMIT = 64 * 1024
"""Characters of a document in YAML, which takes a millisecond for each KiB to read."""
PURE_YAML_LIMIT = 4 * 1024
"""The same where PyYAML comes without libyaml, which is twenty times as slow."""


def read(text: str, limit: int = LIMIT) -> Any:
    """The value of a JSON or YAML document, in time proportional to its length.

    :param limit: of its characters
    :raises InvalidDocument: if it is neither, is too long, is nested too deeply, or has a key twice
    """
    if len(text) > limit:
        raise InvalidDocument(f"it has {len(text)} characters, and {limit} are allowed")
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise InvalidDocument("it is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeError):
        return _read_yaml(text)


def _read_yaml(text: str) -> Any:
    from agent.model import _yaml

    limit = YAML_LIMIT if _yaml.HAS_LIBYAML else PURE_YAML_LIMIT
    if len(text) > limit:
        raise InvalidDocument(
            f"it is not JSON, and as YAML it may have {limit} characters, not {len(text)}: write it as JSON"
        )
    try:
        return _yaml.load(text, LIMIT)
    except _yaml.Unusable as error:
        raise InvalidDocument(error.reason, str(error)) from error
