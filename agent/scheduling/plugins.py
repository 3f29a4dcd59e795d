"""The complete lists of filters and scorers of our scheduler, as kube-scheduler lists its plugins.

To add one, write its function and name it here, under the kind that says what it looks at.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from agent.scheduling import filters, scores
from agent.scheduling.allocation import Allocation
from agent.scheduling.chosen import not_chosen, not_claimed
from agent.scheduling.cross_target import CrossTarget
from agent.scheduling.placed import not_placed, placement_scores
from agent.scheduling.quota import over_limits, over_quotas
from agent.scheduling.rejection import Rejection
from agent.scheduling.scores import Weights
from agent.scheduling.snapshot import PodInfo, PodTemplate, TargetInfo
from agent.scheduling.usage import Usage


def _always(target: TargetInfo) -> bool:
    return True


class PerPod(NamedTuple):
    """A filter that looks at what differs from pod to pod, and at all targets at once.

    The targets that any of them rejects count for no other filter.
    """

    reject: Callable[[PodInfo, Sequence[TargetInfo]], Sequence[tuple[TargetInfo, Rejection]]]


class PerTarget(NamedTuple):
    """A filter that looks at a template and one target: its answer is kept until the target or its usage changes."""

    reject: Callable[[PodTemplate, TargetInfo, Usage], Rejection | None]
    concerns: Callable[[TargetInfo], object] = _always
    """Whether any pod at all could be rejected for a target."""


class AcrossTargets(NamedTuple):
    """A filter that looks at all targets together; None for pods that it does not concern."""

    prepare: Callable[[CrossTarget], Callable[[TargetInfo], Rejection | None] | None]


class OnNodes(NamedTuple):
    """As `PerTarget`, but asked last: where only this rejects the pod, a candidate may wait for room."""

    reject: Callable[[PodTemplate, TargetInfo, Usage], Rejection | None]


Filter = PerPod | PerTarget | AcrossTargets | OnNodes

FILTERS: tuple[Filter, ...] = (
    PerPod(not_chosen),  # annotations of the pod, its controller and its namespace, and settings, name targets
    PerPod(not_placed),  # a pod that follows a Placement goes where that has decided
    PerPod(not_claimed),  # annotations of the pod and its namespace ask for claims of the target's cluster
    PerPod(filters.volumes_elsewhere),  # the data of a pod's claims is in one target and stays there
    PerTarget(filters.other_namespace, attrgetter("namespace")),  # a Target serves its own namespace only
    PerTarget(filters.not_ready),  # nothing can be made in a target that does not answer
    PerTarget(filters.cordoned, attrgetter("unschedulable")),  # an administrator takes no new pods there
    PerTarget(filters.closed, attrgetter("closed")),  # what is emptied, lost or not stable yet gets nothing new
    PerTarget(filters.tainted, attrgetter("taints")),  # NoSchedule and NoExecute on the virtual node
    PerTarget(filters.not_selected),  # node selector and required node affinity over virtual nodes
    PerTarget(over_limits, attrgetter("limits")),  # `spec.limits` of the Target, over all our pods there
    PerTarget(over_quotas, attrgetter("quotas")),  # quota admission in the target would refuse the pod
    AcrossTargets(CrossTarget.topology_spread),  # constraints with DoNotSchedule
    AcrossTargets(CrossTarget.pod_affinity),  # required affinity and anti-affinity, the pod's own and that of others
    OnNodes(filters.node_fit),  # one single node has to have room for the whole pod
)


class Own(NamedTuple):
    """A score of one target, 0 to 100, kept as the answers of `PerTarget` are; None where it says nothing."""

    name: str
    score: Callable[[PodTemplate, Allocation, Weights], float | None]


class External(NamedTuple):
    """As `Own`, one for each score that the settings name."""

    score: Callable[[str], Callable[[PodTemplate, Allocation, Weights], float]]


class Normalized(NamedTuple):
    """A number for each target, kept too, that is compared with those of the other targets left by the filters."""

    name: str
    raw: Callable[[PodTemplate, TargetInfo], int]
    reverse: bool = False
    """Whether the fewest are best."""
    concerns: Callable[[TargetInfo], object] = _always
    """Whether any pod at all could have another number than 0."""


class Compared(NamedTuple):
    """A score that looks at all targets together; None where it says nothing."""

    name: str
    scores: Callable[[CrossTarget, Sequence[TargetInfo]], list[float] | None]


class ByPod(NamedTuple):
    """A score that looks at what differs from pod to pod, by virtual node; None where it says nothing.

    The same object is the same answer: what follows from it is kept until there is another.
    """

    name: str
    scores: Callable[[PodInfo, Sequence[TargetInfo]], Mapping[str, float] | None]


Scorer = Own | External | Normalized | Compared | ByPod

SCORERS: tuple[Scorer, ...] = (
    Own("capacity", scores.capacity),  # least or most allocated, by the setting
    Own("target_weight", scores.target_weight),  # what those who run the target prefer
    Own("images", scores.images),  # where images are, pods start sooner: breaks ties only
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
    """The filters and scorers that can say anything of one target."""

    per_target: tuple[Callable[[PodTemplate, TargetInfo, Usage], Rejection | None], ...]
    normalized: tuple[tuple[str, Callable[[PodTemplate, TargetInfo], int]], ...]


def plugins_of(target: TargetInfo) -> PluginsOfTarget:
    """Found once for each target info."""
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
    """The scorers of one target alone, with their names and weights."""
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
    """A target's own scores by name, without those that say nothing."""
    found = ((name, score(template, allocation, weights)) for name, _, score in own_scorers(weights))
    return {name: score for name, score in found if score is not None}


def own_total(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """The sum of a target's own scores, each times its weight."""
    total = 0.0
    for _, weight, score in weights.__dict__.get("_own") or own_scorers(weights):
        found = score(template, allocation, weights)
        if found is not None:
            total += weight * found
    return total
