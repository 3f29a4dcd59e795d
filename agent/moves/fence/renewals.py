"""Renewals: a Lease per namespace in each target proves that this source is alive, for pods that must stop otherwise.

Watches  proxy pods that ask for a fence, chaperons with the mark of one, states of targets.
Writes   the Lease in targets, every 10 s at most.
The Lease in an absent target is not renewed. No other write or refusal delays a renewal: another controller (`pods`)
handles single pods.
"""

import asyncio
import math
from typing import Any

import msgspec

from agent.api.kinds import CHAPERONS, LEASES
from agent.api.names import fencing
from agent.base.clock import micro_stamp
from agent.clusters.deps import Deps
from agent.clusters.stores.fences import is_noted, lease_of
from agent.clusters.target import Target
from agent.kube.errors import BadRequest, Forbidden, Invalid, NotFound, Unreachable
from agent.kube.store import Key
from agent.kube.urgency import urgent
from agent.model import fence
from agent.runtime.controller import Controller

_ANSWER_SECONDS = 5.0
"""Timeout of a renewal."""
_OWNERS = 10


class FenceController(Controller[Key]):
    """Keys are virtual node and namespace."""

    name = "fence"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        self._term = float(math.ceil(deps.settings.fence_after))
        self._interval = fence.interval(self._term)
        super().__init__(longest_retry=self._interval)
        self._deps = deps
        self._sent = deps.fences.sent
        self._fenced = deps.fenced_pods
        self._leases: dict[Key, dict[str, Any]] = {}
        """Leases as last written, by virtual node and namespace."""
        for informer in (
            deps.proxies.informer,
            deps.namespaces.informer,
            *(deps.owners.informers.values() if deps.owners else ()),
        ):
            self.watch(informer, lambda obj: ())
        self._fenced.on_change(lambda pod, place: self._wanted(place))
        deps.targets.on_change(self._target_changed)

    def _wanted(self, place: Key) -> None:
        """Enqueue a Lease if a pod's change creates it, ends it or affects its duration; others wait for a renewal."""
        if place not in self._leases or not self._fenced.needs_renewals(place) or place in self._sent.growing:
            self.queue.add(place)

    def _target_changed(self, target: Target) -> None:
        for place in self._fenced.places(target.node_name):
            self.queue.add(place)

    def lane(self, key: Key) -> str:
        """Use one lane per target, so that an unresponsive target delays no Leases in other targets."""
        return key[0]

    async def reconcile(self, key: Key) -> float | None:
        """Renew one Lease."""
        target = self._deps.targets.by_node(key[0])
        if not self._fenced.needs_renewals(key):
            self._leases.pop(key, None)
            self._sent.forget(key)
            return None
        if target is None or target.is_self or not target.identified or target.record.silent:
            return None
        wait = self._interval - self._sent.ago(key)
        if wait <= 0 or key not in self._leases:
            try:
                await self._renew(target, key)
            except (BadRequest, Forbidden, Invalid) as error:
                self._sent.refuse(key, error.message)
                return self._interval
            self._sent.refuse(key, "")
            wait = self._interval
        return max(wait, 0.05)

    async def _renew(self, target: Target, key: Key) -> None:
        name = fencing.lease(self._deps.cluster_uid, key[0])
        with self._sent.sending(key), urgent():
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    lease = self._leases.pop(key, None) or await self._read(target, name, key[1])
                    spec = lease.setdefault("spec", {})
                    term = self._next_term(key, spec.get("leaseDurationSeconds"))
                    spec |= {"leaseDurationSeconds": term, "renewTime": micro_stamp(self._deps.clock.now())}
                    if not self._belong(target, key, lease) and "uid" not in lease["metadata"]:
                        # No chaperon to fence yet. A Lease without an owner would stay if none is ever created.
                        return
                    self._leases[key] = msgspec.json.decode(await self._write(target, lease))
                    self._sent.grow(key, grows=term != int(self._term))
            except TimeoutError:
                target.probe_now()
                raise Unreachable(f"no answer about lease {key[1]}/{name} in target {target.title}") from None
            except Unreachable:
                target.probe_now()
                raise

    def _next_term(self, key: Key, written: object) -> int:
        """Return the duration to write. It increases only once no pod has a note about the shorter duration."""
        wanted = int(self._term)
        if not isinstance(written, int) or not 0 < written < wanted:
            return wanted
        self._sent.grow(key, grows=True)
        noted = any(fencing.ANNOTATION_KEPT in pod.annotations for pod in self._fenced.at(key) if is_noted(pod))
        return written if noted or self._sent.noting[key] else wanted

    async def _read(self, target: Target, name: str, namespace: str) -> dict[str, Any]:
        try:
            return await target.port.get(LEASES, name, namespace)
        except NotFound:
            labels = {fencing.LABEL_FENCE: self._deps.cluster_uid}
            metadata = {"name": name, "namespace": namespace, "labels": labels}
            spec = {"holderIdentity": self._deps.cluster_uid}
            return {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata, "spec": spec}

    def _belong(self, target: Target, key: Key, lease: dict[str, Any]) -> bool:
        """Make fenced chaperons the owners of a Lease, so that it is deleted with the last of them.

        Return whether there are any. A few owners suffice: a deleted Lease is created again while pods need it.
        """
        owners: list[dict[str, str]] = []
        for pod in self._fenced.at(key):
            asks = self._fenced.asks(pod)
            for placed in self._deps.chaperons.of(pod.key):
                found = placed.chaperon
                if placed.target is target and placed.is_of(pod) and not found.deleting and (asks or lease_of(found)):
                    head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
                    owners.append({**head, "name": found.name, "uid": found.uid})
            if len(owners) >= _OWNERS:
                break
        if owners:
            lease["metadata"]["ownerReferences"] = owners
        return bool(owners)

    async def _write(self, target: Target, lease: dict[str, Any]) -> bytes:
        if "uid" in lease["metadata"]:
            return await target.port.update_raw(LEASES, lease)
        return await target.port.create_raw(LEASES, lease)
