"""Owners: what controls pods of this cluster, and what it says by annotation; only metadata is watched of it."""

from collections.abc import Iterator
from typing import NamedTuple

from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from agent.clusters.cluster import Cluster
from agent.kube.informer import Informer
from agent.kube.metadata import owner_metadata
from agent.kube.store import Object
from agent.kube.typed import Owner

KINDS = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOBS, CRON_JOBS)
"""Those that people write; a kind that only makes such does not count."""
_ABOVE = {REPLICA_SETS: DEPLOYMENTS, JOBS: CRON_JOBS}
_CONTROLLER = "controller"


class Chain(NamedTuple):
    """What controls a pod, the closest first."""

    owners: tuple[Object, ...]
    missing: Informer | None = None
    """Of a kind of which an owner is not known, and so nothing that is above it."""


class Owners:
    """Looks up the owners of pods, whose kinds it watches from when it is made."""

    def __init__(self, local: Cluster) -> None:
        self.informers = {kind: local.informer(kind, reduce=owner_metadata) for kind in KINDS}
        self._kinds = {(kind.group, kind.name): kind for kind in KINDS}
        for kind in _ABOVE:
            self.informers[kind].store.index(_CONTROLLER, controller_of)

    def of(self, obj: Object) -> Chain:
        """What controls an object: a Deployment and not its ReplicaSets, on which its annotations stay for ever."""
        found: list[Object] = []
        owner = owner_of(obj)
        while owner is not None:
            kind = self._kinds.get((owner.group, owner.kind))
            if kind is None:
                break
            known = self.informers[kind].store.get((obj.namespace, owner.name))
            if known is None or known.uid != owner.uid:
                return Chain(tuple(found), self.informers[kind])
            if kind is DEPLOYMENTS:
                found.clear()
            found.append(known)
            owner = known.controller
        return Chain(tuple(found))

    def below(self, owner: Object) -> Iterator[str]:
        """UIDs of what may control pods, of all that an owner controls and itself."""
        yield owner.uid
        for kind, above in _ABOVE.items():
            if above is owner.kind:
                yield from (each.uid for each in self.informers[kind].store.by_index(_CONTROLLER, owner.uid))


def owner_of(obj: Object) -> Owner | None:
    """What controls an object, or will: a replacement belongs to a ReplicaSet that has not adopted it yet."""
    if obj.controller is not None or not obj.hot_annotations.replaces:
        return obj.controller
    return next(iter(obj.head.metadata.owner_references or ()), None)


def controller_of(obj: Object) -> tuple[str, ...]:
    """Its UID, as an index has it."""
    owner = owner_of(obj)
    return (owner.uid,) if owner is not None else ()
