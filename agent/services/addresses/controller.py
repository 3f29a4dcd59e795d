"""Addresses: copy the addresses that load balancers and Ingresses have in targets to the originals' annotations.

Watches  local Services and Ingresses, their copies in targets, Targets.
Writes   annotations of originals that ask for it; an event if the request is invalid.
Addresses of absent targets stay. Those of a target that is retired, lost or removed are removed at once, so that DNS is
updated before its pods end.
"""

from collections.abc import Iterable
from typing import Any

from agent.api import names
from agent.api.kinds import INGRESSES, SERVICES, TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import addresses
from agent.model.addresses import InvalidRequest
from agent.model.service import is_copy
from agent.model.target_health import standing
from agent.runtime.controller import Controller

Item = tuple[str, str, str]
"""Kind, namespace and name."""

_ASKING = "addresses"
_KINDS = {kind.name: kind for kind in (SERVICES, INGRESSES)}
_MARKS = (names.PUBLISH_ADDRESSES.encode(), names.ANNOTATION_ADDRESSES.encode())


class AddressesController(Controller[Item]):
    """Reconciles one original at a time that asks for addresses, or did."""

    name = "addresses"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._originals = {kind.name: deps.local.informer(kind) for kind in _KINDS.values()}
        self._copies: dict[str, dict[str, Informer]] = {}
        self._told: dict[Item, str] = {}
        self._targets = deps.local.either(TARGET_KINDS)
        for kind, informer in self._originals.items():
            informer.store.index(_ASKING, _asking)
            self._watch_kind(kind, informer)
        for informer in self._targets.informers:
            self.watch(informer, self._all)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: Item) -> float | None:
        """Update the annotations of one original."""
        kind, namespace, name = key
        found = self._originals[kind].store.get((namespace, name))
        if found is None or found.deleting or is_copy(found.annotations):
            self._told.pop(key, None)
            return None
        original = found.decode()
        try:
            asked = addresses.request(found.annotations)
        except InvalidRequest as error:
            self._complain(key, original, str(error))
            return None
        self._told.pop(key, None)
        patch = addresses.changes(original, asked, self._found(kind, found) if asked.wanted else {})
        if patch:
            body = {"metadata": {"resourceVersion": found.version, "annotations": patch}}
            try:
                raw = await self._deps.local.client.patch_raw(_KINDS[kind], name, body, namespace)
            except NotFound:
                return None
            self._originals[kind].absorb(raw)
        return None

    def _found(self, kind: str, original: Object) -> dict[str, list[str] | None]:
        """Return the addresses of every target that may have a copy and is not leaving; None for unknown ones."""
        staying = [obj for obj in self._targets.serving(original.namespace) if not _is_leaving(obj)]
        nodes = [names.virtual_node(*obj.key) for obj in staying]
        return {node: self._in_target(node, kind, original) for node in nodes}

    def _in_target(self, node: str, kind: str, original: Object) -> list[str] | None:
        target, copies = self._deps.targets.by_node(node), self._copies.get(node)
        if target is not None and target.is_self:
            return []
        if target is None or copies is None or not target.ready or not copies[kind].synced.is_set():
            return None
        copy = copies[kind].store.get(original.key)
        return addresses.of(copy.decode()) if copy is not None else []

    def _complain(self, key: Item, original: dict[str, Any], message: str) -> None:
        if self._told.get(key) != message:
            self._told[key] = message
            self._deps.recorder.event(original, "Warning", "InvalidAnnotation", f"{message}; what is told stays")

    def _all(self, target: object = None) -> list[Item]:
        asking = ((kind, informer.store.by_index(_ASKING, "")) for kind, informer in self._originals.items())
        return [(kind, *original.key) for kind, found in asking for original in found]

    def _target_changed(self, target: Target) -> None:
        if target.ready:
            for item in self._all():
                self.queue.add(item)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        labels = names.children_of(self._deps.cluster_uid)
        self._copies[target.node_name] = {name: target.informer(kind, labels=labels) for name, kind in _KINDS.items()}
        for kind, informer in self._copies[target.node_name].items():
            self._watch_copies(kind, informer)

    def _detached(self, target: Target) -> None:
        self._copies.pop(target.node_name, None)

    def _watch_kind(self, kind: str, informer: Informer) -> None:
        self.watch(informer, lambda original: ((kind, *original.key),) if _asking(original) else ())

    def _watch_copies(self, kind: str, informer: Informer) -> None:
        def changed(copy: Object) -> Iterable[Item]:
            original = self._originals[kind].store.get(copy.key)
            return ((kind, *copy.key),) if original is not None and _asking(original) else ()

        self.watch(informer, changed, required=False)


def _asking(original: Object) -> tuple[str, ...]:
    """Index the originals that ask for addresses, or did."""
    raw = original.raw
    return ("",) if any(mark in raw for mark in _MARKS) else ()


def _is_leaving(target: Object) -> bool:
    found = standing(target.decode())
    return target.deleting or found.retiring or found.lost
