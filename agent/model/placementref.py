"""Annotations of pods and namespaces that name a Placement in their namespace, and its decision group. Pure."""

from collections.abc import Iterator, Mapping

from agent.api import labels, names
from agent.api.names.ocm import PLACEMENT, PLACEMENT_GROUP


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield annotations with invalid names of a Placement or a group: the field, and the reason with the remedy.

    An empty name is valid: it frees a pod from the Placement of its namespace.
    """
    name, group = (names.annotation(annotations, suffix) for suffix in (PLACEMENT, PLACEMENT_GROUP))
    if name and not labels.is_name(name):
        reason = (
            f"{name!r} can be no Placement's name: write that of one in this namespace (lower-case letters, digits, '-'"
            " and '.'), or nothing to go without"
        )
        yield _field(annotations, PLACEMENT), reason
    if group and not labels.is_value(group):
        reason = (
            f"{group!r} can be no decision group's name: write a groupName of the Placement (at most 63 letters,"
            " digits, '-', '_' and '.'), or remove it for all groups"
        )
        yield _field(annotations, PLACEMENT_GROUP), reason


def _field(annotations: Mapping[str, str] | None, suffix: str) -> str:
    long = names.PREFIX + suffix
    return f"metadata.annotations[{long if long in (annotations or {}) else names.SHORT_PREFIX + suffix}]"
