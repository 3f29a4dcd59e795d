"""Status of a P2CodeSchedulingManifest: one state is true, and there are further conditions. Pure."""

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
"""Whether pods in targets have the rights of their service accounts, from the application's bindings."""
LEFT = "ObjectsLeft"
"""During deletion: objects that still exist."""
_MESSAGE_LIMIT = 32768
_NAMED = 50
"""Maximum number of orphans listed by name."""


class Decision(NamedTuple):
    """Cluster selected for a bundle."""

    workload: str
    cluster: str


class Told(NamedTuple):
    """A condition in addition to the state."""

    type: str
    reason: str
    """Empty to remove the condition."""
    message: str = ""
    status: Status = "True"


def told(bundling: Bundling) -> tuple[Told, ...]:
    """Return conditions of a bundling that P2CODE's own scheduler does not report."""
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
    """Return the whole status; if `decisions` is None, keep the present ones."""
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
    """Return the last reported state; None if there is none."""
    old = psm.get("status") or {}
    found = find_condition(old.get("conditions"), old.get("state") or "")
    if found is None or found.get("status") != "True":
        return None
    return Verdict(found["type"], found.get("reason", ""), found.get("message", ""))


def observed(psm: Mapping[str, Any]) -> bool:
    """Return whether the last reported state is about the present spec."""
    old = psm.get("status") or {}
    found = find_condition(old.get("conditions"), old.get("state") or "") or {}
    return bool(found.get("observedGeneration") == psm["metadata"].get("generation"))


def decided(psm: Mapping[str, Any]) -> list[Decision]:
    """Return the last reported decisions."""
    found = (psm.get("status") or {}).get("decisions") or ()
    return [Decision(each.get("workloadName", ""), each.get("clusterSelected", "")) for each in found]
