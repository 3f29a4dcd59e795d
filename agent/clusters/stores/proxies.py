"""Proxy pods of this cluster: one informer for all controllers, and the writers of their finalizers.

While a proxy pod is being scheduled, it carries the finalizers of all possible targets. A claim leaves that of
one target. Feedback ensures that a bound pod has the finalizer of its target. A release removes finalizers that
are no longer needed. Each is one patch, guarded by the pod's version if it changes finalizers: lists are
replaced whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api.kinds import PODS
from agent.clusters.cluster import Cluster
from agent.kube.store import Key, Object
from agent.model.podstate import PROXY_PODS

_NODE, _FINALIZER, _NAMESPACE = "node", "finalizer", "namespace"


class ProxyPods:
    """Proxy pods of this cluster, and writes of their finalizers."""

    def __init__(self, local: Cluster) -> None:
        self._client = local.client
        self.informer = local.informer(PODS, fields=PROXY_PODS)
        self.informer.store.index(_NODE, lambda pod: (pod.node_name,))
        self.informer.store.index(_FINALIZER, lambda pod: pod.finalizers)
        self.informer.store.index(_NAMESPACE, lambda pod: (pod.namespace,))

    def bound_to(self, node_name: str) -> list[Object]:
        """Return the proxy pods that are bound to a virtual node."""
        return self.informer.store.by_index(_NODE, node_name)

    def in_namespace(self, namespace: str) -> list[Object]:
        """Return the proxy pods of a namespace."""
        return self.informer.store.by_index(_NAMESPACE, namespace)

    def held_for(self, finalizer: str) -> list[Object]:
        """Return the proxy pods with the finalizer of a target."""
        return self.informer.store.by_index(_FINALIZER, finalizer)

    def count_held_for(self, finalizer: str) -> int:
        """Return the number of proxy pods with the finalizer of a target."""
        return self.informer.store.count(_FINALIZER, finalizer)

    async def bring_home(self, key: Key, patch: dict[str, Any], *, status: bool) -> Object:
        """Write the results of feedback to a proxy pod: status, annotations, and only the finalizer of its target.

        :param status: whether the patch is sent to the status subresource
        :raises KubeError: if the pod does not exist or has changed
        """
        return await self._patch(key, patch, "status" if status else None)

    async def release(
        self, key: Key, uid: str, version: str, finalizers: Sequence[str], status: Mapping[str, Any] | None = None
    ) -> Object:
        """Set the finalizers of a proxy pod.

        :param version: version of the pod from which the finalizers were computed
        :param status: status to write in the same request
        :raises KubeError: if the pod does not exist or has changed
        """
        metadata = {"uid": uid, "resourceVersion": version, "finalizers": list(finalizers) or None}
        if not status:
            return await self._patch(key, {"metadata": metadata}, None)
        return await self._patch(key, {"metadata": metadata, "status": status}, "status")

    async def _patch(self, key: Key, body: dict[str, Any], sub: str | None) -> Object:
        return self.informer.absorb(await self._client.patch_raw(PODS, key[1], body, key[0], sub=sub))
