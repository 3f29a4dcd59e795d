"""Target choice: record an Event on owners of pods with invalid annotations about targets or moves.

Watches  metadata of Deployments, StatefulSets, ReplicaSets, Jobs and CronJobs in the local cluster.
Writes   Events. No target takes part.
The controller of elections reports refused namespaces; the webhook refuses the pods.
"""

from typing import NamedTuple

from agent.api.kinds import DEPLOYMENTS, REPLICA_SETS, Kind
from agent.clusters.deps import Deps
from agent.clusters.stores.owners import Owners
from agent.kube.store import Key, Object
from agent.model import moveterms, targetchoice
from agent.runtime.controller import Controller

KEPT = "The last value that could be read counts on; without one, pods wait"
UNSAID = "It counts as if it were not there"
_DEPLOYMENT = (DEPLOYMENTS.group, DEPLOYMENTS.name)


class _Owner(NamedTuple):
    kind: Kind
    key: Key


class TargetChoiceController(Controller[_Owner]):
    """Controller with the keys of owners that have, or had, invalid annotations."""

    name = "target choice"
    workers = 2

    def __init__(self, deps: Deps, owners: Owners) -> None:
        super().__init__()
        self._informers = owners.informers
        self._recorder = deps.recorder
        self._namespaces = deps.namespaces
        self._told: dict[_Owner, tuple[str, str]] = {}
        """UID and message of the last Event by owner."""
        self.watch(deps.namespaces.informer, lambda namespace: ())
        for informer in self._informers.values():
            self.watch(informer, self._flawed)

    def _flawed(self, owner: Object) -> tuple[_Owner, ...]:
        key = _Owner(owner.kind, owner.key)
        return (key,) if key in self._told or bool(told_of(owner)) else ()

    async def reconcile(self, key: _Owner) -> float | None:
        """Record an Event about the invalid annotations of one owner, once until they change."""
        owner = self._informers[key.kind].store.get(key.key)
        wrong = told_of(owner) if owner is not None else ""
        if owner is None or not wrong:
            self._told.pop(key, None)
        elif self._namespaces.is_enabled(owner.namespace) and self._told.get(key) != (owner.uid, wrong):
            self._told[key] = (owner.uid, wrong)
            self._recorder.event(owner.decode(), "Warning", "InvalidAnnotation", wrong)
        return None


def told_of(owner: Object) -> str:
    """Return the faults of an owner's annotations, and the values used instead; empty if there are none.

    ReplicaSets have copies of their Deployment's annotations, which have no effect there.
    """
    above = owner.controller
    if owner.kind is REPLICA_SETS and above is not None and (above.group, above.kind) == _DEPLOYMENT:
        return ""
    found = []
    for flaws, instead in ((targetchoice.flaws, KEPT), (moveterms.flaws, UNSAID)):
        if wrong := "; ".join(f"{field} {reason}" for field, reason in flaws(owner.annotations)):
            found.append(f"{wrong}. {instead}")
    return ". ".join(found)
