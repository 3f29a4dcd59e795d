"""Reroute: mark Services that select proxy pods as shared, and rewrite their selectors only if necessary.

A *native* Service keeps its user's selector: EndpointSlices of Kubernetes hold the proxy pods, which have the
addresses of their delegates. A *rerouted* one selects the delegates instead, as in Admiralty (wire contract,
7.1): with drivers that share each cluster's own endpoints, with rules that native endpoints would break, and if
a setting or the namespace requests it. In namespaces that share all of their Services, the other Services are
marked, too.

Watches  Services, ServiceLinks, namespaces, proxy pods, the EndpointSlices of shared Services, Targets and
         virtual nodes, all in the source.
Writes   Services: annotations (global, both of Cilium, the list of marks), a label that their slices inherit;
         of rerouted ones also the selector and the annotation original-selector. Writes that the owner of a
         Service keeps reverting are repeated rarely; the marks still count.
Absent target: a switched selector stays. A Service whose endpoints in the target are not published yet waits
(ruling 12).
The annotations of a rerouted Service are written first, so that copies and slices exist before its selector
changes.
"""

import asyncio
from typing import Any

from agent.api import names
from agent.api.kinds import SERVICES
from agent.clusters.deps import Deps
from agent.drivers.handover import KEEP_SECONDS
from agent.drivers.sharing import key_of
from agent.kube.store import Key, Object
from agent.model.diff import merge_patch
from agent.model.namespaces import service_reroute
from agent.model.pattern import InvalidPattern
from agent.model.service import InvalidService, Selector, is_copy, is_native, selects_elected, users_selector
from agent.model.servicemarks import is_switched
from agent.runtime.controller import Controller
from agent.services.reroute.decide import ServiceAndPods, Wait, decide
from agent.services.reroute.gather import Coverage
from agent.services.reroute.selections import Selections
from agent.services.reroute.sharing import Scopes, Sharing
from agent.services.reroute.writer import ServiceWriter

_SOONEST_SECONDS, _LATEST_SECONDS = 0.25, 2.0
"""Shortest and longest pause between two checks for other pods of a Service: a rollout may take only a second."""
_LOOK_FACTOR = 20
"""Within these bounds, the pause as a multiple of the duration of the last check."""
PLAIN_SECONDS = 3.0
"""Seconds for which a restored selector stays at least: until the slices contain its pods."""
_WAIT_SECONDS = 30.0
"""Seconds until a waiting Service is re-checked if no event triggers it."""
_WAIT_BRIEFLY_SECONDS = 0.5
"""Seconds until a re-check if no event can trigger it: for gateways, and ServiceLinks that are not read yet."""
_HINT_SECONDS = 20.0
"""Seconds after which a Service that waits for the endpoints of another cluster gets an event."""


class ServiceRerouteController(Controller[Key]):
    """Reconciles one Service, by its key."""

    name = "svcreroute"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._services = deps.local.informer(SERVICES)
        self._coverage = Coverage(deps)
        proxies = deps.proxies.informer
        self._selections = Selections(proxies, self.queue.add)
        self._sharing = Sharing(deps, proxies, self._turned)
        self._scopes = Scopes()
        self._empty_since: dict[Key, float] = {}
        self._waiting_since: dict[Key, float] = {}
        self._not_led_since: dict[Key, float] = {}
        self._next_look: dict[Key, float] = {}
        self._plain_until: dict[Key, float] = {}
        self._native_until: dict[Key, float] = {}
        """Times until which a Service keeps native endpoints while another driver takes over."""
        self._told: set[Key] = set()
        self._marks = deps.unwritten_marks
        self._writer = ServiceWriter(deps, self._services)
        self.watch(proxies, lambda pod: ())
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._turned)
        self.watch(self._coverage.nodes, lambda node: ())
        self.watch(self._services, self._service_changed)
        self.watch(self._coverage.slices, self._slice_changed)
        for informer in self._coverage.targets.informers:
            self.watch(informer, lambda target: tuple(self._waiting_since))
            informer.subscribe(self._driver_changed)
        deps.service_links.on_rule(self._rule_changed, self._target_changed)
        deps.targets.on_change(lambda target: self._target_changed())

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one Service."""
        found = self._services.store.get(key)
        if found is None or found.deleting or is_copy(found.annotations):
            self._forget(key)
            return None
        service = found.decode()
        try:
            view, lingers, again = await self._view(found, service)
            wanted = decide(view)
        except (InvalidService, InvalidPattern) as error:
            self._deps.recorder.event(service, "Warning", "InvalidService", f"{error}; the Service is left as it is")
            return None
        if patch := merge_patch(service, wanted):
            pause = await self._writer.write(found, wanted, patch)
            if not pause and is_native(found.annotations) and self._coverage.has_other_driver(key):
                self._native_until[key] = asyncio.get_running_loop().time() + KEEP_SECONDS
            return min(filter(None, (pause, lingers)), default=0.0)
        self._marks.drop(found)
        hint = self._hint(key, service, view.wait) if view.rewrites else self._settled(key)
        return min((each for each in (lingers, again, hint) if each is not None), default=None)

    async def _view(self, found: Object, service: dict[str, Any]) -> tuple[ServiceAndPods, float | None, float | None]:
        """Return the input of the decision, the seconds until its proxy pods cease to count, and those until a
        re-check.

        :raises InvalidService, InvalidPattern: if its annotations cannot be read
        """
        key, selector = found.key, users_selector(service)
        proxies, lingers = self._proxies(key, marked=selects_elected(self._marks.annotations(found)))
        if not proxies:
            shared, later = self._is_shared(found)
            return ServiceAndPods(service, False, shared=shared), lingers, later
        if not self._rewrites(found):
            unknown = None if self._deps.service_links.known else _WAIT_BRIEFLY_SECONDS
            return ServiceAndPods(service, True), lingers, unknown
        switched = is_switched(service)
        others, soon = await self._other_pods(key, selector) if switched else (False, None)
        wait = self._wait(found, switched=switched)
        return ServiceAndPods(service, True, True, others, wait), lingers, soon

    def _rewrites(self, service: Object) -> bool:
        """Return True if the selector is to be rewritten."""
        said = self._deps.namespaces.annotations(service.namespace)
        if (mode := service_reroute(said) or self._deps.settings.service_reroute) != "auto":
            return mode == "always"
        return self._coverage.must_rewrite(service) if self._deps.service_links.known else _MARK in service.raw

    def _proxies(self, key: Key, *, marked: bool) -> tuple[bool, float | None]:
        """Return whether the Service counts as selecting proxy pods, and the seconds until that may end."""
        begins = marked or self._deps.namespaces.is_in_use(key[0])
        if begins and self._selections.any(key) and self._scopes.any(key[0]):
            self._empty_since.pop(key, None)
            return True, None
        if not marked:
            return False, None
        now = asyncio.get_running_loop().time()
        rest = self._empty_since.setdefault(key, now) + self._deps.settings.share_linger - now
        return rest > 0, rest if rest > 0 else None

    def _is_shared(self, service: Object) -> tuple[bool, float | None]:
        """Return whether a Service without proxy pods is shared, and the seconds until that may end."""
        if self._sharing.asks(service.namespace):
            return self._scopes.any(service.namespace), None
        lingers = self._sharing.lingers(service)
        return lingers, self._deps.settings.share_linger if lingers else None

    def _wait(self, service: Object, *, switched: bool) -> Wait:
        if not self._deps.service_links.known:
            return Wait.LINKS_UNKNOWN
        if self._coverage.by_name(service.key):
            return Wait.OTHER_NAME
        if switched:
            return Wait.NOTHING
        now = asyncio.get_running_loop().time()
        if now < self._plain_until.get(service.key, 0.0):
            return Wait.OTHER_PODS
        self._plain_until.pop(service.key, None)
        wait = self._coverage.wait(service)
        if wait is Wait.NOTHING and now < self._native_until.get(service.key, 0.0):
            return Wait.NOT_LED
        if wait is not Wait.NOT_LED:
            self._not_led_since.pop(service.key, None)
            return wait
        # While gateways take over, wait as long as the other driver's objects are kept.
        return wait if now < self._not_led_since.setdefault(service.key, now) + KEEP_SECONDS else Wait.NOTHING

    async def _other_pods(self, key: Key, selector: Selector) -> tuple[bool, float | None]:
        """Return whether other pods are selected, read after a proxy pod was deleted, and the seconds until the
        next check.
        """
        now = asyncio.get_running_loop().time()
        wait = self._next_look.get(key, now) - now
        if wait > 0:
            return False, wait
        if not selector or not self._selections.lost(key):
            return False, None
        others = await self._coverage.other_pods(key[0], selector)
        then = asyncio.get_running_loop().time()
        self._next_look[key] = then + min(_LATEST_SECONDS, max(_SOONEST_SECONDS, _LOOK_FACTOR * (then - now)))
        if others:
            self._plain_until[key] = then + PLAIN_SECONDS
        return others, None

    def _hint(self, key: Key, service: dict[str, object], wait: Wait) -> float | None:
        """Emit an event with the reason on a Service that waits for a long time."""
        if wait is Wait.NOTHING:
            return self._settled(key)
        now = asyncio.get_running_loop().time()
        since = self._waiting_since.setdefault(key, now)
        if wait is Wait.NOT_COVERED and now - since >= _HINT_SECONDS and key not in self._told:
            self._told.add(key)
            message = (
                f"the selector is not rerouted yet: {wait}; see the condition ServicesShared of the Targets, and"
                " multicluster/Shared of this Service"
            )
            self._deps.recorder.event(service, "Warning", "NotRerouted", message)
        if wait in (Wait.LINKS_UNKNOWN, Wait.NOT_LED):
            return _WAIT_BRIEFLY_SECONDS
        until = self._plain_until.get(key)
        return _WAIT_SECONDS if until is None else max(0.1, until - now)

    def _settled(self, key: Key) -> float | None:
        self._waiting_since.pop(key, None)
        self._told.discard(key)
        return None

    def _forget(self, key: Key) -> None:
        until = (self._next_look, self._plain_until, self._native_until)
        for known in (self._empty_since, self._waiting_since, self._not_led_since, *until):
            known.pop(key, None)
        self._told.discard(key)
        self._writer.forget(key)

    def _service_changed(self, service: Object) -> tuple[Key, ...]:
        current = self._services.store.get(service.key)
        if current is None or is_copy(service.annotations):
            self._selections.put(service.key, None)
            self._marks.drop(service)
            self._forget(service.key)
            return ()
        if current is not service:
            return (service.key,) if _SHARED in service.raw else ()
        try:
            selector = users_selector(service.decode())
        except (InvalidService, InvalidPattern):
            return (service.key,)
        self._selections.put(service.key, selector)
        concerned = self._selections.any(service.key) or _SHARED in service.raw or self._marks.has(service)
        return (service.key,) if concerned or self._sharing.asks(service.namespace) else ()

    def _slice_changed(self, slice: Object) -> list[Key]:
        key = key_of(slice)
        return [key] if key is not None and key in self._waiting_since else []

    def _driver_changed(self, old: Object | None, new: Object | None) -> None:
        target = new or old
        assert target is not None
        if self._coverage.reason(old) != self._coverage.reason(new):
            self._target_changed()
        if self._scopes.note(old, new):
            self._scope_changed()

    def _turned(self, namespace: str) -> None:
        for service in self._services.store:
            if service.namespace == namespace:
                self.queue.add(service.key)

    def _rule_changed(self, service: Key) -> None:
        if self._selections.any(service):
            self.queue.add(service)

    def _target_changed(self) -> None:
        for service in self._services.store:
            if self._selections.any(service.key):
                self.queue.add(service.key)

    def _scope_changed(self) -> None:
        for service in self._services.store:
            if self._selections.any(service.key) or self._is_shared_wrongly(service):
                self.queue.add(service.key)

    def _is_shared_wrongly(self, service: Object) -> bool:
        shared = names.LABEL_GLOBAL in service.labels
        return shared != self._scopes.any(service.namespace) and self._sharing.asks(service.namespace)


_MARK = names.ANNOTATION_ORIGINAL_SELECTOR.encode()
_SHARED = b"global"
