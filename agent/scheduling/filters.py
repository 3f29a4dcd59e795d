"""Why a pod cannot go to a target: a chain of rules about this one target, each with its reason."""

from collections.abc import Callable

from agent.scheduling.matching import any_term_matches, intolerable, required_terms
from agent.scheduling.rooms import described
from agent.scheduling.snapshot import Place, Wants
from agent.scheduling.verdict import Verdict

__all__ = ["CHAIN", "Rule", "Verdict", "refuse", "selected", "tolerated"]

Rule = Callable[[Wants, Place], Verdict | None]


def refuse(wants: Wants, place: Place) -> Verdict | None:
    """The first rule that keeps the pod away from a target, None when it may go there."""
    for rule in CHAIN:
        verdict = rule(wants, place)
        if verdict is not None:
            return verdict
    return None


def _other_namespace(wants: Wants, place: Place) -> Verdict | None:
    if place.namespace and place.namespace != wants.namespace:
        return Verdict("OtherNamespace", f"target in different namespace ({place.namespace})")
    return None


def _not_ready(wants: Wants, place: Place) -> Verdict | None:
    return None if place.ready else Verdict("TargetNotReady", place.state)


def _cordoned(wants: Wants, place: Place) -> Verdict | None:
    return Verdict("Cordoned", "virtual node is cordoned") if place.unschedulable else None


def _tainted(wants: Wants, place: Place) -> Verdict | None:
    if not place.taints:
        return None
    kind, known = place.taint_kind, wants.known
    if kind not in known:
        taint = intolerable(place.taints, wants.proxy.get("tolerations") or ())
        known[kind] = None if taint is None else Verdict("Tainted", f"taint {described(taint)}")
    verdict: Verdict | None = known[kind]
    return verdict


def _not_selected(wants: Wants, place: Place) -> Verdict | None:
    """By the proxy pod's own constraints, over virtual nodes."""
    labels = place.labels
    for key, value in wants.selector:
        if labels.get(key) != value:
            return _SELECTOR
    if not wants.affinity:
        return None
    terms = required_terms(wants.affinity)
    if terms is not None and not any_term_matches(terms, labels, place.node_name):
        return Verdict("NodeAffinity", "virtual node does not match the proxy pod's node affinity")
    return None


_SELECTOR = Verdict("NodeSelector", "virtual node does not match the proxy pod's node selector")

CHAIN: tuple[Rule, ...] = (
    _other_namespace,
    _not_ready,
    _cordoned,
    _tainted,
    _not_selected,
)


def selected(wants: Wants, place: Place) -> bool:
    """Whether a target counts for topology spread with `nodeAffinityPolicy: Honor`."""
    return _not_selected(wants, place) is None


def tolerated(wants: Wants, place: Place) -> bool:
    """Whether a target counts for topology spread with `nodeTaintsPolicy: Honor`."""
    return _tainted(wants, place) is None
