"""Placeholder volumes: bind a claim in the source whose volume is in a target, for controllers that wait for Bound.

Watches  claims in the source and their copies in targets; the placeholder volumes.
Writes   placeholder volumes, which the PersistentVolume controller of Kubernetes binds to their claims; the
         capacity in the status of claims whose volume grows.
Absent target: its placeholder volumes stay. A placeholder is deleted after its claim, even if the claim's
deletion was not observed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.dependencies.placeholder_volumes.decide import ClaimAndVolumes, Grow, Make, Remove, Replace, decide
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.store import Key, Object
from agent.model.placeholder_volume import claim_key, claim_uid, is_stand_in
from agent.model.podstate import OTHER_PODS
from agent.model.references import references
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from agent.kube.informer import Informer

Raw = dict[str, Any]

PROTECTION = "kubernetes.io/pv-protection"
_RECHECK_SECONDS = 10.0
_OF_CLAIM = "claim"
_VOLUME_IN = names.ANNOTATION_VOLUME_IN.encode()


class PlaceholderVolumeController(Controller[Key]):
    """Reconciles the placeholder volumes of one claim in the source, by the claim's key."""

    name = "standins"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._claims = deps.local.informer(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = deps.local.informer(PERSISTENT_VOLUMES, labels=names.LABEL_STAND_IN)
        self._volumes.store.index(_OF_CLAIM, lambda volume: map("/".join, claims_of(volume)))
        self._used = UsedHere(self._client)
        self._copies: dict[str, Informer] = {}
        self._stops: dict[str, Callable[[], None]] = {}
        self.watch(self._claims, lambda claim: (claim.key,) if _VOLUME_IN in claim.raw else ())
        self.watch(self._volumes, claims_of)
        deps.targets.on_attach(self._attached)
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: Key) -> float | None:
        """Create, replace or delete the placeholder for the volume of one claim."""
        wait = None
        for action in decide(await self._view(key)):
            match action:
                case Make(volume):
                    wait = await self._make(key, volume)
                case Remove(volume):
                    await self._delete(volume)
                case Replace(old, new):
                    await self._replace(old, new)
                case Grow(volume, capacity):
                    await self._grow(key, volume, capacity)
        return wait

    async def _view(self, key: Key) -> ClaimAndVolumes:
        found = self._claims.store.get(key)
        claim = found.decode() if found is not None else None
        standing = [volume.decode() for volume in self._volumes.store.by_index(_OF_CLAIM, "/".join(key))]
        if any(claim is None or claim_uid(volume) != claim["metadata"]["uid"] for volume in standing):
            # A store may be stale, so confirm with the API server before a deletion.
            claim = await self._asked(key)
        node = (claim["metadata"].get("annotations") or {}).get(names.ANNOTATION_VOLUME_IN) if claim else None
        target, informer = self._deps.targets.by_node(node or ""), self._copies.get(node or "")
        copy = informer.store.get(key) if informer is not None and target is not None else None
        return ClaimAndVolumes(
            claim=claim,
            there=copy.decode() if copy is not None else None,
            target=target.key if target is not None else ("", ""),
            standing=standing,
            makes=self._deps.settings.stand_in_volumes,
        )

    async def _asked(self, key: Key) -> Raw | None:
        try:
            raw = await self._client.get_raw(PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
        except NotFound:
            return None
        return self._claims.absorb(raw).decode()

    async def _make(self, key: Key, volume: Raw) -> float | None:
        """Create a placeholder; return the seconds until a re-check if a local pod prevents it, else None."""
        if await self._used.has(key):
            return _RECHECK_SECONDS
        with contextlib.suppress(AlreadyExists):
            self._volumes.absorb(await self._client.create_raw(PERSISTENT_VOLUMES, volume))
        return None

    async def _delete(self, volume: Raw) -> None:
        metadata = volume["metadata"]
        if "deletionTimestamp" not in metadata:
            with contextlib.suppress(NotFound):
                await self._client.delete(PERSISTENT_VOLUMES, metadata["name"], uid=metadata["uid"])

    async def _replace(self, old: Raw, new: Raw) -> None:
        """Replace a placeholder by one of the same name, which the claim then uses; the old one is protected
        while bound.
        """
        await self._delete(old)
        metadata = old["metadata"]
        left = [each for each in metadata.get("finalizers") or () if each != PROTECTION]
        with contextlib.suppress(NotFound):
            body = {"metadata": {"uid": metadata["uid"], "finalizers": left or None}}
            await self._client.patch_raw(PERSISTENT_VOLUMES, metadata["name"], body)
        self._volumes.absorb(await self._client.create_raw(PERSISTENT_VOLUMES, new))

    async def _grow(self, key: Key, volume: Raw, capacity: str) -> None:
        """Resize in the order of volume resizers: the volume first, then the status of its claim."""
        metadata, name = volume["metadata"], volume["metadata"]["name"]
        body: Raw = {"metadata": {"uid": metadata["uid"]}, "spec": {"capacity": {"storage": capacity}}}
        self._volumes.absorb(await self._client.patch_raw(PERSISTENT_VOLUMES, name, body))
        body = {"metadata": {"uid": claim_uid(volume)}, "status": {"capacity": {"storage": capacity}}}
        raw = await self._client.patch_raw(PERSISTENT_VOLUME_CLAIMS, key[1], body, key[0], sub="status")
        self._claims.absorb(raw)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        labels = names.children_of(self._deps.cluster_uid)
        copies = target.informer(PERSISTENT_VOLUME_CLAIMS, labels=labels)
        self._copies[target.node_name] = copies
        self._stops[target.node_name] = self.watch(copies, _bound, required=False)

    def _detached(self, target: Target) -> None:
        if self._copies.pop(target.node_name, None) is not None:
            self._stops.pop(target.node_name)()


def claims_of(volume: Object) -> tuple[Key, ...]:
    """Return the claim of a placeholder; none if this agent has not created it, or if it names no claim."""
    found = volume.decode()
    return (claim_key(found),) if is_stand_in(found) and all(claim_key(found)) else ()


def _bound(copy: Object) -> Iterable[Key]:
    return (copy.key,) if copy.phase == "Bound" else ()


_FIELDS = f"{OTHER_PODS},status.phase!=Succeeded,status.phase!=Failed"
_FRESH_SECONDS = 1.0
"""Seconds for which a list of pods is reused: claims often arrive together, and each list has all pods of a
namespace.
"""


class UsedHere:
    """Use of claims by pods of this cluster, read from the API server: a watch of all pods would cost more."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._read: dict[str, tuple[float, frozenset[str]]] = {}

    async def has(self, claim: Key) -> bool:
        """Return whether a pod that runs or will run in this cluster uses a claim, and so has or awaits a
        volume of its own.
        """
        async with self._lock:
            now = time.monotonic()
            self._read = {name: found for name, found in self._read.items() if now - found[0] < _FRESH_SECONDS}
            if claim[0] not in self._read:
                self._read[claim[0]] = (now, await self._named(claim[0]))
            return claim[1] in self._read[claim[0]][1]

    async def _named(self, namespace: str) -> frozenset[str]:
        _, pods = await self._client.list_raw(PODS, namespace, fields=_FIELDS)
        return frozenset(name for pod in pods for name in references(bytes(pod)).get(PERSISTENT_VOLUME_CLAIMS, ()))
