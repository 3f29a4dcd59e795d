"""The two prefixes of Flotilla's keys, and how users' keys are read."""

from collections.abc import Mapping

GROUP = "multicluster.admiralty.io"
VERSION = "v1alpha1"
PREFIX = GROUP + "/"
SHORT_PREFIX = "multicluster/"


def is_ours(key: str) -> bool:
    """Return whether a key has one of Flotilla's two prefixes."""
    return key.startswith((PREFIX, SHORT_PREFIX))


def annotation(annotations: Mapping[str, str] | None, suffix: str) -> str | None:
    """Return the value of a user's annotation under either prefix (the long one takes precedence), None if absent."""
    if not annotations:
        return None
    value = annotations.get(PREFIX + suffix)
    return value if value is not None else annotations.get(SHORT_PREFIX + suffix)
