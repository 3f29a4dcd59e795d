"""Decided: results of PlacementDecisions for the pods that follow a Placement, read from the objects."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agent.api.conditions import condition_of
from agent.api.names.ocm import LABEL_GROUP_NAME, LABEL_PLACEMENT, decision_label
from agent.kube.errors import UNDECODABLE
from agent.kube.store import Key, Object
from agent.ranking.placed import Decided, Placed, Reference, shares

if TYPE_CHECKING:
    from agent.clusters.optional_watch import Watched

Owner = tuple[str, str]
"""Namespace and label of the decisions of one Placement."""

_INDEX = "placement"


class _Cluster(msgspec.Struct, rename="camel"):
    cluster_name: str = ""
    score: Any = None


class _Status(msgspec.Struct):
    decisions: list[_Cluster] | None = None


class _Decision(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Decision)


class Part(NamedTuple):
    """One PlacementDecision."""

    group: str
    decided: tuple[Decided, ...]


def owner_of(placement: Key) -> Owner:
    """Return namespace and label by which the decisions of a Placement are found."""
    return placement[0], decision_label(placement[1])


def owner_in(decision: Object) -> Owner | None:
    """Return the owner of a PlacementDecision, None without one."""
    label = decision.labels.get(LABEL_PLACEMENT)
    return (decision.namespace, label) if label else None


def decisions_of(decisions: "Watched", owner: Owner) -> list[Object]:
    """Return the PlacementDecisions of one Placement."""
    return decisions.find(_INDEX, _indexed, "/".join(owner))


def parts_of(decisions: "Watched", owner: Owner) -> list[Part]:
    """Return those PlacementDecisions that have readable content."""
    return [part for obj in decisions_of(decisions, owner) if (part := part_of(obj)) is not None]


def _indexed(decision: Object) -> Iterable[str]:
    owner = owner_in(decision)
    return ("/".join(owner),) if owner is not None else ()


def placement_of(obj: Object | None) -> tuple[str | None, str]:
    """Return the Placement that a pod or namespace itself names, None for none, and the decision group."""
    if obj is None:
        return None, ""
    known = obj.hot_annotations
    name = known.placement if known.placement is not None else known.placement_short
    return name, known.placement_group or known.placement_group_short


def reference_of(pod: Object, namespace: Object | None) -> Reference | None:
    """Return the Placement that a pod follows: its own, else that of its namespace; an empty name means none."""
    name, group = placement_of(pod)
    if name is None:
        name, given = placement_of(namespace)
        group = group or given
    return Reference(name, group) if name else None


def placed_by(
    reference: Reference, namespace: str, parts: Sequence[Part], placement: Object | None, *, is_missing: bool
) -> Placed:
    """Return the decision of a Placement, collected from these PlacementDecisions.

    :param is_missing: whether it is known that there is no such Placement
    """
    chosen = [part for part in parts if reference.group in ("", part.group)]
    if chosen:
        scores = shares(each for part in chosen for each in part.decided)
        return Placed(reference, scores, "" if scores else f"it has decided for no cluster{_unsatisfied(placement)}")
    if parts:
        why = f"it has no decision group {reference.group}"
    elif is_missing:
        why = f"there is no such Placement in namespace {namespace}"
    else:
        why = f"it has no decisions yet{_unsatisfied(placement)}"
    return Placed(reference, {}, why, known=False)


def part_of(obj: Object) -> Part | None:
    """Return a PlacementDecision, None until it has readable content."""
    try:
        found = _decoder.decode(obj.raw).status.decisions
    except UNDECODABLE:
        return None
    if found is None:
        return None
    # Interned, since other decisions name the same clusters.
    told = ((sys.intern(each.cluster_name), each.score) for each in found if each.cluster_name)
    decided = tuple(Decided(name, score if type(score) is int else None) for name, score in told)
    return Part(obj.labels.get(LABEL_GROUP_NAME, ""), decided)


def _unsatisfied(placement: Object | None) -> str:
    """Return the reason that a Placement reports for an empty decision."""
    if placement is None:
        return ""
    condition = condition_of(placement.decode(), "PlacementSatisfied") or {}
    message = condition.get("message") if condition.get("status") == "False" else ""
    return f": {message}" if message else ""
