"""Annotations of a P2CodeSchedulingManifest: they select a cluster set, one cluster, or claims of clusters. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from agent.api.names.p2code import FILTER, TARGET_CLUSTER, TARGET_SET

Precedence = Literal["global", "and"]


class Filter(NamedTuple):
    """A required value of a ClusterClaim, whose name is the key."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class Wishes(NamedTuple):
    """Global annotations of all workloads."""

    cluster_set: str
    """Empty if none is set."""
    cluster: str
    """The one cluster for all workloads, empty if none is set."""
    filters: tuple[Filter, ...]


class Override(NamedTuple):
    """A workload's filter without effect, because a global one has its key."""

    own: Filter
    instead: tuple[Filter, ...]


def unsupported(annotations: Iterable[str]) -> str | None:
    """Return the first global annotation that is not supported; None if all are."""
    return next((each for each in annotations if not (is_filter(each) or _is_target(each))), None)


def is_filter(annotation: str) -> bool:
    """Return whether it has the form of a filter. P2CODE's scheduler checks only the beginning of its key."""
    return annotation.startswith(FILTER) and "=" in annotation


def wishes(annotations: Iterable[str]) -> Wishes:
    """Parse global annotations; the last target takes precedence."""
    split = [_split(each) for each in annotations]
    target = {key: value for key, value in split if key in (TARGET_SET, TARGET_CLUSTER)}
    return Wishes(target.get(TARGET_SET, ""), target.get(TARGET_CLUSTER, ""), _filters(split))


def filters(annotations: Iterable[str]) -> tuple[Filter, ...]:
    """Parse the filters in a workload's annotations."""
    return _filters(_split(each) for each in annotations)


def combined(
    common: Sequence[Filter], own: Sequence[Filter], precedence: Precedence
) -> tuple[tuple[Filter, ...], tuple[Override, ...]]:
    """Return all filters in effect for a workload, and its own filters without effect.

    If one list has a key twice, both filters stay, so that no cluster matches.
    """
    if precedence == "and":
        return tuple(dict.fromkeys((*common, *own))), ()
    keys = {each.key for each in common}
    overridden = (
        Override(each, tuple(instead for instead in common if instead.key == each.key))
        for each in own
        if each.key in keys and each not in common
    )
    return tuple(dict.fromkeys((*common, *(each for each in own if each.key not in keys)))), tuple(overridden)


def _is_target(annotation: str) -> bool:
    key, equals, _ = annotation.partition("=")
    return bool(equals) and key in (TARGET_SET, TARGET_CLUSTER)


def _split(annotation: str) -> Filter:
    """Return key and value, without a second `=` and the text after it."""
    key, _, rest = annotation.partition("=")
    return Filter(key, rest.partition("=")[0])


def _filters(split: Iterable[Filter]) -> tuple[Filter, ...]:
    return tuple(dict.fromkeys(each for each in split if each.key.startswith(FILTER)))
