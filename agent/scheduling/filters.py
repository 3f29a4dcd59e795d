"""Why a pod cannot go to a target: a chain of rules, each with its reason."""

from collections.abc import Callable
from typing import NamedTuple

from agent.model.quantity import Quantity
from agent.scheduling.matching import Term, any_term_matches, intolerable, required_terms, selects
from agent.scheduling.snapshot import Amounts, Demand, Place, Shape


class Verdict(NamedTuple):
    """A rule says no."""

    reason: str
    """One CamelCase word, for metrics."""
    message: str
    """In words, for conditions and events."""


_HOSTNAME = "kubernetes.io/hostname"

Rule = Callable[[Demand, Place], Verdict | None]


def refuse(demand: Demand, place: Place) -> Verdict | None:
    """The first rule that keeps the pod away from a target, None when it may go there."""
    for rule in CHAIN:
        verdict = rule(demand, place)
        if verdict is not None:
            return verdict
    return None


def _other_namespace(demand: Demand, place: Place) -> Verdict | None:
    if place.namespace and place.namespace != demand.namespace:
        return Verdict("OtherNamespace", f"target in different namespace ({place.namespace})")
    return None


def _not_ready(demand: Demand, place: Place) -> Verdict | None:
    return None if place.ready else Verdict("TargetNotReady", place.state)


def _cordoned(demand: Demand, place: Place) -> Verdict | None:
    return Verdict("Cordoned", "virtual node is cordoned") if place.unschedulable else None


def _tainted(demand: Demand, place: Place) -> Verdict | None:
    taint = intolerable(place.taints, demand.proxy.get("tolerations") or ())
    if taint is None:
        return None
    value = f"={taint['value']}" if taint.get("value") else ""
    return Verdict("Tainted", f"untolerated taint {taint.get('key')}{value}")


def _not_selected(demand: Demand, place: Place) -> Verdict | None:
    """By the proxy pod's own constraints, over virtual nodes."""
    if not selects(demand.proxy.get("nodeSelector"), place.labels):
        return Verdict("NodeSelector", "virtual node does not match the proxy pod's node selector")
    terms = required_terms(demand.proxy.get("affinity"))
    if terms is not None and not any_term_matches(terms, place.labels, place.node_name):
        return Verdict("NodeAffinity", "virtual node does not match the proxy pod's node affinity")
    return None


def _no_node(demand: Demand, place: Place) -> Verdict | None:
    """By the pod's own constraints, over the nodes that the target has: what no node offers is not worth a try."""
    if not place.shapes:
        return _sums(demand, place)
    candidates = [shape for shape in place.shapes if not shape.unschedulable and _selected(demand, shape)]
    if not candidates:
        return Verdict("NoNode", "no node matches the pod's node selector or affinity")
    tolerations = demand.source.get("tolerations") or ()
    candidates = [shape for shape in candidates if intolerable(shape.taints, tolerations) is None]
    if not candidates:
        return Verdict("NoNode", "every matching node has an untolerated taint")
    if not any(_fits(demand.requests, shape.allocatable) for shape in candidates):
        return Verdict("TooBig", _largest(demand.requests, candidates))
    return None


def _selected(demand: Demand, shape: Shape) -> bool:
    """Whether nodes of this shape match; what names a single node cannot be judged from shapes and so matches."""
    selector = demand.source.get("nodeSelector") or {}
    if not selects({key: value for key, value in selector.items() if key != _HOSTNAME}, shape.labels):
        return False
    terms = required_terms(demand.source.get("affinity"))
    return terms is None or any(map(_names_a_node, terms)) or any_term_matches(terms, shape.labels, "")


def _names_a_node(term: Term) -> bool:
    return bool(term.get("matchFields")) or any(
        expression.get("key") == _HOSTNAME for expression in term.get("matchExpressions") or ()
    )


def _fits(wanted: Amounts, there: Amounts) -> bool:
    return all(there.get(name, 0) >= amount for name, amount in wanted.items())


def _largest(wanted: Amounts, shapes: list[Shape]) -> str:
    short = {
        name: max(shape.allocatable.get(name, 0) for shape in shapes)
        for name, amount in wanted.items()
        if all(shape.allocatable.get(name, 0) < amount for shape in shapes)
    }
    if not short:
        return "no single node has room for all that the pod requests"
    return "insufficient " + ", ".join(
        f"{name} on every node (largest {Quantity(amount)})" for name, amount in sorted(short.items())
    )


def _sums(demand: Demand, place: Place) -> Verdict | None:
    """A target that tells no shapes: a label on which all its nodes agree, and sums, are all there is."""
    for key, value in (demand.source.get("nodeSelector") or {}).items():
        if place.common_labels.get(key, value) != value:
            return Verdict("NoNode", f"no node has {key}={value}")
    if place.allocatable and not _fits(demand.requests, place.allocatable):
        return Verdict("TooBig", "the pod requests more than the whole target has")
    return None


CHAIN: tuple[Rule, ...] = (
    _other_namespace,
    _not_ready,
    _cordoned,
    _tainted,
    _not_selected,
    _no_node,
)
