"""Proxy pods of this cluster: one informer for all controllers, and the writers of their finalizers.

While a proxy pod is being scheduled, the finalizers of all targets where it may go hold it. A claim leaves that of one
target; feedback sees to it that a bound pod has that of its home; a release takes off those that hold nothing any more.
Each is one patch, guarded by the pod's version where it changes finalizers: lists are replaced whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api.kinds import PODS
from agent.clusters.cluster import Cluster
from agent.kube.store import Key, Object
from agent.model.podstate import PROXY_PODS

_NODE, _FINALIZER, _NAMESPACE = "node", "finalizer", "namespace"


class ProxyPods:
    """What this cluster has of them."""

    def __init__(self, local: Cluster) -> None:
        self._client = local.client
        self.informer = local.informer(PODS, fields=PROXY_PODS)
        self.informer.store.index(_NODE, lambda pod: (pod.node_name,))
        self.informer.store.index(_FINALIZER, lambda pod: pod.finalizers)
        self.informer.store.index(_NAMESPACE, lambda pod: (pod.namespace,))

    def bound_to(self, node_name: str) -> list[Object]:
        """Those that are bound to a virtual node."""
        return self.informer.store.by_index(_NODE, node_name)

    def in_namespace(self, namespace: str) -> list[Object]:
        """Return the proxy pods of a namespace."""
        return self.informer.store.by_index(_NAMESPACE, namespace)

    def held_for(self, finalizer: str) -> list[Object]:
        """Those that carry the finalizer of a target."""
        return self.informer.store.by_index(_FINALIZER, finalizer)

    def count_held_for(self, finalizer: str) -> int:
        """How many carry it."""
        return self.informer.store.count(_FINALIZER, finalizer)

    async def bring_home(self, key: Key, patch: dict[str, Any], *, status: bool) -> Object:
        """Write what feedback has found at home: status, annotations, and the finalizer of the home alone.

        :param status: whether the patch goes to the status subresource
        :raises KubeError: if there is no such pod, or it has changed
        """
        return await self._patch(key, patch, "status" if status else None)

    async def release(
        self, key: Key, uid: str, version: str, finalizers: Sequence[str], status: Mapping[str, Any] | None = None
    ) -> Object:
        """Leave a proxy pod these finalizers.

        :param version: of the pod that they were taken from
        :param status: to be written with them
        :raises KubeError: if there is no such pod, or it has changed
        """
        metadata = {"uid": uid, "resourceVersion": version, "finalizers": list(finalizers) or None}
        if not status:
            return await self._patch(key, {"metadata": metadata}, None)
        return await self._patch(key, {"metadata": metadata, "status": status}, "status")

    async def _patch(self, key: Key, body: dict[str, Any], sub: str | None) -> Object:
        return self.informer.absorb(await self._client.patch_raw(PODS, key[1], body, key[0], sub=sub))
