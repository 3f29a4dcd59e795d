"""GatewayPeers: each represents, in one cluster, another cluster that its gateways call or admit.

Watches  local Services, their EndpointSlices and copies in all clusters, Targets, ClusterSummaries (for addresses of
  gateways), ServiceLinks, and GatewayPeers that this cluster has written.
Writes   GatewayPeers, one for each namespace, cluster and other cluster between which the driver is `gateway`; an event
  at the Target if an API server refuses one.
Nothing is written in an absent target. Its offers stay in other clusters: gateways find out which peers answer. The
same holds while its ClusterSummary is missing or unusable, and for a minute after it stops naming gateways.
"""

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, GATEWAY_PEERS, TARGET_KINDS
from agent.api.names.links import ANNOTATION_GATEWAY, ANNOTATION_TRUSTED_CA
from agent.base.grace import ABSENT_SECONDS
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import is_readable
from agent.clusters.identity import uid_of
from agent.clusters.stores.gateway_reports import GatewayReports
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing, key_of
from agent.kube.errors import Forbidden, NotFound, Unreadable
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import gatewayaffinity
from agent.model.endpoints import is_mirror
from agent.model.gatewaylink import manifest
from agent.model.gatewaytold import Told, digest, is_replacing, read
from agent.runtime.controller import Controller
from agent.services.gateways.changes import At, PendingChanges
from agent.services.gateways.headless import HeadlessOffers
from agent.services.gateways.offers import Offers
from agent.services.gateways.peerwriter import PeerWriter
from agent.services.gateways.withdrawn import AWAY_SECONDS, WithdrawnPeers

Raw = dict[str, Any]

_REFUSED_SECONDS = 5.0
"""Seconds until a re-check whether a target with gateways accepts GatewayPeers: no watch event reports that."""
_UNKNOWN_SECONDS = 0.5
_NAMESPACE = "namespace"


class GatewayPeersController(Controller[At]):
    """Reconciles the GatewayPeers of one cluster and namespace at a time."""

    name = "gatewaypeers"
    workers = 64

    def __init__(self, deps: Deps, grace: float = ABSENT_SECONDS, away: float = AWAY_SECONDS) -> None:
        """:param grace: seconds for which gateways still count that a ClusterSummary no longer names
        :param away: seconds until a GatewayPeer is recreated that a user has deleted"""
        super().__init__()
        self._deps = deps
        self._gateways = GatewayReports(grace)
        self._sharing = Sharing(deps)
        self._known: WeakKeyDictionary[Target, object] = WeakKeyDictionary()
        self._written: dict[str, Informer] = {}
        self._offers = Offers(self._sharing, self._written)
        self._headless = HeadlessOffers(self._sharing, self._offers, self._written)
        self._withdrawn = WithdrawnPeers(deps, self._sharing, away)
        self._writer = PeerWriter(deps, self._sharing, self._withdrawn)
        self._changes = PendingChanges()
        self._mine = names.children_of(deps.cluster_uid)
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={names.SUMMARY_NAME}")
        self.watch(self._summaries, lambda summary: ())
        self._summaries.subscribe(self._summary_changed)
        self._look_at(LOCAL, deps.local.informer(GATEWAY_PEERS, labels=self._mine))
        self.watch(self._sharing.services, self._service_changed)
        self.watch(self._sharing.informer(LOCAL), lambda slice: self._slice_changed(LOCAL, slice))
        deps.unmarked_slices.subscribe(self.enqueuing(lambda slice: self._slice_changed(LOCAL, slice)))
        self._sharing.on_networks(lambda namespace: self._all(""))
        deps.namespaces.on_turn(self._all)
        for informer in (self._sharing.nodes, deps.namespaces.informer, *deps.local.either(TARGET_KINDS).informers):
            self.watch(informer, lambda obj: ())
        self._sharing.on_target_objects(self._sharing.decisive, self._all)
        deps.service_links.on_rule(lambda service: self._of(service[0]), lambda: self._all(""))
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    def lane(self, key: At) -> str:
        """Use one lane per cluster, so that an unresponsive one delays no other."""
        return key[0]

    async def reconcile(self, key: At) -> float | None:
        """Create, update and delete the GatewayPeers of one namespace in one cluster."""
        with self._changes.reconciling(key) as this:
            this.again = await self._tell(key, this.only)
        return this.again

    async def _tell(self, key: At, only: Collection[str] | None) -> float | None:
        """Write peers; return the seconds until a re-check. `only`: names that may have to change, None for all."""
        node, namespace = key
        target = self._deps.targets.by_node(node) if node else None
        if node and (target is None or not target.ready or target.is_self):
            return None
        written = self._written.get(node)
        if written is None:
            return None
        if isinstance(written.error, NotFound):
            self._withdrawn.forget(node)
        if not written.synced.is_set():
            return _REFUSED_SECONDS if isinstance(written.error, (Forbidden, NotFound)) else _UNKNOWN_SECONDS
        read = all(self._sharing.is_synced(each, namespace) for each in (node, LOCAL))
        if not read or not self._deps.service_links.known:
            return _UNKNOWN_SECONDS
        now = asyncio.get_running_loop().time()
        if (busy := self._writer.busy(key, now)) > 0:
            return busy
        existing = {obj.name: obj for obj in written.store.by_index(_NAMESPACE, namespace)}
        if only is not None:
            only = {*only, *self._writer.refused.at(key)}
        wanted, unknown, same = self._wanted(node, namespace, only, existing)
        for name in (away := self._withdrawn.away(key)):
            wanted.pop(name, None)
        affinity = gatewayaffinity.told(self._offers.own_first(namespace))
        for each in wanted.values():
            each["spec"] |= affinity
        wanted = self._writer.dropped.without(node, wanted, now)
        await self._writer.write(key, written, existing, wanted, unknown | same)
        if unknown - existing.keys() or self._offers.handover.concerns(node, namespace, now):
            return _UNKNOWN_SECONDS
        # The CRD may be deleted, and all GatewayPeers with it.
        soon = [min(_REFUSED_SECONDS, *away.values())] if away else []
        later = [*soon, self._writer.refused.due(key, now), self._stand_for(node, namespace)]
        return min((each for each in later if each is not None), default=None)

    def _wanted(
        self, node: str, namespace: str, only: Collection[str] | None, existing: Collection[str] = ()
    ) -> tuple[dict[str, Raw], set[str], set[str]]:
        """Return the wanted peers by name, names of peers of unknown clusters, and unchanged names."""
        found, unknown, same, seen = dict[str, Raw](), set[str](), set[str](), {self._uid(node)}
        if self._told(node) is None:
            return found, set(existing) if self._stands(node) else unknown, same
        self._gateways.forget(node)
        shared = self._offers.of(namespace)
        others = {self._sharing.gateway_peer(each): each for each in (LOCAL, *self._sharing.serving(namespace))}
        # Several Targets may point to the same cluster, which gets one GatewayPeer.
        some = {self._uid(other) for name, other in others.items() if only is None or name in only}
        for name, other in others.items():
            target = self._deps.targets.by_node(other) if other else None
            if other == node or (target is not None and target.is_self):
                continue
            if self._uid(other) not in some:
                same.add(name)
                continue
            if not self._is_known(other):
                unknown.add(name)
                continue
            told, uid = self._told(other), self._uid(other)
            if (told is None or not uid) and name in existing and self._stands(other):
                unknown.add(name)
            if told is None or not uid or uid in seen:
                continue
            self._gateways.forget(other)
            services = self._offers.between(node, other, shared)
            offered = self._offers.between(other, node, shared, counted=False)
            headless = self._headless.told(node, other, namespace, shared)
            if services or offered or headless:
                seen.add(uid)
                found[name] = manifest(name, namespace, self._deps.cluster_uid, uid, told, services, offered, headless)
                found[name]["metadata"]["annotations"] = {
                    ANNOTATION_TRUSTED_CA: self._trusted_ca(node, other, namespace)
                }
        return found, unknown, same

    def _trusted_ca(self, node: str, other: str, namespace: str) -> str:
        """Return the digest of a cluster's CA in another cluster's GatewayPeer; empty if there is none.

        It changes only while the CA is replaced, which saves writes.
        """
        known, told = self._peer(node, other, namespace), self._told(node)
        had = known.annotations.get(ANNOTATION_TRUSTED_CA) if known is not None else None
        if had is not None and told is not None and not is_replacing(told.ca):
            return had
        there = self._peer(other, node, namespace)
        return digest(there.decode()["spec"]["ca"]) if there is not None else ""

    def _peer(self, node: str, other: str, namespace: str) -> Object | None:
        """Return the GatewayPeer that represents one cluster in another one."""
        written = self._written.get(node)
        return written.store.get((namespace, self._sharing.gateway_peer(other))) if written is not None else None

    def _ca_arrived(self, node: str, peer: Object) -> None:
        """Requeue the GatewayPeer in the peer's cluster. It reports that `node` has received the new CA."""
        for other in (LOCAL, *self._sharing.serving(peer.namespace)):
            if other in self._written and self._sharing.gateway_peer(other) == peer.name:
                self._add((other, peer.namespace), self._sharing.gateway_peer(node))

    def _stands(self, node: str) -> bool:
        """Return whether a cluster's gateways still count although its summary is unusable or does not name them."""
        summary = self._summary(node)
        annotations = summary.annotations if summary is not None and is_readable(summary) else None
        return self._gateways.has(node, annotations, time.monotonic(), before=True)

    def _stand_for(self, node: str, namespace: str) -> float | None:
        """Return the seconds until gateways of some cluster stop counting; None if none has a time limit."""
        now = time.monotonic()
        left = [self._gateways.left(each, now) for each in (node, LOCAL, *self._sharing.serving(namespace))]
        return min((each for each in left if each is not None), default=None)

    def _is_known(self, node: str) -> bool:
        """Return whether the reports of a cluster about its gateways and Services have been read."""
        target = self._deps.targets.by_node(node) if node else None
        summary = self._summary(node)
        return summary is not None and self._sharing.is_synced(node) and (not node or target is not None)

    def _summary(self, node: str) -> Object | None:
        target = self._deps.targets.by_node(node) if node else None
        if node:
            return target.told if target is not None else None
        return self._summaries.store.get(("", names.SUMMARY_NAME))

    def _told(self, node: str) -> Told | None:
        summary = self._summary(node)
        try:
            return read(summary.annotations) if summary is not None else None
        except Unreadable:
            return None

    def _uid(self, node: str) -> str:
        if not node:
            return self._deps.cluster_uid
        return uid_of(self._summary(node))

    def _look_at(self, node: str, informer: Informer) -> None:
        """Watch the GatewayPeers that this cluster has written in another one."""

        def changed(old: Object | None, new: Object | None) -> None:
            if new is None and old is not None:
                self._deleted(node, old)
            generations = {each.decode()["metadata"]["generation"] for each in (old, new) if each is not None}
            if old is None or new is None or len(generations) == 2:
                namespace = (new or old).namespace  # type: ignore[union-attr]
                self._add((node, namespace), (new or old).name)  # type: ignore[union-attr]
                if new is not None and (ca := _ca(new)) != _ca(old) and is_replacing(ca):
                    self._ca_arrived(node, new)
                if self._headless.changed(old, new):
                    self._of(namespace)

        informer.store.index(_NAMESPACE, lambda peer: (peer.namespace,))
        self._written[node] = informer
        informer.subscribe(changed)

    def _deleted(self, node: str, peer: Object) -> None:
        target = self._deps.targets.by_node(node) if node else None
        gone = bool(node) and (target is None or not target.ready)
        ending = gone or not self._deps.namespaces.is_in_use(peer.namespace)
        self._withdrawn.deleted((node, peer.namespace), peer.name, peer.uid, ending=ending)

    def _service_changed(self, service: Object) -> Iterable[At]:
        if self._sharing.concerns(service):
            self._of(service.namespace)
        return ()

    def _slice_changed(self, node: str, slice: Object) -> Iterable[At]:
        service = key_of(slice)
        if service is not None and not is_mirror(slice.labels):
            self._of(service[0], of=node)
        return ()

    def _summary_changed(self, old: Object | None, new: Object | None) -> None:
        told = [each.annotations.get(ANNOTATION_GATEWAY) if each is not None else None for each in (old, new)]
        if told[0] != told[1]:
            self._all("")

    def _target_changed(self, target: Target) -> None:
        node, there = target.node_name, self._deps.targets.get(target.key) is target
        told = self._told(node) if there else None
        if told is not None and node not in self._written and target.ready and not target.is_self:
            self._look_at(node, target.informer(GATEWAY_PEERS, labels=self._mine))
        now = (there, target.ready, self._sharing.is_synced(node), told, self._uid(node) if there else "")
        if self._known.get(target) != now:
            self._known[target] = now
            self._writer.forget(node)
            self._all(target.namespace)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        copies, slices = self._sharing.attach(target)
        self.watch(copies, lambda copy: self._copy_changed(target.node_name, copy), required=False)
        self.watch(slices, lambda slice: self._slice_changed(target.node_name, slice), required=False)
        self.watch(target.summaries, lambda summary: self._told_by(target), required=False)

    def _copy_changed(self, node: str, copy: Object) -> Iterable[At]:
        self._of(copy.namespace, of=node if self._sharing.is_shared(copy.key) else None)
        return ()

    def _told_by(self, target: Target) -> Iterable[At]:
        self._target_changed(target)
        return ()

    def _detached(self, target: Target) -> None:
        self._sharing.detach(target)
        self._written.pop(target.node_name, None)
        self._changes.forget(target.node_name)
        self._gateways.forget(target.node_name)
        self._withdrawn.forget(target.node_name)
        self._all(target.namespace)

    def _all(self, namespace: str) -> None:
        for each in {service[0] for service in self._sharing.known(namespace)}:
            self._of(each)
        for node, informer in self._written.items():
            for obj in informer.store:
                if namespace in ("", obj.namespace):
                    self._add((node, obj.namespace))

    def _of(self, namespace: str, of: str | None = None) -> None:
        """Requeue a namespace's peers in all clusters: all of them, or those for cluster `of` and all in `of`."""
        peer = self._sharing.gateway_peer(of) if of is not None else ""
        for node in (LOCAL, *self._sharing.serving(namespace)):
            if node in self._written:
                self._add((node, namespace), peer if node != of else "")

    def _add(self, key: At, peer: str = "") -> None:
        self._changes.add(key, peer)
        self.queue.add(key)


def _ca(peer: Object | None) -> str:
    return str(peer.decode()["spec"]["ca"]) if peer is not None else ""
