"""Stand-in for a cluster's gateways: reports every peer as healthy, so that agents do all work for gateways.

No gateway runs, and no traffic passes.
"""

import asyncio
import contextlib
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS
from agent.api.names.links import GATEWAY_SERVICE
from agent.gateway.cluster import INTERVAL_SECONDS
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewayhosts import every_local
from agent.runtime.task_group import together
from hack.lab.sandbox.manifests import AGENT_NAMESPACE

_PODS = {"gateway-0": "192.0.2.10", "gateway-1": "192.0.2.11"}


class StandIn:
    """Stand-in for the gateways of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = {pod: asyncio.Event() for pod in _PODS}
        self.peers = Informer(client, GATEWAY_PEERS)
        self.peers.subscribe(self._notice)

    async def create(self) -> None:
        """Create the EndpointSlice that the gateways' Service would have with two pods."""
        slice = {
            "metadata": {"name": GATEWAY_SERVICE, "labels": {names.LABEL_SERVICE_NAME: GATEWAY_SERVICE}},
            "addressType": "IPv4",
            "ports": [{"name": "gateway", "port": 15443}],
            "endpoints": [
                {"addresses": [address], "targetRef": {"kind": "Pod", "name": pod}} for pod, address in _PODS.items()
            ],
        }
        await self._client.create(ENDPOINT_SLICES, slice, AGENT_NAMESPACE)

    async def run(self) -> None:
        """Report peers until cancelled."""
        await together(*map(self._run, _PODS))

    async def _run(self, pod: str) -> None:
        """Report peers for one pod. A failed write is repeated after the next change."""
        told = dict[Key, Object]()
        while True:
            await self._changed[pod].wait()
            self._changed[pod].clear()
            for obj in list(self.peers.store):
                if told.get(obj.key) is not obj:
                    with contextlib.suppress(KubeError):
                        told[obj.key] = await self._tell(pod, obj)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _tell(self, pod: str, obj: Object) -> Object:
        """Return the GatewayPeer with the pod's report in its status; writes it if it differs. Raises KubeError."""
        peer = obj.decode()
        says = {"reason": "Connected", "message": "", "healthy": 1, "total": 1, "listens": sorted(every_local(peer))}
        told: dict[str, Any] = (peer.get("status") or {}).get("gateways") or {}
        if told.get(pod) == says:
            return obj
        body = {"status": {"gateways": {pod: says}}}
        raw = await self._client.patch_raw(GATEWAY_PEERS, obj.name, body, obj.namespace, sub="status")
        return self.peers.absorb(raw)

    def _notice(self, old: Object | None, new: Object | None) -> None:
        for changed in self._changed.values():
            changed.set()
