"""Target choice: an event on what controls pods, where what it says of targets, or of moves, cannot be read.

Watches  Deployments, StatefulSets, ReplicaSets, Jobs and CronJobs here: their metadata.
Writes   events. No target takes part.
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
    """Keys are those of owners that have something to hear."""

    name = "target choice"
    workers = 2

    def __init__(self, deps: Deps, owners: Owners) -> None:
        super().__init__()
        self._informers = owners.informers
        self._recorder = deps.recorder
        self._namespaces = deps.namespaces
        self._told: dict[_Owner, tuple[str, str]] = {}
        """By UID and words."""
        self.watch(deps.namespaces.informer, lambda namespace: ())
        for informer in self._informers.values():
            self.watch(informer, self._flawed)

    def _flawed(self, owner: Object) -> tuple[_Owner, ...]:
        key = _Owner(owner.kind, owner.key)
        return (key,) if key in self._told or bool(told_of(owner)) else ()

    async def reconcile(self, key: _Owner) -> float | None:
        """Tell what cannot be read of one owner, once as long as it stays the same."""
        owner = self._informers[key.kind].store.get(key.key)
        wrong = told_of(owner) if owner is not None else ""
        if owner is None or not wrong:
            self._told.pop(key, None)
        elif self._namespaces.is_enabled(owner.namespace) and self._told.get(key) != (owner.uid, wrong):
            self._told[key] = (owner.uid, wrong)
            self._recorder.event(owner.decode(), "Warning", "InvalidAnnotation", wrong)
        return None


def told_of(owner: Object) -> str:
    """What is wrong with what an owner says, and what counts instead; empty where nothing is.

    What a Deployment says is on its ReplicaSets, too, where it counts for nothing.
    """
    above = owner.controller
    if owner.kind is REPLICA_SETS and above is not None and (above.group, above.kind) == _DEPLOYMENT:
        return ""
    found = []
    for flaws, instead in ((targetchoice.flaws, KEPT), (moveterms.flaws, UNSAID)):
        if wrong := "; ".join(f"{field} {reason}" for field, reason in flaws(owner.annotations)):
            found.append(f"{wrong}. {instead}")
    return ". ".join(found)
