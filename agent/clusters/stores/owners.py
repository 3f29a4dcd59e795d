"""Controllers of the pods of this cluster, and their annotations. Only their metadata is watched."""

from collections.abc import Iterator
from typing import NamedTuple

from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from agent.clusters.cluster import Cluster
from agent.kube.informer import Informer
from agent.kube.metadata import owner_metadata
from agent.kube.store import Object
from agent.kube.typed import Owner

KINDS = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOBS, CRON_JOBS)
"""Kinds that users create. A kind whose objects only create such objects does not count."""
_ABOVE = {REPLICA_SETS: DEPLOYMENTS, JOBS: CRON_JOBS}
_CONTROLLER = "controller"


class Chain(NamedTuple):
    """Controllers of a pod, the closest first."""

    owners: tuple[Object, ...]
    missing: Informer | None = None
    """Informer of the kind of the first owner that is not cached; the owners above it are unknown. None if all
    are cached.
    """


class Owners:
    """Lookup of the owners of pods. It watches their kinds from its creation on."""

    def __init__(self, local: Cluster) -> None:
        self.informers = {kind: local.informer(kind, reduce=owner_metadata) for kind in KINDS}
        self._kinds = {(kind.group, kind.name): kind for kind in KINDS}
        for kind in _ABOVE:
            self.informers[kind].store.index(_CONTROLLER, controller_of)

    def of(self, obj: Object) -> Chain:
        """Return the controllers of an object. A Deployment replaces its ReplicaSets, which keep stale copies
        of annotations.
        """
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
        """Yield the UIDs of an owner and of the objects that it controls and that may control pods."""
        yield owner.uid
        for kind, above in _ABOVE.items():
            if above is owner.kind:
                yield from (each.uid for each in self.informers[kind].store.by_index(_CONTROLLER, owner.uid))


def owner_of(obj: Object) -> Owner | None:
    """Return the controller of an object; for a replacement, the ReplicaSet that has not adopted it yet."""
    if obj.controller is not None or not obj.hot_annotations.replaces:
        return obj.controller
    return next(iter(obj.head.metadata.owner_references or ()), None)


def controller_of(obj: Object) -> tuple[str, ...]:
    """Return the UID of an object's controller, for an index."""
    owner = owner_of(obj)
    return (owner.uid,) if owner is not None else ()
