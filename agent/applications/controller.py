"""P2CODE's applications: create a Placement per bundle, then apply its objects with the chosen target.

Watches  P2CodeSchedulingManifests with their Placements and PlacementDecisions; ManagedClusters with their sets and
         bindings; Targets with their virtual nodes and ClusterSummaries; namespaces, Services and ServiceLinks;
         applied workloads and the metadata of other applied objects; conditions and nodes of proxy pods.
         ManifestWorks, on a hub of Open Cluster Management, while any application is distributed by them.
Writes   Placements; the objects of applications or their ManifestWorks, with the rights of a service account in
         their namespace; finalizer, status and Events of P2CodeSchedulingManifests.
Absent target: the evaluator of Placements decides for another cluster, and the mover moves the pods there.
"""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from agent.api import names
from agent.api.kinds import PLACEMENTS, SCHEDULING_MANIFESTS
from agent.api.names.p2code import APPLY_AS, DEFAULT_ACCOUNT, DISTRIBUTION, FINALIZER, WORKS, bundle_placement
from agent.applications.analyst import Analyst
from agent.applications.applied import Ancillaries
from agent.applications.capacity import Capacities
from agent.applications.conditions import NOTHING_LEFT, is_work, objects_left, objects_refused
from agent.applications.decide import decide
from agent.applications.fit import Capacity
from agent.applications.gather import Surroundings
from agent.applications.manifestworks import ManifestWorks
from agent.applications.memory import Memory
from agent.applications.paths import Paths
from agent.applications.plan import Plan, View
from agent.applications.render import Write
from agent.applications.services import LiveServices
from agent.applications.workloads import Workloads
from agent.clusters.copies.applying import Applier
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.kube.discovery import Discovery
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.diff import same
from agent.model.p2code import linked, verdicts
from agent.model.p2code.check import Draft
from agent.model.p2code.status import Decision, Told, decided, said, status
from agent.model.p2code.verdicts import Verdict
from agent.runtime.controller import Controller

QUIET_SECONDS = 0.05
_PASSING_SECONDS = 2.0
_REFUSED_SECONDS = 60.0
"""Retry interval after a refusal: no watch reports new rights of the account, or the deletion of a foreign object."""
_DRIFT_SECONDS = 300.0
"""Interval for applying again objects of kinds that are not watched."""
TOUCHED_SECONDS = 10.0
"""Minimum time between two applies that correct another writer's change, as the writer may repeat it."""
_LEFT_SECONDS = 1.0
_PROGRESS_SECONDS = 0.5
"""Minimum interval for reports about workloads: each change is a write."""


class P2CodeController(Controller[Key]):
    """Controller with the keys of P2CodeSchedulingManifests."""

    name = "p2code"
    workers = 16
    lane_width = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._discovery = Discovery(self._client)
        self._watched = Watched(deps.local.port, SCHEDULING_MANIFESTS, deps.settings.discovery_interval)
        self._memories: dict[str, Memory] = {}
        self._around = Surroundings(deps, lambda key: self.queue.add_after(key, QUIET_SECONDS), self._all)
        self._unfit: set[Key] = set()
        """Applications that wait for a target to change."""
        self._paths = Paths(deps, self._around.leading)
        self._capacities = Capacities(deps, self._targets_changed)
        self._workloads = Workloads(deps, self._object_changed)
        self._works = ManifestWorks(deps, self._object_changed, self._all)
        self._ancillaries = Ancillaries(deps, self._object_changed)
        self._services = LiveServices(deps, self._service_changed)
        self._analyst = Analyst(self._services, deps.settings.p2code_precedence)
        watched = (self._capacities.nodes, self._services.informer, *self._workloads.informers, *self._around.informers)
        for informer in watched:
            self.watch(informer, lambda obj: ())
        self._watched.subscribe(self._changed, self._all)
        self._watched.wanted(True)
        deps.service_links.subscribe(self._link_changed)
        deps.placement.on_turn(self._all)

    def lane(self, key: Key) -> str:
        """Return the namespace, so that analysing its applications leaves workers for other namespaces."""
        return key[0]

    async def reconcile(self, key: Key) -> float | None:
        """Apply or delete one application, and update its status."""
        psm = self._watched.store.get(key) if self._watched.store is not None else None
        if psm is None:
            return None
        only = self._deps.settings.p2code_namespace
        if psm.deleting:
            return await self._delete(psm)
        if only and psm.namespace != only:
            await self._tell(psm, verdicts.wrong_namespace(only), [])
            return None
        # In mode `off` Placements are never known: go on, so that the missing cluster set is reported.
        if not self._around.known and self._deps.placement.mode != "off":
            return None
        if FINALIZER not in psm.finalizers:
            psm = await self._finalizers(psm, [*psm.finalizers, FINALIZER])
        memory = self._memories.setdefault(psm.uid, Memory())
        found = await self._analyst.draft(psm, memory, self._distribution(psm))
        return await self._carry_out(psm, decide(self._view(psm, found, memory)))

    def _view(self, psm: Object, found: Draft, memory: Memory) -> View:
        bundles = found.application.bundling.bundles if found.application is not None else ()
        needed = [bundle_placement(each.name, psm.name) for each in bundles]
        placements = self._around.placements(psm, needed)
        return View(
            psm=psm.decode(),
            draft=found,
            world=self._around.world(psm.namespace),
            placements=placements,
            decisions=self._around.decisions(psm.namespace, placements),
            target=functools.cache(self._around.target),
            now=self._deps.clock.now(),
            capacities=functools.cache(self._capacity),
            workloads=self._workloads.of(psm.uid),
            calls=memory.calls.of,
            unknown_calls=memory.calls.unknown,
            live=memory.live or {},
            links=functools.cache(self._rows) if self._deps.service_links.served else None,
            path=functools.cache(self._paths.between),
            elsewhere=self._deps.settings.link_namespaces,
            distribution=self._distribution(psm),
            hub=self._works.hub(psm.uid),
        )

    def _capacity(self, namespace: str, cluster: str) -> Capacity | None:
        obj = self._around.leading(namespace, cluster)
        return self._capacities.of(obj) if obj is not None else None

    def _rows(self, service: Key) -> list[Mapping[str, Any]]:
        """Return the rows of a Service's ServiceLinks, one per cluster of its callers."""
        links = self._deps.service_links.of(service)
        return [row for link in links for row in linked.rows_of(link.decode())]

    def _distribution(self, psm: Object) -> str:
        return names.annotation(psm.annotations, DISTRIBUTION) or self._deps.settings.p2code_distribution

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
        memory, now = self._memories.setdefault(psm.uid, Memory()), asyncio.get_running_loop().time()
        wanted = (list(objects), plan.keep, _account(psm))
        if memory.applied != wanted or memory.until <= now:
            memory.applied, touches = None, memory.touches
            applier, works = self._applier(psm), self._distribution(psm) == WORKS
            # After a change of distribution the clusters would otherwise have the objects of both.
            if others := await applier.delete(lambda place: is_work(place) != works):
                await self._tell(
                    psm, plan.tell or verdicts.PLACED, plan.decisions, [*plan.beside, objects_left(others)]
                )
                return _LEFT_SECONDS
            # A ManifestWork that the watch has not shown yet might hold a workload that must not run twice.
            if plan.seen is not None and not await applier.there(is_work) <= plan.seen:
                return _PROGRESS_SECONDS
            refusals = await applier.apply(
                wanted[0], lambda place, name: is_work(place) and (place.namespace, name) in plan.keep
            )
            psm = self._psms.store.get(psm.key) or psm
            if refusals:
                await self._tell(psm, objects_refused(refusals), plan.decisions, [*plan.beside, NOTHING_LEFT])
                passing = any(each.passing for each in refusals)
                return _PASSING_SECONDS if passing else _REFUSED_SECONDS
            memory.applied, memory.since = wanted, now
            memory.until = now + (_DRIFT_SECONDS if memory.touches == touches else TOUCHED_SECONDS)
        await self._tell(psm, finish, plan.decisions, [*plan.beside, NOTHING_LEFT])
        return memory.until - now

    def _applier(self, psm: Object) -> Applier:
        return Applier(self._psms, psm, _account(psm), self._discovery, self._around.is_leaving)

    async def _tell(
        self, psm: Object, verdict: Verdict, decisions: Iterable[Decision] | None, beside: Iterable[Told] = ()
    ) -> Object:
        """Write the status of an application if it changed, with an Event if the verdict or decisions changed."""
        raw = psm.decode()
        now = self._deps.clock.now()
        new = status(raw, verdict, list(decisions) if decisions is not None else None, beside, now)
        if same(raw.get("status"), new):
            return psm
        body = {"metadata": {"resourceVersion": psm.version}, "status": new}
        answer = await self._client.patch_raw(SCHEDULING_MANIFESTS, psm.name, body, psm.namespace, sub="status")
        if said(raw) != verdict or decided(raw) != decided({"status": new}):
            kind: Literal["Normal", "Warning"] = "Normal" if verdict.state in verdicts.GOOD else "Warning"
            self._deps.recorder.event(raw, kind, verdict.reason, verdict.message)
        return self._psms.absorb(answer)

    async def _finalizers(self, psm: Object, finalizers: list[str]) -> Object:
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": psm.version}}
        raw = await self._client.patch_raw(SCHEDULING_MANIFESTS, psm.name, body, psm.namespace)
        return self._psms.absorb(raw)

    async def _delete(self, psm: Object) -> float | None:
        """Delete workloads first, then other objects and Placements; remove the finalizer last."""
        if FINALIZER not in psm.finalizers:
            return None
        if said(psm.decode()) != verdicts.RELEASING:
            psm = await self._tell(psm, verdicts.DELETING, [])
        forced = names.annotation(psm.annotations, names.FORCE_REMOVE) == "true"
        remaining = await self._applier(psm).delete(at_once=forced)
        if remaining and not forced:
            await self._tell(self._psms.store.get(psm.key) or psm, verdicts.DELETING, [], [objects_left(remaining)])
            return _LEFT_SECONDS
        # Do not leave Placements to garbage collection: a manifest of the same name may be created at once.
        await self._remove(psm, self._around.placements(psm, ()).values())
        psm = await self._tell(self._psms.store.get(psm.key) or psm, verdicts.RELEASING, [], [NOTHING_LEFT])
        with contextlib.suppress(NotFound):
            await self._finalizers(psm, [each for each in psm.finalizers if each != FINALIZER])
        return None

    @property
    def _psms(self) -> Informer:
        """Informer of P2CodeSchedulingManifests, while the API server serves them."""
        return self._deps.local.informer(SCHEDULING_MANIFESTS)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._works.asked(new.key, asks=self._distribution(new) == WORKS)
            self.queue.add(new.key)
        elif old is not None:
            self._works.asked(old.key, asks=False)
            self._memories.pop(old.uid, None)
            self._unfit.discard(old.key)

    def _object_changed(self, psm_uid: str, *, touched: bool) -> None:
        memory = self._memories.get(psm_uid)
        if memory is None or memory.psm is None:
            return
        if touched:
            memory.touches += 1
            memory.until = min(memory.until, memory.since + TOUCHED_SECONDS)
        self.queue.add_after(memory.psm, _PROGRESS_SECONDS)

    def _targets_changed(self) -> None:
        for key in self._unfit:
            self.queue.add_after(key, QUIET_SECONDS)

    def _link_changed(self, service: Key) -> None:
        for memory in self._memories.values():
            if memory.psm is not None and service in memory.called:
                self.queue.add_after(memory.psm, QUIET_SECONDS)

    def _service_changed(self, namespace: str) -> None:
        for memory in self._memories.values():
            if memory.psm is not None and namespace in memory.namespaces:
                self.queue.add_after(memory.psm, QUIET_SECONDS)

    def _all(self) -> None:
        for psm in self._watched.store or ():
            self.queue.add_after(psm.key, QUIET_SECONDS)


def _account(psm: Object) -> str:
    return names.annotation(psm.annotations, APPLY_AS) or DEFAULT_ACCOUNT
