"""Targets that a pod may run in, by annotations of pod, controllers and namespace, and by settings. Pure.

`us,eu` selects these targets, `!us` all others, and `us > eu,ap` groups in order of preference. A name selects
the Target in the pod's namespace, or else the ClusterTarget. `clustertarget/us` selects the ClusterTarget if
both have the name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from agent.api import labels, names
from agent.api.names.moves import ALLOWED_TARGETS, TARGETS

LIMIT = 16 * 1024
"""Maximum length of one value in characters."""
CLUSTER_TARGET = "clustertarget/"
_SHOWN = 60
_REMEDY = "write names of targets, such as us,eu, or !us for all others"
_ORDERED = f"{_REMEDY}, or us > eu,ap in order of preference"


class InvalidChoice(ValueError):
    """Invalid value; the message has the reason and a remedy."""


class Target(Protocol):
    """A Target, or a ClusterTarget, whose namespace is empty."""

    @property
    def namespace(self) -> str:
        """The only namespace that it serves, empty for all."""

    @property
    def title(self) -> str:
        """Its name."""


class Group(NamedTuple):
    """Targets of equal preference."""

    names: frozenset[str]
    others: bool = False
    """Whether the group is all targets except `names`."""

    def has(self, called: Sequence[str]) -> bool:
        """Return whether a target with any of these names belongs to the group."""
        return any(name in self.names for name in called) != self.others


class Choice(NamedTuple):
    """One parsed value."""

    text: str
    groups: tuple[Group, ...] = ()
    """The most preferred group first; empty for all targets."""

    def group_of(self, called: Sequence[str]) -> int | None:
        """Return the index of the first group with a target of these names; None if the target is not chosen."""
        if not self.groups:
            return 0
        return next((index for index, group in enumerate(self.groups) if group.has(called)), None)

    @property
    def named(self) -> frozenset[str]:
        """Every name in the value."""
        return frozenset().union(*(group.names for group in self.groups))


@lru_cache(maxsize=256)
def parse(text: str, *, ordered: bool = True) -> Choice:
    """Parse a value of the annotation `targets`, or of `allowed-targets` if it is not `ordered`.

    :raises InvalidChoice: if the value is invalid
    """
    remedy = _ORDERED if ordered else _REMEDY
    if len(text) > LIMIT:
        raise InvalidChoice(f"has {len(text)} characters, of which {LIMIT} at most are allowed: name fewer targets")
    if not text.strip():
        return Choice("")
    parts = text.split(">")
    if len(parts) > 1 and not ordered:
        raise InvalidChoice(f"{_shown(text)} has preferences, which only {names.SHORT_PREFIX}{TARGETS} may: {remedy}")
    return Choice(" ".join(text.split()), tuple(_group(part, text, remedy) for part in parts))


def _group(part: str, text: str, remedy: str) -> Group:
    terms = [term.strip() for term in part.split(",")]
    others = [term.startswith("!") for term in terms]
    if any(others) and not all(others):
        reason = "both names targets and excludes some: name those that are meant, or only those that are not"
        raise InvalidChoice(f"{_shown(part.strip())} {reason}")
    return Group(frozenset(_name(term, text, remedy) for term in terms), others[0])


def _name(term: str, text: str, remedy: str) -> str:
    name = term.removeprefix("!").strip()
    if not name:
        raise InvalidChoice(f"a name is missing in {_shown(text)}: {remedy}")
    if not labels.is_name(name.removeprefix(CLUSTER_TARGET)):
        kind = f"; {CLUSTER_TARGET}us is the ClusterTarget us" if "/" in name else ""
        raise InvalidChoice(f"{_shown(name)} is no name of a target: {remedy}{kind}")
    return name


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


class Level(NamedTuple):
    """Target annotations of one object, or the settings; None for a missing annotation."""

    where: str
    """The object, such as `Deployment web`."""
    targets: str | None = None
    allowed: str | None = None
    targets_field: str = TARGETS
    allowed_field: str = ALLOWED_TARGETS

    @property
    def is_silent(self) -> bool:
        """Whether it sets neither annotation."""
        return self.targets is None and self.allowed is None


def level(where: str, annotations: Mapping[str, str] | None) -> Level:
    """Return the target annotations of an object."""
    if not annotations:
        return Level(where)
    long = [annotations.get(names.PREFIX + suffix) for suffix in (TARGETS, ALLOWED_TARGETS)]
    short = [annotations.get(names.SHORT_PREFIX + suffix) for suffix in (TARGETS, ALLOWED_TARGETS)]
    return level_of(where, (long[0], short[0]), (long[1], short[1]))


def level_of(where: str, targets: tuple[str | None, str | None], allowed: tuple[str | None, str | None]) -> Level:
    """Return the level from both annotations, each given by its long key and by its short key."""
    (choice, key), (bound, bound_key) = _said(TARGETS, *targets), _said(ALLOWED_TARGETS, *allowed)
    return Level(where, choice, bound, key, bound_key)


def _said(suffix: str, long: str | None, short: str | None) -> tuple[str | None, str]:
    return (long, names.PREFIX + suffix) if long is not None else (short, names.SHORT_PREFIX + suffix)


def mended(now: Level, before: Level | None) -> Level:
    """Replace an invalid value by the last valid one, if it is cached."""
    if before is not None and _is_flawed(now.targets, ordered=True) and not _is_flawed(before.targets, ordered=True):
        now = now._replace(targets=before.targets)
    if before is not None and _is_flawed(now.allowed, ordered=False) and not _is_flawed(before.allowed, ordered=False):
        now = now._replace(allowed=before.allowed)
    return now


def _is_flawed(text: str | None, *, ordered: bool) -> bool:
    try:
        parse(text or "", ordered=ordered)
    except InvalidChoice:
        return True
    return False


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield the invalid target annotations of an object: the field, and the reason with a remedy."""
    said = level("", annotations)
    for text, key, ordered in ((said.targets, said.targets_field, True), (said.allowed, said.allowed_field, False)):
        try:
            parse(text or "", ordered=ordered)
        except InvalidChoice as error:
            yield f"metadata.annotations[{key}]", f"{error}; remove it to choose none here"


class Said(NamedTuple):
    """A choice and its origin."""

    choice: Choice
    source: str
    """For example `multicluster/targets of Deployment web`."""

    def __str__(self) -> str:
        """Return the text for users."""
        return f"{self.source} ({self.choice.text or 'all'})"


@dataclass(frozen=True, eq=False)
class TargetChoice:
    """Result of all levels for pods of one namespace; pods with the same result share one object."""

    chosen: Said | None = None
    """Value of the level closest to the pod."""
    allowed: tuple[Said, ...] = ()
    """Restrictions of all levels; a target has to satisfy each."""
    flaw: str = ""
    """Reason why the choice cannot be parsed. Then no target is admitted, and a pod keeps its present target."""
    own: frozenset[str] = frozenset()
    """Names of the Targets of the namespace."""
    _preferences: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False)
    """Cache of preferences by namespace and name of targets: every ranking requests all of them."""

    @property
    def has_order(self) -> bool:
        """Whether it prefers some targets to others."""
        return self.chosen is not None and len(self.chosen.choice.groups) > 1

    def admits(self, target: Target) -> bool:
        """Return whether the pods may run in a target."""
        return not self.refusal(target)

    def preference(self, target: Target) -> int:
        """Return a target's group, 0 for the most preferred; the number of groups if it is not chosen."""
        if self.chosen is None:
            return 0
        key = (target.namespace, target.title)
        known = self._preferences.get(key)
        if known is None:
            found = self.chosen.choice.group_of(self._called(target))
            known = self._preferences[key] = len(self.chosen.choice.groups) if found is None else found
        return known

    def refusal(self, target: Target) -> str:
        """Return the reason why the pods may not run in a target; empty if they may."""
        if self.flaw:
            return self.flaw
        called = self._called(target)
        for said in (self.chosen, *self.allowed):
            if said is not None and said.choice.group_of(called) is None:
                return f"not in {said}"
        return ""

    def misplaced(self, target: Target) -> str:
        """Return the reason why a pod in a target is misplaced; empty if it is not, or if that is unknown."""
        return "" if self.flaw else self.refusal(target)

    @property
    def source(self) -> str:
        """The annotations in effect with their origins, in one line; empty if there are none."""
        return self.flaw or "; ".join(str(said) for said in (self.chosen, *self.allowed) if said is not None)

    def unknown(self, known: frozenset[str]) -> tuple[str, ...]:
        """Return names in it that no target has; `known` are the names of ClusterTargets."""
        named: set[str] = set()
        for said in (self.chosen, *self.allowed):
            named |= said.choice.named if said is not None else frozenset()
        there = known | self.own | {CLUSTER_TARGET + name for name in known}
        return tuple(sorted(named - there))

    def _called(self, target: Target) -> tuple[str, ...]:
        """Return the names that select a target."""
        if target.namespace:
            return (target.title,)
        full = CLUSTER_TARGET + target.title
        return (full,) if target.title in self.own else (target.title, full)


def combine(levels: Sequence[Level], own: frozenset[str] = frozenset()) -> TargetChoice | None:
    """Combine the levels; return None if none sets an annotation.

    :param levels: the closest to the pod first: the pod, its controllers, its namespace, the settings
    :param own: names of the Targets of the pod's namespace
    """
    if all(each.is_silent for each in levels):
        return None
    flaws_found: list[str] = []

    def read(where: str, field: str, text: str, *, ordered: bool) -> Said | None:
        try:
            return Said(parse(text, ordered=ordered), f"{field} of {where}")
        except InvalidChoice as error:
            flaws_found.append(f"{where}: metadata.annotations[{field}]: {error}")
            return None

    chosen = next((each for each in levels if each.targets is not None), None)
    said = read(chosen.where, chosen.targets_field, chosen.targets or "", ordered=True) if chosen is not None else None
    bounds = [
        read(each.where, each.allowed_field, each.allowed, ordered=False) for each in levels if each.allowed is not None
    ]
    return TargetChoice(said, tuple(filter(None, bounds)), "; ".join(flaws_found), own)
