"""Why a pod cannot go to a target: a chain of rules about this one target, each with its reason."""

from collections.abc import Callable

from agent.scheduling.matching import any_term_matches, intolerable, required_terms
from agent.scheduling.node_fit import described
from agent.scheduling.rejection import Rejection
from agent.scheduling.snapshot import PodTemplate, TargetInfo

__all__ = ["CHAIN", "Rejection", "Rule", "reject", "selected", "tolerated"]

Rule = Callable[[PodTemplate, TargetInfo], Rejection | None]


def reject(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    """The first rule that keeps the pod away from a target, None when it may go there."""
    for rule in CHAIN:
        rejection = rule(template, target)
        if rejection is not None:
            return rejection
    return None


def _other_namespace(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    if target.namespace and target.namespace != template.namespace:
        return Rejection("OtherNamespace", f"target in different namespace ({target.namespace})")
    return None


def _not_ready(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    return None if target.ready else Rejection("TargetNotReady", target.state)


def _cordoned(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    return Rejection("Cordoned", "virtual node is cordoned") if target.unschedulable else None


def _tainted(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    if not target.taints:
        return None
    kind, known = target.taints_key, template.memo
    if kind not in known:
        taint = intolerable(target.taints, template.proxy.get("tolerations") or ())
        known[kind] = None if taint is None else Rejection("Tainted", f"taint {described(taint)}")
    rejection: Rejection | None = known[kind]
    return rejection


def _not_selected(template: PodTemplate, target: TargetInfo) -> Rejection | None:
    """By the proxy pod's own constraints, over virtual nodes."""
    labels = target.labels
    for key, value in template.selector:
        if labels.get(key) != value:
            return _SELECTOR
    if not template.affinity:
        return None
    terms = required_terms(template.affinity)
    if terms is not None and not any_term_matches(terms, labels, target.node_name):
        return Rejection("NodeAffinity", "virtual node does not match the proxy pod's node affinity")
    return None


_SELECTOR = Rejection("NodeSelector", "virtual node does not match the proxy pod's node selector")

CHAIN: tuple[Rule, ...] = (
    _other_namespace,
    _not_ready,
    _cordoned,
    _tainted,
    _not_selected,
)


def selected(template: PodTemplate, target: TargetInfo) -> bool:
    """Whether a target counts for topology spread with `nodeAffinityPolicy: Honor`."""
    return _not_selected(template, target) is None


def tolerated(template: PodTemplate, target: TargetInfo) -> bool:
    """Whether a target counts for topology spread with `nodeTaintsPolicy: Honor`."""
    return _tainted(template, target) is None
