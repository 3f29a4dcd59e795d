"""Signs: say once a minute in every target that this cluster lives, and learn whether another says so with its UID.

Watches  Targets and ClusterTargets, and their state.
Writes   the Lease `multicluster-sources` here, once; an annotation of that in targets; the condition SourceUnique, once
         another cluster with the UID of this one was found; one Warning event when that begins.
Absent target: it has no sign for as long. One whose agent makes no such Lease, or whose role does not let us, has none.
"""

import contextlib
import secrets
import time

from agent.api.kinds import LEASES
from agent.api.names import LEASE_SOURCES
from agent.base.absences import last_of
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.client import Raw
from agent.kube.errors import AlreadyExists, Forbidden, NotFound
from agent.kube.store import Key
from agent.model import signs
from agent.model.signs import Sign
from agent.runtime.controller import Controller

CONDITION = "SourceUnique"
_ALONE = Words("True", "Alone", "no other cluster with the UID of this one gives signs of life there")
_UNKNOWN_SECONDS = 3.0
"""Pause while it is not known where the agent of a target is."""
_REFUSED_SECONDS = 3600.0
"""Pause where there is no right, which is no fault."""
_CALM = 3
"""After so many intervals without it, another's sign counts no more."""


class SignsRoom(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "signs"
    workers = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._interval = deps.settings.sign_interval
        self._holder = secrets.token_hex(8)
        self._status_condition = TargetCondition(deps, CONDITION)
        self._leases: dict[Key, str] = {}
        """UIDs of the leases by Target; several Targets may lead to one."""
        self._written: set[str] = set()
        self._twins: dict[str, tuple[float, Sign]] = {}
        """Signs of others with our UID that came after one of ours, by lease, and when."""
        for informer in self._status_condition.objects.informers:
            self.watch(informer, lambda target: ())
        deps.targets.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Give a sign in one target."""
        obj, target = self._status_condition.objects.get(key), self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        if not target.homes:
            return _UNKNOWN_SECONDS
        try:
            given = [await self._give(target, home) for home in target.homes]
        except Forbidden:
            return _REFUSED_SECONDS
        if any(given):
            twin = self._twin(key)
            if twin is not None:
                self._deps.brake.doubt(target, _CALM * self._interval)
            await self._status_condition.say(obj, _words(twin) if twin is not None else _ALONE)
        return self._interval

    async def _give(self, target: Target, home: str) -> bool:
        port = target.port
        try:
            lease = await port.get(LEASES, LEASE_SOURCES, home)
        except NotFound:
            return False
        now, uid = self._deps.clock.now(), self._deps.cluster_uid
        last = signs.read(lease["metadata"].get("annotations")).get(uid)
        self._leases[target.key] = lease["metadata"]["uid"]
        self._learn(target, lease, last)
        if last is None or last.holder != self._holder or (now - last.seen).total_seconds() > self._interval / 2:
            sign = Sign(now, self._holder, self._deps.settings.cluster_name)
            patch = signs.patch(uid, sign, lease["metadata"]["resourceVersion"])
            await port.patch_raw(LEASES, LEASE_SOURCES, patch, home)
        self._written.add(lease["metadata"]["uid"])
        return True

    def _learn(self, target: Target, lease: Raw, last: Sign | None) -> None:
        """Whoever writes after us with our UID leads, too: in another cluster, for here nobody else can."""
        if last is None or last.holder == self._holder:
            return
        uid = lease["metadata"]["uid"]
        if uid in self._written:
            self._twins[uid] = (time.monotonic(), last)
        elif last_of(self._deps.brake.absences, [last.seen]) is not None:
            # Somebody gave it while nobody led here: it is another, or we have forgotten it.
            self._deps.brake.doubt(target, _CALM * self._interval)

    def _twin(self, key: Key) -> Sign | None:
        found = self._twins.get(self._leases.get(key, ""))
        if found is None or time.monotonic() - found[0] > _CALM * self._interval:
            return None
        return found[1]


def _words(twin: Sign) -> Words:
    message = (
        f"another cluster that calls itself {twin.name or 'nothing'} has the same UID (of its namespace kube-system) as"
        " this one, and uses this target, too: one is a copy of the other. Each takes the other's pods there for its"
        " own orphans, which are held. Take this target away from one of them, or give it a control plane of its own"
    )
    return Words("False", "TwinSource", message)


_AGAIN_SECONDS = 600.0
"""Somebody may have deleted it."""


class SignsPlaceRoom(Controller[str]):
    """Makes the Lease `multicluster-sources`, for signs of life of other clusters. The only key is its name."""

    name = "signsplace"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self.queue.add(LEASE_SOURCES)

    async def reconcile(self, key: str) -> float | None:
        """Make it, if it is not there."""
        if self._deps.lease is None:
            return None
        head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
        made = {**head, "metadata": {"name": key, "namespace": self._deps.lease.namespace}}
        with contextlib.suppress(AlreadyExists):
            await self._deps.local.client.create_raw(LEASES, made)
        return _AGAIN_SECONDS
