"""What the strings of a P2CodeSchedulingManifest ask for: a cluster set, one cluster, claims of clusters. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from agent.api.names.p2code import FILTER, TARGET_CLUSTER, TARGET_SET

Precedence = Literal["global", "and"]


class Filter(NamedTuple):
    """A ClusterClaim, which has the name of the key, must have this value."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class Wishes(NamedTuple):
    """What all workloads ask for together."""

    cluster_set: str
    """Empty where none is named."""
    cluster: str
    """The one cluster for everything, empty for none."""
    filters: tuple[Filter, ...]


class Override(NamedTuple):
    """A filter of a workload that does not count, because a global one has its key."""

    own: Filter
    instead: tuple[Filter, ...]


def unsupported(annotations: Iterable[str]) -> str | None:
    """The first global annotation that nobody understands."""
    return next((each for each in annotations if not (is_filter(each) or _is_target(each))), None)


def is_filter(annotation: str) -> bool:
    """Whether it has the form of a filter. Of its key, P2CODE's scheduler looks at the beginning only."""
    return annotation.startswith(FILTER) and "=" in annotation


def wishes(annotations: Iterable[str]) -> Wishes:
    """What global annotations ask for; of several targets the last counts."""
    split = [_split(each) for each in annotations]
    target = {key: value for key, value in split if key in (TARGET_SET, TARGET_CLUSTER)}
    return Wishes(target.get(TARGET_SET, ""), target.get(TARGET_CLUSTER, ""), _filters(split))


def filters(annotations: Iterable[str]) -> tuple[Filter, ...]:
    """What annotations of a workload ask for."""
    return _filters(_split(each) for each in annotations)


def combined(
    common: Sequence[Filter], own: Sequence[Filter], precedence: Precedence
) -> tuple[tuple[Filter, ...], tuple[Override, ...]]:
    """All that counts for a workload, and what of its own does not.

    One key twice in one list stays: both are asked for, so that nothing matches.
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
    """Key and value; what follows a second `=` is no part of it."""
    key, _, rest = annotation.partition("=")
    return Filter(key, rest.partition("=")[0])


def _filters(split: Iterable[Filter]) -> tuple[Filter, ...]:
    return tuple(dict.fromkeys(each for each in split if each.key.startswith(FILTER)))
