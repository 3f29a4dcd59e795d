"""What a gateway is told by its cluster: its input file, and what it says of peers there.

Reads GatewayPeers, EndpointSlices of shared Services, and addresses of pods. Writes the input file, and the pod's entry
in the status of each GatewayPeer. The file does not change while the API server is away.
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
from agent.gateway import metrics
from agent.gateway.loop import Loop
from agent.gateway.pods import Pods
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewayaddresses import left_out, of_pods, warning
from agent.model.gatewayhosts import EVERY_OFFERED, with_hosts
from agent.model.gatewaylink import document
from agent.model.gatewaypeer import Gateway
from agent.model.gatewaysize import Limits, Served, fit, limits, served, served_by
from agent.runtime.together import side_by_side

INTERVAL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""How peers are is looked at this often."""

_WRITES_AT_ONCE = 16
"""Statuses of GatewayPeers that one gateway pod writes side by side."""

_SYSTEM_NAMESPACE = "kube-system"

Raw = dict[str, Any]
Said = tuple[str, Raw]
"""Resource version of a GatewayPeer, and what this pod says in its status."""
Tasks = Iterable[tuple[str, Callable[[], Awaitable[None]]]]
"""By name."""

_log = logging.getLogger(__name__)


class FromCluster:
    """One gateway pod's view of its cluster."""

    def __init__(self, client: Client, pod: str, path: Path, loop: Loop, limit: Limits | None = None) -> None:
        """:param path: the input file of the loop
        :param limit: memory and files of Envoy; None: no limit of memory
        """
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
        self._pods = Pods(client, self._pods_changed)
        self._namespaces = frozenset[str]()
        """Namespaces with a GatewayPeer."""
        self._pods_problem = ""
        """Why pods could not be watched when the input file was last computed."""
        self._warnings: dict[str, str] = {}
        """Messages about dropped Services and endpoints, by GatewayPeer."""
        self._limit = limit or limits(0)
        self._served = _served_in(path)
        """GatewayPeers and their Services in the input file, which outlives a restart of the container."""
        self._problem = ""
        self._known: dict[Key, Said] = {}
        """GatewayPeers whose status has what this pod says: they are not decoded again every second."""
        for informer in (self._peers, *self._slices):
            informer.subscribe(self._notice)

    @property
    def _informers(self) -> tuple[Informer, ...]:
        return (self._peers, *self._slices, self._pods.informer)

    def tasks(self) -> Tasks:
        """What has to run."""
        watches = enumerate(self._informers)
        return [*((f"watch {number}", informer.run) for number, informer in watches), ("cluster", self.run)]

    async def run(self) -> None:
        """Go on until cancelled. Raises KubeError where the cluster does not say who it is."""
        uid = (await self._client.get(NAMESPACES, _SYSTEM_NAMESPACE))["metadata"]["uid"]
        for informer in self._informers:
            await informer.synced.wait()
        written = b""
        while True:
            self._news.clear()
            if self._outdated or self._pods.problem != self._pods_problem:
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

    def _pods_changed(self, namespace: str) -> None:
        if namespace in self._namespaces:
            self._outdated = True
            self._news.set()

    def problem(self) -> str | None:
        """Return what this pod may not read of its cluster, None if it has read all of it."""
        missing = (each for each in self._informers if not each.synced.is_set())
        return next((f"{each.kind.plural} of the cluster have not been read: {each.error}" for each in missing), None)

    def _document(self, uid: str) -> bytes:
        slices = {obj.key: obj for informer in self._slices for obj in informer.store}
        peers = [obj.decode() for obj in self._peers.store if not obj.deleting]
        self._namespaces = frozenset(each["metadata"]["namespace"] for each in peers)
        every = [obj.decode() for obj in slices.values() if obj.namespace in self._namespaces]
        self._pods_problem = self._pods.problem
        foreign = left_out(every, self._pods.addresses)
        found = of_pods(every, self._pods.addresses)
        fitted = fit(uid, peers, found, self._limit, self._served)
        self._served = served(fitted.peers)
        self._warn(peers, foreign, fitted.left_out)
        return msgspec.json.encode(with_hosts(document(uid, fitted.peers, found), fitted.peers, found))

    def _warn(self, peers: list[Raw], foreign: dict[Key, list[str]], left_out: dict[Key, int]) -> None:
        told = dict[str, str]()
        for each in peers:
            namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
            too_much = self._limit.problem(left_out.get((namespace, name), 0), namespace)
            told[f"{namespace}/{name}"] = too_much or warning(each, foreign, EVERY_OFFERED, self._pods_problem)
        for key in sorted(told):
            if told[key] and told[key] != self._warnings.get(key):
                _log.warning("GatewayPeer %s: %s", key, told[key])
        self._warnings = told
        metrics.addresses_left_out(sum(map(len, foreign.values())))
        metrics.services_left_out(sum(left_out.values()))

    async def _tell(self) -> None:
        """Say on each peer how it is; one that cannot be written keeps no other from being."""
        known, todo = dict[Key, Said](), list[tuple[Object, Raw]]()
        for obj in self._peers.store:
            says = self._says(f"{obj.namespace}/{obj.name}")
            if says is not None and self._known.get(obj.key) != (obj.version, says):
                todo.append((obj, says))
            elif says is not None:
                known[obj.key] = (obj.version, says)
        # Callers of a peer that does not answer wait for nothing else.
        todo.sort(key=lambda each: each[1]["healthy"] > 0)
        slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        problems = await side_by_side([self._tell_one(*each, known, slots) for each in todo])
        self._known, problem = known, next(filter(None, problems), "")
        if problem and problem != self._problem:
            _log.warning("how peers are cannot be said: %s", problem)
        self._problem = problem

    async def _tell_one(self, obj: Object, says: Raw, known: dict[Key, Said], slots: asyncio.Semaphore) -> str:
        """Say how one peer is, and note that in `known`; returns why that cannot be said, empty if it can."""
        async with slots:
            try:
                written = await self._written(obj, says)
            except KubeError as error:
                return f"GatewayPeer {obj.namespace}/{obj.name}: {error}"
        known[obj.key] = (written.version, says)
        return ""

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
            # It may be known why there is nothing of it.
            wrong = self._warnings.get(peer, "") if tuple(peer.split("/")) not in self._served else ""
            return {"reason": "Invalid", "message": wrong, "healthy": 0, "total": 0, "listens": []} if wrong else None
        listens = self._loop.listens(peer)
        known = {"healthy": health.healthy, "total": health.total, "listens": listens}
        # Whoever is not answered needs the remedy for that first.
        message = self._loop.trouble(peer) or (self._warnings.get(peer, "") if health.healthy else "")
        return {"reason": health.reason, "message": message, **known}


def _served_in(path: Path) -> Served:
    """Return GatewayPeers and their Services in an input file; empty if no such file can be read."""
    try:
        return served_by(msgspec.json.decode(path.read_bytes(), type=Gateway))
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
