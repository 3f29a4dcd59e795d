"""Totals of a cluster's allocatable, free and used amounts: inputs of the scores of usage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.model.requests import Amounts

if TYPE_CHECKING:
    from agent.ranking.snapshot import Shape


@dataclass(frozen=True)
class ClusterTotals:
    """Sums over the nodes that take pods, in 10^-9 of the base unit. Cordoned nodes do not count."""

    allocatable: Amounts
    """Allocatable resources of all nodes."""
    free: Amounts | None
    """Sums of unrequested resources; None unless reported for every node: a large cluster reports only its best."""
    most_free: Amounts | None
    """Largest free amount of each resource on one node; None if nothing is reported."""
    used: Amounts | None = None
    """Sums of the measured usage of pods; None if not reported."""

    @property
    def requested(self) -> Amounts | None:
        """Sums of the requests of pods; None if not reported."""
        return _less(self.allocatable, self.free)

    @property
    def idle(self) -> Amounts | None:
        """Sums of resources that no pod uses; None if not reported."""
        return _less(self.allocatable, self.used)


def cluster_totals(shapes: Sequence["Shape"], used: Amounts | None = None) -> ClusterTotals:
    """Return the totals of a cluster with nodes of these shapes.

    :param used: measured usage; None if not reported
    """
    open_shapes = [shape for shape in shapes if not shape.unschedulable]
    told = [free for shape in open_shapes for free in shape.free or ()]
    tells_all = all(map(_tells_all, open_shapes))
    most: dict[str, int] = {}
    for free in told:
        for name, amount in free.amounts.items():
            most[name] = max(most.get(name, 0), amount)
    return ClusterTotals(
        allocatable=_sum((shape.allocatable, shape.count) for shape in open_shapes),
        free=_sum((free.amounts, free.count) for free in told) if shapes and tells_all else None,
        most_free=most if told else None,
        used=used,
    )


def _tells_all(shape: "Shape") -> bool:
    return shape.free is not None and sum(free.count for free in shape.free) >= shape.count


def _sum(parts: Iterable[tuple[Amounts, int]]) -> Amounts:
    total: dict[str, int] = {}
    for amounts, count in parts:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount * count
    return total


def _less(whole: Amounts, part: Amounts | None) -> Amounts | None:
    if part is None:
        return None
    return {name: max(0, amount - part.get(name, 0)) for name, amount in whole.items()}
