"""Guard for orphan deletion in targets, shared by all controllers that delete orphans."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import TARGET_KINDS
from agent.base.clock import parse
from agent.base.leaderless_intervals import Absence
from agent.base.listeners import tell
from agent.base.recent import Recent
from agent.clusters import metrics
from agent.clusters.cluster import Cluster
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Placed
from agent.clusters.stores.orphans import Census, Hold, hold
from agent.clusters.target import Target, parent_of
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.lease import LeaderLease

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Seconds between checks whether held orphans may be deleted."""
_SOON_SECONDS = 0.5
"""Seconds until the next check while the answer is unknown."""
_COUNT_SECONDS = 1.0
"""Seconds for which a census counts."""
_REMEMBERED = 20_000
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Judged(NamedTuple):
    at: float
    many_since: float
    """Time since when the orphans are many; 0 if they are not."""
    wait: float
    hold: Hold | None


_NEVER = _Judged(0.0, 0.0, 0.0, None)


class OrphanDeletionGuard:
    """Holds either all orphans of a target or none (see `orphans`); without a lease none.

    The remains of a pod whose deletion was observed are deleted, and so are those of an earlier pod whose name exists
    again: a StatefulSet's pod must not run twice. A pod that is missing from a list may have been forgotten.
    """

    def __init__(
        self, local: Cluster, proxies: Informer, targets: Targets, cluster_uid: str, lease: LeaderLease | None
    ) -> None:
        self._proxies = proxies
        self._objects = local.either(TARGET_KINDS)
        self._cluster_uid = cluster_uid
        self._lease = lease
        self._ended = Recent(_REMEMBERED)
        self._judged: dict[Target, _Judged] = {}
        self._doubted: dict[Target, float] = {}
        self._listeners: list[Callable[[Target], None]] = []
        self._proxies.subscribe(self._pod_changed)
        targets.on_detach(self._detached)

    @property
    def absences(self) -> tuple[Absence, ...]:
        """Intervals without a leader."""
        return self._lease.absences if self._lease is not None else ()

    def on_change(self, listener: Callable[[Target], None]) -> None:
        """Register a listener: called when orphans of a target begin or cease to be held."""
        self._listeners.append(listener)

    def held(self, target: Target) -> Hold | None:
        """Return the hold of a target at the last check."""
        return self._judged.get(target, _NEVER).hold

    def wait_for(self, placed: Placed) -> float:
        """Return the seconds until a re-check whether a chaperon may be deleted, 0 if it may be now or is no orphan."""
        return self.wait(placed.target) if self._is_orphan(placed.chaperon) else 0.0

    def wait(self, target: Target) -> float:
        """Return the seconds until a re-check for any object in a target whose original is not known, 0 if it
        may be deleted.
        """
        if self._lease is None:
            return 0.0
        judged = self._judged.get(target, _NEVER)
        if time.monotonic() - judged.at > _COUNT_SECONDS:
            old, judged = judged, self._judge(target, self._lease, judged)
            self._judged[target] = judged
            if old.hold != judged.hold:
                self._tell(target, old.hold, judged.hold)
        return judged.wait

    def doubt(self, target: Target, seconds: float) -> None:
        """Hold all orphans of a target for some seconds: they may belong to another cluster with the same UID."""
        self._doubted[target] = time.monotonic() + seconds
        self._judged[target] = self._judged.get(target, _NEVER)._replace(at=0.0)

    def made_at(self, target: Target, created: str) -> datetime:
        """Return the creation time of an object in a target, by the local clock."""
        try:
            return parse(created) - timedelta(seconds=target.port.skew)
        except (ValueError, OverflowError):
            return _LONG_AGO

    def _judge(self, target: Target, lease: LeaderLease, before: _Judged) -> _Judged:
        now = time.monotonic()
        if self._proxies.relisting:
            return before._replace(at=now, wait=_SOON_SECONDS)
        census = self._census(target)
        if census.orphans and self._doubted.get(target, 0.0) > now:
            return _Judged(now, 0.0, LOOK_SECONDS, Hold(len(census.orphans), census.chaperons, ""))
        if not census.many:
            return _Judged(now, 0.0, 0.0, None)
        since = before.many_since or now
        if not lease.renewed_since(since):
            # A leader learns only from its next renewal whether etcd was restored without its lease.
            return _Judged(now, since, _SOON_SECONDS, before.hold)
        found = hold(census, lease.absences, self._released(target))
        return _Judged(now, since, LOOK_SECONDS if found is not None else 0.0, found)

    def _census(self, target: Target) -> Census:
        chaperons, orphans = 0, []
        for chaperon in target.chaperons.store:
            if chaperon.deleting or chaperon.labels.get(names.LABEL_PARENT_CLUSTER_UID) != self._cluster_uid:
                continue
            chaperons += 1
            if self._is_orphan(chaperon):
                orphans.append(self.made_at(target, chaperon.head.metadata.creation_timestamp or ""))
        return Census(chaperons, tuple(orphans))

    def _is_orphan(self, chaperon: Object) -> bool:
        uid = chaperon.labels.get(names.LABEL_PARENT_UID, "")
        namespace, _, name = parent_of(chaperon)[0].partition("/")
        return self._proxies.store.get((namespace, name)) is None and uid not in self._ended

    def _released(self, target: Target) -> str:
        obj = self._objects.get(target.key)
        return (names.annotation(obj.annotations, names.DELETE_ORPHANS) or "") if obj is not None else ""

    def _tell(self, target: Target, old: Hold | None, new: Hold | None) -> None:
        title = "/".join(target.key).lstrip("/")
        if new is not None and old is None:
            log.warning("target %s: %d of %d chaperons are held: their pods are not known", title, *new[:2])
        elif new is None:
            log.info("target %s: no chaperons are held any more", title)
        metrics.note_held(target, new.orphans if new is not None else 0)
        tell(self._listeners, target)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or (new is not None and new.uid == old.uid):
            return
        if old.deleting or not self._proxies.relisting:
            self._ended.add(old.uid)

    def _detached(self, target: Target) -> None:
        self._judged.pop(target, None)
        self._doubted.pop(target, None)
