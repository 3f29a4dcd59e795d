"""Applies the hub's ManifestWorks for this cluster, reverts changes by other writers, deletes and evicts objects.

Watches  ManifestWorks in the hub, AppliedManifestWorks, CRDs, and the metadata of applied objects.
Writes   the objects of ManifestWorks; AppliedManifestWorks, whose status names each object before it is created;
         finalizers of ManifestWorks; their condition Deleting.
Keys are names of AppliedManifestWorks: digest of the hub's address, dash, name of the ManifestWork.
While the hub is unreachable, changes are still reverted, and nothing is evicted. If the hub was restored from a backup
that is older than an AppliedManifestWork, a user has to remove an annotation before it is evicted.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agent.api.conditions import condition_of, timestamp
from agent.api.kinds import APPLIED_MANIFEST_WORKS, CRDS, MANIFEST_WORKS, NAMESPACES, Kind
from agent.api.names.works import APPLIED_FINALIZER, EXECUTOR, HUB_RESTORED, HUB_VERSION, WORK_FINALIZER
from agent.base.backoff import Backoff
from agent.base.listeners import tell
from agent.clusters.deps import Deps
from agent.klusterlet import ledger, status
from agent.klusterlet.accounts import Accounts
from agent.klusterlet.drift import POLL_SECONDS, Repairs, Watches
from agent.klusterlet.hub import Connected, HubController
from agent.klusterlet.ledger import Entry
from agent.klusterlet.manifests import Config, Identity, InvalidExecutor, Manifest, Meta, Work, barrier, skipped
from agent.klusterlet.merge import InvalidIgnoredField
from agent.klusterlet.status import APPLIED_WELL, Verdict
from agent.klusterlet.writer import Refused, Remains, Seen, Writer, delete, not_served, signature
from agent.kube.discovery import Discovery
from agent.kube.errors import NotFound
from agent.kube.rollback import number
from agent.kube.store import Object, metadata_only
from agent.model.abridged import abridged
from agent.model.applied import flaw
from agent.runtime.controller import Controller

log = logging.getLogger(__name__)

Raw = dict[str, Any]

LONGEST_NAME = 253 - 65
"""Maximum number of characters of a ManifestWork's name: the AppliedManifestWork's adds 65."""
EVICTION_SECONDS = 3600.0
_RESYNC_SECONDS = 300.0
_RECHECK_SECONDS = 5.0
_DELETION_SECONDS = 3.0
"""Longest pause between checks whether an object has been deleted."""
_NAMED = 3


class Result(NamedTuple):
    """Outcome of one manifest."""

    meta: Meta
    kind: Kind | None
    """None if its kind is not served."""
    config: Config
    applied: Verdict
    is_skipped: bool = False
    seen: Seen | None = None
    again: float | None = None
    """Seconds until the next try; 0 for the usual backoff, None for no try before the next pass."""


class Outcome(NamedTuple):
    """Outcome of the last pass over a ManifestWork."""

    generation: int
    results: list[Result]
    executor: str = ""
    """User name of the executor's service account; empty without one."""


class WorksController(Controller[str]):
    """Applies ManifestWorks."""

    name = "works"
    workers = 4

    def __init__(
        self,
        deps: Deps,
        hub: HubController,
        watches: Watches,
        accounts: Accounts,
        *,
        eviction_seconds: float = EVICTION_SECONDS,
    ) -> None:
        super().__init__()
        self._deps = deps
        self._hub = hub
        self._watches = watches
        self._accounts = accounts
        self._eviction = timedelta(seconds=eviction_seconds)
        self._client = deps.local.client
        self._applied = deps.local.informer(APPLIED_MANIFEST_WORKS)
        self._discovery = Discovery(self._client)
        self._crds_changed = -_RECHECK_SECONDS
        self._seen: dict[str, dict[Identity, Seen]] = {}
        self._repairs = Repairs()
        self._busy: set[str] = set()
        self._unsettled: set[str] = set()
        """ManifestWorks with a kind that is not served, or with alternatives."""
        self._failing: dict[str, Backoff] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.outcomes: dict[str, Outcome] = {}
        self.watch(self._applied, lambda obj: [obj.name])
        self._crds = deps.local.informer(CRDS, reduce=metadata_only)
        self._crds.subscribe(self._kind_changed)
        deps.local.informer(NAMESPACES).subscribe(self._namespace_changed)
        hub.subscribe(self.enqueuing(self._key_of), self._all)
        watches.subscribe(self._touched)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call with the key of each ManifestWork that has been applied."""
        self._listeners.append(listener)

    def rival(self, identity: Identity) -> str:
        """Return the field manager that keeps changing an object; empty if none does."""
        return self._repairs.rival(identity, self._now())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _key_of(self, work: Object) -> list[str]:
        return [self._hub.current.applied_name(work.name)] if self._hub.current is not None else []

    def _all(self) -> None:
        for obj in self._applied.store:
            self.queue.add(obj.name)
        for work in self._hub.current.works.store if self._hub.current is not None else ():
            for key in self._key_of(work):
                self.queue.add(key)

    def _kind_changed(self, old: Object | None, new: Object | None) -> None:
        if not self._crds.synced.is_set():
            return
        self._discovery = Discovery(self._client)
        self._crds_changed = self._now()
        for key in self._unsettled:
            self.queue.add(key)

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None:
            for key in self._failing:
                self.queue.add(key)

    def _kinds_may_change(self) -> bool:
        """Return whether a CRD has changed recently. The API server serves its kinds some time later."""
        return self._now() - self._crds_changed < _RECHECK_SECONDS

    def _touched(self, identity: Identity, obj: Object | None) -> None:
        for key in self._watches.keys(identity):
            if key not in self._busy:
                self._judge(key, identity, obj)

    def _judge(self, key: str, identity: Identity, obj: Object | None) -> None:
        """Queue a ManifestWork if an object differs from its applied state."""
        seen = self._seen.get(key, {}).get(identity)
        if seen is None:
            return
        if obj is not None:
            is_older = obj.uid == seen.uid and number(obj.version) <= seen.version
            if is_older or signature(obj.decode()["metadata"]) == seen.signature:
                return
        self.queue.add_after(key, self._repairs.pause(identity, self._now()))

    async def reconcile(self, key: str) -> float | None:
        """Bring one ManifestWork in line."""
        hub = self._hub.current
        if hub is None or not hub.is_read:
            return None
        self._busy.add(key)
        try:
            work, applied = hub.work(key), self._applied.store.get(("", key))
            if work is not None and work.deleting:
                return await self._end(hub, key, work.decode(), applied)
            if applied is not None and applied.deleting:
                remains = await self._clean_up(applied, Work(work.decode()) if work is not None else None)
                return self._pause(key, _DELETION_SECONDS) if remains else None
            if work is None:
                return await self._evict(hub, key, applied)
            return await self._bring(hub, key, work, applied)
        finally:
            self._busy.discard(key)

    def _pause(self, key: str, longest: float = 30.0) -> float:
        return min(longest, self._failing.setdefault(key, Backoff(0.2, 30.0)).next())

    async def _bring(self, hub: Connected, key: str, work: Object, applied: Object | None) -> float | None:
        if len(work.name) > LONGEST_NAME:
            reason = f"the name of the ManifestWork is longer than {LONGEST_NAME} characters: create a shorter one"
            self._refuse(key, Work(work.decode()), reason)
            return None
        if WORK_FINALIZER not in work.finalizers:
            finalizers = [*work.finalizers, WORK_FINALIZER]
            patch: Raw = {"metadata": {"finalizers": finalizers, "resourceVersion": work.version}}
            raw = await hub.client.patch_raw(MANIFEST_WORKS, work.name, patch, hub.namespace)
            work = hub.works.absorb(raw)
        wanted = Work(work.decode())
        if wanted.is_complete:
            return None
        try:
            executor = wanted.executor
        except InvalidExecutor as error:
            self._refuse(key, wanted, str(error))
            return None
        record = await self._recorded(hub, key, wanted, executor, applied)
        return await self._apply(key, wanted, record)

    def _refuse(self, key: str, work: Work, reason: str) -> None:
        results = [Result(each.meta(None), None, Config(), status.not_applied(reason)) for each in work.manifests]
        self._conclude(key, Outcome(work.generation, results))

    def _conclude(self, key: str, outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        tell(self._listeners, key)

    async def _recorded(self, hub: Connected, key: str, work: Work, executor: str, applied: Object | None) -> Raw:
        """Return the AppliedManifestWork with the labels of its ManifestWork."""
        if applied is None:
            body = ledger.applied_manifest_work(key, work.raw, executor, hub.agent_id, hub.hash)
            return self._absorbed(await self._client.create_raw(APPLIED_MANIFEST_WORKS, body))
        record = applied.decode()
        labels = work.raw["metadata"].get("labels") or {}
        patch: Raw = {}
        annotations = record["metadata"].get("annotations") or {}
        changed: Raw = {HUB_RESTORED: None} if HUB_RESTORED in annotations else {}
        if annotations.get(EXECUTOR, "") != executor:
            changed[EXECUTOR] = executor or None
        if changed:
            patch["annotations"] = changed
        if (record["metadata"].get("labels") or {}) != labels:
            stale = {label: None for label in record["metadata"].get("labels") or {} if label not in labels}
            patch["labels"] = {**stale, **labels}
        if patch:
            record = await self._patch(key, {"metadata": patch})
        if (record.get("status") or {}).get("evictionStartTime"):
            record = await self._patch(key, {"status": {"evictionStartTime": None}}, sub="status")
        return record

    def _absorbed(self, raw: bytes) -> Raw:
        return self._applied.absorb(raw).decode()

    async def _patch(self, key: str, patch: Raw, *, sub: str | None = None) -> Raw:
        return self._absorbed(await self._client.patch_raw(APPLIED_MANIFEST_WORKS, key, patch, sub=sub))

    async def _write_ledger(self, key: str, record: Raw, found: ledger.Ledger) -> Raw:
        if found == ledger.read(record):
            return record
        return await self._patch(key, {"status": {"appliedResources": ledger.written(found)}}, sub="status")

    async def _apply(self, key: str, work: Work, record: Raw) -> float | None:
        manifests = work.manifests
        if self._kinds_may_change():
            self._discovery = Discovery(self._client)
        kinds = {(each.api_version, each.kind) for each in manifests}
        found = {of: await self._discovery.find(*of) if of[1] else None for of in kinds}
        served = {each.ordinal: found[each.api_version, each.kind] for each in manifests}
        left_out = skipped(manifests, served)
        metas = {each.ordinal: each.meta(served[each.ordinal]) for each in manifests}
        intended = [metas[each.ordinal] for each in manifests if served[each.ordinal] is not None]
        record = await self._write_ledger(key, record, ledger.intended(ledger.read(record), intended))
        client = self._accounts.client(work.executor)
        writer = Writer(self._client, client, record, work.executor, adopts=work.adopts)
        entries = ledger.read(record)
        results = []
        for each in manifests:
            kind, meta = served[each.ordinal], metas[each.ordinal]
            config = work.config(meta)
            if each.ordinal in left_out:
                verdict = status.skipped_for(left_out[each.ordinal].api_version)
                results.append(Result(meta, kind, config, verdict, is_skipped=True))
            else:
                seen, entry = self._seen.get(key, {}).get(meta.identity), entries.get(meta.identity)
                results.append(await self._apply_one(writer, work, each, meta, kind, config, seen, entry))
        record, remains = await self._remove(key, record, results)
        self._settle(key, results, has_alternatives=bool(left_out))
        self._conclude(key, Outcome(work.generation, results, work.executor))
        return self._again(key, results, remains)

    async def _apply_one(
        self,
        writer: Writer,
        work: Work,
        manifest: Manifest,
        meta: Meta,
        kind: Kind | None,
        config: Config,
        seen: Seen | None,
        entry: Entry | None,
    ) -> Result:
        if invalid := flaw(manifest.raw):
            return Result(meta, kind, config, status.not_applied(invalid))
        if refused := barrier(meta.group):
            return Result(meta, None, config, status.not_applied(refused))
        if kind is None:
            return Result(meta, None, config, status.not_applied(not_served(manifest.kind)), again=0.0)
        if meta.identity in work.completed:
            return Result(meta, kind, config, APPLIED_WELL, seen=seen)
        owns = work.owns(meta.identity)
        try:
            found = await writer.apply(kind, manifest.body(kind), config, owns=owns, entry=entry, seen=seen)
        except Refused as error:
            return Result(meta, kind, config, status.not_applied(str(error)), again=error.again)
        except InvalidIgnoredField as error:
            return Result(meta, kind, config, status.not_ignored(str(error)))
        if found.rival:
            self._repairs.note(meta.identity, found.rival, self._now())
        return Result(meta, kind, config, APPLIED_WELL, seen=found.seen)

    async def _remove(self, key: str, record: Raw, results: list[Result]) -> tuple[Raw, list[Remains]]:
        """Delete objects that no manifest describes any longer, and record the others."""
        before = ledger.read(record)
        after = dict(before)
        for each in results:
            if each.seen is not None:
                after[each.meta.identity] = Entry(each.meta.version, each.seen.uid)
        known = {each.seen.uid for each in results if each.seen is not None}
        remains = []
        for identity, entry in ledger.removed(before, [each.meta for each in results]).items():
            # The same object under another API group has the same UID.
            is_kept = entry.uid in known
            left = None if is_kept else await self._delete(identity, entry, record)
            if left is None:
                del after[identity]
            else:
                remains.append(left)
        return await self._write_ledger(key, record, after), remains

    async def _delete(self, identity: Identity, entry: Entry, record: Raw, *, keeps: bool = False) -> Remains | None:
        """Delete an object, or only its owner reference, by the account that applied it."""
        metadata = record["metadata"]
        client = self._accounts.client((metadata.get("annotations") or {}).get(EXECUTOR, ""))
        return await delete(client, self._discovery, identity, entry, metadata["uid"], keeps=keeps)

    def _settle(self, key: str, results: list[Result], *, has_alternatives: bool) -> None:
        """Remember and watch the applied state of all objects."""
        self._seen[key] = {each.meta.identity: each.seen for each in results if each.seen is not None}
        self._watches.want(
            key, {each.meta.identity: each.kind for each in results if each.kind is not None and not each.is_skipped}
        )
        if has_alternatives or any(each.kind is None for each in results):
            self._unsettled.add(key)
        else:
            self._unsettled.discard(key)

    def _again(self, key: str, results: list[Result], remains: list[Remains]) -> float:
        """Return the seconds until the next pass."""
        pauses = [_RESYNC_SECONDS]
        for each in results:
            if each.kind is not None and each.seen is not None:
                if self._watches.is_watched(each.meta.identity, each.kind):
                    self._judge(key, each.meta.identity, self._watches.get(each.meta.identity, each.kind))
                else:
                    pauses.append(POLL_SECONDS)
        if key in self._unsettled and self._kinds_may_change():
            pauses.append(1.0)
        failed = [each.again for each in results if each.again is not None]
        if 0.0 in failed or remains:
            pauses.append(self._pause(key, _DELETION_SECONDS if remains else 30.0))
        else:
            self._failing.pop(key, None)
        return min(pauses + [each for each in failed if each])

    async def _end(self, hub: Connected, key: str, work: Raw, applied: Object | None) -> float | None:
        """Delete the objects of a ManifestWork that is being deleted, then remove its finalizer."""
        metadata = work["metadata"]
        if WORK_FINALIZER not in (metadata.get("finalizers") or ()):
            return None
        work = await self._report_deleting(hub, work, [])
        applied = applied or await self._live(key)
        remains = await self._clean_up(applied, Work(work)) if applied is not None else []
        if remains:
            await self._report_deleting(hub, work, remains)
            return self._pause(key, _DELETION_SECONDS)
        finalizers = [each for each in metadata["finalizers"] if each != WORK_FINALIZER]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": work["metadata"]["resourceVersion"]}}
        with contextlib.suppress(NotFound):
            await hub.client.patch_raw(MANIFEST_WORKS, metadata["name"], patch, hub.namespace)
        self._forget(key)
        return None

    async def _live(self, key: str) -> Object | None:
        """Read an AppliedManifestWork: it may exist although the answer to its creation was lost."""
        try:
            return self._applied.absorb(await self._client.get_raw(APPLIED_MANIFEST_WORKS, key))
        except NotFound:
            return None

    async def _report_deleting(self, hub: Connected, work: Raw, remains: list[Remains]) -> Raw:
        if condition_of(work, status.DELETING) is not None and not remains:
            return work
        words = abridged([each.words for each in remains], _NAMED, ", ") if remains else ""
        conditions = status.with_deleting(work, words, self._deps.clock.now())
        if conditions == (work.get("status") or {}).get("conditions"):
            return work
        patch = {"status": {"conditions": conditions}}
        name = work["metadata"]["name"]
        raw = await hub.client.patch_raw(MANIFEST_WORKS, name, patch, hub.namespace, sub="status")
        return hub.works.absorb(raw).decode()

    async def _clean_up(self, applied: Object, work: Work | None) -> list[Remains]:
        """Delete an AppliedManifestWork and its objects, except orphans; return the objects that remain."""
        self._watches.want(applied.name, {})
        if not applied.deleting:
            with contextlib.suppress(NotFound):
                raw = await self._client.delete(APPLIED_MANIFEST_WORKS, applied.name, uid=applied.uid)
                applied = self._applied.absorb(raw) if raw else applied
        record = applied.decode()
        remains = [
            left
            for identity, entry in ledger.read(record).items()
            if (left := await self._delete(identity, entry, record, keeps=work is not None and not work.owns(identity)))
            is not None
        ]
        if not remains and APPLIED_FINALIZER in applied.finalizers:
            finalizers = [each for each in applied.finalizers if each != APPLIED_FINALIZER]
            with contextlib.suppress(NotFound):
                await self._client.patch_raw(
                    APPLIED_MANIFEST_WORKS, applied.name, {"metadata": {"finalizers": finalizers, "uid": applied.uid}}
                )
            self._forget(applied.name)
        return remains

    def _forget(self, key: str) -> None:
        for known in (self._seen, self._failing, self.outcomes):
            known.pop(key, None)
        self._unsettled.discard(key)
        self._watches.want(key, {})

    async def _evict(self, hub: Connected, key: str, applied: Object | None) -> float | None:
        """Delete the objects of a ManifestWork that the hub has lacked for the eviction period."""
        if applied is None or not hub.is_current:
            self._forget(key)
            return POLL_SECONDS if applied is not None else None
        record = applied.decode()
        if (record.get("spec") or {}).get("agentID") != hub.agent_id:
            return None
        annotations = record["metadata"].get("annotations") or {}
        if HUB_RESTORED in annotations:
            return None
        if key.startswith(hub.hash) and await self._is_restored(hub, annotations.get(HUB_VERSION, "")):
            record = await self._patch(key, {"metadata": {"annotations": {HUB_RESTORED: self._stamp()}}})
            self._report_restored(record)
            return None
        started = (record.get("status") or {}).get("evictionStartTime")
        if not started:
            await self._patch(key, {"status": {"evictionStartTime": self._stamp()}}, sub="status")
            return self._eviction.total_seconds()
        left = (datetime.fromisoformat(started) + self._eviction - self._deps.clock.now()).total_seconds()
        if left > 0:
            return left
        log.info("evicting %s: the hub has no such ManifestWork since %s", key, started)
        return self._pause(key, _DELETION_SECONDS) if await self._clean_up(applied, None) else None

    def _stamp(self) -> str:
        return timestamp(self._deps.clock.now())

    async def _is_restored(self, hub: Connected, version: str) -> bool:
        """Return True if the hub's resource version is lower than one that its ManifestWork had."""
        return number(await hub.client.version(MANIFEST_WORKS, hub.namespace)) < number(version or "0")

    def _report_restored(self, record: Raw) -> None:
        message = (
            "the hub was restored from a backup that lacks the ManifestWork: its objects are kept; create the"
            f" ManifestWork again, or remove the annotation {HUB_RESTORED} to have them deleted"
        )
        self._deps.recorder.event(record, "Warning", "HubRestored", message)
