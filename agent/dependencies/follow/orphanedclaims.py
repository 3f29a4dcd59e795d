"""Claims with a volume in a target whose original no longer exists: how long they stay.

A claim whose deletion was observed is deleted with its data at once. A claim that is merely missing may have been
deleted while no agent ran, or lost by an etcd that was restored from a backup. The target's claim then stays for a long
time, counted from its annotation. So does one whose original was recreated after it was lost.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agent.api import names
from agent.api.kinds import TARGET_KINDS
from agent.base.clock import parse, stamp
from agent.base.leaderless_intervals import last_of
from agent.base.recent import Recent
from agent.clusters.deps import Deps
from agent.dependencies.follow.copier import Place
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.copies import Raw, parent_uid

log = logging.getLogger(__name__)

REASON = "ClaimOrphaned"


class OrphanedClaims:
    """Decides, by their state in a target, how long claims without an original are kept."""

    def __init__(self, deps: Deps, originals: Informer) -> None:
        self._deps = deps
        self._originals = originals
        self._objects = deps.local.either(TARGET_KINDS)
        self._ended = Recent()
        originals.subscribe(self._changed)

    def was_deleted(self, copy: Mapping[str, Any]) -> bool:
        """Return whether the deletion of a claim's original was observed."""
        return parent_uid(copy) in self._ended

    def was_forgotten(self, place: Place, copy: Mapping[str, Any]) -> bool:
        """Return whether this cluster has forgotten that it created a claim."""
        created = str(copy["metadata"].get("creationTimestamp") or "")
        guard = self._deps.orphan_deletion_guard
        return not self.was_deleted(copy) and bool(last_of(guard.absences, [guard.made_at(place.target, created)]))

    async def left(self, place: Place, copy: Mapping[str, Any]) -> float:
        """Return the seconds for which a claim still stays; at first mark and report it. Raises KubeError or
        Blocked."""
        now = self._deps.clock.now()
        since = _moment((copy["metadata"].get("annotations") or {}).get(names.ANNOTATION_ORPHANED_SINCE), now)
        if since is None:
            await self._mark(place, copy, now)
        ends = (since or now) + timedelta(seconds=self._deps.settings.orphaned_claim_delay)
        if since is None:
            self._tell(place, ends)
        return max(0.0, (ends - now).total_seconds())

    async def _mark(self, place: Place, copy: Mapping[str, Any], now: datetime) -> None:
        item = place.item
        metadata = {"uid": copy["metadata"]["uid"], "annotations": {names.ANNOTATION_ORPHANED_SINCE: stamp(now)}}
        with place.reporting_refusals():
            port = place.target.port
            raw = await port.patch_raw(item.kind, item.name, {"metadata": metadata}, item.namespace)
        place.copies.absorb(raw)

    def _tell(self, place: Place, ends: datetime) -> None:
        message = (
            f"{place.title} in target {place.target.title} has a volume, and this cluster, which has not seen it being"
            f" deleted, has no such claim any more: at {stamp(ends)} it is deleted there with its data. To keep them,"
            f" create the claim here again with the annotation {names.ANNOTATION_VOLUME_IN}: {place.item.node}. To have"
            " them go now, delete it there"
        )
        log.warning("%s", message)
        target = self._objects.get(place.target.key)
        if target is not None:
            self._deps.recorder.event(target.decode(), "Warning", REASON, message)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid) and (old.deleting or not self._originals.relisting):
            self._ended.add(old.uid)


def unmarked(copy: Mapping[str, Any]) -> Raw:
    """Return the merge patch for a claim whose original exists again; {} if the claim is not marked."""
    annotations = copy["metadata"].get("annotations") or {}
    if names.ANNOTATION_ORPHANED_SINCE not in annotations:
        return {}
    return {"metadata": {"annotations": {names.ANNOTATION_ORPHANED_SINCE: None}}}


def _moment(text: str | None, now: datetime) -> datetime | None:
    """Parse a time; None if it is invalid or in the future."""
    try:
        moment = parse(text or "")
    except ValueError:
        return None
    return moment if moment <= now else None
