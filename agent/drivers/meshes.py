"""Meshes that span this cluster and a target: chosen only if each cluster is configured for the other."""

import time

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.clusters import Clusters
from agent.drivers.driver import LOCAL
from agent.drivers.istio import Istio, clusters_read
from agent.drivers.linkerd import Linkerd, clusters_linked

BELIEVED_SECONDS = 30.0
"""Seconds for which objects read in the local cluster are cached, for all targets."""


class Meshes:
    """Asks of one target after the other."""

    def __init__(self, deps: Deps, clusters: Clusters) -> None:
        self._deps = deps
        self._clusters = clusters
        self._istio: tuple[float, frozenset[str]] = (0.0, frozenset())
        self._linked: tuple[float, frozenset[str]] = (0.0, frozenset())

    async def between(self, target: Target) -> frozenset[str]:
        """Names of the drivers whose meshes this cluster and a target are both in. Raises KubeError."""
        found = {Istio.name} if await self._reads(target) else set[str]()
        if await self._links(target):
            found.add(Linkerd.name)
        return frozenset(found)

    async def _reads(self, target: Target) -> bool:
        """Return whether the local istiod has a remote Secret for a target, under its name or (istioctl) its UID."""
        namespace, now = self._deps.settings.istio_namespace, time.monotonic()
        if not namespace:
            return False
        if now >= self._istio[0]:
            self._istio = (now + BELIEVED_SECONDS, await clusters_read(self._deps.local.port, namespace))
        annotations = target.told.annotations if target.told is not None else {}
        uid = annotations.get(names.ANNOTATION_CLUSTER_UID, "")
        return not self._istio[1].isdisjoint((*self._clusters.called(target.node_name), uid))

    async def _links(self, target: Target) -> bool:
        """Return whether the local cluster has a Link to a target, and the target one to it."""
        now = time.monotonic()
        if not self._deps.settings.linkerd:
            return False
        if now >= self._linked[0]:
            self._linked = (now + BELIEVED_SECONDS, await clusters_linked(self._deps.local.port))
        if self._linked[1].isdisjoint(self._clusters.called(target.node_name)):
            return False
        return not (await clusters_linked(target.port)).isdisjoint(self._clusters.called(LOCAL))
