"""Explanation of a Placement: decided clusters with their scores, and why the others are refused. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from agent.api.conditions import find_condition
from agent.api.names.ocm import LABEL_GROUP_NAME
from agent.base.clock import stamp
from agent.cli.placements.facts import Facts
from agent.ranking.placing.evaluate import evaluate_settled
from agent.ranking.placing.inputs import PlacementInputs
from agent.ranking.placing.outcome import Outcome

Raw = Mapping[str, Any]

SATISFIED = "PlacementSatisfied"
MISCONFIGURED = "PlacementMisconfigured"
NOT_AMONG = "not among its decisions"
_ADDON = "AddOn/"


@dataclass(frozen=True)
class Verdict:
    """Result for one cluster."""

    cluster: str
    decided: bool
    score: int | None
    """Total score; None if the cluster was refused before scoring."""
    group: str
    """Name of its decision group."""
    reason: str
    """Scores that led to the decision."""
    refusal: str
    """Reason why the cluster is not decided, or would not be decided now."""
    valid_until: Mapping[str, str] = field(default_factory=dict)
    """RFC 3339 expiry times of its scores that expire, by their names in the reason."""


class PlacementExplanation(msgspec.Struct, frozen=True):
    """Complete explanation of one Placement."""

    namespace: str
    name: str
    file: str
    """File that contains it; empty for an applied one."""
    wanted: int | None
    """Number of clusters that it asks for, None for all eligible ones."""
    satisfied: bool | None
    """None while no controller has set the condition."""
    reason: str
    message: str
    misconfigured: str
    decided_at: str
    """RFC 3339: when its decisions were last written."""
    again_at: str
    """RFC 3339 time of the next evaluation if nothing changes."""
    clusters: Sequence[Verdict]
    """Decided clusters, then eligible ones by score, then the others by name."""
    notes: Sequence[str]


def explanation_of(facts: Facts, now: datetime) -> PlacementExplanation:
    """Explain the recorded decisions of an applied Placement, or predict those of one in a file."""
    outcome = _outcome(facts, now)
    metadata = facts.placement["metadata"]
    # A misconfigured Placement keeps its last decisions.
    new = bool(facts.file) and not outcome.misconfigured
    decided = _evaluated(outcome) if new else _recorded(facts, outcome)
    verdicts = [*decided, *_refused(facts, outcome, {each.cluster for each in decided})]
    satisfied, reason, message, misconfigured = _conditions(facts, outcome)
    return PlacementExplanation(
        namespace=metadata["namespace"],
        name=metadata["name"],
        file=facts.file,
        wanted=(facts.placement.get("spec") or {}).get("numberOfClusters"),
        satisfied=satisfied,
        reason=reason,
        message=message,
        misconfigured=misconfigured,
        decided_at="" if facts.file else _written(facts.decisions),
        again_at=stamp(outcome.again) if outcome.again else "",
        clusters=[_with_validity(each, facts.fleet) for each in verdicts],
        notes=[*facts.notes, *outcome.warnings, *_differs(facts, outcome)],
    )


def _outcome(facts: Facts, now: datetime) -> Outcome:
    """Evaluate the Placement like its controller does."""
    return evaluate_settled(
        facts.placement, facts.fleet, decided=facts.decided, elsewhere=facts.elsewhere, cel=facts.cel, now=now
    )


def _evaluated(outcome: Outcome) -> list[Verdict]:
    return [
        Verdict(each.cluster, True, each.score, group.name, each.reason, "")
        for group in outcome.groups
        for each in group.decisions
    ]


def _recorded(facts: Facts, outcome: Outcome) -> list[Verdict]:
    """Return the recorded decisions; current scores if their controller has recorded none."""
    found = []
    for decision in facts.decisions:
        group = (decision["metadata"].get("labels") or {}).get(LABEL_GROUP_NAME, "")
        for each in (decision.get("status") or {}).get("decisions") or ():
            name = each.get("clusterName", "")
            now = outcome.decided.get(name)
            score, reason = each.get("score"), each.get("reason", "")
            if now is not None and not reason:
                score, reason = now.score, now.reason
            gone = "" if name in facts.fleet.clusters else "there is no such ManagedCluster any more"
            found.append(Verdict(name, True, score, group, reason, outcome.refused.get(name, gone)))
    return found


def _refused(facts: Facts, outcome: Outcome, decided: Collection[str]) -> list[Verdict]:
    rest = [
        Verdict(name, False, outcome.scores.get(name), "", "", outcome.refused.get(name, NOT_AMONG))
        for name in facts.fleet.clusters
        if name not in decided
    ]
    return sorted(rest, key=lambda each: (each.score is None, -(each.score or 0), each.cluster))


def _conditions(facts: Facts, outcome: Outcome) -> tuple[bool | None, str, str, str]:
    """Return the status of Satisfied, its reason and message, and the message of Misconfigured."""
    if facts.file:
        found = outcome.satisfied
        return found.status, found.reason, found.message, outcome.misconfigured
    told = (facts.placement.get("status") or {}).get("conditions")
    satisfied = find_condition(told, SATISFIED) or {}
    wrong = find_condition(told, MISCONFIGURED) or {}
    status = {"True": True, "False": False}.get(satisfied.get("status", ""))
    misconfigured = wrong.get("message", "") if wrong.get("status") == "True" else ""
    return status, satisfied.get("reason", ""), satisfied.get("message", ""), misconfigured


def _written(decisions: Sequence[Raw]) -> str:
    """Return the time of the last write, from the managed fields that an API server keeps for every writer."""
    times = [
        managed["time"]
        for each in decisions
        for managed in each["metadata"].get("managedFields") or ()
        if managed.get("time")
    ]
    return max(times, default="")


def _with_validity(verdict: Verdict, fleet: PlacementInputs) -> Verdict:
    """Add the expiry times of the scores that the verdict's reason names."""
    until = {}
    for path in scores_told(verdict.reason):
        _, resource, score = path.split("/", 2)
        found = fleet.scores.get((verdict.cluster, resource), {}).get(score)
        if found is not None and found.until is not None:
            until[path] = stamp(found.until)
    return replace(verdict, valid_until=until)


def scores_told(reason: str) -> Iterator[str]:
    """Return the AddOnPlacementScores that a reason names: `AddOn/RESOURCE/SCORE`."""
    for part in reason.split(", "):
        name = part.partition(" ")[0]
        if name.startswith(_ADDON) and name.count("/") >= 2:
            yield name


def _differs(facts: Facts, outcome: Outcome) -> Iterator[str]:
    """Yield a note if the controller has decided otherwise, or has not decided yet."""
    if facts.file or outcome.misconfigured or set(facts.decided) == outcome.decided.keys():
        return
    found = ", ".join(sorted(outcome.decided)) or "no cluster"
    if not facts.decisions:
        yield f"no controller has decided it yet; `flotilla explain` would decide {found}"
    else:
        yield f"evaluated now, it comes to {found}: its controller decides otherwise, or has not looked at it again yet"
