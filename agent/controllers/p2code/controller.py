"""P2CODE's applications: have a cluster chosen for each bundle of one, then apply it here, its pods sent there.

Watches  P2CodeSchedulingManifests, their Placements and what these decide, ManagedClusters with their sets and
         bindings, namespaces, Targets with their virtual nodes and ClusterSummaries, ServiceLinks, the workloads
         that are applied, and what pods say of where they are.
Writes   Placements; the objects of applications, with the rights of an account of their namespace; finalizer, status
         and Events of P2CodeSchedulingManifests.
Absent target: whoever evaluates Placements decides for another cluster, and the mover does what that asks for.
"""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.api import names
from agent.api.kinds import PLACEMENTS, SCHEDULING_MANIFESTS
from agent.api.names.p2code import APPLY_AS, DEFAULT_ACCOUNT, FINALIZER, bundle_placement
from agent.clusters.applying import Applier, Refusal, Remaining
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.controllers.p2code.decide import Plan, View, decide
from agent.controllers.p2code.fit import Room
from agent.controllers.p2code.gather import Surroundings
from agent.controllers.p2code.rooms import Rooms
from agent.controllers.p2code.workloads import Workloads
from agent.kube.discovery import Discovery
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.diff import same
from agent.model.p2code import linked, verdicts
from agent.model.p2code.check import Draft, draft
from agent.model.p2code.detect import Book, Call, calls
from agent.model.p2code.render import Write
from agent.model.p2code.status import LEFT, Decision, Told, said, status
from agent.model.p2code.verdicts import Verdict
from agent.runtime.controller import Controller

QUIET_SECONDS = 0.05
_PASSING_SECONDS = 2.0
_REFUSED_SECONDS = 60.0
"""After which what is refused is tried again: nobody tells when an account may do more, or a foreign object is gone."""
_DRIFT_SECONDS = 300.0
"""After which it is looked at again what has become of the objects."""
_LEFT_SECONDS = 1.0
_PROGRESS_SECONDS = 0.5
"""What becomes of workloads is told at most so often: each change is a write."""
_NAMED = 3
"""Refusals that are told in words."""


@dataclass
class _Memory:
    """What was found out about one of them, for as long as it stays what it is."""

    psm: Key | None = None
    generation: object = None
    draft: Draft | None = None
    calls: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    """What the workload of each bundle calls."""
    applied: object = None
    """What was applied without any refusal, and the annotations that say by whom."""
    until: float = 0.0
    """When it is looked at again all the same."""


class P2CodeRoom(Controller[Key]):
    """Keys are those of P2CodeSchedulingManifests."""

    name = "p2code"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._discovery = Discovery(self._client)
        self._watched = Watched(deps.local.port, SCHEDULING_MANIFESTS, deps.settings.discovery_interval)
        self._memories: dict[str, _Memory] = {}
        self._calling: dict[Key, set[Key]] = {}
        """Service to those whose workloads call it."""
        self._around = Surroundings(deps, lambda key: self.queue.add_after(key, QUIET_SECONDS), self._all)
        self._unfit: set[Key] = set()
        """Those that wait for a target to change."""
        self._rooms = Rooms(deps, self._targets_changed)
        self._workloads = Workloads(deps, self._workload_changed)
        for informer in (self._rooms.nodes, *self._workloads.informers):
            self.watch(informer, lambda obj: ())
        self._watched.subscribe(self._changed, self._all)
        self._watched.wanted(True)
        deps.service_links.subscribe(self._link_changed)
        deps.placement.on_turn(self._all)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one application in line."""
        psm = self._watched.store.get(key) if self._watched.store is not None else None
        if psm is None:
            return None
        only = self._deps.settings.p2code_namespace
        if psm.deleting:
            return await self._delete(psm)
        if only and psm.namespace != only:
            await self._tell(psm, verdicts.wrong_namespace(only), [])
            return None
        # Where there are no Placements, there is no set either, and that is told.
        if not self._around.known and self._deps.placement.mode != "off":
            return None
        if FINALIZER not in psm.finalizers:
            psm = await self._finalizers(psm, [*psm.finalizers, FINALIZER])
        return await self._carry_out(psm, decide(self._view(psm)))

    def _view(self, psm: Object) -> View:
        found = self._draft(psm)
        bundles = found.application.bundling.bundles if found.application is not None else ()
        needed = [bundle_placement(each.name, psm.name) for each in bundles]
        placements = self._around.placements(psm, needed)
        return View(
            psm=psm.decode(),
            draft=found,
            world=self._around.world(psm.namespace),
            placements=placements,
            decisions=self._around.decisions(psm.namespace, placements),
            target=self._around.target,
            now=self._deps.clock.now(),
            rooms=self._room,
            workloads=functools.partial(self._workloads.of, psm.uid),
            calls=self._memories[psm.uid].calls,
            links=self._rows if self._deps.service_links.served else None,
            elsewhere=self._deps.settings.link_namespaces,
        )

    def _room(self, namespace: str, cluster: str) -> Room | None:
        obj = self._around.leading(namespace, cluster)
        return self._rooms.of(obj) if obj is not None else None

    def _rows(self, service: Key) -> list[Mapping[str, Any]]:
        """What ServiceLinks tell of a Service, by the cluster of its callers."""
        links = self._deps.service_links.of(service)
        return [row for link in links for row in linked.rows_of(link.decode())]

    def _draft(self, psm: Object) -> Draft:
        memory = self._memories.setdefault(psm.uid, _Memory())
        raw = psm.decode()
        generation = raw["metadata"].get("generation")
        if memory.draft is None or memory.generation != generation:
            memory.draft = draft(raw.get("spec") or {}, psm.name, self._deps.settings.p2code_precedence)
            memory.psm, memory.generation = psm.key, generation
            memory.calls = _calls(memory.draft)
            for service in {call.service for found in memory.calls.values() for call in found}:
                self._calling.setdefault(service, set()).add(psm.key)
        return memory.draft

    async def _carry_out(self, psm: Object, plan: Plan) -> float | None:
        (self._unfit.add if plan.unfit else self._unfit.discard)(psm.key)
        await self._remove(psm, plan.stale)
        for wanted in plan.create:
            with contextlib.suppress(AlreadyExists):
                self._around.absorb(await self._client.create_raw(PLACEMENTS, wanted))
        for wanted in plan.patch:
            body, name = {"spec": wanted["spec"]}, wanted["metadata"]["name"]
            self._around.absorb(await self._client.patch_raw(PLACEMENTS, name, body, psm.namespace))
        if plan.tell is not None:
            psm = await self._tell(psm, plan.tell, plan.decisions, plan.beside)
        if plan.apply is None or plan.finish is None:
            return plan.again
        again = min(await self._apply(psm, plan, plan.apply, plan.finish), plan.again or _DRIFT_SECONDS)
        await self._remove(psm, plan.surplus)
        return again

    async def _remove(self, psm: Object, placements: Iterable[Mapping[str, Any]]) -> None:
        for each in placements:
            with contextlib.suppress(NotFound):
                metadata = each["metadata"]
                await self._client.delete(PLACEMENTS, metadata["name"], psm.namespace, uid=metadata["uid"])

    async def _apply(self, psm: Object, plan: Plan, objects: Iterable[Write], finish: Verdict) -> float:
        memory, now = self._memories.setdefault(psm.uid, _Memory()), asyncio.get_running_loop().time()
        wanted = (list(objects), _account(psm))
        if memory.applied != wanted or memory.until <= now:
            memory.applied = None
            refusals = await self._applier(psm).apply(wanted[0])
            psm = self._psms.store.get(psm.key) or psm
            if refusals:
                await self._tell(psm, _refused(refusals), plan.decisions, plan.beside)
                passing = any(each.passing for each in refusals)
                return _PASSING_SECONDS if passing else _REFUSED_SECONDS
            memory.applied, memory.until = wanted, now + _DRIFT_SECONDS
        await self._tell(psm, finish, plan.decisions, plan.beside)
        return memory.until - now

    def _applier(self, psm: Object) -> Applier:
        return Applier(self._psms, psm, _account(psm), self._discovery, self._around.is_leaving)

    async def _tell(
        self, psm: Object, verdict: Verdict, decisions: Iterable[Decision] | None, beside: Iterable[Told] = ()
    ) -> Object:
        """Write what it is told, if that is news."""
        raw = psm.decode()
        now = self._deps.clock.now()
        new = status(raw, verdict, list(decisions) if decisions is not None else None, beside, now)
        if same(raw.get("status"), new):
            return psm
        body = {"metadata": {"resourceVersion": psm.version}, "status": new}
        answer = await self._client.patch_raw(SCHEDULING_MANIFESTS, psm.name, body, psm.namespace, sub="status")
        if said(raw) != verdict:
            kind: Literal["Normal", "Warning"] = "Normal" if verdict.state in verdicts.GOOD else "Warning"
            self._deps.recorder.event(raw, kind, verdict.reason, verdict.message)
        return self._psms.absorb(answer)

    async def _finalizers(self, psm: Object, finalizers: list[str]) -> Object:
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": psm.version}}
        raw = await self._client.patch_raw(SCHEDULING_MANIFESTS, psm.name, body, psm.namespace)
        return self._psms.absorb(raw)

    async def _delete(self, psm: Object) -> float | None:
        """Everything goes, what makes pods first; then it may go itself."""
        if FINALIZER not in psm.finalizers:
            return None
        if said(psm.decode()) != verdicts.RELEASING:
            psm = await self._tell(psm, verdicts.DELETING, [])
        if names.annotation(psm.annotations, names.FORCE_REMOVE) != "true":
            left = await self._applier(psm).delete()
            if left:
                await self._tell(self._psms.store.get(psm.key) or psm, verdicts.DELETING, [], [_left(left)])
                return _LEFT_SECONDS
        # Garbage collection takes its time, and one of the same name may come at once.
        await self._remove(psm, self._around.placements(psm, ()).values())
        psm = await self._tell(self._psms.store.get(psm.key) or psm, verdicts.RELEASING, [], [Told(LEFT, "")])
        with contextlib.suppress(NotFound):
            await self._finalizers(psm, [each for each in psm.finalizers if each != FINALIZER])
        return None

    @property
    def _psms(self) -> Informer:
        """What watches them, while they are served."""
        return self._deps.local.informer(SCHEDULING_MANIFESTS)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add(new.key)
        elif old is not None:
            self._memories.pop(old.uid, None)
            self._unfit.discard(old.key)

    def _workload_changed(self, psm_uid: str) -> None:
        memory = self._memories.get(psm_uid)
        if memory is not None and memory.psm is not None:
            self.queue.add_after(memory.psm, _PROGRESS_SECONDS)

    def _targets_changed(self) -> None:
        for key in self._unfit:
            self.queue.add_after(key, QUIET_SECONDS)

    def _link_changed(self, service: Key) -> None:
        for key in self._calling.get(service, ()):
            self.queue.add_after(key, QUIET_SECONDS)

    def _all(self) -> None:
        for psm in self._watched.store or ():
            self.queue.add_after(psm.key, QUIET_SECONDS)


def _calls(drafted: Draft) -> dict[str, Sequence[Call]]:
    """What the workload of each bundle calls; of those without a workload of their own nobody asks."""
    found = drafted.application
    if found is None or found.bundling.mode != "workloads":
        return {}
    book = Book(found.reading.manifests, {})
    return {each.name: calls(each.manifests[0], book) for each in found.bundling.bundles}


def _account(psm: Object) -> str:
    return names.annotation(psm.annotations, APPLY_AS) or DEFAULT_ACCOUNT


def _refused(refusals: list[Refusal]) -> Verdict:
    more = f" (and {len(refusals) - _NAMED} more)" if len(refusals) > _NAMED else ""
    return verdicts.not_applied("; ".join(each.message for each in refusals[:_NAMED]) + more)


def _left(left: list[Remaining]) -> Told:
    def words(each: Remaining) -> str:
        where = f"{each.namespace}/" if each.namespace else ""
        return f"{each.kind} {where}{each.name}" + (f" ({each.message})" if each.message else "")

    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return Told(LEFT, "StillThere", f"waiting for {', '.join(map(words, left[:_NAMED]))}{more}")
