"""The status of a P2CodeSchedulingManifest: one state is true, and what is told beside it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.conditions import Status, find_condition, is_true, set_condition, without_condition
from agent.model.abridged import abridged
from agent.model.p2code.bundles import Bundling
from agent.model.p2code.verdicts import STATES, Verdict

ORPHANED = "OrphanedManifests"
OVERRIDDEN = "AnnotationsOverridden"
CALLS_KNOWN = "CallsKnown"
RIGHTS = "RightsFollow"
"""Whether pods in targets have the rights that their service accounts have by bindings of the application."""
LEFT = "ObjectsLeft"
"""While it is deleted: what is still there."""
_MESSAGE_LIMIT = 32768
_NAMED = 50
"""Orphans that are told by name."""


class Decision(NamedTuple):
    """Where a bundle goes."""

    workload: str
    cluster: str


class Told(NamedTuple):
    """A condition beside the state."""

    type: str
    reason: str
    """Empty: there is nothing to tell."""
    message: str = ""
    status: Status = "True"


def told(bundling: Bundling) -> tuple[Told, ...]:
    """What P2CODE's scheduler does not tell of a bundling."""
    orphans = abridged(bundling.orphans, _NAMED)
    overridden = "; ".join(
        f"workload {bundle.name}: {' and '.join(map(str, each.instead))} is global, {each.own} does not count"
        for bundle in bundling.bundles
        for each in bundle.overridden
    )
    return (
        Told(ORPHANED, "NotReferenced" if orphans else "", f"not applied: {orphans}"),
        Told(OVERRIDDEN, "GlobalTakesPrecedence" if overridden else "", overridden),
    )


def status(
    psm: Mapping[str, Any],
    verdict: Verdict,
    decisions: Sequence[Decision] | None,
    beside: Iterable[Told],
    now: datetime,
) -> dict[str, Any]:
    """The whole status; without decisions, those stay that there are."""
    old = psm.get("status") or {}
    generation = psm["metadata"].get("generation")
    found: list[dict[str, Any]] = [dict(each) for each in old.get("conditions") or ()]
    for type in STATES:
        if type == verdict.state:
            message = verdict.message[:_MESSAGE_LIMIT]
            found = set_condition(found, type, "True", verdict.reason, message, now, generation)
        elif is_true(found, type):
            found = set_condition(found, type, "False", verdict.state, "", now, generation)
    for each in beside:
        if each.reason:
            message = each.message[:_MESSAGE_LIMIT]
            found = set_condition(found, each.type, each.status, each.reason, message, now, generation)
        else:
            found = without_condition(found, each.type)
    written = old.get("decisions") or []
    if decisions is not None:
        written = [{"workloadName": each.workload, "clusterSelected": each.cluster} for each in decisions]
    return {"conditions": found, "decisions": written, "state": verdict.state}


def said(psm: Mapping[str, Any]) -> Verdict | None:
    """What it was told last."""
    old = psm.get("status") or {}
    found = find_condition(old.get("conditions"), old.get("state") or "")
    if found is None or found.get("status") != "True":
        return None
    return Verdict(found["type"], found.get("reason", ""), found.get("message", ""))


def observed(psm: Mapping[str, Any]) -> bool:
    """Whether what it was told last is about its spec as it is."""
    old = psm.get("status") or {}
    found = find_condition(old.get("conditions"), old.get("state") or "") or {}
    return bool(found.get("observedGeneration") == psm["metadata"].get("generation"))


def decided(psm: Mapping[str, Any]) -> list[Decision]:
    """The decisions that it was told last."""
    found = (psm.get("status") or {}).get("decisions") or ()
    return [Decision(each.get("workloadName", ""), each.get("clusterSelected", "")) for each in found]
