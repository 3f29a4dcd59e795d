"""Which target first: filters, then scores, best first, ties broken evenly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from agent.scheduling.cross_target import CrossTargetFilters
from agent.scheduling.filter_cache import CachedResult, cached_results
from agent.scheduling.rejection import Rejection
from agent.scheduling.scores import Weights, share_of_most
from agent.scheduling.snapshot import PodInfo, TargetInfo
from agent.scheduling.usage import Usages

__all__ = ["Ranking", "Scored", "rank"]

NO_ROOM = ("NoRoom", "HostPortTaken", "TooBig", "NoNode")
"""Reasons for which room is missing, by how easily an autoscaler may make some."""


@dataclass(frozen=True)
class Scored:
    """The scores of one target, each 0 to 100, and their weighted sum."""

    scores: Mapping[str, float]
    total: float


@dataclass(frozen=True)
class Ranking:
    """The outcome for one pod."""

    order: tuple[TargetInfo, ...]
    """Targets the pod may go to, best first; those that it has not tried yet before the others."""
    untried: int
    """How many of them, from the first, it has not tried."""
    rejected: tuple[tuple[TargetInfo, Rejection], ...]
    """The others, and why not."""
    pending: tuple[TargetInfo, ...] = ()
    """Of the refused, those that lack nothing but room on a node, best first: where one candidate may wait for it."""
    parts: tuple[tuple[str, float, Mapping[str, float]], ...] = field(default=(), repr=False)
    """Scores that compare targets: name, weight, and score by virtual node."""
    results: Sequence[CachedResult] = field(default=(), repr=False)

    def total(self, target: TargetInfo) -> float:
        """The weighted sum of all scores of a target, 0 where none was taken."""
        for entry in self.results:
            if entry.target is target:
                return entry.total + sum(weight * found.get(target.node_name, 0.0) for _, weight, found in self.parts)
        return 0.0

    def scored(self, pod: PodInfo, target: TargetInfo) -> Scored | None:
        """The scores of a target that the pod may go to, or where it may wait for room."""
        for entry in self.results:
            if entry.target is target and entry.hard is None:
                scores = entry.scores(pod.template)
                total = entry.total
                for name, weight, found in self.parts:
                    scores[name] = found.get(target.node_name, 0.0)
                    total += weight * scores[name]
                return Scored(scores, total)
        return None


_total = attrgetter("total")


def rank(pod: PodInfo, targets: Sequence[TargetInfo], usages: Usages, weights: Weights, *, turn: int = 0) -> Ranking:
    """Order the targets for a pod.

    :param turn: a number that grows with every pod; which of several equally good targets comes first goes round by it
    """
    targets, away = _beside_volumes(pod, targets)
    entries = cached_results(pod, targets, usages, weights)
    across = CrossTargetFilters.of(pod, entries, usages)
    if across is None:
        feasible = [entry for entry in entries if entry.rejection is None]
        rejected = [(entry, entry.rejection) for entry in entries if entry.rejection is not None]
    else:
        feasible, rejected = _divide(entries, across)
    parts = _parts(pod, feasible, across, weights)
    ranked = _ordered(feasible, parts, turn)
    tried = [target for target in ranked if target.node_name in pod.attempts] if pod.attempts else []
    untried = [target for target in ranked if target.node_name not in pod.attempts] if tried else ranked
    return Ranking(
        order=(*untried, *tried),
        untried=len(untried),
        rejected=(
            *away,
            *((entry.target, rejection) for entry, rejection in rejected if rejection.reason != "OtherNamespace"),
        ),
        pending=_pending(rejected) if not feasible else (),
        parts=parts,
        results=entries,
    )


def _beside_volumes(
    pod: PodInfo, targets: Sequence[TargetInfo]
) -> tuple[Sequence[TargetInfo], tuple[tuple[TargetInfo, Rejection], ...]]:
    """Targets that have all volumes of the pod's claims, and the others with the reason."""
    if not pod.volumes:
        return targets, ()
    away = []
    titles = {target.node_name: target.title for target in targets}
    for target in targets:
        claims = sorted(claim for claim, node in pod.volumes.items() if node != target.node_name)
        if claims:
            node = pod.volumes[claims[0]]
            message = f"the volume of claim {claims[0]} is in {titles.get(node, node)}"
            away.append((target, Rejection("VolumeElsewhere", message)))
    elsewhere = {target.node_name for target, _ in away}
    return [target for target in targets if target.node_name not in elsewhere], tuple(away)


def _divide(
    entries: Sequence[CachedResult], across: CrossTargetFilters
) -> tuple[list[CachedResult], list[tuple[CachedResult, Rejection]]]:
    feasible: list[CachedResult] = []
    rejected: list[tuple[CachedResult, Rejection]] = []
    for entry in entries:
        rejection = entry.hard or across.reject(entry.target) or entry.node_fit
        if rejection is None:
            feasible.append(entry)
        else:
            rejected.append((entry, rejection))
    return feasible, rejected


def _pending(rejected: Sequence[tuple[CachedResult, Rejection]]) -> tuple[TargetInfo, ...]:
    found = [(entry, rejection) for entry, rejection in rejected if entry.hard is None and rejection is entry.node_fit]
    found.sort(
        key=lambda item: (NO_ROOM.index(item[1].reason), item[0].target.slow, -item[0].preferred, -item[0].total)
    )
    return tuple(entry.target for entry, _ in found)


def _parts(
    pod: PodInfo, feasible: Sequence[CachedResult], across: CrossTargetFilters | None, weights: Weights
) -> tuple[tuple[str, float, Mapping[str, float]], ...]:
    """Scores that compare targets; empty for most pods."""
    found: list[tuple[str, float, Sequence[float]]] = []
    if any(entry.preferred for entry in feasible):
        found.append(("affinity", weights.affinity, share_of_most([entry.preferred for entry in feasible])))
    if any(entry.untolerated for entry in feasible):
        raw = [entry.untolerated for entry in feasible]
        found.append(("taints", weights.taints, share_of_most(raw, reverse=True)))
    if across is not None:
        targets = [entry.target for entry in feasible]
        for name, weight, scores in (
            ("spread", weights.spread, across.spread_scores(targets)),
            ("pod_affinity", weights.pod_affinity, across.affinity_scores(targets)),
        ):
            if scores is not None:
                found.append((name, weight, scores))
    nodes = [entry.target.node_name for entry in feasible] if found else []
    return tuple((name, weight, dict(zip(nodes, scores, strict=True))) for name, weight, scores in found)


def _ordered(
    feasible: list[CachedResult], parts: Sequence[tuple[str, float, Mapping[str, float]]], turn: int
) -> list[TargetInfo]:
    if not parts:
        feasible.sort(key=_total, reverse=True)
        totals = [entry.total for entry in feasible]
        targets = [entry.target for entry in feasible]
    else:
        known = {
            entry.target.node_name: entry.total
            + sum(weight * scores[entry.target.node_name] for _, weight, scores in parts)
            for entry in feasible
        }
        targets = sorted((entry.target for entry in feasible), key=lambda target: known[target.node_name], reverse=True)
        totals = [known[target.node_name] for target in targets]
    _rotate(targets, totals, turn)
    if any(target.slow for target in targets):
        targets.sort(key=lambda target: target.slow)
    return targets


def _rotate(targets: list[TargetInfo], totals: Sequence[float], turn: int) -> None:
    """Let those with the same total take turns."""
    start, count = 0, len(targets)
    while start < count:
        end = start + 1
        while end < count and totals[end] == totals[start]:
            end += 1
        if end - start > 1:
            shift = turn % (end - start)
            targets[start:end] = targets[start + shift : end] + targets[start : start + shift]
        start = end
