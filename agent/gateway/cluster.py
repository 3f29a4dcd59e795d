"""Connection of a gateway to its cluster: generates its input file, and reports the health of peers.

Reads GatewayPeers, EndpointSlices of shared Services, and addresses of pods. Writes the input file, and the
pod's entry in the status of each GatewayPeer. The file does not change while the API server is unavailable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES
from agent.base import atomic_files
from agent.base.events import set_within
from agent.gateway import metrics
from agent.gateway.inputs import Contents, Inputs, Watched, are_alike
from agent.gateway.loop import Loop
from agent.gateway.pods import Pods
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewaypeer import Gateway
from agent.model.gatewaysize import Limits, Served, limits, served_by
from agent.runtime.task_group import side_by_side

INTERVAL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
"""Seconds between checks of the peers' health."""

_WRITES_AT_ONCE = 16
"""Largest number of simultaneous status writes of one gateway pod."""

_NAMESPACE = "namespace"
"""Name of the informers' index."""
_SYSTEM_NAMESPACE = "kube-system"

Raw = dict[str, Any]
Said = tuple[str, Raw]
"""Resource version of a GatewayPeer, and this pod's entry in its status."""
Tasks = Iterable[tuple[str, Callable[[], Awaitable[None]]]]
"""Tasks by name."""

_log = logging.getLogger(__name__)


class FromCluster:
    """View of the cluster of one gateway pod."""

    def __init__(self, client: Client, pod: str, path: Path, loop: Loop, limit: Limits | None = None) -> None:
        """:param path: the input file of the loop
        :param limit: memory and files of Envoy; None: no limit of memory
        """
        self._client = client
        self._pod = pod
        self._path = path
        self._loop = loop
        self._changed = set[str]()
        """Namespaces whose part of the input file may be outdated."""
        self._news = asyncio.Event()
        loop.changed = self._news.set
        self._peers = Informer(client, GATEWAY_PEERS)
        # Slices inherit the labels of their Service, which is shared in this cluster or was copied by a source.
        labels = (f"{names.LABEL_GLOBAL}=true", names.LABEL_PARENT_CLUSTER_UID)
        self._slices = tuple(Informer(client, ENDPOINT_SLICES, labels=each) for each in labels)
        self._pods = Pods(client, self._pods_changed)
        self._pods_problem = ""
        """Reason why pods could not be watched when the input file was last computed; empty if they could."""
        self.inputs = Inputs(limit or limits(0), _served_in(path), self._contents)
        self._written = b""
        self._problem = ""
        self._known: dict[Key, Said] = {}
        """GatewayPeers whose status contains this pod's current entry: they are not decoded again every second."""
        for informer in (self._peers, *self._slices):
            informer.store.index(_NAMESPACE, lambda obj: (obj.namespace,))
            informer.subscribe(self._notice)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Informers of GatewayPeers, of slices shared in this cluster, of copied slices, and of pods."""
        return (self._peers, *self._slices, self._pods.informer)

    def tasks(self) -> Tasks:
        """Return the tasks to run, by name."""
        watches = enumerate(self.informers)
        return [*((f"watch {number}", informer.run) for number, informer in watches), ("cluster", self.run)]

    async def run(self) -> None:
        """Run until cancelled. Raises KubeError if the cluster's UID cannot be read."""
        uid = (await self._client.get(NAMESPACES, _SYSTEM_NAMESPACE))["metadata"]["uid"]
        for informer in self.informers:
            await informer.synced.wait()
        self._changed |= {obj.namespace for obj in self._peers.store}
        while True:
            self._news.clear()
            await self.refresh(uid)
            await self._tell()
            await asyncio.sleep(INTERVAL_SECONDS)
            await set_within(self._news, _LOOK_SECONDS - INTERVAL_SECONDS)

    async def refresh(self, uid: str) -> None:
        """Compute namespaces that have changed, and write the input file if it differs. Raises OSError.

        :param uid: UID of this cluster
        """
        self.inputs.own, inputs = uid, self.inputs
        if self._pods.problem != self._pods_problem:
            self._changed |= set(inputs.namespaces)
        changed, self._changed = self._changed, set()
        if not changed and self._written:
            return  # Without any GatewayPeer, Envoy needs its files, too.
        self._pods_problem = self._pods.problem
        pods = Watched(self._pods.addresses, self._pods.problem)
        for namespace in sorted(changed):
            inputs.price(namespace, pods)
            await asyncio.sleep(0)
        for namespace in sorted(changed | inputs.settle()):
            for peer, text in inputs.compute(namespace, pods):
                _log.warning("GatewayPeer %s: %s", peer, text)
            await asyncio.sleep(0)
        metrics.addresses_left_out(inputs.foreign)
        metrics.services_left_out(inputs.left_out)
        if (told := inputs.document()) != self._written:
            await asyncio.to_thread(atomic_files.write, self._path, told)
            self._written = told

    def _contents(self, namespace: str) -> Contents:
        peers = [obj.decode() for obj in self._peers.store.by_index(_NAMESPACE, namespace) if not obj.deleting]
        slices = {obj.key: obj for each in self._slices for obj in each.store.by_index(_NAMESPACE, namespace)}
        return Contents(peers, [obj.decode() for obj in slices.values()] if peers else [])

    def _notice(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and are_alike(old.raw, new.raw):
            return
        self._changed.add((new or old).namespace)  # type: ignore[union-attr]
        self._news.set()

    def _pods_changed(self, namespace: str) -> None:
        if self._peers.store.count(_NAMESPACE, namespace):
            self._changed.add(namespace)
            self._news.set()

    def problem(self) -> str | None:
        """Return the reason why this pod has not read all of its cluster, None if it has."""
        missing = (each for each in self.informers if not each.synced.is_set())
        return next((f"{each.kind.plural} of the cluster have not been read: {each.error}" for each in missing), None)

    async def _tell(self) -> None:
        """Write this pod's entry to the status of each peer; a failed write does not prevent the others."""
        known, todo = dict[Key, Said](), list[tuple[Object, Raw]]()
        for obj in self._peers.store:
            says = self._says(f"{obj.namespace}/{obj.name}")
            if says is not None and self._known.get(obj.key) != (obj.version, says):
                todo.append((obj, says))
            elif says is not None:
                known[obj.key] = (obj.version, says)
        # Unhealthy peers come first: callers use a peer until its status reports it as unhealthy.
        todo.sort(key=lambda each: each[1]["healthy"] > 0)
        slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        problems = await side_by_side([self._tell_one(*each, known, slots) for each in todo])
        self._known, problem = known, next(filter(None, problems), "")
        if problem and problem != self._problem:
            _log.warning("how peers are cannot be said: %s", problem)
        self._problem = problem

    async def _tell_one(self, obj: Object, says: Raw, known: dict[Key, Said], slots: asyncio.Semaphore) -> str:
        """Write the entry for one peer and record that in `known`; return the error message, empty if written."""
        async with slots:
            try:
                written = await self._said(obj, says)
            except KubeError as error:
                return f"GatewayPeer {obj.namespace}/{obj.name}: {error}"
        known[obj.key] = (written.version, says)
        return ""

    async def _said(self, obj: Object, says: Raw) -> Object:
        """Return the GatewayPeer with this pod's entry in its status, writing it if necessary. Raises KubeError."""
        if ((obj.decode().get("status") or {}).get("gateways") or {}).get(self._pod) == says:
            return obj
        body = {"status": {"gateways": {self._pod: says}}}
        raw = await self._client.patch_raw(GATEWAY_PEERS, obj.name, body, obj.namespace, sub="status")
        return self._peers.absorb(raw)

    def _says(self, peer: str) -> Raw | None:
        """Return this pod's entry for a peer; None while its health is unknown."""
        if (wrong := self._loop.problems.get(peer)) is not None:
            return {"reason": "Invalid", "message": f"spec.{wrong}", "healthy": 0, "total": 0, "listens": []}
        health = self._loop.health.get(peer)
        if health is None:
            # The limits may be the reason why the peer has no health.
            namespace, _, name = peer.partition("/")
            wrong = "" if self.inputs.is_served((namespace, name)) else self.inputs.warning(peer)
            return {"reason": "Invalid", "message": wrong, "healthy": 0, "total": 0, "listens": []} if wrong else None
        listens = self._loop.listens(peer)
        known = {"healthy": health.healthy, "total": health.total, "listens": listens}
        # A peer that does not answer needs that remedy first.
        message = self._loop.trouble(peer) or (self.inputs.warning(peer) if health.healthy else "")
        return {"reason": health.reason, "message": message, **known}


def _served_in(path: Path) -> Served:
    """Return GatewayPeers and their Services in an input file; empty if no such file can be read."""
    try:
        return served_by(msgspec.json.decode(path.read_bytes(), type=Gateway))
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
