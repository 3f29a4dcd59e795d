"""The spec of a Placement after parsing, with its configuration errors."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from agent.api.names.ocm import KEEP_DECIDED
from agent.model import duration
from agent.ranking.placing import fields
from agent.ranking.placing.fields import Misconfigured
from agent.ranking.pod_terms import Selector

BALANCE = "Balance"
STEADY = "Steady"
SPREAD = "Spread"
ALLOCATABLE = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}
BUILT_IN = (BALANCE, STEADY, SPREAD, *ALLOCATABLE)
EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
SCORE_RATE_LIMIT = 60.0
"""Default seconds between writes of decisions that change scores only; overridden by `spec.scoreRateLimit`."""
_MAX_WEIGHT = 10

Stage = Literal["predicates", "tolerations", "policy", "groups"]
Raw = Mapping[str, Any]
T = TypeVar("T")


class Predicate(msgspec.Struct, frozen=True):
    """Requirements on a cluster: labels, claims and CEL together."""

    labels: Selector
    claims: Selector
    cel: tuple[str, ...] = ()


class Toleration(msgspec.Struct, frozen=True):
    """A toleration of taints; an empty key or effect means any."""

    key: str
    exists: bool
    value: str
    effect: str
    seconds: int | None


class Prioritizer(msgspec.Struct, frozen=True):
    """One score and its weight: a built-in one, or a value of an AddOnPlacementScore."""

    weight: int
    built_in: str = ""
    resource: str = ""
    score: str = ""

    @property
    def name(self) -> str:
        """Its name in reasons and warnings."""
        return self.built_in or f"AddOn/{self.resource}/{self.score}"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One constraint of spreadPolicy."""

    key: str
    claim: bool
    max_skew: int
    hard: bool


class NamedGroup(msgspec.Struct, frozen=True):
    """A decision group with a selector."""

    name: str
    clusters: Predicate


class GroupStrategy(msgspec.Struct, frozen=True):
    """Rules for dividing decisions into groups."""

    named: tuple[NamedGroup, ...] = ()
    clusters: int | None = None
    percent: float = 100.0

    def length(self, total: int) -> int:
        """Return the maximum number of clusters in a group."""
        found = math.ceil(min(self.percent, 100.0) / 100 * total) if self.clusters is None else self.clusters
        return found if 0 < found <= total else total


class Policy(msgspec.Struct, frozen=True):
    """Rules for choosing among the feasible clusters."""

    number: int | None = None
    prioritizers: tuple[Prioritizer, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    by_score: bool = False
    """True if decisions are listed best first, False if by name."""
    score_rate_limit: float = SCORE_RATE_LIMIT


@dataclass(frozen=True)
class PlacementSpec:
    """A Placement after parsing; invalid parts have their defaults."""

    namespace: str
    sets: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    tolerations: tuple[Toleration, ...]
    policy: Policy
    groups: GroupStrategy
    keep_decided: bool
    flaws: Mapping[Stage, str] = field(default_factory=dict)
    """Error of each invalid part, as `plugin:message`."""


def parse(placement: Raw) -> PlacementSpec:
    """Parse a Placement, even if no API server has validated it."""
    metadata, raw = fields.mapping_if_any(placement, "metadata"), fields.mapping_if_any(placement, "spec")
    namespace = metadata.get("namespace")
    flaws: dict[Stage, str] = {}

    def part(stage: Stage, plugin: str, read: Callable[[Raw], T], default: T) -> T:
        try:
            return read(raw)
        except Misconfigured as flaw:
            flaws.setdefault(stage, f"{plugin}:{flaw}")
            return default

    return PlacementSpec(
        namespace=namespace if isinstance(namespace, str) else "",
        sets=part("policy", "", lambda raw: fields.texts(raw, "clusterSets", "spec"), ()),
        predicates=part("predicates", "Predicate", _predicates, ()),
        tolerations=part("tolerations", "TaintToleration", _tolerations, ()),
        policy=part("policy", "", _policy, Policy()),
        groups=part("groups", "", _groups, GroupStrategy()),
        keep_decided=fields.mapping_if_any(metadata, "annotations").get(KEEP_DECIDED) == "true",
        flaws=flaws,
    )


def _predicates(raw: Raw) -> tuple[Predicate, ...]:
    return tuple(
        _cluster_selector(item, "requiredClusterSelector", place)
        for place, item in fields.items(raw, "predicates", "spec")
    )


def _cluster_selector(raw: Raw, name: str, where: str) -> Predicate:
    required, where = fields.mapping(raw, name, where), f"{where}.{name}"
    claims = fields.mapping(required, "claimSelector", where)
    cel = fields.mapping(required, "celSelector", where)
    return Predicate(
        fields.selector(fields.mapping(required, "labelSelector", where), f"{where}.labelSelector"),
        fields.selector({**claims, "matchLabels": None}, f"{where}.claimSelector"),
        fields.texts(cel, "celExpressions", f"{where}.celSelector"),
    )


def _tolerations(raw: Raw) -> tuple[Toleration, ...]:
    return tuple(_toleration(item, place) for place, item in fields.items(raw, "tolerations", "spec"))


def _toleration(raw: Raw, where: str) -> Toleration:
    key, value = fields.text(raw, "key", where), fields.text(raw, "value", where)
    operator = fields.text(raw, "operator", where, "Equal")
    if not key and operator != "Exists":
        raise Misconfigured("If the key is empty, operator must be Exists.")
    if operator == "Exists" and value:
        raise Misconfigured("If the operator is Exists, the value should be empty.")
    fields.text(raw, "operator", where, "Equal", ("Exists", "Equal"))
    effect = fields.text(raw, "effect", where, "", ("", *EFFECTS))
    return Toleration(key, operator == "Exists", value, effect, fields.number(raw, "tolerationSeconds", where))


def _policy(raw: Raw) -> Policy:
    prioritizers = _prioritizers(fields.mapping(raw, "prioritizerPolicy", "spec"), "spec.prioritizerPolicy")
    where = "spec.spreadPolicy"
    limit = fields.text(raw, "scoreRateLimit", "spec")
    try:
        seconds = duration.seconds(limit) if limit else SCORE_RATE_LIMIT
    except duration.InvalidDuration as flaw:
        raise Misconfigured(f"spec.scoreRateLimit: {flaw}, not {limit!r}") from None
    return Policy(
        number=fields.number(raw, "numberOfClusters", "spec", least=0),
        prioritizers=prioritizers,
        spread=tuple(
            _spread(item, place)
            for place, item in fields.items(fields.mapping(raw, "spreadPolicy", "spec"), "spreadConstraints", where)
        ),
        by_score=fields.text(raw, "sortBy", "spec", "ClusterName", ("ClusterName", "Score")) == "Score",
        score_rate_limit=seconds,
    )


def _prioritizers(raw: Raw, where: str) -> tuple[Prioritizer, ...]:
    mode = fields.text(raw, "mode", where, "Additive")
    if mode not in ("Additive", "Exact"):
        raise Misconfigured(f"incorrect prioritizer policy mode: {mode}")
    built_in = {} if mode == "Exact" else {name: Prioritizer(1, name) for name in (BALANCE, STEADY)}
    addons = []
    for place, item in fields.items(raw, "configurations", where):
        found = _prioritizer(item, place)
        if found.resource or found.score:
            addons.append(found)
        else:
            built_in[found.built_in] = found
    wanted = tuple(each for each in (*built_in.values(), *addons) if each.weight)
    for each in wanted:
        if not each.resource and each.built_in not in BUILT_IN:
            raise Misconfigured(f"incorrect builtin prioritizer: {each.built_in}")
    return wanted


def _prioritizer(raw: Raw, where: str) -> Prioritizer:
    if raw.get("scoreCoordinate") is None:
        raise Misconfigured("scoreCoordinate field is required")
    given = fields.number(raw, "weight", where, -_MAX_WEIGHT, _MAX_WEIGHT)
    weight = 1 if given is None else given
    coordinate, where = fields.mapping(raw, "scoreCoordinate", where), f"{where}.scoreCoordinate"
    if fields.text(coordinate, "type", where, "BuiltIn", ("BuiltIn", "AddOn")) == "BuiltIn":
        return Prioritizer(weight, fields.text(coordinate, "builtIn", where))
    if coordinate.get("addOn") is None:
        if weight:
            raise Misconfigured("addOn should not be empty")
        return Prioritizer(0)
    addon, where = fields.mapping(coordinate, "addOn", where), f"{where}.addOn"
    resource, score = fields.text(addon, "resourceName", where), fields.text(addon, "scoreName", where)
    if not resource or not score:
        raise Misconfigured(f"{where}: resourceName and scoreName are required")
    return Prioritizer(weight, resource=resource, score=score)


def _spread(raw: Raw, where: str) -> SpreadConstraint:
    key = fields.text(raw, "topologyKey", where)
    if not key:
        raise Misconfigured(f"{where}.topologyKey: is required")
    skew = fields.number(raw, "maxSkew", where, least=1)
    unsatisfiable = ("ScheduleAnyway", "DoNotSchedule")
    return SpreadConstraint(
        key=key,
        claim=fields.text(raw, "topologyKeyType", where, "Label", ("Label", "Claim")) == "Claim",
        max_skew=1 if skew is None else skew,
        hard=fields.text(raw, "whenUnsatisfiable", where, unsatisfiable[0], unsatisfiable) == "DoNotSchedule",
    )


def _groups(raw: Raw) -> GroupStrategy:
    where = "spec.decisionStrategy"
    strategy = fields.mapping(fields.mapping(raw, "decisionStrategy", "spec"), "groupStrategy", where)
    where += ".groupStrategy"
    clusters, percent = _length(strategy.get("clustersPerDecisionGroup"))
    named = tuple(
        NamedGroup(fields.text(item, "groupName", place), _cluster_selector(item, "groupClusterSelector", place))
        for place, item in fields.items(strategy, "decisionGroups", where)
    )
    return GroupStrategy(named, clusters, percent)


def _length(given: object) -> tuple[int | None, float]:
    """Return a number of clusters, or a share of all in percent."""
    if given is None or given == "":
        return None, 100.0
    if isinstance(given, int) and not isinstance(given, bool):
        return given, 0.0
    try:
        percent = float(given[:-1]) if isinstance(given, str) and given.endswith("%") else math.nan
    except ValueError:
        percent = math.nan
    if not math.isfinite(percent):
        raise Misconfigured(f"{given} invalid type: string is not a percentage")
    return None, percent
