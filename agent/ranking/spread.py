"""Topology spread over virtual nodes, as in kube-scheduler (plugins/podtopologyspread)."""

import math
from collections.abc import Callable, Mapping, Sequence

from agent.ranking.pod_terms import Spread
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import TargetInfo

Counts = Callable[[Spread], Mapping[str, int]]
"""Number of pods on each virtual node that match a constraint's selector."""
Counted = Callable[[Spread, TargetInfo], bool]
"""Returns True if a virtual node counts for a constraint, by its policies for affinity and taints."""


class HardSpread:
    """The hard constraints (`DoNotSchedule`)."""

    def __init__(
        self, constraints: Sequence[Spread], targets: Sequence[TargetInfo], counts: Counts, counted: Counted
    ) -> None:
        keys = {constraint.key for constraint in constraints}
        domains = [target for target in targets if keys <= target.labels.keys()]
        self._limits: list[tuple[Spread, Mapping[str, int], int]] = []
        for constraint in constraints:
            found = _by_domain(constraint, domains, counts(constraint), counted)
            least = min(found.values(), default=0) if len(found) >= constraint.min_domains else 0
            self._limits.append((constraint, found, least + constraint.max_skew - constraint.own))

    def reject(self, target: TargetInfo) -> Rejection | None:
        """Return why the pod may not be scheduled in this target; None if it may."""
        for constraint, found, most in self._limits:
            value = target.labels.get(constraint.key)
            if value is None:
                return Rejection(
                    "TopologySpread", f"virtual node lacks the label {constraint.key} of a topology spread"
                )
            count = found.get(value, 0)
            if count > most:
                skew = count + constraint.own - (most - constraint.max_skew + constraint.own)
                message = f"topology spread over {constraint.key} (skew {skew}, at most {constraint.max_skew})"
                return Rejection("TopologySpread", message)
        return None


def _by_domain(
    constraint: Spread, targets: Sequence[TargetInfo], counts: Mapping[str, int], counted: Counted
) -> dict[str, int]:
    found: dict[str, int] = {}
    key = constraint.key
    for target in targets:
        if counted(constraint, target):
            value = target.labels[key]
            found[value] = found.get(value, 0) + counts.get(target.node_name, 0)
    return found


def soft_scores(
    constraints: Sequence[Spread],
    targets: Sequence[TargetInfo],
    feasible: Sequence[TargetInfo],
    counts: Counts,
    counted: Counted,
) -> list[float]:
    """Return 0 to 100 for each feasible target by the soft constraints (`ScheduleAnyway`): 100 for the one with the
    fewest pods, 0 for one that lacks a label.
    """
    keys = {constraint.key for constraint in constraints}
    labelled = [keys <= target.labels.keys() for target in feasible]
    domains = [target for target in targets if keys <= target.labels.keys()]
    costs = [0.0] * len(feasible)
    for constraint in constraints:
        there = {target.labels[constraint.key] for target, well in zip(feasible, labelled, strict=True) if well}
        weight = math.log(len(there) + 2)
        found = _by_domain(constraint, domains, counts(constraint), counted)
        for index, target in enumerate(feasible):
            if labelled[index]:
                costs[index] += found.get(target.labels[constraint.key], 0) * weight + constraint.max_skew - 1
    known = [cost for cost, well in zip(costs, labelled, strict=True) if well]
    highest, lowest = max(known, default=0.0), min(known, default=0.0)
    if not highest:
        return [100.0 if well else 0.0 for well in labelled]
    return [
        100.0 * (highest + lowest - cost) / highest if well else 0.0 for cost, well in zip(costs, labelled, strict=True)
    ]
