"""Signs: write a heartbeat to every target once a minute, and detect other sources with this cluster's UID.

Watches  Targets and ClusterTargets, and their state.
Writes   the Lease `multicluster-sources` in this cluster, once; an annotation of that Lease in targets; the condition
         SourceUnique, once another cluster with this UID was found; one Warning event when that begins.
Absent target: receives no heartbeat. A target without this Lease, or without permission to write it, is skipped.
"""

import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from agent.api import names
from agent.api.kinds import LEASES, SELF_SUBJECT_REVIEWS
from agent.api.names import LEASE_SOURCES
from agent.base.leaderless_intervals import last_of
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.errors import AlreadyExists, Forbidden, NotFound
from agent.kube.store import Key
from agent.model import heartbeats
from agent.model.heartbeats import Account, Sign
from agent.runtime.controller import Controller

CONDITION = "SourceUnique"
_ALONE = Words("True", "Alone", "no other cluster with the UID of this one gives signs of life there")
_UNKNOWN_SECONDS = 3.0
"""Seconds until a re-check while the namespace of a target's agent is unknown."""
_REFUSED_SECONDS = 3600.0
"""Seconds until the next try in a target that grants no right to write heartbeats."""
_CALM = 3
"""Number of intervals without a heartbeat after which another source's last one is ignored."""


class _Twin(NamedTuple):
    """Heartbeat of another agent with our cluster UID, and the monotonic time of its detection."""

    at: float
    sign: Sign
    holds: bool
    """Whether the deletion of our orphans is suspended because of it."""


class HeartbeatController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "signs"
    workers = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._interval = deps.settings.sign_interval
        self._holder = secrets.token_hex(8)
        self._status_condition = TargetCondition(deps, CONDITION)
        self._accounts: WeakKeyDictionary[Target, Account] = WeakKeyDictionary()
        self._seen: WeakKeyDictionary[Target, dict[tuple[str, str], Sign]] = WeakKeyDictionary()
        """Last heartbeats with our UID, by Target, then by namespace and annotation of the Lease there."""
        self._twins: WeakKeyDictionary[Target, _Twin] = WeakKeyDictionary()
        for informer in self._status_condition.objects.informers:
            self.watch(informer, lambda target: ())
        deps.targets.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Write a heartbeat to one target."""
        obj, target = self._status_condition.objects.get(key), self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        if not target.homes:
            return _UNKNOWN_SECONDS
        was_cached = target in self._accounts
        try:
            given = [await self._give(target, home) for home in target.homes]
        except Forbidden:
            # A recreated account has another UID, and may not write keys of the earlier account.
            self._accounts.pop(target, None)
            return self._interval if was_cached else _REFUSED_SECONDS
        if any(given):
            twin = self._twin(target)
            if twin is not None and twin.holds:
                self._deps.orphan_deletion_guard.doubt(target, _CALM * self._interval)
            await self._status_condition.say(obj, _words(twin) if twin is not None else _ALONE)
        return self._interval

    async def _give(self, target: Target, home: str) -> bool:
        port = target.port
        try:
            lease = await port.get(LEASES, LEASE_SOURCES, home)
        except NotFound:
            return False
        account = await self._account(target)
        now, uid = self._deps.clock.now(), self._deps.cluster_uid
        annotations = lease["metadata"].get("annotations") or {}
        found, own = heartbeats.of_source(annotations, uid), names.sign(uid, account.uid)
        last = found.get(own)
        self._learn(target, home, found, own, account)
        if last is None or last.holder != self._holder or (now - last.seen).total_seconds() > self._interval / 2:
            sign = Sign(now, self._holder, self._deps.settings.cluster_name)
            patch = heartbeats.patch(uid, sign, lease["metadata"]["resourceVersion"], account, annotations)
            await port.patch_raw(LEASES, LEASE_SOURCES, patch, home)
            self._seen[target][home, own] = sign
        return True

    async def _account(self, target: Target) -> Account:
        """Return our account in the target; an empty one if its API server has no SelfSubjectReviews."""
        found = self._accounts.get(target)
        if found is None:
            try:
                told = await target.port.create(SELF_SUBJECT_REVIEWS, {"metadata": {}})
            except (Forbidden, NotFound):
                # Served from Kubernetes 1.28 on.
                told = {}
            found = self._accounts[target] = heartbeats.account_of(told)
        return found

    def _learn(self, target: Target, home: str, found: Mapping[str, Sign], own: str, account: Account) -> None:
        """Find heartbeats with our UID that another agent writes after ours: the leader of a copy of this cluster.

        Heartbeats under the key of our own account, and of accounts of the same namespace, suspend the deletion of our
        orphans. Those of other accounts are only reported, since any source of the target may write one. Shared keys
        count only if this source has no key of its own.
        """
        seen = self._seen.setdefault(target, {})
        for key, sign in found.items():
            before, seen[home, key] = seen.get((home, key)), sign
            if sign.holder == self._holder:
                continue
            if before is None:
                if key == own or (own not in found and not sign.account):
                    self._ask_absences(target, sign)
            elif before != sign and (key == own or sign.account):
                holds = key == own or sign.namespace == account.namespace
                known = self._twin(target)
                if holds or known is None or not known.holds:
                    self._twins[target] = _Twin(time.monotonic(), sign, holds)
        for place in [place for place in seen if place[0] == home and place[1] not in found]:
            del seen[place]

    def _ask_absences(self, target: Target, sign: Sign) -> None:
        """Suspend the deletion of orphans if this cluster had no leader at the time of a heartbeat.

        Then a copy of this cluster wrote it, or etcd was restored.
        """
        if last_of(self._deps.orphan_deletion_guard.absences, [sign.seen]) is not None:
            self._deps.orphan_deletion_guard.doubt(target, _CALM * self._interval)

    def _twin(self, target: Target) -> _Twin | None:
        found = self._twins.get(target)
        if found is None or time.monotonic() - found.at > _CALM * self._interval:
            return None
        return found


def _words(twin: _Twin) -> Words:
    same = (
        f"another cluster that calls itself {twin.sign.name or 'nothing'} has the same UID (of its namespace"
        " kube-system) as this one"
    )
    if twin.holds:
        message = (
            f"{same}, and uses this target, too: one is a copy of the other. Each takes the other's pods there for its"
            " own orphans, which are held. Take this target away from one of them, or give it a control plane of its"
            " own"
        )
        return Words("False", "TwinSource", message)
    message = (
        f"{same}, so says {twin.sign.account} in this target: it is a copy of this cluster, or pretends to be. No"
        " orphans are held for that, since the account is of another namespace. Give a copy a control plane of its"
        " own, or have the target's administrator remove the Source of that account"
    )
    return Words("False", "ForeignSign", message)


_AGAIN_SECONDS = 600.0
"""Seconds until the Lease is created again if a user has deleted it."""


class HeartbeatPlaceController(Controller[str]):
    """Creates the Lease `multicluster-sources` for heartbeats of other clusters. The only key is its name."""

    name = "signsplace"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self.queue.add(LEASE_SOURCES)

    async def reconcile(self, key: str) -> float | None:
        """Create the Lease if it does not exist."""
        if self._deps.lease is None:
            return None
        head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
        made = {**head, "metadata": {"name": key, "namespace": self._deps.lease.namespace}}
        with contextlib.suppress(AlreadyExists):
            await self._deps.local.client.create_raw(LEASES, made)
        return _AGAIN_SECONDS
