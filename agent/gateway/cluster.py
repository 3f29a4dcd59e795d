"""What a gateway is told by its cluster: its input file, and what it says of peers there.

Reads GatewayPeers, and EndpointSlices of shared Services. Writes the file, and into the status of each GatewayPeer how
it is seen from this pod. While the API server is away, the file stays as it is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES
from agent.base import wholefile
from agent.base.events import set_within
from agent.gateway.loop import Loop
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewayhosts import with_hosts
from agent.model.gatewaylink import document

INTERVAL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""How peers are is looked at this often."""

_SYSTEM_NAMESPACE = "kube-system"

Raw = dict[str, Any]
Said = tuple[str, Raw]
"""Resource version of a GatewayPeer, and what this pod says in its status."""
Tasks = Iterable[tuple[str, Callable[[], Awaitable[None]]]]
"""By name."""

_log = logging.getLogger(__name__)


class FromCluster:
    """One gateway pod's view of its cluster."""

    def __init__(self, client: Client, pod: str, path: Path, loop: Loop) -> None:
        """:param path: the input file of the loop"""
        self._client = client
        self._pod = pod
        self._path = path
        self._loop = loop
        self._outdated = True
        """Whether the file may say something else than the cluster."""
        self._news = asyncio.Event()
        loop.changed = self._news.set
        self._peers = Informer(client, GATEWAY_PEERS)
        # Slices inherit the labels of their Service: shared here, or copied by a source.
        labels = (f"{names.LABEL_GLOBAL}=true", names.LABEL_PARENT_CLUSTER_UID)
        self._slices = tuple(Informer(client, ENDPOINT_SLICES, labels=each) for each in labels)
        self._problem = ""
        self._known: dict[Key, Said] = {}
        """GatewayPeers whose status has what this pod says: they are not decoded again every second."""
        for informer in (self._peers, *self._slices):
            informer.subscribe(self._notice)

    def tasks(self) -> Tasks:
        """What has to run."""
        watches = enumerate((self._peers, *self._slices))
        return [*((f"watch {number}", informer.run) for number, informer in watches), ("cluster", self.run)]

    async def run(self) -> None:
        """Go on until cancelled. Raises KubeError where the cluster does not say who it is."""
        uid = (await self._client.get(NAMESPACES, _SYSTEM_NAMESPACE))["metadata"]["uid"]
        for informer in (self._peers, *self._slices):
            await informer.synced.wait()
        written = b""
        while True:
            self._news.clear()
            if self._outdated:
                self._outdated = False
                told = self._document(uid)
                if told != written:
                    wholefile.write(self._path, told)
                    written = told
            await self._tell()
            await asyncio.sleep(INTERVAL_SECONDS)
            await set_within(self._news, _LOOK_SECONDS - INTERVAL_SECONDS)

    def _notice(self, old: Object | None, new: Object | None) -> None:
        self._outdated = True
        self._news.set()

    def _document(self, uid: str) -> bytes:
        slices = {obj.key: obj for informer in self._slices for obj in informer.store}
        peers = [obj.decode() for obj in self._peers.store if not obj.deleting]
        found = [obj.decode() for obj in slices.values()]
        return msgspec.json.encode(with_hosts(document(uid, peers, found), peers, found))

    async def _tell(self) -> None:
        """Say on each peer how it is; one that cannot be written keeps no other from being."""
        problem, known = "", dict[Key, Said]()
        for obj in list(self._peers.store):
            says = self._says(f"{obj.namespace}/{obj.name}")
            if says is None:
                continue
            try:
                if self._known.get(obj.key) != (obj.version, says):
                    obj = await self._written(obj, says)
                known[obj.key] = (obj.version, says)
            except KubeError as error:
                problem = f"GatewayPeer {obj.namespace}/{obj.name}: {error}"
        self._known = known
        if problem and problem != self._problem:
            _log.warning("how peers are cannot be said: %s", problem)
        self._problem = problem

    async def _written(self, obj: Object, says: Raw) -> Object:
        """The GatewayPeer with what this pod says in its status, written there if need be. Raises KubeError."""
        if ((obj.decode().get("status") or {}).get("gateways") or {}).get(self._pod) == says:
            return obj
        body = {"status": {"gateways": {self._pod: says}}}
        raw = await self._client.patch_raw(GATEWAY_PEERS, obj.name, body, obj.namespace, sub="status")
        return self._peers.absorb(raw)

    def _says(self, peer: str) -> Raw | None:
        """How a peer is; None where nothing is known yet."""
        if (wrong := self._loop.problems.get(peer)) is not None:
            return {"reason": "Invalid", "message": f"spec.{wrong}", "healthy": 0, "total": 0, "listens": []}
        health = self._loop.health.get(peer)
        if health is None:
            return None
        listens = self._loop.listens(peer)
        known = {"healthy": health.healthy, "total": health.total, "listens": listens}
        return {"reason": health.reason, "message": self._loop.trouble(peer), **known}
