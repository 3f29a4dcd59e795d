"""The complete lists of filters and scorers of our scheduler, as kube-scheduler lists its plugins.

To add one, write its function and list it, wrapped in the kind that states its input.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from agent.ranking import filters, scores
from agent.ranking.allocation import Allocation
from agent.ranking.chosen import not_chosen, not_claimed
from agent.ranking.cross_target import CrossTarget
from agent.ranking.placed import not_placed, placement_scores
from agent.ranking.quota import over_limits, over_quotas
from agent.ranking.rejection import Rejection
from agent.ranking.scores import Weights
from agent.ranking.snapshot import PodInfo, PodTemplate, TargetInfo
from agent.ranking.usage import Usage


def _always(target: TargetInfo) -> bool:
    return True


class PerPod(NamedTuple):
    """A filter whose input differs from pod to pod, called once for all targets.

    Targets that one of these rejects are not passed to other kinds of filters.
    """

    reject: Callable[[PodInfo, Sequence[TargetInfo]], Sequence[tuple[TargetInfo, Rejection]]]


class PerTarget(NamedTuple):
    """A filter of a template and one target; its result is cached until the target or its usage changes."""

    reject: Callable[[PodTemplate, TargetInfo, Usage], Rejection | None]
    concerns: Callable[[TargetInfo], object] = _always
    """Returns False if no pod can be rejected for this target."""


class AcrossTargets(NamedTuple):
    """A filter that depends on all targets; `prepare` returns None for pods that it does not concern."""

    prepare: Callable[[CrossTarget], Callable[[TargetInfo], Rejection | None] | None]


class OnNodes(NamedTuple):
    """As `PerTarget`, but called last: if only this rejects the pod, a candidate may wait for capacity."""

    reject: Callable[[PodTemplate, TargetInfo, Usage], Rejection | None]


Filter = PerPod | PerTarget | AcrossTargets | OnNodes

FILTERS: tuple[Filter, ...] = (
    PerPod(not_chosen),  # restricted by annotations of the pod, its controller and its namespace, and settings
    PerPod(not_placed),  # restricted by the decision of the pod's Placement
    PerPod(not_claimed),  # restricted by annotations of the pod and its namespace that require claims of the cluster
    PerPod(filters.volumes_elsewhere),  # volumes of the pod's claims exist in one target only
    PerTarget(filters.other_namespace, attrgetter("namespace")),  # a Target serves its own namespace only
    PerTarget(filters.not_ready),  # a target that does not answer can create no pods
    PerTarget(filters.cordoned, attrgetter("unschedulable")),  # an administrator cordoned the virtual node
    PerTarget(filters.closed, attrgetter("closed")),  # an emptied, lost or unstable target gets no new pods
    PerTarget(filters.tainted, attrgetter("taints")),  # NoSchedule and NoExecute on the virtual node
    PerTarget(filters.not_selected),  # node selector and required node affinity over virtual nodes
    PerTarget(over_limits, attrgetter("limits")),  # `spec.limits` of the Target, over all our pods in it
    PerTarget(over_quotas, attrgetter("quotas")),  # quota admission in the target would refuse the pod
    AcrossTargets(CrossTarget.topology_spread),  # constraints with DoNotSchedule
    AcrossTargets(CrossTarget.pod_affinity),  # required affinity and anti-affinity of this pod and other pods
    OnNodes(filters.node_fit),  # one node needs capacity for the whole pod
)


class Own(NamedTuple):
    """A score of one target, 0 to 100, cached like the results of `PerTarget`; None if it does not apply."""

    name: str
    score: Callable[[PodTemplate, Allocation, Weights], float | None]


class External(NamedTuple):
    """As `Own`, one for each extra score in the settings."""

    score: Callable[[str], Callable[[PodTemplate, Allocation, Weights], float]]


class Normalized(NamedTuple):
    """A number per target, also cached, that is normalized over the targets that pass the filters."""

    name: str
    raw: Callable[[PodTemplate, TargetInfo], int]
    reverse: bool = False
    """True if the lowest number is best."""
    concerns: Callable[[TargetInfo], object] = _always
    """Returns False if the number is 0 for every pod."""


class Compared(NamedTuple):
    """A score that depends on all targets; None if it does not apply."""

    name: str
    scores: Callable[[CrossTarget, Sequence[TargetInfo]], list[float] | None]


class ByPod(NamedTuple):
    """A score whose input differs from pod to pod, by virtual node; None if it does not apply.

    Results are cached as long as it returns the same object.
    """

    name: str
    scores: Callable[[PodInfo, Sequence[TargetInfo]], Mapping[str, float] | None]


Scorer = Own | External | Normalized | Compared | ByPod

SCORERS: tuple[Scorer, ...] = (
    Own("capacity", scores.capacity),  # least or most allocated, by the setting
    Own("target_weight", scores.target_weight),  # preference of the administrators of targets
    Own("images", scores.images),  # pods start sooner with cached images: breaks ties only
    External(scores.external),  # AddOnPlacementScores and the like
    Normalized("affinity", scores.preferred_affinity),  # preferred node affinity over virtual nodes
    Normalized("taints", scores.untolerated, reverse=True, concerns=attrgetter("softly_tainted")),  # PreferNoSchedule
    Compared("spread", CrossTarget.spread_scores),  # constraints with ScheduleAnyway
    Compared("pod_affinity", CrossTarget.affinity_scores),  # preferred affinity and anti-affinity to other pods
    ByPod("placement", placement_scores),  # the scores of a Placement's decisions
)

PER_POD = tuple(each.reject for each in FILTERS if isinstance(each, PerPod))
ACROSS_TARGETS = tuple(each.prepare for each in FILTERS if isinstance(each, AcrossTargets))
ON_NODES = tuple(each.reject for each in FILTERS if isinstance(each, OnNodes))
NORMALIZED = tuple(each for each in SCORERS if isinstance(each, Normalized))
COMPARED = tuple(each for each in SCORERS if isinstance(each, Compared))
(BY_POD,) = (each for each in SCORERS if isinstance(each, ByPod))  # ranking adds up one of them


class PluginsOfTarget(NamedTuple):
    """The filters and scorers that can apply to one target."""

    per_target: tuple[Callable[[PodTemplate, TargetInfo, Usage], Rejection | None], ...]
    normalized: tuple[tuple[str, Callable[[PodTemplate, TargetInfo], int]], ...]


def plugins_of(target: TargetInfo) -> PluginsOfTarget:
    """Return the plugins of a target, cached in its target info."""
    known: PluginsOfTarget | None = target.__dict__.get("_plugins")
    if known is None:
        per_target = (each for each in FILTERS if isinstance(each, PerTarget))
        known = target.__dict__["_plugins"] = PluginsOfTarget(
            tuple(each.reject for each in per_target if each.concerns(target)),
            tuple((each.name, each.raw) for each in NORMALIZED if each.concerns(target)),
        )
    return known


Weighted = tuple[str, float, Callable[[PodTemplate, Allocation, Weights], float | None]]


def own_scorers(weights: Weights) -> Sequence[Weighted]:
    """Return the scorers that depend on one target alone, with their names and weights."""
    known: Sequence[Weighted] | None = weights.__dict__.get("_own")
    if known is None:
        found: list[Weighted] = []
        for each in SCORERS:
            if isinstance(each, Own):
                found.append((each.name, weights.of(each.name), each.score))
            elif isinstance(each, External):
                found += [(name, weight, each.score(name)) for name, weight in weights.extra.items()]
        known = weights.__dict__["_own"] = tuple(found)
    return known


def own_scores(template: PodTemplate, allocation: Allocation, weights: Weights) -> dict[str, float]:
    """Return a target's own scores by name, without inapplicable ones."""
    found = ((name, score(template, allocation, weights)) for name, _, score in own_scorers(weights))
    return {name: score for name, score in found if score is not None}


def own_total(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """Return the sum of a target's own scores, each times its weight."""
    total = 0.0
    for _, weight, score in weights.__dict__.get("_own") or own_scorers(weights):
        found = score(template, allocation, weights)
        if found is not None:
            total += weight * found
    return total
