"""Documents in annotations and Secrets from users and peers: JSON, else YAML as Go's strict parsers accept it.

PyYAML is imported only for text that is not JSON: it costs more than all other processing of a pod (ruling 7).
"""

from typing import Any

import msgspec


class InvalidDocument(ValueError):
    """Text that is neither JSON nor unambiguous YAML. The message has the position, and may quote some of the text."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason
        """The message without quoted text."""


LIMIT = 256 * 1024
"""Maximum length of a document in characters, with YAML aliases expanded: annotations have the same limit."""
YAML_LIMIT = 64 * 1024
"""Maximum length of a YAML document in characters; parsing takes a millisecond for each KiB."""
PURE_YAML_LIMIT = 4 * 1024
"""Limit for PyYAML without libyaml, which is twenty times as slow."""


def read(text: str, limit: int = LIMIT) -> Any:
    """Parse a JSON or YAML document, in time proportional to its length.

    :param limit: maximum length in characters
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
