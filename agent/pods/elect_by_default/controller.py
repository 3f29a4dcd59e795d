"""Election: mirror the annotation `multicluster/elect-by-default` of namespaces to a label of the same name.

Watches  namespaces with the label `multicluster-scheduler=enabled`.
Writes   that label; an event about invalid values, also of other annotations of Flotilla.
A webhook's selector matches labels only, and its failure policy must not affect namespaces that did not ask for it. No
target is involved. While no agent runs, the last label counts, and a namespace annotated meanwhile elects nothing.
"""

import contextlib

from agent.api.kinds import NAMESPACES
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.model.namespaces import is_enabled
from agent.pods.elect_by_default.decide import decide
from agent.runtime.controller import Controller


class ElectByDefaultController(Controller[str]):
    """Keys are names of namespaces."""

    name = "election"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._recorder = deps.recorder
        self._namespaces = deps.namespaces.informer
        self._complaints: dict[str, str] = {}
        self.watch(self._namespaces, lambda namespace: (namespace.name,))

    async def reconcile(self, key: str) -> float | None:
        """Set the label of one namespace from its annotation."""
        namespace = self._namespaces.store.get(("", key))
        if namespace is None or namespace.deleting or not is_enabled(namespace.labels):
            self._complaints.pop(key, None)
            return None
        change = decide(namespace.annotations, namespace.labels)
        if change.patch is not None:
            body = {"metadata": {"labels": change.patch}}
            with contextlib.suppress(NotFound):
                self._namespaces.absorb(await self._client.patch_raw(NAMESPACES, key, body))
        if change.complaint and self._complaints.get(key) != change.complaint:
            self._recorder.event(namespace.decode(), "Warning", "InvalidAnnotation", change.complaint)
        self._complaints[key] = change.complaint
        return None
