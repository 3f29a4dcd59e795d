"""Node leases: keep virtual nodes alive in the eyes of the node lifecycle controller.

Watches  virtual nodes.
Writes   their leases in `kube-node-lease`, each owned by its node, so that it goes with it.
Whether a target is away makes no difference: its pods would be evicted, with delegates still running.
"""

import logging
import time

from agent.api import names
from agent.api.kinds import LEASES, NODES
from agent.base.clock import micro_stamp
from agent.clusters.deps import Deps
from agent.controllers.virtualnode.controller import VIRTUAL, target_of
from agent.kube.errors import KubeError, NotFound
from agent.kube.store import Key, Object
from agent.runtime.controller import Controller

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
"""No growing delays: a lease that runs out costs more than a request."""


class NodeLeaseRoom(Controller[Key]):
    """Keys are those of nodes."""

    name = "node-lease"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._clock = deps.clock
        self._renew = deps.settings.node_lease_renew
        self._duration = deps.settings.node_lease_duration
        self._renewed: dict[Key, tuple[str, float]] = {}
        self._nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self.watch(self._nodes, lambda node: [node.key])

    async def reconcile(self, key: Key) -> float | None:
        """Renew the lease when it is time."""
        node = self._nodes.store.get(key)
        if node is None or not target_of(node):
            self._renewed.pop(key, None)
            return None
        uid, at = self._renewed.get(key, ("", 0.0))
        wait = at + self._renew - time.monotonic()
        if uid == node.uid and wait > 0:
            return wait
        try:
            await self._write(node)
        except KubeError as error:
            log.warning("lease of virtual node %s not renewed: %s", node.name, error)
            return min(self._renew, _RETRY_SECONDS)
        self._renewed[key] = (node.uid, time.monotonic())
        return self._renew

    async def _write(self, node: Object) -> None:
        owner = {"apiVersion": "v1", "kind": NODES.name, "name": node.name, "uid": node.uid}
        metadata = {"ownerReferences": [owner]}
        spec = {
            "holderIdentity": node.name,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": micro_stamp(self._clock.now()),
        }
        body = {"metadata": metadata, "spec": spec}
        try:
            await self._client.patch_raw(LEASES, node.name, body, names.NODE_LEASE_NAMESPACE)
        except NotFound:
            where = {"name": node.name, "namespace": names.NODE_LEASE_NAMESPACE}
            head = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": {**where, **metadata}}
            await self._client.create_raw(LEASES, {**head, "spec": spec})
