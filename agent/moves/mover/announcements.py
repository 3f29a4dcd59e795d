"""Announcements: track whether every cluster routes traffic to a new pod, before the old pod may end.

The wait for each cluster is limited, so that a cluster which refuses EndpointSlices blocks no move forever.
"""

import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from agent.clusters.deps import Deps
from agent.clusters.stores.selecting_services import SelectingServices
from agent.drivers.driver import LOCAL
from agent.drivers.reach import BRIEF_SECONDS, EndpointReach, Reach
from agent.kube.store import Object
from agent.model.service import users_selector

FOLLOWS_SECONDS = 300.0
"""Seconds that a cluster may take to list the address of a pod; BRIEF_SECONDS for a cluster that cannot list it."""
TOLD_SECONDS = 10.0
"""Seconds after which the condition of the old pod names the clusters that lack the new pod's address."""


class Announced(NamedTuple):
    """Progress of an announcement."""

    done: bool
    """Whether the wait is over for every cluster."""
    lacking: frozenset[str] = frozenset()
    """Virtual nodes of clusters that have lacked the pod's address for `TOLD_SECONDS`; LOCAL is the source."""


class Wait:
    """Wait until clusters have the endpoint of one pod. Moments are seconds of the monotonic clock."""

    def __init__(self, unseen_seconds: float) -> None:
        """:param unseen_seconds: wait for clusters whose endpoints cannot be read"""
        self._unseen = unseen_seconds
        self._missing: dict[str, float] = {}
        """Moment from which the address has been missing, by virtual node."""
        self._state: object = None
        self._since = 0.0

    def look(self, reach: Reach, now: float) -> Announced:
        """Return the progress of the announcement."""
        self._missing = {node: self._missing.get(node, now) for node in reach.missing}
        for_ = {node: now - since for node, since in self._missing.items()}
        waits = any(seconds < _limit(node, reach.stuck) for node, seconds in for_.items()) or reach.silent
        if (state := (waits, reach.silent)) != self._state:
            self._state, self._since = state, now
        done = not waits and (not reach.unseen or now - self._since >= self._unseen)
        return Announced(done, frozenset(node for node, seconds in for_.items() if seconds >= TOLD_SECONDS))


def _limit(node: str, stuck: Collection[str]) -> float:
    return BRIEF_SECONDS if node in stuck else FOLLOWS_SECONDS


class Announcements:
    """Endpoints of replacements and of pods that stay."""

    def __init__(self, deps: Deps, seconds: float) -> None:
        """:param seconds: wait for clusters whose endpoints cannot be read"""
        self._deps = deps
        self._seconds = seconds
        self.reach = EndpointReach(deps)
        self._services = SelectingServices(deps.local)
        self._waits: dict[str, Wait] = {}
        """Waits by UID of the pod."""
        deps.proxies.informer.subscribe(self._pod_changed)

    def forget(self, pods: Iterable[Object]) -> None:
        """Forget pods that no longer move or are no longer available."""
        for pod in pods:
            self._waits.pop(pod.uid, None)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Forget a deleted pod: the mover forgets an owner's pods only after all of its moves."""
        if old is not None and (new is None or new.uid != old.uid):
            self.forget([old])

    def keys(self, pod: Object) -> frozenset[str]:
        """Return the labels of a pod by which Services select it."""
        services = self._services.of(pod.namespace, pod.labels)
        return frozenset(key for service in services for key in users_selector(service.decode()))

    def of(self, pod: Object) -> Announced:
        """Return the progress of an available pod in the clusters that share a Service which selects it."""
        if not self._services.of(pod.namespace, pod.labels):
            return Announced(done=True)
        wait = self._waits.setdefault(pod.uid, Wait(self._seconds))
        return wait.look(self.reach.of(pod.decode()), time.monotonic())

    def words(self, lacking: Collection[str]) -> str:
        """Return a text about the clusters without the address, and the longest wait; empty if none lacks it."""
        if not lacking:
            return ""
        titles = ", ".join(sorted(map(self._title, lacking)))
        most = f"{BRIEF_SECONDS:.0f} s if it refuses EndpointSlices or has no copy of the Service"
        return f"but its address is not listed in {titles}, which is given {FOLLOWS_SECONDS:.0f} s, or {most}"

    def _title(self, node: str) -> str:
        target = self._deps.targets.by_node(node)
        return "this cluster" if node == LOCAL else f"target {target.title if target is not None else node}"
