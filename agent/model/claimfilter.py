"""Filters by claim: annotations of a pod, or of its namespace, that require claims of the target's cluster. Pure.

`p2code.filter.region: south`, as in P2CODE's manifests, requires a claim `p2code.filter.region` with the value `south`.
A target has to meet all filters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from agent.api.names.p2code import FILTER
from agent.model.clusterclaims import VALUE_LIMIT

_SHOWN = 60


class Telling(Protocol):
    """A target with the claims of its cluster."""

    @property
    def claims(self) -> Mapping[str, str] | None:
        """Values of the cluster's claims by name; None while the agent has not received them."""


class Level(NamedTuple):
    """Filters of one object."""

    where: str
    """The object, such as `namespace shop`."""
    wanted: tuple[tuple[str, str], ...]
    """Names and required values of claims, sorted."""


def level(where: str, annotations: Mapping[str, str] | None) -> Level:
    """Return the filters among the annotations of an object."""
    return Level(where, tuple(sorted((key, value) for key, value in (annotations or {}).items() if is_filter(key))))


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield the field of each invalid filter annotation, and the reason with the remedy."""
    for key, value in level("", annotations).wanted:
        if reason := _flaw(key, value):
            yield f"metadata.annotations[{key}]", reason


def is_filter(key: str) -> bool:
    """Return True if an annotation is a filter, valid or not."""
    return key.startswith(FILTER) and "/" not in key


def _flaw(key: str, value: str) -> str:
    if not key.startswith(f"{FILTER}.") or key == f"{FILTER}.":
        return f"names no feature: write {FILTER}.FEATURE, as the claim of the clusters is called"
    if not value:
        return "has no value: write the one that the claim of a cluster has to have, or remove it"
    if len(value) > VALUE_LIMIT:
        return f"has {len(value)} characters, and no claim has more than {VALUE_LIMIT}: write the value of a claim"
    return ""


@dataclass(frozen=True, eq=False)
class ClaimFilter:
    """Filters of all levels together. Pods with the same filters share one object."""

    levels: tuple[Level, ...]
    flaw: str = ""
    """Message about invalid filters; empty if all are valid. Otherwise no target qualifies, and pods stay in place."""

    def refusal(self, target: Telling) -> str:
        """Return why the pods may not run in a target, as a message; empty if they may."""
        if self.flaw:
            return self.flaw
        if target.claims is None:
            return "which claims its cluster has is not known"
        for where, wanted in self.levels:
            for claim, value in wanted:
                has = target.claims.get(claim)
                if has is None:
                    return f"its cluster has no claim {claim}, which is to be {_shown(value)} for {where}"
                if has != value:
                    return f"its claim {claim} is {_shown(has)}, and is to be {_shown(value)} for {where}"
        return ""

    def misplaced(self, target: Telling) -> str:
        """Return why a pod that runs in a target does not meet its filters; empty if it does, or if that is unknown."""
        return "" if self.flaw or target.claims is None else self.refusal(target)

    @property
    def source(self) -> str:
        """All filters with their objects in one line, or the message about invalid ones."""
        said = (f"{claim}={_shown(value)} of {where}" for where, wanted in self.levels for claim, value in wanted)
        return self.flaw or "; ".join(said)


@lru_cache(maxsize=512)
def combine(levels: Sequence[Level]) -> ClaimFilter | None:
    """Return the filters of all levels together; None without filters. Equal levels return the same object (cached)."""
    asking = tuple(each for each in levels if each.wanted)
    found = [
        f"{where}: metadata.annotations[{key}] {reason}"
        for where, wanted in asking
        for key, value in wanted
        if (reason := _flaw(key, value))
    ]
    return ClaimFilter(asking, "; ".join(found)) if asking else None


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
