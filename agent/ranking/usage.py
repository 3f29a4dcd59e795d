"""Usage: resources that the pods of this source use in each target, updated with every change.

An *assumed* pod was sent to a target whose reported free capacity does not include it yet. An *undelegated* pod has
no delegate yet, as far as known, so no quota includes it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

from agent.ranking.allocation import Allocation
from agent.ranking.node_fit import NodeFit
from agent.ranking.pod_counts import PlacedPod, PodCounts
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, PodTemplate, TargetInfo

_MEMOS = 16
"""Number of templates whose results are cached for each target."""


class Usage:
    """Usage of one target by our pods. `version` is incremented with every change."""

    __slots__ = (
        "_allocation",
        "_node_fit",
        "_on_nodes",
        "assumed",
        "assumed_requests",
        "images",
        "node",
        "pods",
        "requests",
        "undelegated",
        "version",
    )

    def __init__(self, node: str) -> None:
        self.node = node
        self.version = 0
        self.pods: dict[str, PodInfo] = {}
        """By UID."""
        self.assumed: dict[str, PodInfo] = {}
        self.undelegated: dict[str, PodInfo] = {}
        self.requests: dict[str, int] = {}
        """Sums of requests, with one of `pods` for each pod."""
        self.assumed_requests: dict[str, int] = {}
        """Sums of requests of assumed pods."""
        self.images: Counter[str] = Counter()
        """Number of our pods in the target that have each image."""
        self._node_fit: NodeFit | None = None
        self._on_nodes: set[str] = set()
        """UIDs of the assumed pods that fitted on a node."""
        self._allocation: Allocation | None = None

    def node_fit(self, target: TargetInfo, template: PodTemplate) -> Rejection | None:
        """Return why no node of the target has capacity after assumed pods; None if one has."""
        return self._fit_of(target).reject(template)

    def _fit_of(self, target: TargetInfo) -> NodeFit:
        if self._node_fit is None or self._node_fit.target is not target:
            node_fit = self._node_fit = NodeFit(target)
            self._on_nodes = {uid for uid, pod in self.assumed.items() if node_fit.take(pod.template)}
        return self._node_fit

    def allocation(self, target: TargetInfo) -> Allocation:
        """Return the allocation of the target, cached until it changes."""
        known = self._allocation
        if known is None or known.target is not target or known.version != self.version:
            known = self._allocation = Allocation(target, self)
        return known

    def undelegated_in(self, namespace: str) -> list[PodTemplate]:
        """Return the pods of a namespace that its quotas do not include yet."""
        return [pod.template for pod in self.undelegated.values() if pod.namespace == namespace]

    def without(self, uid: str, target: TargetInfo) -> "Usage":
        """Return the usage without one of its pods, as seen by this pod. If it holds capacity on a node, it fits
        there.
        """
        node_fit = self._fit_of(target)
        other = Usage(self.node) if uid not in self._on_nodes else _WithOwnNode(self.node)
        other.pods, other.assumed, other.undelegated = self.pods.copy(), self.assumed.copy(), self.undelegated.copy()
        other.requests, other.assumed_requests, other.images = (
            self.requests.copy(),
            self.assumed_requests.copy(),
            self.images.copy(),
        )
        other._node_fit = node_fit
        other.remove(uid)
        return other

    def put(self, uid: str, pod: PodInfo, *, assumed: bool, undelegated: bool) -> None:
        """Add a pod."""
        self.version += 1
        self.pods[uid] = pod
        _add(self.requests, pod, 1)
        self.images.update(pod.images)
        if undelegated:
            self.undelegated[uid] = pod
        if assumed:
            self.assume(uid)

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        pod = self.pods.pop(uid)
        _add(self.requests, pod, -1)
        self.images.subtract(pod.images)
        for image in pod.images:
            if not self.images[image]:
                del self.images[image]
        self.undelegated.pop(uid, None)
        self.version += 1
        self.confirm(uid)

    def confirm(self, uid: str) -> None:
        """Stop assuming a pod: the reported free capacity includes it, or never will."""
        pod = self.assumed.pop(uid, None)
        if pod is not None:
            self.version += 1
            _add(self.assumed_requests, pod, -1)
            if uid in self._on_nodes:
                self._node_fit = None

    def assume(self, uid: str) -> None:
        """Assume a pod whose delegate has got a node after the assumption had expired."""
        if uid not in self.assumed:
            self.version += 1
            self.assumed[uid] = pod = self.pods[uid]
            _add(self.assumed_requests, pod, 1)
            if self._node_fit is not None and self._node_fit.take(pod.template):
                self._on_nodes.add(uid)

    def delegated(self, uid: str) -> None:
        """Record that the pod has a delegate."""
        if self.undelegated.pop(uid, None) is not None:
            self.version += 1


class _WithOwnNode(Usage):
    """Usage as seen by a pod that holds capacity on a node of the target."""

    __slots__ = ()

    def node_fit(self, target: TargetInfo, template: PodTemplate) -> Rejection | None:
        return None


def _add(requests: dict[str, int], pod: PodInfo, sign: int) -> None:
    for name, amount in pod.requests.items():
        total = requests.get(name, 0) + sign * amount
        if total:
            requests[name] = total
        else:
            requests.pop(name, None)


class Usages:
    """Usage by virtual node."""

    def __init__(self) -> None:
        self._usages: dict[str, Usage] = {}
        self._placed: dict[str, PlacedPod] = {}
        self._memos: OrderedDict[PodTemplate, dict[str, Any]] = OrderedDict()
        self.counts = PodCounts()

    def __iter__(self) -> Iterator[PlacedPod]:
        return iter(self._placed.values())

    def of(self, node: str) -> Usage:
        """Return the usage of one target; empty at first."""
        usage = self._usages.get(node)
        if usage is None:
            usage = self._usages[node] = Usage(node)
        return usage

    def get(self, uid: str) -> PlacedPod | None:
        """Return the virtual node of a pod; None if it has none."""
        return self._placed.get(uid)

    def put(
        self, pod: PodInfo, node: str, *, assumed: bool = False, undelegated: bool = False, deleting: bool = False
    ) -> None:
        """Add a pod to a virtual node, and remove it from any other."""
        old = self._placed.get(pod.uid)
        new = PlacedPod(pod, node, deleting)
        if old == new:
            return
        if old is not None:
            if old.node == node:
                usage = self.of(node)
                assumed, undelegated = pod.uid in usage.assumed, pod.uid in usage.undelegated
            self.remove(pod.uid)
        self._placed[pod.uid] = new
        self.of(node).put(pod.uid, pod, assumed=assumed, undelegated=undelegated)
        self.counts.note(new, 1)

    def remove(self, uid: str) -> None:
        """Remove a pod."""
        placed = self._placed.pop(uid, None)
        if placed is not None:
            self._usages[placed.node].remove(uid)
            self.counts.note(placed, -1)

    def memo(self, template: PodTemplate) -> dict[str, Any]:
        """Return the cache of results for one template."""
        memo = self._memos.get(template)
        if memo is None:
            memo = self._memos[template] = {}
            if len(self._memos) > _MEMOS:
                self._memos.popitem(last=False)
        self._memos.move_to_end(template)
        return memo
