"""Conditions and Events of an evaluated Placement, in the words of Open Cluster Management. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from agent.api.conditions import condition_of, find_condition, set_condition
from agent.ranking.placing.outcome import Outcome

SATISFIED = "PlacementSatisfied"
MISCONFIGURED = "PlacementMisconfigured"
_EVENT_LIMIT = 1000
"""Maximum characters of scores in an event."""


class Event(NamedTuple):
    """An Event on the Placement."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Changes(NamedTuple):
    """Names of written PlacementDecisions."""

    created: Sequence[str]
    updated: Sequence[tuple[str, bool]]
    """Names of changed PlacementDecisions; True with a name if its clusters differ."""
    deleted: Sequence[str]


def conditions(placement: Mapping[str, Any], outcome: Outcome, now: datetime, *, kept: bool) -> list[dict[str, Any]]:
    """Return the conditions of a Placement. If decisions are kept, PlacementSatisfied stays unchanged."""
    generation = placement["metadata"].get("generation")
    found = (placement.get("status") or {}).get("conditions")
    satisfied, wrong = outcome.satisfied, outcome.misconfigured
    if not (kept and find_condition(found, SATISFIED)):
        state: Literal["True", "False"] = "True" if satisfied.status else "False"
        found = set_condition(found, SATISFIED, state, satisfied.reason, satisfied.message, now, generation)
    if wrong:
        return set_condition(found, MISCONFIGURED, "True", "Misconfigured", wrong, now, generation)
    message = "Placement configurations check pass"
    return set_condition(found, MISCONFIGURED, "False", "Succeedconfigured", message, now, generation)


def kept(placement: Mapping[str, Any], outcome: Outcome, count: int) -> tuple[Event, ...]:
    """Return a warning that the last decisions are kept, once for each fault.

    :param count: number of clusters in the decisions
    """
    condition = condition_of(placement, MISCONFIGURED) or {}
    if condition.get("status") == "True" and condition.get("message") == outcome.misconfigured:
        return ()
    message = f"The last decisions are kept ({count} clusters) while the placement is misconfigured: "
    return (Event("Warning", "DecisionKept", message + outcome.misconfigured),)


def events(placement: Mapping[str, Any], outcome: Outcome, changes: Changes) -> Iterable[Event]:
    """Yield an Event for each change of a PlacementDecision, and one for its scores."""
    metadata = placement["metadata"]
    where = f"with placement {metadata['name']} in namespace {metadata['namespace']}"
    for name in changes.created:
        yield Event("Normal", "DecisionCreate", f"Decision {name} is created {where}")
    warning = "; ".join(outcome.warnings)
    for name, others in changes.updated:
        if warning:
            yield Event("Warning", "DecisionUpdate", f"Decision {name} is updated {where}: {warning}")
        elif others:
            yield Event("Normal", "DecisionUpdate", f"Decision {name} is updated {where}")
    for name in changes.deleted:
        yield Event("Normal", "DecisionDelete", f"Decision {name} is deleted {where}")
    if changes.updated and outcome.scores:
        yield Event("Normal", "ScoreUpdate", _scores(outcome.scores))


def _scores(scores: Mapping[str, int]) -> str:
    text = ""
    for cluster in sorted(scores):
        more = f"{cluster}:{scores[cluster]} "
        if len(text) + len(more) > _EVENT_LIMIT:
            return text + "......"
        text += more
    return text.rstrip()
