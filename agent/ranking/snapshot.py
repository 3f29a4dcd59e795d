"""Snapshot: inputs of the scheduler at one moment: the constraints of one pod, and the state of every target."""

import copy
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent.model.claimfilter import ClaimFilter
from agent.model.requests import Amounts, amounts
from agent.model.targetchoice import TargetChoice
from agent.ranking.cluster_totals import ClusterTotals, cluster_totals

if TYPE_CHECKING:
    from agent.ranking.placed import Placed

__all__ = ["Amounts", "Extra", "Free", "PodInfo", "PodTemplate", "Quota", "Scope", "Shape", "TargetInfo", "amounts"]


@dataclass(frozen=True, eq=False)
class PodTemplate:
    """The demand of the pods of one template. Pods with equal demands share one object, and with it cached results.

    `proxy` constraints apply to virtual nodes, `source` constraints to the target's own nodes.
    """

    namespace: str
    proxy: Mapping[str, Any]
    source: Mapping[str, Any]
    requests: Amounts
    limits: Amounts = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    """Host ports, as `TCP/80`."""
    images: frozenset[str] = frozenset()
    terminating: bool = False
    """True if it has an active deadline, as in the quota scope of this name."""
    best_effort: bool = False
    priority_class: str = ""
    specified: frozenset[str] = frozenset()
    """Resources that every container specifies, as far as a quota can require them (`requests.cpu`)."""

    @cached_property
    def affinity(self) -> Mapping[str, Any]:
        """Affinity to virtual nodes."""
        return self.proxy.get("affinity") or {}

    @cached_property
    def selector(self) -> tuple[tuple[str, str], ...]:
        """Node selector of the proxy pod."""
        return tuple((self.proxy.get("nodeSelector") or {}).items())

    @cached_property
    def measured(self) -> tuple[int, int, int]:
        """The requests that measure allocation: cpu, memory and pods."""
        return self.requests.get("cpu", 0), self.requests.get("memory", 0), self.requests.get("pods", 0)

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Cache of results about taints and shapes of nodes, which many targets share."""
        return {}

    @cached_property
    def label_keys(self) -> bool:
        """True if constraints take values from the pod's own labels (`matchLabelKeys`)."""
        return any(_takes_values(item) for item in (self.proxy.get("topologySpreadConstraints"), self.affinity))


def _takes_values(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value.get("matchLabelKeys") or value.get("mismatchLabelKeys")) or any(
            map(_takes_values, value.values())
        )
    return isinstance(value, list) and any(map(_takes_values, value))


@dataclass(frozen=True, eq=False)
class PodInfo:
    """One pod that needs a target."""

    template: PodTemplate
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the source pod, which the proxy pod has as well."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Current labels of its namespace; the mapping is updated in place."""
    priority: int = 0
    attempts: Mapping[str, str] = field(default_factory=dict)
    """Reason why the pod could not be scheduled in a target, by virtual node."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Virtual node of the target with the volume, by claim."""
    placed: "Placed | None" = None
    """Decision of the Placement that it follows; None if it follows none."""
    choice: TargetChoice | None = None
    """Targets chosen by annotation or setting; None if unrestricted."""
    claims: ClaimFilter | None = None
    """Claims that the target's cluster has to have; None if unrestricted."""

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.template.namespace

    @property
    def proxy(self) -> Mapping[str, Any]:
        """Constraints for virtual nodes."""
        return self.template.proxy

    @property
    def source(self) -> Mapping[str, Any]:
        """Constraints for the target's own nodes."""
        return self.template.source

    @property
    def requests(self) -> Amounts:
        """Its requests, including one of `pods`."""
        return self.template.requests

    @property
    def images(self) -> frozenset[str]:
        """Images of all containers, including init containers."""
        return self.template.images

    def beside(self, volumes: Mapping[str, str]) -> "PodInfo":
        """Return the pod with the volumes of its claims, by virtual node."""
        return dataclasses.replace(self, volumes=volumes) if volumes else self

    def following(self, placed: "Placed | None") -> "PodInfo":
        """Return the pod with the decision of its Placement."""
        if placed is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "placed", placed)
        return other

    def choosing(self, choice: TargetChoice | None) -> "PodInfo":
        """Return the pod with the choice of its targets."""
        if choice is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "choice", choice)
        return other

    def claiming(self, claims: ClaimFilter | None) -> "PodInfo":
        """Return the pod with the claims that it requires."""
        if claims is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "claims", claims)
        return other

    def after(self, attempts: Mapping[str, str]) -> "PodInfo":
        """Return the pod with other attempts."""
        if attempts == self.attempts:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "attempts", attempts)
        return other


@dataclass(frozen=True)
class Free:
    """Free capacity of some nodes of one shape."""

    amounts: Amounts
    count: int = 1
    """Number of nodes with exactly these free amounts."""
    ports: frozenset[str] = frozenset()
    """Host ports in use, as `TCP/80`."""


@dataclass(frozen=True)
class Shape:
    """Nodes of a target with equal labels, taints, cordon and allocatable resources."""

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    count: int = 1
    free: tuple[Free, ...] | None = None
    """None if the target does not report it."""

    @cached_property
    def kind(self) -> str:
        """Labels, taints and cordon as one string; equal strings mean equal nodes for constraints."""
        labels = "\n".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return sys.intern(f"{labels}\n\n{_written(self.taints)}\n\n{self.unschedulable}")


def _written(taints: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(
        sorted(f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect') or ''}" for taint in taints)
    )


@dataclass(frozen=True)
class Scope:
    """One requirement on the pods that a quota counts, of its `scopes` or `scopeSelector`."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quota:
    """A ResourceQuota of one namespace in the target, from its status."""

    name: str
    hard: Amounts
    used: Amounts
    scopes: tuple[Scope, ...] = ()


@dataclass(frozen=True)
class Extra:
    """A score of a target from an AddOnPlacementScore or similar object."""

    value: int
    """-100 to 100."""
    until: datetime | None = None
    """When it expires; None if never."""

    def counts(self, now: datetime) -> bool:
        """Return True if the score has not expired; an expired score counts as missing."""
        return self.until is None or self.until > now


@dataclass(frozen=True)
class TargetInfo:
    """State of one target at one moment."""

    title: str
    node_name: str
    namespace: str
    """The only namespace it serves; empty for all."""
    ready: bool
    state: str
    """Why it is not ready, as text."""
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    """Sums over its nodes; empty if unknown."""
    shapes: Sequence[Shape]
    """Empty if the target does not report them."""
    common_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels with the same value on all nodes that have them."""
    limits: Amounts = field(default_factory=dict)
    """Limits of what our pods may request in the target together (`spec.limits` of the Target)."""
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)
    """By namespace; empty if the target does not report them."""
    weight: int = 0
    """-100 to 100: the annotation `multicluster/weight` of the Target."""
    extra: Mapping[str, Extra] = field(default_factory=dict)
    """Unexpired scores, by the name of their setting."""
    slow: bool = False
    """True if it answers slowly: other targets come first."""
    managed_cluster: str = ""
    """The ManagedCluster that represents its cluster; empty if unknown."""
    claims: Mapping[str, str] | None = None
    """Claims of its ManagedCluster, by name; None if unknown."""
    closed: str = ""
    """Why it takes no new pods even if ready: emptied, lost, or just returned. Empty if it takes pods."""

    @cached_property
    def taints_key(self) -> str:
        """The taints as one string; equal strings mean equal taints."""
        return sys.intern(_written(self.taints))

    @cached_property
    def shapes_key(self) -> str:
        """The kinds of all shapes as one string; equal strings mean equal nodes for constraints."""
        return sys.intern("\f".join(shape.kind for shape in self.shapes))

    @cached_property
    def softly_tainted(self) -> bool:
        """True if it has a taint with effect PreferNoSchedule."""
        return any(taint.get("effect") == "PreferNoSchedule" for taint in self.taints)

    @cached_property
    def totals(self) -> ClusterTotals:
        """Allocatable, free and used resources summed over its nodes."""
        return cluster_totals(self.shapes)
