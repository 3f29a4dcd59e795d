"""Links: every shared Service has a ServiceLink, which reports between which clusters endpoints are reached.

Watches  ServiceLinks, local Services, their EndpointSlices and copies in all clusters, Targets; GatewayPeers of this
  source if gateways are used.
Writes   a ServiceLink named like the Service and owned by it, unless a user has created one; the status of all
  ServiceLinks, at most every half second; an event when Ready changes.
Rows of an absent target report so, and delay no other row. The controllers of endpoints apply the restrictions of
links.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import GATEWAY_PEERS, SERVICE_LINKS, TARGET_KINDS
from agent.api.names.links import GATEWAY_USABLE, SERVICES_SHARED
from agent.base.yielding import in_turns
from agent.clusters.copies.copying import UNSHARED_SECONDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing, key_of
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import gatewaysaid, gatewaytold
from agent.model.diff import same
from agent.model.servicelinks import READY, UNVERIFIED, Pair, accepted, is_untouched, made_for, without_effect
from agent.model.servicerule import firsts, rule, wish
from agent.model.sharedcopies import linked_service
from agent.runtime.controller import Controller
from agent.runtime.task_group import together
from agent.services.links.gather import Gather
from agent.services.links.other_namespaces import LinkedServicesController
from agent.services.links.status import status
from agent.services.links.topology import Cluster, NotYet, Offer, ServiceTopology

Raw = dict[str, Any]

WRITE_SECONDS = 0.5
"""Minimum seconds between writes of a link's status."""
ASK_SECONDS = 10.0
"""Seconds between checks of a driver whose state cannot be watched, while that state is not good."""
_NOT_YET_SECONDS = 1.0


class ServiceLinksController(Controller[Key]):
    """Reconciles the links of one Service, whether the Service exists or not."""

    name = "links"

    def __init__(self, deps: Deps, time: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._deps = deps
        self._time = time
        self._links = deps.service_links
        self._sharing = Sharing(deps)
        self._elsewhere = LinkedServicesController(deps, self._sharing, self.queue.add)
        self._topology = ServiceTopology(deps, self._sharing)
        self._gather = Gather(deps, self._sharing, self._topology, self._elsewhere, self.queue.add_after)
        self._busy_until: dict[Key, float] = {}
        self._unshared: dict[Key, float] = {}
        self._known: WeakKeyDictionary[Target, object] = WeakKeyDictionary()
        self._links.subscribe(self.queue.add)
        self._links.on_rule(self.queue.add, lambda: self._all(""))
        self.watch(self._sharing.services, self._service_changed)
        self.watch(self._sharing.informer(LOCAL), self._slice_changed)
        deps.unmarked_slices.subscribe(self.enqueuing(self._slice_changed))
        self.watch(self._sharing.nodes, lambda node: ())
        self._sharing.on_networks(self._all)
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._all)
        for informer in deps.local.either(TARGET_KINDS).informers:
            self.watch(informer, lambda target: ())
        self._sharing.on_target_objects(_said, self._all)
        self._peers: WeakSet[Target] = WeakSet()
        """Targets whose GatewayPeers are watched."""
        if deps.settings.gateway:
            self._watch_peers(deps.local.informer)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    async def run(self) -> None:
        """Report, ask the clusters, and reconcile the Services of other namespaces, until cancelled."""
        controllers: list[Controller[Any]] = [
            self._gather.findings,
            *([self._elsewhere] if self._deps.settings.link_namespaces else []),
        ]
        await together(super().run(), *(controller.run() for controller in controllers))

    def order(self, key: Key) -> int:
        """Handle Services whose links have no status yet before re-checks."""
        return int(any(b'"conditions"' in link.raw for link in self._links.of(key)))

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile the links of one Service."""
        if not self._links.served:
            return None
        now = self._time()
        service = self._sharing.services.store.get(key)
        if service is None:
            self._unshared.pop(key, None)
        elif (wait := await self._keep(service, now)) is not None:
            return wait
        if (busy := self._busy_until.get(key, 0.0)) > now:
            return busy - now
        found = self._links.of(key)
        if not found:
            self._busy_until.pop(key, None)
            self._gather.findings.forget_service(key)
            return None
        try:
            wrote, again = await self._tell(key, service, found)
        except NotYet:
            return _NOT_YET_SECONDS
        if wrote:
            self._busy_until[key] = self._time() + WRITE_SECONDS
        return again

    async def _keep(self, service: Object, now: float) -> float | None:
        """Create or delete the link of a shared Service; return the seconds until a re-check if that must wait."""
        # A user's link about another Service has the name.
        found = self._links.get(service.key)
        if linked_service(service) is not None:
            return None
        if self._sharing.is_shared(service.key):
            self._unshared.pop(service.key, None)
            if found is None and self._may_be_made(service):
                with contextlib.suppress(AlreadyExists):
                    self._links.absorb(
                        await self._deps.local.client.create_raw(SERVICE_LINKS, made_for(service.decode()))
                    )
            return None
        if found is None or found.deleting or service.deleting or not is_untouched(found.decode(), service.decode()):
            return None
        since = self._unshared.setdefault(service.key, now)
        if since + UNSHARED_SECONDS > now:
            return since + UNSHARED_SECONDS - now
        with contextlib.suppress(NotFound, Conflict):
            await self._deps.local.client.delete(SERVICE_LINKS, found.name, found.namespace, uid=found.uid)
        return WRITE_SECONDS

    def _may_be_made(self, service: Object) -> bool:
        """Return whether a link may be created. One that restricts nothing does not replace one that was deleted with
        its CRD."""
        if self._links.is_deleted(service.key) or self._is_ending(service.namespace):
            return False
        return self._sharing.may_be_exported(service.key)

    def _is_ending(self, namespace: str) -> bool:
        obj = self._deps.namespaces.informer.store.get(("", namespace))
        return obj is None or obj.deleting

    async def _tell(self, key: Key, service: Object | None, found: list[Object]) -> tuple[bool, float | None]:
        """Return whether a status was written, and the seconds until a re-check. Raises NotYet, KubeError."""
        shared = self._sharing.is_shared(key)
        clusters = self._topology.clusters(key)
        known, elsewhere = self._topology.known(clusters), self._topology.known_elsewhere(clusters)
        offers = self._topology.offers(key, clusters) if shared else {}
        wrote, asked = False, list[Pair]()
        original, links = service.decode() if service is not None else None, [link.decode() for link in found]
        of_service = firsts(links)
        async for link, manifest in in_turns(tuple(zip(found, links, strict=True))):
            good = accepted(manifest, original, shared, known, elsewhere, of_service)
            pairs = await self._pairs(key, service, manifest, clusters, offers) if good.status == "True" else []
            affinity = rule(service.annotations if service is not None else {}, [manifest]).affinity
            if note := without_effect(affinity, {pair.driver for pair in pairs}):
                good = replace(good, message=note)
            offered = self._topology.offered(wish(manifest), clusters, offers)
            new = status(manifest, good, pairs, offered, self._deps.clock.now())
            if not same(manifest.get("status"), new):
                await self._write(link, new)
                wrote = True
            asked += [pair for pair in pairs if pair.driver not in ("", names.ENDPOINT_SLICES_DRIVER)]
        interval = self._deps.settings.discovery_interval
        if any(pair.finding.status != "True" and pair.finding.reason != UNVERIFIED for pair in asked):
            interval = min(interval, ASK_SECONDS)
        return wrote, interval if asked else None

    async def _pairs(
        self, key: Key, service: Object | None, link: Raw, clusters: list[Cluster], offers: dict[str, Offer]
    ) -> list[Pair]:
        annotations = service.annotations if service is not None else {}
        return await self._gather.pairs(key, link, rule(annotations, [link]), clusters, offers)

    async def _write(self, link: Object, new: Raw) -> None:
        body = {"metadata": {"resourceVersion": link.version}, "status": new}
        before = link.decode()
        with contextlib.suppress(NotFound):
            raw = await self._deps.local.client.patch_raw(SERVICE_LINKS, link.name, body, link.namespace, sub="status")
            self._links.absorb(raw)
            self._event(before, new)

    def _event(self, link: Raw, new: Raw) -> None:
        """Emit an event when Ready changes, except for a link that works from the start."""
        old: Raw = link.get("status") or {}
        before, after = (find_condition(each.get("conditions"), READY) or {} for each in (old, new))
        if before.get("status") == after["status"] or (not before and after["status"] != "False"):
            return
        well = after["status"] == "True"
        self._deps.recorder.event(
            link,
            "Normal" if well else "Warning",
            str(after["reason"]),
            str(after["message"]) or "endpoints are reached",
        )

    def _service_changed(self, service: Object) -> Iterable[Key]:
        """Return the keys to requeue; called for every local Service, with its state before and after every change."""
        if self._sharing.concerns(service) or self._links.of(service.key):
            yield from self._with_original(service.key)

    def _slice_changed(self, slice: Object) -> Iterable[Key]:
        service = key_of(slice)
        return self._with_original(service) if service is not None else ()

    def _with_original(self, service: Key) -> tuple[Key, ...]:
        """Return the keys of a Service and of the Service whose links have created it."""
        return tuple({service, self._sharing.original(service)})

    def _target_changed(self, target: Target) -> None:
        there = self._deps.targets.get(target.key) is target
        if there and not target.is_self:
            self._summary_changed(target)
        now = (there, target.ready, target.record.state, self._sharing.is_synced(target.node_name))
        if self._known.get(target) != now:
            self._known[target] = now
            self._all(target.namespace)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        copies, slices = self._sharing.attach(target)
        self.watch(copies, lambda copy: self._with_original(copy.key), required=False)
        self.watch(slices, self._slice_changed, required=False)

        self.watch(target.summaries, lambda summary: self._summary_changed(target), required=False)

    def _detached(self, target: Target) -> None:
        self._sharing.detach(target)
        self._gather.forget_node(target.node_name)

    def _summary_changed(self, target: Target) -> Iterable[Key]:
        """Watch the GatewayPeers of a target once it reports gateways."""
        summary = target.told
        has = self._deps.settings.gateway and summary is not None and gatewaytold.read(summary.annotations) is not None
        if has and target not in self._peers:
            self._peers.add(target)
            self._watch_peers(target.informer)
        return ()

    def _watch_peers(self, informer: Callable[..., Informer]) -> None:
        mine = names.children_of(self._deps.cluster_uid)
        informer(GATEWAY_PEERS, labels=mine).subscribe(self._peer_changed)

    def _peer_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = (obj.decode() if obj is not None else None for obj in (old, new))
        obj = new or old
        assert obj is not None
        for service in gatewaysaid.changed(before, after):
            self.queue.add((obj.namespace, service))

    def _all(self, namespace: str) -> None:
        for service in self._sharing.known(namespace) | self._links.services(namespace):
            self.queue.add(service)


def _said(target: Object) -> object:
    conditions = (target.decode().get("status") or {}).get("conditions")
    found = [find_condition(conditions, type) or {} for type in (SERVICES_SHARED, GATEWAY_USABLE, READY)]
    return [(each.get("status"), each.get("reason"), each.get("message")) for each in found]
