"""Filters by claim: which claims of a cluster a pod asks for by annotation, itself or through its namespace. Pure.

`p2code.filter.region: south` wants the claim of that very name to have that value, as in P2CODE's manifests. All that
is asked for counts together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from agent.api.names.p2code import FILTER
from agent.model.clusterclaims import VALUE_LIMIT

_SHOWN = 60


class Telling(Protocol):
    """A target as far as it tells of its cluster."""

    @property
    def claims(self) -> Mapping[str, str] | None:
        """Of its cluster, by name; None while they are not known."""


class Level(NamedTuple):
    """What one object asks for: claims with their values, by name."""

    where: str
    """What says it, as `namespace shop`."""
    wanted: tuple[tuple[str, str], ...]


def level(where: str, annotations: Mapping[str, str] | None) -> Level:
    """What the annotations of an object ask for."""
    return Level(where, tuple(sorted((key, value) for key, value in (annotations or {}).items() if is_filter(key))))


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """What no claim can be among the annotations of an object: the field, and why not with the remedy."""
    for key, value in level("", annotations).wanted:
        if reason := _flaw(key, value):
            yield f"metadata.annotations[{key}]", reason


def is_filter(key: str) -> bool:
    """Whether an annotation asks for a claim, or is meant to."""
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
    """What all levels together ask for: one object for all pods for which it is the same."""

    levels: tuple[Level, ...]
    flaw: str = ""
    """Why it is not known what is meant, in words: then no target will do, and nothing that a pod has is taken."""

    def refusal(self, target: Telling) -> str:
        """Why the pods may not go there, in words; empty where they may."""
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
        """Why a pod that is there would not get there today; empty where it would, and where that is not known."""
        return "" if self.flaw or target.claims is None else self.refusal(target)

    @property
    def source(self) -> str:
        """Who asks for what, in one line."""
        said = (f"{claim}={_shown(value)} of {where}" for where, wanted in self.levels for claim, value in wanted)
        return self.flaw or "; ".join(said)


@lru_cache(maxsize=512)
def combine(levels: Sequence[Level]) -> ClaimFilter | None:
    """What the levels ask for together, None where none asks for anything. The same object is the same answer."""
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
