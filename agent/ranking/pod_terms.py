"""Compiled constraints about other pods: label selectors, affinity terms, topology spread constraints."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from agent.ranking.snapshot import PodInfo

Labels = Mapping[str, str]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Requirement(NamedTuple):
    """One expression of a label selector."""

    key: str
    operator: str
    values: Collection[str] = ()

    def holds(self, labels: Labels) -> bool:
        """Return True if the labels match, as in `metav1.LabelSelector`: NotIn matches a missing label."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return False


class Selector(NamedTuple):
    """A label selector as a value; an empty one matches everything, `NOTHING` nothing."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return True if all requirements match."""
        return all(requirement.holds(labels) for requirement in self.requirements)


NOTHING = Selector((Requirement("", "Nothing"),))


def selector(
    raw: Mapping[str, Any] | None, item: Mapping[str, Any] | None = None, labels: Labels | None = None
) -> Selector:
    """Compile a label selector; None selects nothing.

    :param item: a constraint whose `matchLabelKeys` and `mismatchLabelKeys` take values from `labels`; missing keys
    are ignored (KEP-3243, KEP-3633)
    """
    if raw is None:
        return NOTHING
    found = [Requirement(key, "In", (value,)) for key, value in (raw.get("matchLabels") or {}).items()]
    found += [
        Requirement(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in raw.get("matchExpressions") or ()
    ]
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in (item or {}).get(field) or ():
            if labels and key in labels:
                found.append(Requirement(key, operator, (labels[key],)))
    return Selector(tuple(sorted(set(found))))


class PodSelector(NamedTuple):
    """Selects pods by labels, in the given namespaces (None: all) or in namespaces with matching labels."""

    namespaces: frozenset[str] | None
    selector: Selector
    within: Selector = NOTHING
    """Selector of namespaces."""

    def has(self, pod: PodInfo) -> bool:
        """Return True if the selector matches a pod."""
        names = self.namespaces
        if names is not None and pod.namespace not in names and not self.within.matches(pod.namespace_labels):
            return False
        return self.selector.matches(pod.labels)


class Term(NamedTuple):
    """One term of a pod affinity or anti-affinity."""

    pods: PodSelector
    key: str
    """Label key of virtual nodes; each of its values is a domain of the term."""
    weight: int = 0
    """Weight of a preferred term; negative for anti-affinity."""


class Spread(msgspec.Struct, frozen=True):
    """One topology spread constraint."""

    pods: PodSelector
    key: str
    max_skew: int
    min_domains: int
    honour_affinity: bool
    honour_taints: bool
    own: bool
    """True if the selector matches the pod itself."""


class Terms(msgspec.Struct, frozen=True):
    """All constraints of one pod that depend on other pods."""

    affinity: tuple[Term, ...] = ()
    """Required affinity."""
    anti_affinity: tuple[Term, ...] = ()
    """Required anti-affinity."""
    preferred: tuple[Term, ...] = ()
    hard: tuple[Spread, ...] = ()
    soft: tuple[Spread, ...] = ()

    def __bool__(self) -> bool:
        return self is not NONE


NONE = Terms()


def terms_of(pod: PodInfo) -> Terms:
    """Return a pod's constraints, compiled once per template unless they take values from the pod's labels."""
    template = pod.template
    if not template.proxy.get("topologySpreadConstraints") and not (
        template.affinity.get("podAffinity") or template.affinity.get("podAntiAffinity")
    ):
        return NONE
    where = pod if template.label_keys or template.proxy.get("topologySpreadConstraints") else template
    known: Terms | None = where.__dict__.get("_terms")
    if known is None:
        known = where.__dict__["_terms"] = _compile(pod)
    return known


def _compile(pod: PodInfo) -> Terms:
    affinity = pod.template.affinity.get("podAffinity") or {}
    anti_affinity = pod.template.affinity.get("podAntiAffinity") or {}
    preferred = [
        _term(item.get("podAffinityTerm") or {}, pod, sign * int(item.get("weight") or 0))
        for sign, terms in ((1, affinity), (-1, anti_affinity))
        for item in terms.get(_PREFERRED) or ()
    ]
    constraints = pod.template.proxy.get("topologySpreadConstraints") or ()
    return Terms(
        affinity=tuple(_term(term, pod) for term in affinity.get(_REQUIRED) or ()),
        anti_affinity=tuple(_term(term, pod) for term in anti_affinity.get(_REQUIRED) or ()),
        preferred=tuple(preferred),
        hard=tuple(_spread(item, pod) for item in constraints if item.get("whenUnsatisfiable") != "ScheduleAnyway"),
        soft=tuple(_spread(item, pod) for item in constraints if item.get("whenUnsatisfiable") == "ScheduleAnyway"),
    )


def _term(raw: Mapping[str, Any], pod: PodInfo, weight: int = 0) -> Term:
    within = raw.get("namespaceSelector")
    own = (pod.namespace,) if within is None else ()
    pods = PodSelector(
        # An empty namespace selector matches all namespaces.
        namespaces=None if within == {} else frozenset(raw.get("namespaces") or own),
        selector=selector(raw.get("labelSelector"), raw, pod.labels),
        within=selector(within or None),
    )
    return Term(pods, raw["topologyKey"], weight)


def _spread(raw: Mapping[str, Any], pod: PodInfo) -> Spread:
    pods = PodSelector(frozenset((pod.namespace,)), selector(raw.get("labelSelector"), raw, pod.labels))
    return Spread(
        pods=pods,
        key=raw["topologyKey"],
        max_skew=int(raw["maxSkew"]),
        min_domains=int(raw.get("minDomains") or 1),
        honour_affinity=raw.get("nodeAffinityPolicy") != "Ignore",
        honour_taints=raw.get("nodeTaintsPolicy") == "Honor",
        own=pods.has(pod),
    )
