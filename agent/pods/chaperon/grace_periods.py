"""Grace periods: delegates of deleted chaperons end with the grace period that their source asks for.

Watches  PodChaperons that are being deleted and carry `multicluster/grace-period`.
Writes   deletes their delegates with that grace period.

The garbage collector deletes them with the grace period of their spec. The API server keeps the shorter one, in either
order. While a source is unreachable, its last request counts.
"""

import contextlib
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.clusters.deps import Deps
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model.deletion import asked_seconds, told_seconds
from agent.runtime.controller import Controller

_ANNOTATION = ANNOTATION_GRACE_PERIOD.encode()


class GracePeriods(Controller[Key]):
    """Reconciles one chaperon that is being deleted at a time."""

    name = "graceperiods"
    workers = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._chaperons = deps.local.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self._pods = deps.local.informer(PODS, labels=names.LABEL_PARENT_UID)
        self.watch(self._chaperons, lambda chaperon: (chaperon.key,) if _asks(chaperon) else ())
        self.watch(self._pods, lambda pod: ())

    async def reconcile(self, key: Key) -> float | None:
        """Delete the delegate, or shorten its deletion."""
        chaperon, pod = self._chaperons.store.get(key), self._pods.store.get(key)
        if chaperon is None or pod is None or not _asks(chaperon) or not _is_of(pod, chaperon):
            return None
        seconds = told_seconds(chaperon.decode())
        known: dict[str, Any] = pod.decode()
        if seconds is None or (pod.deleting and asked_seconds(known) <= seconds):
            return None
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace=seconds)
        return None


def _asks(chaperon: Object) -> bool:
    return chaperon.deleting and _ANNOTATION in chaperon.raw


def _is_of(pod: Object, chaperon: Object) -> bool:
    return pod.controller is not None and pod.controller.uid == chaperon.uid
