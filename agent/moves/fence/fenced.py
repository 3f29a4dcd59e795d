"""PodChaperons that Leases fence, as the target's agent sees them, with their delegates."""

from datetime import timedelta
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, PODS
from agent.api.names import fencing
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.stores.fences import lease_of
from agent.kube.store import Key, Object
from agent.model import fence

_INDEX = "fence"


class FencedChaperons:
    """Finds fenced chaperons. The informers are shared, so each controller may create its own instance."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._seen = deps.fences.seen
        self.leases = deps.local.informer(LEASES, labels=fencing.LABEL_FENCE)
        self.chaperons = deps.local.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self.pods = deps.local.informer(PODS, labels=names.LABEL_PARENT_UID)
        self.chaperons.store.index(_INDEX, lambda chaperon: ["/".join(key) for key in lease_keys(chaperon)])

    def of(self, lease: Key) -> list[Object]:
        """Return the chaperons that a Lease fences and that are not being deleted."""
        return [each for each in self.chaperons.store.by_index(_INDEX, "/".join(lease)) if not each.deleting]

    def get(self, key: Key) -> Object | None:
        """Return a chaperon if a Lease fences it and it is not being deleted."""
        chaperon = self.chaperons.store.get(key)
        return chaperon if chaperon is not None and not chaperon.deleting and lease_of(chaperon) else None

    def of_pod(self, pod: Object) -> list[Key]:
        """Return the key of a delegate's chaperon if a Lease fences it."""
        owner = pod.controller
        if owner is None or owner.kind != CHAPERONS.name:
            return []
        chaperon = self.chaperons.store.get((pod.namespace, owner.name))
        return [chaperon.key] if chaperon is not None and lease_of(chaperon) else []

    def delegate(self, chaperon: Object) -> Object | None:
        """Return the delegate of a chaperon, None if it has none."""
        pod = self.pods.store.get(chaperon.key)
        owner = pod.controller if pod is not None else None
        return pod if owner is not None and owner.uid == chaperon.uid else None

    def look(self, key: Key) -> None:
        """Record the state of the Lease."""
        lease = self.leases.store.get(key)
        skew = timedelta(seconds=self._client.session.skew)
        found = lease.decode() if lease is not None else None
        now = self._deps.clock.now() + skew
        self._seen.note(key, fence.see(self._seen.get(key), found, self._seen.clock(), now))

    def term(self, chaperon: Object) -> float:
        """Return the seconds for which the delegate may run after a renewal of the chaperon's Lease."""
        (key,) = lease_keys(chaperon)
        seen = self._seen.get(key)
        return seen.term if seen is not None else fence.DEFAULT_TERM_SECONDS

    def has_fallen(self, chaperon: Object) -> bool:
        """Return True if the delegate of a fenced chaperon has to be stopped."""
        (key,) = lease_keys(chaperon)
        if self._seen.get(key) is None:
            self.look(key)
        return self._seen.bar(chaperon) != ""

    def ending(self, chaperon: Object, pod: Object) -> fence.Ending | None:
        """Return how to delete a delegate whose fence has expired; None if it is already ending in time."""
        spec: dict[str, Any] = chaperon.decode().get("spec") or {}
        text = chaperon.annotations.get(fencing.ANNOTATION_KEPT_BY)
        allowed = fence.promised_grace(text, self.term(chaperon), spec)
        return fence.ending(allowed, fence.grace_of(pod.decode().get("spec")), self._ends_in(pod))

    def _ends_in(self, pod: Object) -> float | None:
        stamp = pod.head.metadata.deletion_timestamp
        if stamp is None:
            return None
        now = self._deps.clock.now() + timedelta(seconds=self._client.session.skew)
        return (parse(stamp) - now).total_seconds()


def lease_keys(chaperon: Object) -> list[Key]:
    """Return the key of the Lease that fences a chaperon; empty if none does."""
    lease = lease_of(chaperon)
    return [(chaperon.namespace, lease)] if lease else []
