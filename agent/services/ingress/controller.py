"""Ingresses: copy each one with a shared backend Service to the targets that have it (wire contract, 7.2).

Watches  local Ingresses and Services, copies of Ingresses in targets.
Writes   the copies; the annotation `global` on Ingresses as long as they are copied.
Copies in an absent target stay, and are updated when it returns.
"""

from collections.abc import Iterable
from typing import Any

from agent.api import names
from agent.api.kinds import INGRESSES, SERVICES
from agent.clusters.copies.copying import CopyController, Item
from agent.clusters.deps import Deps
from agent.kube.store import Object
from agent.model import ingress, sharedcopies
from agent.services.ingress.shared import SharedIngresses, named

Raw = dict[str, Any]

_MARKED = '["' + names.ANNOTATION_GLOBAL + '"]'


class IngressController(CopyController):
    """Reconciles the copy of an Ingress in one target, or (empty virtual node) the annotation of its original."""

    name = "ingress"
    kind = INGRESSES

    def __init__(self, deps: Deps) -> None:
        self._shared = SharedIngresses(deps)
        super().__init__(deps, deps.local.informer(INGRESSES))
        self.watch(self.originals, lambda obj: (("", *obj.key),))
        self.watch(deps.local.informer(SERVICES), lambda service: ())
        self._shared.subscribe(self._look_at)

    def shared(self, original: Object) -> bool:
        """Return whether a backend of the Ingress is a shared Service."""
        return self._shared.has(original)

    def wanted(self, original: Raw) -> Raw:
        """Return the copy that a target should have.

        :raises ValueError: if it names too many Services or Secrets
        """
        live = self.originals.store.get((original["metadata"]["namespace"], original["metadata"]["name"]))
        if live is not None and named(live).flaw:
            raise ValueError(named(live).flaw)
        return sharedcopies.ingress(original, self.deps.settings.cluster_name, self.deps.cluster_uid)

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy, and mark the original as copied."""
        again = await super().reconcile(item)
        original = self.originals.store.get(item[1:])
        if not item[0] and original is not None and not original.deleting:
            await self._mark(original)
        return again

    async def _mark(self, original: Object) -> None:
        annotations = original.annotations
        wanted: dict[str, str | None]
        if self.shared(original) and names.ANNOTATION_GLOBAL not in annotations:
            goes = any(not target.is_self for target in self.deps.targets.serving(original.namespace))
            if not goes or not self.deps.namespaces.is_in_use(original.namespace):
                return
            wanted = {names.ANNOTATION_GLOBAL: "true", names.ANNOTATION_MARKS: _MARKED}
        elif not self.shared(original) and annotations.get(names.ANNOTATION_MARKS) == _MARKED:
            wanted = ingress.unmarked(annotations)
        else:
            return
        body = {"metadata": {"resourceVersion": original.version, "annotations": wanted}}
        raw = await self.deps.local.client.patch_raw(INGRESSES, original.name, body, original.namespace)
        self.originals.absorb(raw)

    def _look_at(self, ingresses: Iterable[Object]) -> None:
        for each in ingresses:
            for node in ("", *self._copies):
                self.queue.add((node, *each.key))
