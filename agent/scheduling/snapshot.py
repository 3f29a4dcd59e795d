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
from agent.scheduling.cluster_totals import ClusterTotals, cluster_totals

if TYPE_CHECKING:
    from agent.scheduling.placed import Placed

__all__ = ["Amounts", "Extra", "Free", "PodInfo", "PodTemplate", "Quota", "Scope", "Shape", "TargetInfo", "amounts"]


@dataclass(frozen=True, eq=False)
class PodTemplate:
    """What pods of one template ask of a target: one object for all that ask the same, so that what was found out for
    one of them holds for the others.

    `proxy` constraints hold for virtual nodes, `source` constraints for the target's own nodes.
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
    """Whether it has a deadline: the meaning of the quota scope of this name."""
    best_effort: bool = False
    priority_class: str = ""
    specified: frozenset[str] = frozenset()
    """Of the resources that a quota can make obligatory (`requests.cpu`), those that every container tells."""

    @cached_property
    def affinity(self) -> Mapping[str, Any]:
        """Affinity over virtual nodes."""
        return self.proxy.get("affinity") or {}

    @cached_property
    def selector(self) -> tuple[tuple[str, str], ...]:
        """The proxy pod's node selector."""
        return tuple((self.proxy.get("nodeSelector") or {}).items())

    @cached_property
    def measured(self) -> tuple[int, int, int]:
        """The requests by which allocation is measured: cpu, memory and pods."""
        return self.requests.get("cpu", 0), self.requests.get("memory", 0), self.requests.get("pods", 0)

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What was found out about taints and shapes of nodes, which many targets share."""
        return {}

    @cached_property
    def label_keys(self) -> bool:
        """Whether constraints take values from the pod's own labels."""
        return any(_takes_values(item) for item in (self.proxy.get("topologySpreadConstraints"), self.affinity))


def _takes_values(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value.get("matchLabelKeys") or value.get("mismatchLabelKeys")) or any(
            map(_takes_values, value.values())
        )
    return isinstance(value, list) and any(map(_takes_values, value))


@dataclass(frozen=True, eq=False)
class PodInfo:
    """One pod that asks for a target."""

    template: PodTemplate
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the source pod, as the proxy pod carries them."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Of its namespace, as they are at any time."""
    priority: int = 0
    attempts: Mapping[str, str] = field(default_factory=dict)
    """Virtual node to the reason why the pod could not be scheduled there."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Claims to the virtual node that has their volume."""
    placed: "Placed | None" = None
    """What the Placement has decided that it follows, None for a pod that follows none."""
    choice: TargetChoice | None = None
    """Which targets are chosen for it by annotation, None where none says anything."""
    claims: ClaimFilter | None = None
    """Which claims its target's cluster has to have, None where none asks for any."""

    @property
    def namespace(self) -> str:
        """The namespace of pod and template."""
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
        """What it requests, one of `pods` among it."""
        return self.template.requests

    @property
    def images(self) -> frozenset[str]:
        """Images of all containers, init containers among them."""
        return self.template.images

    def beside(self, volumes: Mapping[str, str]) -> "PodInfo":
        """The same pod with the volumes of its claims, by the virtual node that has each."""
        return dataclasses.replace(self, volumes=volumes) if volumes else self

    def following(self, placed: "Placed | None") -> "PodInfo":
        """The same pod with what its Placement has decided."""
        if placed is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "placed", placed)
        return other

    def choosing(self, choice: TargetChoice | None) -> "PodInfo":
        """The same pod with the choice of its targets."""
        if choice is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "choice", choice)
        return other

    def claiming(self, claims: ClaimFilter | None) -> "PodInfo":
        """The same pod with the claims that it asks for."""
        if claims is None:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "claims", claims)
        return other

    def after(self, attempts: Mapping[str, str]) -> "PodInfo":
        """The same pod with other attempts."""
        if attempts == self.attempts:
            return self
        other = copy.copy(self)
        object.__setattr__(other, "attempts", attempts)
        return other


@dataclass(frozen=True)
class Free:
    """What nodes of one shape have left."""

    amounts: Amounts
    count: int = 1
    """How many nodes have just this left."""
    ports: frozenset[str] = frozenset()
    """Host ports in use, as `TCP/80`."""


@dataclass(frozen=True)
class Shape:
    """Nodes of a target that are alike."""

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    count: int = 1
    free: tuple[Free, ...] | None = None
    """None when the target does not tell."""

    @cached_property
    def kind(self) -> str:
        """Labels, taints and cordon in one: the same string for all that agree."""
        labels = "\n".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return sys.intern(f"{labels}\n\n{_written(self.taints)}\n\n{self.unschedulable}")


def _written(taints: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(
        sorted(f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect') or ''}" for taint in taints)
    )


@dataclass(frozen=True)
class Scope:
    """Which pods a quota is about: one requirement of its `scopes` or `scopeSelector`."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quota:
    """A ResourceQuota of one namespace in the target, as its status tells."""

    name: str
    hard: Amounts
    used: Amounts
    scopes: tuple[Scope, ...] = ()


@dataclass(frozen=True)
class Extra:
    """A score that somebody else gives a target."""

    value: int
    """-100 to 100."""
    until: datetime | None = None
    """When it expires."""

    def counts(self, now: datetime) -> bool:
        """Whether it has not expired: one that has is as good as missing."""
        return self.until is None or self.until > now


@dataclass(frozen=True)
class TargetInfo:
    """What the scheduler knows of one target at one moment."""

    title: str
    node_name: str
    namespace: str
    """The only namespace it serves, empty for all."""
    ready: bool
    state: str
    """Why it is not ready, in words."""
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    """Sums over its nodes; empty while unknown."""
    shapes: Sequence[Shape]
    """Empty when the target does not tell."""
    common_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels on whose value all nodes that have them agree."""
    limits: Amounts = field(default_factory=dict)
    """What our pods there may request together (`spec.limits` of the Target)."""
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)
    """By namespace; empty when the target does not tell."""
    weight: int = 0
    """-100 to 100: the annotation `multicluster/weight` of the Target."""
    extra: Mapping[str, Extra] = field(default_factory=dict)
    """Scores by the name of their setting; expired ones are not among them."""
    slow: bool = False
    """Whether it takes long to answer: others come first."""
    managed_cluster: str = ""
    """The ManagedCluster that stands for its cluster, empty where none is known."""
    claims: Mapping[str, str] | None = None
    """What its cluster says of itself, by name; None while that is not known."""
    closed: str = ""
    """Why it takes no new pods although it may answer, in words: it is emptied, lost, or was away; empty if it does."""

    @cached_property
    def taints_key(self) -> str:
        """The taints in one: the same string for all that agree."""
        return sys.intern(_written(self.taints))

    @cached_property
    def shapes_key(self) -> str:
        """Which shapes there are in one: the same string for all that agree."""
        return sys.intern("\f".join(shape.kind for shape in self.shapes))

    @cached_property
    def softly_tainted(self) -> bool:
        """Whether a taint keeps pods away without refusing them."""
        return any(taint.get("effect") == "PreferNoSchedule" for taint in self.taints)

    @cached_property
    def totals(self) -> ClusterTotals:
        """What its nodes have and what of it is taken."""
        return cluster_totals(self.shapes)
