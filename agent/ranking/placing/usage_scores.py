"""Usage scores of clusters, with the names of Open Cluster Management's collector and some additional ones. Pure.

Integers from -100 to 100, or 0 to 100 if the name has no scope; fractions are rounded toward zero. Values that a
cluster does not report have no score.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from agent.model.requests import Amounts
from agent.ranking.cluster_totals import ClusterTotals, cluster_totals
from agent.ranking.snapshot import Shape

RESOURCES = {"cpu": "cpu", "mem": "memory", "gpu": "nvidia.com/gpu", "tpu": "google.com/tpu"}
"""Resource name on nodes, by its short name in scores."""
_MAXIMA = {"cpu": "cpu", "mem": "memory", "gpu": "gpu", "tpu": "tpu"}
_MEASURED = ("cpu", "mem")
_LEAST, _MOST = -100, 100


def usage_scores(shapes: Sequence[Shape], used: Amounts | None, maxima: Mapping[str, int]) -> dict[str, int]:
    """Return the scores of a cluster with nodes of these shapes, by name.

    :param used: measured usage as reported by the cluster; None if not reported
    :param maxima: free amounts for a score of 100, of cpu, memory, gpu and tpu
    """
    if not shapes:
        return {}
    totals = cluster_totals(shapes, used)
    return dict(sorted((_of_nodes(shapes, totals, maxima) | _of_the_cluster(totals, maxima)).items()))


def _of_nodes(shapes: Sequence[Shape], totals: ClusterTotals, maxima: Mapping[str, int]) -> dict[str, int]:
    """Return the scores of the best node, which may differ by resource."""
    # If all nodes are cordoned, the free amounts are known to be zero.
    best = totals.most_free if totals.most_free is not None else totals.free
    if best is None:
        return {}
    scores = {
        f"{short}NodeAvailable": scaled(best.get(resource, 0), maxima[_MAXIMA[short]])
        for short, resource in RESOURCES.items()
    }
    return scores | {f"{short}NodeRatio": _best_ratio(shapes, RESOURCES[short]) for short in _MEASURED}


def _of_the_cluster(totals: ClusterTotals, maxima: Mapping[str, int]) -> dict[str, int]:
    scores: dict[str, int] = {}
    if totals.free is not None:
        for short, resource in RESOURCES.items():
            scores[f"{short}ClusterAvailable"] = scaled(totals.free.get(resource, 0), maxima[_MAXIMA[short]])
        for short in _MEASURED:
            free, most = totals.free.get(RESOURCES[short], 0), maxima[_MAXIMA[short]]
            scores[f"{short}Available"] = max(0, min(_MOST, _MOST * free // most))
    for kind, left in (("ClusterRatio", totals.free), ("ClusterIdle", totals.idle)):
        if left is not None:
            scores |= {f"{short}{kind}": _ratio(left, totals.allocatable, RESOURCES[short]) for short in _MEASURED}
    return scores


def _ratio(left: Mapping[str, int], whole: Mapping[str, int], resource: str) -> int:
    return scaled(left.get(resource, 0), whole.get(resource, 0))


def _best_ratio(shapes: Sequence[Shape], resource: str) -> int:
    return max(
        (
            _ratio(free.amounts, shape.allocatable, resource)
            for shape in shapes
            if not shape.unschedulable
            for free in shape.free or ()
        ),
        default=_LEAST,
    )


def scaled(part: int, whole: int) -> int:
    """Scale to -100 for nothing up to 100 for the whole or more."""
    return within(Fraction(200 * part, whole) - _MOST) if whole > 0 else _LEAST


def within(value: Fraction) -> int:
    """Round a score toward zero, and limit it to -100 to 100."""
    return max(_LEAST, min(_MOST, int(value)))
