"""Plan writes from the outcome of an evaluation: differences in PlacementDecisions and the status. Pure."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from agent.api.conditions import condition_of, timestamp
from agent.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from agent.api.names.ocm import LABEL_GROUP_INDEX, LABEL_GROUP_NAME, LABEL_PLACEMENT, decision_label, decision_name
from agent.model.diff import merge_patch, same
from agent.placement.placements.telling import MISCONFIGURED, Changes, Event, conditions, events, kept
from agent.ranking.placing.outcome import Decision, DecisionGroup, Outcome
from agent.ranking.placing.spec import parse

Raw = dict[str, Any]

CLUSTERS_EACH = 100
"""Maximum number of clusters in one PlacementDecision."""
_LONGEST_SECONDS = 1e9
_SCORED = "lastScoreUpdateTime"


@dataclass(frozen=True)
class Present:
    """A PlacementDecision that exists."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    """UID of the Placement that controls it; empty if none does."""
    owned: bool = True
    """True if it has any owner reference."""
    decisions: tuple[Mapping[str, Any], ...] | None = None
    """Entries of its status; None if the status has not been written yet."""


class _Wanted(NamedTuple):
    name: str
    labels: dict[str, str]
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Plan:
    """Necessary writes, in this order."""

    delete: tuple[Present, ...] = ()
    """PlacementDecisions of a deleted Placement of the same name."""
    create: tuple[Raw, ...] = ()
    metadata: tuple[tuple[str, Raw], ...] = ()
    """Names of PlacementDecisions, each with a patch of its labels and owner."""
    decisions: tuple[tuple[str, list[Raw]], ...] = ()
    """Names of PlacementDecisions, each with the new entries of its status."""
    surplus: tuple[Present, ...] = ()
    """Unneeded PlacementDecisions, deleted after the other writes to PlacementDecisions."""
    moved: bool = False
    """True if a PlacementDecision gets other clusters."""
    status: Raw = field(default_factory=dict)
    """Patch of the Placement's status."""
    events: tuple[Event, ...] = ()
    again: datetime | None = None
    """Time of the next evaluation if nothing changes; None for no such time."""

    def status_after(self, *, changed: bool) -> Raw:
        """Return the status patch after decisions were written, with the time of scores only if these were kept.

        :param changed: False if the API server kept no field of the decisions, as the hub's CRD has no scores
        """
        return {field: value for field, value in self.status.items() if changed or field != _SCORED}


def decide(
    placement: Mapping[str, Any],
    outcome: Outcome,
    present: Iterable[Present],
    now: datetime,
    scored: datetime | None = None,
) -> Plan:
    """Return the writes for an outcome. A misconfigured Placement keeps its last decisions, if it has any.

    :param scored: last write of scores that this process remembers, if the status cannot hold it; None for none
    """
    metadata = placement["metadata"]
    old = [each for each in present if each.owner and each.owner != metadata["uid"]]
    own = [each for each in present if each not in old]
    if outcome.misconfigured and own:
        count = sum(len(each.decisions or ()) for each in own)
        status, events = _status(placement, outcome, now, kept=True), kept(placement, outcome, count)
        return Plan(tuple(old), status=status, events=events, again=outcome.again)
    groups = () if outcome.misconfigured else outcome.groups
    wanted, listed = _wanted(metadata["name"], groups or (DecisionGroup("", ()),))
    plan = _decisions(placement, outcome, own, wanted, now, scored)
    scores = {_SCORED: timestamp(now)} if any(decisions for _, decisions in plan.decisions) else {}
    selected = sum(len(each.decisions) for each in wanted)
    new = {"numberOfSelectedClusters": selected, "decisionGroups": listed, **scores}
    return Plan(
        delete=tuple(old),
        create=plan.create,
        metadata=plan.metadata,
        decisions=plan.decisions,
        surplus=plan.surplus,
        moved=plan.moved,
        status=_status(placement, outcome, now, new),
        events=plan.events,
        again=min(filter(None, (plan.again, outcome.again)), default=None),
    )


def clusters(decisions: Iterable[object] | None) -> list[str]:
    """Return the cluster names in the status entries of a PlacementDecision."""
    names = (each.get("clusterName") for each in decisions or () if isinstance(each, Mapping))
    return [name for name in names if isinstance(name, str) and name]


def scored(present: Iterable[Present], uid: str) -> dict[str, int]:
    """Return the scores of one Placement's decisions by cluster; 0 without a score."""
    own = [each.decisions or () for each in present if each.owner in ("", uid)]
    return {name: each.get("score") or 0 for decisions in own for each in decisions for name in clusters([each])}


def _wanted(placement: str, groups: Sequence[DecisionGroup]) -> tuple[list[_Wanted], list[Raw]]:
    """Return all PlacementDecisions, and the groups for the Placement's status."""
    wanted: list[_Wanted] = []
    listed: list[Raw] = []
    for index, group in enumerate(groups):
        labels = {
            LABEL_PLACEMENT: decision_label(placement),
            LABEL_GROUP_INDEX: str(index),
            LABEL_GROUP_NAME: group.name,
        }
        names = []
        for begin in range(0, max(1, len(group.decisions)), CLUSTERS_EACH):
            names.append(decision_name(placement, len(wanted) + 1))
            wanted.append(_Wanted(names[-1], labels, group.decisions[begin : begin + CLUSTERS_EACH]))
        listed.append(
            {
                "decisionGroupIndex": index,
                "decisionGroupName": group.name,
                "decisions": names,
                "clusterCount": len(group.decisions),
            }
        )
    return wanted, listed


def _decisions(
    placement: Mapping[str, Any],
    outcome: Outcome,
    present: Sequence[Present],
    wanted: Sequence[_Wanted],
    now: datetime,
    scored: datetime | None,
) -> Plan:
    by_name = {each.name: each for each in present}
    names = {each.name for each in wanted}
    surplus = tuple(each for each in present if each.name not in names)
    create = tuple(_manifest(placement["metadata"], each) for each in wanted if each.name not in by_name)
    differing = [(each, _decisions_of(each)) for each in wanted if not _is_written(by_name.get(each.name), each)]
    again = None
    if differing and not create and not surplus and _scores_only(placement, by_name, wanted):
        again = _due(placement, scored)
        if again is not None and again <= now:
            again = None
        if again is not None:
            differing = []
    changes = Changes(
        [each["metadata"]["name"] for each in create],
        [(each.name, _others(by_name.get(each.name), each)) for each, _ in differing],
        [each.name for each in surplus],
    )
    return Plan(
        create=create,
        metadata=tuple(
            (each.name, patch)
            for each in wanted
            if each.name in by_name and (patch := _relabelled(placement["metadata"], by_name[each.name], each))
        ),
        decisions=tuple((each.name, decisions) for each, decisions in differing),
        surplus=surplus,
        moved=any(others for _, others in changes.updated),
        events=tuple(events(placement, outcome, changes)),
        again=again,
    )


def _manifest(placement: Mapping[str, Any], wanted: _Wanted) -> Raw:
    return {
        "apiVersion": PLACEMENT_DECISIONS.api_version,
        "kind": PLACEMENT_DECISIONS.name,
        "metadata": {
            "name": wanted.name,
            "namespace": placement["namespace"],
            "labels": wanted.labels,
            "ownerReferences": [_owner(placement)],
        },
    }


def _owner(placement: Mapping[str, Any]) -> Raw:
    return {
        "apiVersion": PLACEMENTS.api_version,
        "kind": PLACEMENTS.name,
        "name": placement["name"],
        "uid": placement["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _relabelled(placement: Mapping[str, Any], present: Present, wanted: _Wanted) -> Raw:
    labels = {key: value for key, value in wanted.labels.items() if present.labels.get(key) != value}
    patch: Raw = {"labels": labels} if labels else {}
    return patch if present.owned else {**patch, "ownerReferences": [_owner(placement)]}


def _decisions_of(wanted: _Wanted) -> list[Raw]:
    return [{"clusterName": each.cluster, "reason": each.reason, "score": each.score} for each in wanted.decisions]


def _is_written(present: Present | None, wanted: _Wanted) -> bool:
    """Return True if the status of a PlacementDecision has the wanted entries."""
    if present is None or present.decisions is None:
        return False
    return same(list(present.decisions), _decisions_of(wanted))


def _scores_only(placement: Mapping[str, Any], by_name: Mapping[str, Present], wanted: Sequence[_Wanted]) -> bool:
    """Return True if an unchanged Placement has the same clusters in the same groups as before."""
    condition = condition_of(placement, MISCONFIGURED) or {}
    if condition.get("observedGeneration") != placement["metadata"].get("generation"):
        return False
    if any(by_name[each.name].decisions is None for each in wanted):
        return False
    sizes = [len(by_name[each.name].decisions or ()) for each in wanted]
    if sizes != [len(each.decisions) for each in wanted]:
        return False
    before = {
        cluster: by_name[each.name].labels.get(LABEL_GROUP_NAME)
        for each in wanted
        for cluster in clusters(by_name[each.name].decisions)
    }
    return before == {each.cluster: one.labels[LABEL_GROUP_NAME] for one in wanted for each in one.decisions}


def _due(placement: Mapping[str, Any], scored: datetime | None) -> datetime | None:
    """Return when changes of scores alone may be written again; None if scores were never written."""
    last = (placement.get("status") or {}).get(_SCORED)
    moments = [scored] if scored is not None else []
    with contextlib.suppress(ValueError):
        moments += [datetime.fromisoformat(last).astimezone(UTC)] if isinstance(last, str) else []
    limit = parse(placement).policy.score_rate_limit
    return max(moments) + timedelta(seconds=min(limit, _LONGEST_SECONDS)) if moments else None


def _others(present: Present | None, wanted: _Wanted) -> bool:
    """Return True if the wanted clusters differ from the listed ones."""
    before = present.decisions if present is not None else ()
    return set(clusters(before)) != {each.cluster for each in wanted.decisions}


def _status(
    placement: Mapping[str, Any],
    outcome: Outcome,
    now: datetime,
    new: Mapping[str, Any] | None = None,
    *,
    kept: bool = False,
) -> Raw:
    """Return the merge patch of the Placement's status."""
    old = placement.get("status") or {}
    return merge_patch(old, {**old, **(new or {}), "conditions": conditions(placement, outcome, now, kept=kept)})
