"""Linked Services: callers in other namespaces, named by ServiceLinks, get a Service of their own.

Watches  ServiceLinks, local Services and namespaces, Targets.
Writes   local Services without a selector in the namespaces that links name; they are shared as any other. Targets thus
  have copies, and both have the endpoints of the linked Service.
The copy in an absent target waits until it returns. Foreign Services are never touched.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from agent.api.kinds import SERVICES, TARGET_KINDS
from agent.api.names.links import LABEL_LINK_OF
from agent.clusters.copies.copying import UNSHARED_SECONDS
from agent.clusters.deps import Deps
from agent.drivers.sharing import Sharing
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model.diff import merge_patch
from agent.model.servicelinks import Finding
from agent.model.servicerule import wish
from agent.model.sharedcopies import MERGED, linked, linked_service
from agent.runtime.controller import Controller

Raw = dict[str, Any]

_AGAIN_SECONDS = 1.0


class LinkedServicesController(Controller[Key]):
    """Reconciles one created Service."""

    name = "linkedservices"

    def __init__(self, deps: Deps, sharing: Sharing, changed: Callable[[Key], None]) -> None:
        super().__init__()
        self._deps = deps
        self._sharing = sharing
        self._changed = changed
        self._links = deps.service_links
        self._wanted: dict[Key, set[Key]] = {}
        """Services of other namespaces that links name, by linked Service."""
        self._problems: dict[tuple[Key, Key], Finding] = {}
        self._unshared: dict[Key, float] = {}
        self._links.on_rule(self._look, self._all)
        self.watch(sharing.services, self._service_changed)
        self.watch(deps.namespaces.informer, lambda namespace: self._in(namespace.name))
        for informer in deps.local.either(TARGET_KINDS).informers:
            self.watch(informer, lambda target: ())
            informer.subscribe(self._target_changed)

    def problem(self, service: Key, original: Key) -> Finding | None:
        """Return why callers in another namespace cannot use a created Service, None if they can."""
        found = self._sharing.services.store.get(service)
        if problem := self._problems.get((service, original)):
            return problem
        missing = found is None or self._sharing.original(service) != original
        return Finding("False", "Pending", "its Service has not been made yet") if missing else None

    async def reconcile(self, key: Key) -> float | None:
        """Create, update or delete one Service as links request."""
        if not self._links.served:
            return None
        live = self._sharing.services.store.get(key)
        asked = sorted(each for each, found in self._wanted.items() if key in found and self._sharing.is_shared(each))
        present = linked_service(live) if live is not None else None
        chosen = present if present in asked else asked[0] if asked else None
        self._tell(key, {each: found for each in asked if (found := self._refusal(key, each, chosen, live))})
        if chosen is None:
            return await self._end(key, present, live)
        self._unshared.pop(key, None)
        if (key, chosen) in self._problems:
            return None
        try:
            return await self._make(key, chosen, live)
        except ValueError as error:
            self._tell(key, {chosen: Finding("False", "InvalidService", str(error))})
            return None

    async def _end(self, key: Key, present: Key | None, live: Object | None) -> float | None:
        """Delete an unwanted Service. If its original is merely unshared, wait first, because it may soon be
        shared again.
        """
        if live is None or LABEL_LINK_OF not in live.labels or live.deleting:
            self._unshared.pop(key, None)
            return None
        service = self._sharing.services.store.get(present) if present is not None else None
        if service is not None and not service.deleting and key in self._wanted.get(service.key, ()):
            now = asyncio.get_running_loop().time()
            if (wait := self._unshared.setdefault(key, now) + UNSHARED_SECONDS - now) > 0:
                return wait
        with contextlib.suppress(NotFound, Conflict):
            await self._deps.local.client.delete(SERVICES, key[1], key[0], uid=live.uid)
        return None

    def _refusal(self, key: Key, original: Key, chosen: Key | None, live: Object | None) -> Finding | None:
        namespace = self._deps.namespaces.get(key[0])
        if namespace is None or namespace.deleting:
            return Finding("False", "NamespaceMissing", f"there is no namespace {key[0]} here: create it")
        if live is not None and LABEL_LINK_OF not in live.labels:
            title = f"Service {'/'.join(key)} is there and not made for a ServiceLink"
            return Finding("False", "Conflict", f"{title}: delete it, or take the namespace out of spec.to")
        if original != chosen and chosen is not None:
            title = f"Service {'/'.join(key)} leads to {'/'.join(chosen)} already"
            return Finding(
                "False", "Conflict", f"{title}: take the namespace out of spec.to of one of the ServiceLinks"
            )
        return None

    async def _make(self, key: Key, original: Key, live: Object | None) -> float | None:
        service = self._sharing.services.store.get(original)
        if service is None:
            return None
        links = [link.decode() for link in sorted(self._links.of(original), key=lambda link: link.name)]
        asking = [(link, wish(link)) for link in links if any(ns == key[0] for _, ns in wish(link).elsewhere)]
        if not asking:
            return None
        ports = [found.ports for _, found in asking]
        some = frozenset[int]() if None in ports else frozenset[int]().union(*(each or () for each in ports))
        named = {cluster for _, found in asking for cluster, ns in found.elsewhere if ns == key[0]}
        nodes = [node for node in self._sharing.serving(key[0]) if not named.isdisjoint(self._sharing.called(node))]
        wanted = linked(service.decode(), key[0], asking[0][0]["metadata"]["uid"], nodes, some)
        client = self._deps.local.client
        if live is None:
            with contextlib.suppress(AlreadyExists):
                self._sharing.services.absorb(await client.create_raw(SERVICES, wanted))
            return None
        found = live.decode()
        if MERGED.must_be_replaced(found, wanted):
            with contextlib.suppress(NotFound, Conflict):
                await client.delete(SERVICES, key[1], key[0], uid=live.uid)
            return _AGAIN_SECONDS
        if not MERGED.same(found, wanted):
            body = merge_patch(found, MERGED.revised(found, wanted))
            body.setdefault("metadata", {})["resourceVersion"] = live.version
            with contextlib.suppress(NotFound):
                self._sharing.services.absorb(await client.patch_raw(SERVICES, key[1], body, key[0]))
        return None

    def _tell(self, key: Key, problems: dict[Key, Finding]) -> None:
        """Requeue the links of Services whose problems have changed."""
        before = {original: found for (service, original), found in self._problems.items() if service == key}
        for original in before.keys() | problems.keys():
            if before.get(original) != problems.get(original):
                self._changed(original)
            self._problems.pop((key, original), None)
        self._problems.update({(key, original): found for original, found in problems.items()})

    def _look(self, original: Key) -> None:
        """Requeue the Services that links of this original may select."""
        before, now = self._wanted.pop(original, set()), self._sharing.linked(original)
        if now:
            self._wanted[original] = now
        for key in before | now:
            self.queue.add(key)

    def _all(self) -> None:
        for original in self._links.services("") | self._wanted.keys():
            self._look(original)
        for service in self._sharing.services.store:
            if LABEL_LINK_OF in service.labels:
                self.queue.add(service.key)

    def _service_changed(self, service: Object) -> Iterable[Key]:
        if self._links.of(service.key) or service.key in self._wanted:
            self._look(service.key)
        is_linked = LABEL_LINK_OF in service.labels or any(service.key in found for found in self._wanted.values())
        return (service.key,) if is_linked else ()

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        """Requeue only when a Target appears or disappears; its status does not matter."""
        for key in self._every() if old is None or new is None else ():
            self.queue.add(key)

    def _in(self, namespace: str) -> Iterable[Key]:
        return [key for key in self._every() if key[0] == namespace]

    def _every(self) -> Iterable[Key]:
        return list(set[Key]().union(*self._wanted.values()))
