"""Announcements: whether every cluster routes traffic to a pod, before another one that serves the same may end.

A cluster that has just fallen silent is waited for. A cluster whose endpoints cannot be read is given some seconds.
"""

import time

from agent.clusters.deps import Deps
from agent.clusters.selecting import SelectingServices
from agent.drivers.reach import EndpointReach
from agent.kube.store import Object
from agent.model.service import users_selector


class Announcements:
    """Endpoints of replacements and of pods that stay."""

    def __init__(self, deps: Deps, seconds: float) -> None:
        """:param seconds: given to clusters whose endpoints cannot be read"""
        self._seconds = seconds
        self.reach = EndpointReach(deps)
        self._services = SelectingServices(deps.local)
        self._since: dict[str, tuple[object, float]] = {}
        """By UID of a pod: what was last seen of its endpoints, and since when."""
        deps.proxies.informer.subscribe(self._pod_changed)

    def forget(self, pods: list[Object]) -> None:
        """Drop what is known of pods of which none moves any longer."""
        for pod in pods:
            self._since.pop(pod.uid, None)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod that has moved is deleted before its owner is done with the others."""
        if old is not None and (new is None or new.uid != old.uid):
            self.forget([old])

    def keys(self, pod: Object) -> frozenset[str]:
        """Return the labels of a pod by which Services select it."""
        services = self._services.of(pod.namespace, pod.labels)
        return frozenset(key for service in services for key in users_selector(service.decode()))

    def is_announced(self, pod: Object) -> bool:
        """Return whether every cluster that shares a Service that selects a pod has its address."""
        if not self._services.of(pod.namespace, pod.labels):
            return True
        reach = self.reach.of(pod.decode())
        since = self._for(pod.uid, (bool(reach.missing), reach.silent))
        return not (reach.missing or reach.silent) and (not reach.unseen or since >= self._seconds)

    def _for(self, uid: str, state: object) -> float:
        """Return for how many seconds the endpoints of a pod have been as they are now."""
        now = time.monotonic()
        before = self._since.get(uid)
        if before is None or before[0] != state:
            self._since[uid] = (state, now)
            return 0.0
        return now - before[1]
