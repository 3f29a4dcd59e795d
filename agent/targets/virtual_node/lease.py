"""Node leases: keep virtual nodes ready for kube-controller-manager's node lifecycle controller.

Watches  virtual nodes.
Writes   their leases in `kube-node-lease`, each owned by its node, so that both are deleted together.
Leases of absent targets are renewed, too: otherwise their pods would be evicted while delegates still run.
Every replica of the agent runs this controller, and renews a lease only if no other replica has renewed it.
"""

import contextlib
import logging
import time
from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.api.kinds import LEASES, NODES
from agent.base.clock import Clock, micro_stamp, parse
from agent.clusters.cluster import Cluster
from agent.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.runtime.controller import Controller
from agent.settings import Settings
from agent.targets.virtual_node.controller import VIRTUAL, target_of

log = logging.getLogger(__name__)

_PATIENCE = 1.25
"""Factor for the interval of replicas that only check a lease, so that the renewing replica is always earlier."""

_NEW_SECONDS = 5.0
_RETRY_SECONDS = 2.0
"""Constant pause after a failure: an expired lease costs more than a request."""


@dataclass(frozen=True)
class _Seen:
    """A lease as this replica last saw it."""

    uid: str
    """UID of the node."""
    version: str
    """Resource version of the lease."""
    at: float
    ours: bool
    """Whether this replica renewed it last. Then it renews it again without reading it before."""


class NodeLeaseController(Controller[Key]):
    """Keys are those of nodes."""

    name = "node-lease"
    workers = 2

    def __init__(self, local: Cluster, clock: Clock, settings: Settings) -> None:
        super().__init__()
        self._client = local.client
        self._clock = clock
        self._renew = settings.node_lease_renew
        self._duration = settings.node_lease_duration
        self._seen: dict[Key, _Seen] = {}
        self._nodes = local.informer(NODES, labels=VIRTUAL)
        self.watch(self._nodes, lambda node: [node.key])

    async def reconcile(self, key: Key) -> float | None:
        """Renew the lease when it is time."""
        node = self._nodes.store.get(key)
        if node is None or not target_of(node):
            self._seen.pop(key, None)
            return None
        seen = self._seen.get(key)
        if seen is not None and seen.uid != node.uid:
            seen = None
        wait = seen.at + self._pause(seen) - time.monotonic() if seen is not None else 0.0
        if wait > 0:
            return wait
        try:
            seen = self._seen[key] = await self._keep(node, seen)
        except KubeError as error:
            log.warning("lease of virtual node %s not renewed: %s", node.name, error)
            return min(self._renew, _RETRY_SECONDS)
        return self._pause(seen)

    def _pause(self, seen: _Seen) -> float:
        return self._renew if seen.ours else self._renew * _PATIENCE

    async def _keep(self, node: Object, seen: _Seen | None) -> _Seen:
        """Renew the lease, unless it has changed since the last check: then another replica renews it."""
        if seen is None and self._is_new(node):
            # The lease exists if another replica was faster, or if an earlier node of this name had one.
            with contextlib.suppress(AlreadyExists):
                return _Seen(node.uid, await self._write(node, ""), time.monotonic(), ours=True)
        version = seen.version if seen is not None and seen.ours else await self._version(node.name)
        if seen is None or version in ("", seen.version):
            try:
                try:
                    written = await self._write(node, version)
                except NotFound:
                    # It was deleted with an earlier node of the same name.
                    written = await self._write(node, "")
                return _Seen(node.uid, written, time.monotonic(), ours=True)
            except Conflict:
                version = await self._version(node.name)
        return _Seen(node.uid, version, time.monotonic(), ours=False)

    def _is_new(self, node: Object) -> bool:
        """Return True if a node is so new that it probably has no lease yet."""
        made = parse(node.decode()["metadata"]["creationTimestamp"])
        return (self._clock.now() - made).total_seconds() < _NEW_SECONDS

    async def _version(self, name: str) -> str:
        """Return the resourceVersion of the lease; empty if it does not exist."""
        try:
            return Object(LEASES, await self._client.get_raw(LEASES, name, names.NODE_LEASE_NAMESPACE)).version
        except NotFound:
            return ""

    async def _write(self, node: Object, version: str) -> str:
        owner = {"apiVersion": "v1", "kind": NODES.name, "name": node.name, "uid": node.uid}
        metadata: dict[str, Any] = {"ownerReferences": [owner]}
        spec = {
            "holderIdentity": node.name,
            "leaseDurationSeconds": round(self._duration),
            "renewTime": micro_stamp(self._clock.now()),
        }
        if version:
            body = {"metadata": {**metadata, "resourceVersion": version}, "spec": spec}
            raw = await self._client.patch_raw(LEASES, node.name, body, names.NODE_LEASE_NAMESPACE)
        else:
            where = {"name": node.name, "namespace": names.NODE_LEASE_NAMESPACE}
            head = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": {**where, **metadata}}
            raw = await self._client.create_raw(LEASES, {**head, "spec": spec})
        return Object(LEASES, raw).version
