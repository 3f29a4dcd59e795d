"""The two prefixes of our keys, and how those that users set are read."""

from collections.abc import Mapping

GROUP = "multicluster.admiralty.io"
VERSION = "v1alpha1"
PREFIX = GROUP + "/"
SHORT_PREFIX = "multicluster/"


def is_ours(key: str) -> bool:
    """Whether a key carries one of our two prefixes."""
    return key.startswith((PREFIX, SHORT_PREFIX))


def annotation(annotations: Mapping[str, str] | None, suffix: str) -> str | None:
    """The value of a user's annotation under either prefix (the long one wins), None when absent."""
    if not annotations:
        return None
    value = annotations.get(PREFIX + suffix)
    return value if value is not None else annotations.get(SHORT_PREFIX + suffix)
