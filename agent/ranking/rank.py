"""Ranking of targets: filters, then scores, best first, ties broken evenly."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec

from agent.model.targetchoice import TargetChoice
from agent.ranking.chosen import preference
from agent.ranking.cross_target import CrossTarget
from agent.ranking.filter_cache import CachedResult, cached_results
from agent.ranking.plugins import ACROSS_TARGETS, BY_POD, COMPARED, NORMALIZED, PER_POD
from agent.ranking.rejection import Rejection
from agent.ranking.scores import Weights, share_of_most
from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.ranking.usage import Usages

__all__ = ["Ranking", "Scored", "rank"]

NO_ROOM = ("NoRoom", "HostPortTaken", "TooBig", "NoNode")
"""Reasons for missing capacity; an autoscaler resolves the first ones most easily."""

Part = tuple[str, float, Mapping[str, float]]
"""One score of several targets: its name, its weight, and its value by virtual node."""


class Scored(msgspec.Struct, frozen=True):
    """The scores of one target, each 0 to 100, and their weighted sum."""

    scores: Mapping[str, float]
    total: float


@dataclass(frozen=True)
class Ranking:
    """The filtered and ordered targets for one pod."""

    order: tuple[TargetInfo, ...]
    """Targets that pass the filters: untried ones before tried ones, best first in each part."""
    untried: int
    """Number of untried targets at the start of `order`."""
    rejected: tuple[tuple[TargetInfo, Rejection], ...]
    """The other targets, and the reasons."""
    pending: tuple[TargetInfo, ...] = ()
    """Rejected targets that lack only capacity on a node, best first: a candidate may wait in one of them."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    """Scores that depend on more than a template and a target."""
    results: Sequence[CachedResult] = field(default=(), repr=False)
    choice: TargetChoice | None = None
    """The pod's choice of targets, whose groups take precedence over all scores."""

    def nodes(self, held: Collection[str]) -> tuple[str, ...]:
        """Return the virtual nodes that the pod may be bound to or wait on, best first.

        :param held: virtual nodes with a reservation, which is more reliable than an estimate of free capacity
        """
        roomless = [each for each, why in self.rejected if why.reason in NO_ROOM and each.node_name in held]
        found = [*self.order, *roomless, *self.pending]
        if self.choice is not None and self.choice.has_order:
            found.sort(key=self.choice.preference)
        return tuple(dict.fromkeys(target.node_name for target in found))

    def merit(self, target: TargetInfo) -> tuple[int, float]:
        """Return the sort key of targets, highest first: the group in the pod's choice, then `total`."""
        return -self.choice.preference(target) if self.choice is not None else 0, self.total(target)

    def total(self, target: TargetInfo) -> float:
        """Return the weighted sum of all scores of a target; 0 if it has none."""
        for entry in self.results:
            if entry.target is target:
                return entry.total + sum(weight * found.get(target.node_name, 0.0) for _, weight, found in self.parts)
        return 0.0

    def scored(self, pod: PodInfo, target: TargetInfo) -> Scored | None:
        """Return the scores of a target that passes the filters or lacks only capacity; None otherwise."""
        for entry in self.results:
            if entry.target is target and entry.hard is None:
                scores = entry.scores(pod.template)
                total = entry.total
                for name, weight, found in self.parts:
                    scores[name] = found.get(target.node_name, 0.0)
                    total += weight * scores[name]
                return Scored(scores, total)
        return None


_total, _total_with_pod = attrgetter("total"), attrgetter("total_with_pod")


def rank(pod: PodInfo, targets: Sequence[TargetInfo], usages: Usages, weights: Weights, *, turn: int = 0) -> Ranking:
    """Order the targets for a pod.

    :param turn: a number that grows with every pod; rotates targets of equal total
    """
    away, left = _rejected_per_pod(pod, targets)
    entries = cached_results(pod, left, usages, weights)
    across = CrossTarget.of(pod, left, usages)
    if across is None:
        feasible = [entry for entry in entries if entry.rejection is None]
        rejected = [(entry, entry.rejection) for entry in entries if entry.rejection is not None]
    else:
        feasible, rejected = _divide(entries, across)
    parts, by_pod = _parts(pod, feasible, across, weights), _part_by_pod(pod, targets, weights)
    ranked = _ordered(feasible, by_pod, parts, turn)
    if pod.choice is not None and pod.choice.has_order:
        ranked.sort(key=pod.choice.preference)
    tried = [target for target in ranked if target.node_name in pod.attempts] if pod.attempts else []
    untried = [target for target in ranked if target.node_name not in pod.attempts] if tried else ranked
    return Ranking(
        order=(*untried, *tried),
        untried=len(untried),
        rejected=(
            *away,
            *((entry.target, rejection) for entry, rejection in rejected if rejection.reason != "OtherNamespace"),
        ),
        pending=_pending(pod, rejected) if not feasible else (),
        parts=parts if by_pod is None else (by_pod, *parts),
        results=entries,
        choice=pod.choice,
    )


def _rejected_per_pod(
    pod: PodInfo, targets: Sequence[TargetInfo]
) -> tuple[list[tuple[TargetInfo, Rejection]], Sequence[TargetInfo]]:
    """Return the targets rejected for this pod by `PerPod` filters, and the remaining ones."""
    away: list[tuple[TargetInfo, Rejection]] = []
    nodes: set[str] = set()
    for reject in PER_POD:
        found = reject(pod, targets)
        if found:
            away += [item for item in found if item[0].node_name not in nodes] if nodes else found
            nodes.update(target.node_name for target, _ in found)
    return away, [target for target in targets if target.node_name not in nodes] if nodes else targets


def _part_by_pod(pod: PodInfo, targets: Sequence[TargetInfo], weights: Weights) -> Part | None:
    scores = BY_POD.scores(pod, targets)
    return (BY_POD.name, weights.of(BY_POD.name), scores) if scores is not None else None


def _divide(
    entries: Sequence[CachedResult], across: CrossTarget
) -> tuple[list[CachedResult], list[tuple[CachedResult, Rejection]]]:
    feasible: list[CachedResult] = []
    rejected: list[tuple[CachedResult, Rejection]] = []
    filters = [reject for prepare in ACROSS_TARGETS if (reject := prepare(across)) is not None]
    for entry in entries:
        rejection = entry.hard
        for reject in filters:
            rejection = rejection or reject(entry.target)
        rejection = rejection or entry.node_fit
        if rejection is None:
            feasible.append(entry)
        else:
            rejected.append((entry, rejection))
    return feasible, rejected


def _pending(pod: PodInfo, rejected: Sequence[tuple[CachedResult, Rejection]]) -> tuple[TargetInfo, ...]:
    found = [(entry, rejection) for entry, rejection in rejected if entry.hard is None and rejection is entry.node_fit]
    found.sort(key=lambda item: _pending_order(pod, *item))
    return tuple(entry.target for entry, _ in found)


def _pending_order(pod: PodInfo, entry: CachedResult, rejection: Rejection) -> tuple[int, int, bool, int, float]:
    return (
        NO_ROOM.index(rejection.reason),
        preference(pod, entry.target),
        entry.target.slow,
        -entry.raw.get("affinity", 0),
        -entry.total,
    )


def _parts(
    pod: PodInfo, feasible: Sequence[CachedResult], across: CrossTarget | None, weights: Weights
) -> tuple[Part, ...]:
    """Return the scores that compare targets; empty for most pods."""
    found: list[tuple[str, float, Sequence[float]]] = []
    counted = {name for entry in feasible if entry.raw for name in entry.raw}
    for scorer in NORMALIZED if counted else ():
        if scorer.name in counted:
            raw = [entry.raw.get(scorer.name, 0) for entry in feasible]
            found.append((scorer.name, weights.of(scorer.name), share_of_most(raw, reverse=scorer.reverse)))
    if across is not None:
        targets = [entry.target for entry in feasible]
        for name, compare in COMPARED:
            scores = compare(across, targets)
            if scores is not None:
                found.append((name, weights.of(name), scores))
    nodes = [entry.target.node_name for entry in feasible] if found else []
    return tuple((name, weight, dict(zip(nodes, scores, strict=True))) for name, weight, scores in found)


def _ordered(feasible: list[CachedResult], by_pod: Part | None, parts: Sequence[Part], turn: int) -> list[TargetInfo]:
    total = _total
    if by_pod is not None:
        _, weight, scores = by_pod
        for entry in feasible:
            if entry.by_pod is not scores:
                entry.add_by_pod(weight, scores)
        total = _total_with_pod
    if not parts:
        feasible.sort(key=total, reverse=True)
        totals = [total(entry) for entry in feasible]
        targets = [entry.target for entry in feasible]
    else:
        known = {entry.target.node_name: total(entry) for entry in feasible}
        for _, weight, scores in parts:
            for node in known:
                known[node] += weight * scores[node]
        targets = sorted((entry.target for entry in feasible), key=lambda target: known[target.node_name], reverse=True)
        totals = [known[target.node_name] for target in targets]
    _rotate(targets, totals, turn)
    if any(target.slow for target in targets):
        targets.sort(key=lambda target: target.slow)
    return targets


def _rotate(targets: list[TargetInfo], totals: Sequence[float], turn: int) -> None:
    """Rotate targets of equal total."""
    start, count = 0, len(targets)
    while start < count:
        end = start + 1
        while end < count and totals[end] == totals[start]:
            end += 1
        if end - start > 1:
            shift = turn % (end - start)
            targets[start:end] = targets[start + shift : end] + targets[start : start + shift]
        start = end
