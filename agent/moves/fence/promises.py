"""Promises: the target's agent reports on fenced PodChaperons that it keeps their fences, or that they have expired.

Watches  PodChaperons that are fenced by Leases, these Leases, the delegates.
Writes   annotations of these chaperons: multicluster/fence-kept-by, multicluster/fenced.
Needs no connection to the source. A refused write delays neither other chaperons nor the stop of a delegate
(`stopping`).
"""

from agent.api.kinds import CHAPERONS
from agent.api.names import fencing
from agent.base.clock import stamp
from agent.clusters.deps import Deps
from agent.clusters.stores.fences import lease_of
from agent.kube.errors import NotFound
from agent.kube.store import Key, Object
from agent.model import fence
from agent.moves.fence.fenced import FencedChaperons, lease_keys
from agent.runtime.controller import Controller


class FencePromiseController(Controller[Key]):
    """Keys are those of chaperons."""

    name = "fencepromises"
    workers = 16

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._seen = deps.fences.seen
        # Identity of this replica in the agent's lease, which sources read.
        self._replica = deps.lease.identity if deps.lease is not None else deps.settings.replica
        self._fenced = FencedChaperons(deps)
        self._terms: dict[Key, float] = {}
        """Duration of each Lease in the last promise."""
        self.watch(self._fenced.leases, self._lease_changed)
        self.watch(self._fenced.chaperons, lambda chaperon: [chaperon.key] if lease_of(chaperon) else ())
        self.watch(self._fenced.pods, self._fenced.of_pod)
        self._seen.on_stop(self.queue.add)

    def _lease_changed(self, lease: Object) -> list[Key]:
        """Return the chaperons of a Lease whose duration has changed. Renewals alone change no promise."""
        if self._fenced.leases.store.get(lease.key) is None:
            self._terms.pop(lease.key, None)
            return []
        self._fenced.look(lease.key)
        seen = self._seen.get(lease.key)
        if seen is None or self._terms.get(lease.key) == seen.term:
            return []
        self._terms[lease.key] = seen.term
        return [chaperon.key for chaperon in self._fenced.of(lease.key)]

    async def reconcile(self, key: Key) -> float | None:
        """Write the annotations of one chaperon."""
        chaperon = self._fenced.get(key)
        if chaperon is None:
            return None
        if self._seen.bar(chaperon) == "ever":
            if fencing.ANNOTATION_FENCED not in chaperon.annotations:
                await self._annotate(chaperon, fencing.ANNOTATION_FENCED, stamp(self._deps.clock.now()))
            return None
        (lease,) = lease_keys(chaperon)
        seen = self._seen.get(lease)
        if self._fenced.has_fallen(chaperon) or seen is None or self._fenced.leases.store.get(lease) is None:
            return None
        pod = self._fenced.delegate(chaperon)
        delegate = pod.decode().get("spec") if pod is not None else None
        text = fence.promise(self._replica, seen.term, chaperon.decode().get("spec") or {}, delegate)
        if chaperon.annotations.get(fencing.ANNOTATION_KEPT_BY) != text:
            await self._annotate(chaperon, fencing.ANNOTATION_KEPT_BY, text)
        return None

    async def _annotate(self, chaperon: Object, name: str, value: str) -> None:
        body = {"metadata": {"uid": chaperon.uid, "annotations": {name: value}}}
        try:
            raw = await self._deps.local.client.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
        except NotFound:
            return
        self._fenced.chaperons.absorb(raw)
