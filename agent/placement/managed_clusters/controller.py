"""ManagedClusters: create one for each cluster that has a Target, if this agent evaluates Placements.

Watches  Targets, ClusterTargets, their virtual nodes, the ClusterSummary in each target, ManagedClusters, namespaces.
Writes   the agent's own ManagedClusters, on change only, and a namespace of the same name for each.
Absent target: its ManagedCluster becomes Unknown, gets the unreachable taint, and keeps its last status. Decisions
that name it stay until it is lost, after the failover delay.
A ManagedCluster of another controller or a user is never changed, even if a Target has the same cluster. The agent's
own is deleted with the last Target of its cluster. Its namespace stays, as it may hold objects of other controllers.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, MANAGED_CLUSTERS, NAMESPACES, NODES
from agent.api.names import lifecycle
from agent.api.names.ocm import MANAGED_CLUSTER, OURS
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import is_for_its_cluster
from agent.clusters.target import SUMMARY_FIELDS, Target
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from agent.kube.store import Key, Object
from agent.model.target_health import first_term, is_set, standing
from agent.placement.managed_clusters.decide import Create, Lead, View, decide, namespace, settles_in
from agent.placement.managed_clusters.gather import QUIET_SECONDS, ClusterNaming
from agent.placement.managed_clusters.naming import candidates
from agent.placement.managed_clusters.outages import Outages, are_silent
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.placement.managed_clusters.naming import Found

log = logging.getLogger(__name__)

ALL = ""
_VIRTUAL = f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}"


class ManagedClusterController(Controller[str]):
    """Controller with names of ManagedClusters as keys; the key `ALL` computes which of them should exist."""

    name = "managedclusters"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._wanted: Mapping[str, Sequence[Key]] = {}
        """Targets of the cluster by name of a ManagedCluster that the agent creates."""
        self._names: dict[Key, str] = {}
        self._looked: Mapping[Key, Found] = {}
        """Result of the naming that `_wanted` was computed from: nothing is deleted by an outdated one."""
        self._stops: dict[Key, Callable[[], None]] = {}
        self._naming = ClusterNaming(deps, lambda: self.queue.add_after(ALL, QUIET_SECONDS))
        self._outages = Outages()
        self._nodes = deps.local.informer(NODES, labels=_VIRTUAL)
        self._namespaces = deps.namespaces.informer
        for informer in self._naming.targets.informers:
            informer.subscribe(self._target_changed)
            self.watch(informer, lambda target: self._of(target.key))
        self.watch(self._nodes, lambda node: filter(None, [node.labels.get(MANAGED_CLUSTER)]))
        self.watch(self._namespaces, lambda each: [each.name] if each.name in self._wanted else [])
        self._naming.clusters.subscribe(self._cluster_changed, lambda: self.queue.add(ALL))
        deps.targets.on_attach(self._attached)
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: str) -> float | None:
        """Create, update or delete one ManagedCluster by its Targets."""
        if self._deps.placement.mode != "serve" or not self._naming.ready:
            return None
        if key == ALL:
            self._look_again()
            return None
        store = self._naming.clusters.store
        current = store.get(("", key)) if store is not None else None
        leads = self._wanted.get(key)
        if leads:
            return await self._keep(key, leads, current)
        self._outages.note(key, silent=False)
        if current is not None and OURS in current.labels and not current.deleting:
            if self._looked is not self._naming.found:
                self._look_again()
                return None
            await self._remove(current)
        return None

    def _look_again(self) -> None:
        wanted: dict[str, list[Key]] = {}
        self._looked = self._naming.found
        for target, found in self._looked.items():
            if found.ours:
                wanted.setdefault(found.name, []).append(target)
        changed = {name for name in {*wanted, *self._wanted} if wanted.get(name) != self._wanted.get(name)}
        self._wanted = wanted
        self._names = {target: name for name, targets in wanted.items() for target in targets}
        for obj in self._naming.clusters.store or ():
            if OURS in obj.labels and obj.name not in wanted:
                changed.add(obj.name)
        for name in changed:
            self.queue.add(name)

    async def _keep(self, name: str, leads: Sequence[Key], current: Object | None) -> float | None:
        foreign = await self._own_namespace(name)
        if self._wanted.get(name) != leads:
            # Its Targets changed meanwhile, which has queued it again.
            return None
        view = self._view(name, leads, current, foreign=foreign)
        action = decide(view)
        if isinstance(action, Create):
            with self._naming.making(name, view.uid), contextlib.suppress(AlreadyExists):
                # If it exists already, the watch will show by its label whether it is the agent's.
                self._naming.clusters.absorb(await self._client.create_raw(MANAGED_CLUSTERS, action.manifest))
        elif action is not None:
            raw = await self._client.patch_raw(MANAGED_CLUSTERS, name, action.body, sub=action.sub)
            self._naming.clusters.absorb(raw)
        longest = max((lead.failover_after for lead in view.leads if not lead.lost), default=0.0)
        return settles_in(view) or self._outages.due(name, longest)

    async def _own_namespace(self, name: str) -> bool:
        """Create the namespace of a ManagedCluster. Return True if one exists that is not for this cluster."""
        there = self._namespaces.store.get(("", name))
        if there is None:
            try:
                self._namespaces.absorb(await self._client.create_raw(NAMESPACES, namespace(name)))
            except AlreadyExists:
                # The watch will show by its labels whether it is for this cluster.
                return False
            except (Forbidden, Invalid) as error:
                # Only scores need it, and they report that it is missing.
                log.info("namespace %s of a ManagedCluster is not made: %s", name, error)
            return False
        return not is_for_its_cluster(there)

    async def _remove(self, current: Object) -> None:
        """Delete a ManagedCluster, unless a Target that has not connected yet may have that cluster."""
        if any(current.name in candidates(key) for key in self._naming.unknown):
            return
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(MANAGED_CLUSTERS, current.name, uid=current.uid, version=current.version)

    def _view(self, name: str, leads: Sequence[Key], current: Object | None, *, foreign: bool) -> View:
        summaries = [target.summary for key in leads if (target := self._deps.targets.get(key)) is not None]
        summary = next((each for each in summaries if each is not None), None)
        facts = [fact for key in leads if (fact := self._naming.lead(key)) is not None]
        said = [lead for key in leads if (lead := self._lead(key)) is not None]
        self._outages.note(name, silent=are_silent(lead.conditions for lead in said))
        return View(
            name=name,
            uid=facts[0].uid if facts else "",
            leads=said,
            summary=summary.decode() if summary is not None else None,
            current=current.decode() if current is not None else None,
            now=self._deps.clock.now(),
            foreign_namespace=foreign,
            is_self=any(fact.is_self for fact in facts),
            silent_for=self._outages.seconds(name),
        )

    def _lead(self, key: Key) -> Lead | None:
        target = self._naming.targets.get(key)
        if target is None:
            return None
        node = self._nodes.store.get(("", names.virtual_node(*key)))
        found = node.decode() if node is not None else {}
        told = target.decode()
        said, term = standing(told), first_term([target.annotations])
        return Lead(
            namespace=key[0],
            labels=target.labels,
            conditions=(told.get("status") or {}).get("conditions") or (),
            cordoned=target.deleting or bool((found.get("spec") or {}).get("unschedulable")),
            leaving=said.retiring or said.declared,
            version=((found.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""),
            lost=said.lost or is_set(target.annotations, lifecycle.FAILOVER_NOW),
            failover_after=self._deps.settings.failover_after if term is None else term,
        )

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        for name in self._outages.put(obj.key, new.decode() if new is not None else None):
            self.queue.add(name)

    def _of(self, key: Key) -> Iterable[str]:
        name = self._names.get(key)
        return [name] if name is not None else []

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self.queue.add(obj.name)

    def _attached(self, target: Target) -> None:
        informer = target.informer(CLUSTER_SUMMARIES, fields=SUMMARY_FIELDS)
        self._stops[target.key] = self.watch(informer, lambda summary: self._of(target.key), required=False)

    def _detached(self, target: Target) -> None:
        self._stops.pop(target.key, lambda: None)()
