"""Endpoints: publish a Service's endpoints in all other clusters that share it.

Watches  EndpointSlices of shared Services in all clusters (selected by an inherited label), the copies of Services,
  Targets.
Writes   the objects of the target's network driver: EndpointSlices of Flotilla, or ServiceExports.
Nothing is written in an absent target. Its endpoints stay in other clusters; if it has not answered for
`endpoints_grace` seconds they become not ready, as those of a lost node.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from weakref import WeakKeyDictionary

from prometheus_client import Gauge

from agent.api import names
from agent.api.kinds import SERVICES
from agent.api.names import mcs
from agent.api.names.links import LOCAL_FIRST
from agent.base.metrics import REGISTRY
from agent.clusters.copies.copying import UNSHARED_SECONDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.choice import all_drivers
from agent.drivers.driver import LOCAL, Driver, Place
from agent.drivers.sharing import Sharing, key_of
from agent.drivers.takedown import Takedown
from agent.kube.errors import Forbidden, KubeError, NotFound, Unreachable, Unreadable
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror
from agent.model.service import is_shared
from agent.model.servicerule import misread
from agent.runtime.controller import Controller

MIRRORS = Gauge(
    "flotilla_mirrored_slices",
    "EndpointSlices that this agent keeps as copies of other clusters' ones, in all clusters, by namespace.",
    ("namespace",),
    registry=REGISTRY,
)
At = tuple[str, str, str]
"""Virtual node (empty: this cluster), namespace and name of a Service."""

WRITE_SECONDS = 0.25
"""Minimum seconds between writes of a Service's slices in one cluster, however fast its pods change."""
FORBIDDEN_SECONDS = 60.0
UNKNOWN_SECONDS = 0.5
"""Seconds until a re-check while ServiceLinks have not been read: without them too much would be published."""
UNREAD_SECONDS = 10.0
"""Seconds until a re-check of a cluster whose stores are not synced: no event reports an empty store."""


class EndpointsController(Controller[At]):
    """Reconciles one Service in one cluster at a time."""

    name = "endpoints"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._sharing = Sharing(deps)
        self._drivers = all_drivers(self._sharing)
        self._takedown = Takedown()
        self._busy_until: dict[At, float] = {}
        self._unshared: dict[Key, float] = {}
        self._told: set[At] = set()
        self._misread: dict[Key, str] = {}
        self._known: WeakKeyDictionary[Target, tuple[object, object, object]] = WeakKeyDictionary()
        """Relevant state of targets, to detect changes."""
        self.watch(self._sharing.services, self._service_changed)
        self._watch_slices(LOCAL)
        deps.unmarked_slices.subscribe(self.enqueuing(lambda slice: self._slice_changed(LOCAL, slice)))
        self.watch(self._sharing.nodes, lambda node: ())
        self._sharing.on_networks(self._all)
        self._sharing.on_own_networks(self._rule_changed)
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._all)
        for informer in self._sharing.targets.informers:
            self.watch(informer, lambda target: ())
        self._sharing.on_target_objects(self._of_driver, self._all)
        deps.unwritten_marks.subscribe(self._marks_changed)
        deps.service_links.on_rule(self._rule_changed, lambda: self._all(""))
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    def order(self, key: At) -> int:
        """Handle Services that were never published before re-checks, if a cluster has both."""
        return int(key in self._busy_until)

    def lane(self, key: At) -> str:
        """Use one lane per cluster, so that an unresponsive one delays no other."""
        return key[0]

    async def reconcile(self, key: At) -> float | None:
        """Reconcile one Service in one cluster."""
        self._count_mirrors(key[1])
        node, service = key[0], key[1:]
        place = self._sharing.place(node, service)
        target = self._deps.targets.by_node(node) if node else None
        if self._sharing.services.store.get(service) is None:
            self._unshared.pop(service, None)
            self._deps.service_links.forget(service)
            self._misread.pop(service, None)
        if place is None and self._sharing.is_synced(node):
            self._forget(key)
        if place is None or (node and (target is None or not target.ready)):
            return None
        if not self._sharing.is_synced(node, service[0]):
            return UNREAD_SECONDS
        if not self._deps.service_links.known:
            return UNKNOWN_SECONDS
        if not self._sharing.stands_for(place):
            return None
        now = asyncio.get_running_loop().time()
        if not self._sharing.is_shared(service):
            since = self._unshared.setdefault(service, now)
            if since + UNSHARED_SECONDS > now:
                return since + UNSHARED_SECONDS - now
            self._takedown.forget_service(node, service)
            again, failed = await self._each(target, lambda driver: driver.teardown(place))
            return self._after(key, again, failed)
        self._unshared.pop(service, None)
        if not self._sharing.may_be_exported(service):
            return None
        if (busy := self._busy_until.get(key, 0.0)) > now:
            return busy - now
        return await self._share(key, place, target)

    async def _share(self, key: At, place: Place, target: Target | None) -> float | None:
        wanted = self._sharing.drivers(place.node, place.service)
        now = asyncio.get_running_loop().time()

        async def act(driver: Driver) -> float | None:
            if driver.reason in wanted:
                self._takedown.has(place, driver.reason)
                await driver.export(place)
                return await driver.import_(place)
            return self._takedown.left(place, driver.reason, wanted, now) or await driver.teardown(place)

        again, failed = await self._each(target, act)
        self._busy_until[key] = asyncio.get_running_loop().time() + WRITE_SECONDS
        self._deps.endpoint_refusals.note(place.node, place.service, failed)
        # If a user has named the driver, its kinds may not be served.
        told = (Forbidden, NotFound) if self._sharing.rule(place.service).driver else Forbidden
        if refused := [error for error in failed if isinstance(error, told)]:
            self._refused(key, place, refused)
            again.append(FORBIDDEN_SECONDS)
        if not failed:
            self._told.discard(key)
        return self._after(key, again, [error for error in failed if error not in refused])

    async def _each(
        self, target: Target | None, act: Callable[[Driver], Awaitable[float | None]]
    ) -> tuple[list[float], list[KubeError]]:
        """Call all drivers, even if some fail; return the seconds until re-checks, and the errors.

        Raises Unreachable, since no other driver can succeed without a connection.
        """
        again, failed = list[float](), list[KubeError]()
        for driver in self._drivers:
            try:
                seconds = await act(driver)
            except Unreachable as error:
                if not isinstance(error, Unreadable):
                    if target is not None:
                        target.probe_now()
                    raise
                failed.append(error)
            except KubeError as error:
                failed.append(error)
            else:
                again += [seconds] if seconds is not None else []
        return again, failed

    def _after(self, key: At, again: list[float], failed: list[KubeError]) -> float | None:
        """Return the seconds until a re-check. Raises the first error, so that the item is retried."""
        soonest = min(again, default=None)
        if failed:
            if soonest is not None:
                self.queue.add_after(key, soonest)
            raise failed[0]
        return soonest

    def _count_mirrors(self, namespace: str) -> None:
        if found := self._sharing.mirrors(namespace):
            MIRRORS.labels(namespace).set(found)
        else:
            with contextlib.suppress(KeyError):
                MIRRORS.remove(namespace)

    def _forget(self, key: At) -> None:
        """Forget a Service that is no longer in a cluster."""
        self._told.discard(key)
        self._deps.endpoint_refusals.note(key[0], key[1:], ())
        self._busy_until.pop(key, None)
        self._takedown.forget_service(key[0], key[1:])
        for driver in self._drivers:
            driver.forget_service(key[0], key[1:])

    def _refused(self, key: At, place: Place, errors: Iterable[KubeError]) -> None:
        if key not in self._told:
            self._told.add(key)
            metadata = {"namespace": key[1], "name": key[2], "uid": self._uid(key)}
            regarding = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name, "metadata": metadata}
            message = f"{place.title} does not know the other clusters' endpoints: {'; '.join(map(str, errors))}"
            self._deps.recorder.event(regarding, "Warning", "EndpointsBlocked", message)

    def _uid(self, key: At) -> str:
        original = self._sharing.services.store.get(key[1:])
        return original.uid if original is not None else ""

    def _everywhere(self, service: Key, *, but: str | None = None) -> Iterable[At]:
        for node in self._sharing.nodes_of(service):
            if node != but:
                yield (node, *service)
        for linked in self._sharing.linked(service):
            for node in self._sharing.nodes_of(linked):
                yield (node, *linked)

    def _service_changed(self, service: Object) -> Iterable[At]:
        """Return the keys to requeue; called for every local Service, with its state before and after every change."""
        if self._sharing.concerns(service):
            self._check(service)
            # These keys are needed after the Service's deletion, too.
            return {(LOCAL, *service.key), *self._everywhere(service.key)}
        return ()

    def _marks_changed(self, service: Object) -> None:
        for key in self._service_changed(service):
            self.queue.add(key)

    def _check(self, service: Object) -> None:
        """Report invalid annotations of a Service once."""
        found = misread(service.annotations) if is_shared(service.annotations) else None
        if found is None:
            self._misread.pop(service.key, None)
        elif self._misread.get(service.key) != found[1]:
            self._misread[service.key] = found[1]
            self._deps.recorder.event(service.decode(), "Warning", "InvalidAnnotation", found[1])

    def _slice_changed(self, node: str, slice: Object) -> Iterable[At]:
        """Enqueue a local slice's Service in all other clusters, a remote one's in all but its own."""
        service = key_of(slice)
        if service is None:
            return ()
        if is_mirror(slice.labels):
            return ((node, *service),)
        # With local affinity, the cluster's own endpoints decide in the cluster itself, too.
        near = self._sharing.rule(service).affinity == LOCAL_FIRST
        if node == LOCAL and not near and self._sharing.is_native(service) and self._has_proxies_only(slice):
            return ()
        return self._everywhere(service, but=None if near else node)

    def _headless_changed(self, slice: Object) -> Iterable[At]:
        """Enqueue the Service that derives from an exported headless one: mirrors of its slices have host names."""
        service = key_of(slice)
        if service is None or is_mirror(slice.labels):
            return ()
        derived = (service[0], mcs.derived(service[1]))
        return self._everywhere(derived) if self._sharing.services.store.get(derived) is not None else ()

    def _at_gateways_changed(self, node: str, slice: Object) -> Iterable[At]:
        """Enqueue the Services of other namespaces that a slice's Service is linked to, in the slice's cluster."""
        service = key_of(slice)
        return [(node, *linked) for linked in self._sharing.linked(service)] if service is not None else ()

    def _has_proxies_only(self, slice: Object) -> bool:
        """Return True if a slice has only endpoints that are not published from the source."""
        endpoints = slice.decode().get("endpoints") or ()
        return all(each.get("nodeName") in self._sharing.away for each in endpoints)

    def _rule_changed(self, service: Key) -> None:
        for key in self._everywhere(service):
            self.queue.add(key)

    def _of_driver(self, target: Object) -> tuple[object, str | None]:
        return self._sharing.decisive(target), names.annotation(target.annotations, names.NETWORK_DRIVER)

    def _target_changed(self, target: Target) -> None:
        """Requeue after a change of a target: all Services if it is new, removed or newly synced; its own Services if
        its endpoints start or stop to count; the target alone if it can be written again."""
        node, there = target.node_name, self._deps.targets.get(target.key) is target
        source = (target.record.unanswered_since is not None, target.ranges)
        now = ((there, self._sharing.is_synced(node)), source, target.ready)
        before, self._known[target] = self._known.get(target, (None, None, None)), now
        if before[0] != now[0]:
            self._all(target.namespace)
        elif before[1] != now[1]:
            self._of(node, self._everywhere)
        elif before[2] != now[2]:
            self._of(node, lambda service: ((node, *service),))

    def _all(self, namespace: str) -> None:
        for service in self._sharing.known(namespace):
            for key in self._everywhere(service):
                self.queue.add(key)

    def _of(self, node: str, keys: Callable[[Key], Iterable[At]]) -> None:
        for service in self._sharing.copied_to(node):
            for key in keys(service):
                self.queue.add(key)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        node = target.node_name
        copies, _ = self._sharing.attach(target)
        self.watch(copies, lambda copy: {(node, *copy.key), *self._everywhere(copy.key)}, required=False)
        self._watch_slices(node)

    def _watch_slices(self, node: str) -> None:
        """Watch the slices of a cluster. No controller waits for those of a target."""
        required = node == LOCAL
        self.watch(self._sharing.informer(node), lambda slice: self._slice_changed(node, slice), required=required)
        if (headless := self._sharing.headless(node)) is not None:
            self.watch(headless, self._headless_changed, required=required)
        if (at_gateways := self._sharing.at_gateways(node)) is not None:
            self.watch(at_gateways, lambda slice: self._at_gateways_changed(node, slice), required=required)

    def _detached(self, target: Target) -> None:
        self._sharing.detach(target)
        self._takedown.forget_cluster(target.node_name)
        self._deps.endpoint_refusals.forget(target.node_name)
        for driver in self._drivers:
            driver.forget_cluster(target.node_name)
        self._told = {key for key in self._told if key[0] != target.node_name}
        self._busy_until = {key: until for key, until in self._busy_until.items() if key[0] != target.node_name}
