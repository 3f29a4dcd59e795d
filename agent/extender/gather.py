"""Reads a candidate and its chaperon from watches, and from the API server if the watches lag behind."""

import asyncio
from collections.abc import Callable

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.cluster import Cluster
from agent.extender.decide import Chaperon, Pod
from agent.extender.wire import BindingArgs
from agent.kube.errors import NotFound, Unreachable
from agent.kube.informer import Informer
from agent.kube.store import Key, Object

_SYNC_SECONDS = 5.0
_UNBOUND = f"spec.schedulerName={names.SCHEDULER_CANDIDATE},spec.nodeName="


class Candidates:
    """Chaperons and unbound candidates of the local cluster.

    Watched from the first request on: the scheduler calls one replica only. Calls `changed` with the key of each
    changed object, and with the UID of a pod that was deleted or bound.
    """

    def __init__(self, local: Cluster, changed: Callable[[Key, str], None]) -> None:
        self._local = local
        self._changed = changed
        self._watched: tuple[Informer, Informer] | None = None

    async def find(self, asked: BindingArgs) -> tuple[Pod | None, Chaperon | None]:
        """Return the pod and the chaperon of a request.

        :raises KubeError: if a read fails
        """
        chaperons, pods = await self._synced()
        key = (asked.namespace, asked.name)
        pod = pods.store.get(key)
        if pod is None or pod.uid != asked.uid:
            pod = await self._read_pod(key)
        chaperon = chaperons.store.get(key)
        if chaperon is None or (pod is not None and (not pod.controller or pod.controller.uid != chaperon.uid)):
            await self.refresh(key)
        return _pod(pod), self.chaperon(key)

    def look(self, asked: BindingArgs, known: Pod | None, vanished: bool) -> tuple[Pod | None, Chaperon | None]:
        """As `find`, from the watches alone; returns `known` for a pod that these have not shown yet."""
        assert self._watched is not None
        key = (asked.namespace, asked.name)
        pod = self._watched[1].store.get(key)
        if pod is not None:
            return _pod(pod), self.chaperon(key)
        return None if vanished else known, self.chaperon(key)

    def chaperon(self, key: Key) -> Chaperon | None:
        """Return the chaperon of a key; None if not in the store."""
        found = self._watched[0].store.get(key) if self._watched else None
        if found is None:
            return None
        return Chaperon(found.uid, found.version, found.labels, found.annotations, found.deleting, found.applied)

    def absorb(self, raw: bytes) -> None:
        """Put the response to a write of a chaperon into the store."""
        if self._watched:
            self._watched[0].absorb(raw)

    async def refresh(self, key: Key) -> bool:
        """Read a chaperon into the store. Return True if it exists.

        :raises KubeError: if the read fails
        """
        namespace, name = key
        try:
            raw = await self._local.client.get_raw(CHAPERONS, name, namespace)
        except NotFound:
            return False
        # A chaperon without this label is not watched, so its stored copy would never be updated.
        if names.LABEL_PARENT_UID not in Object(CHAPERONS, raw).labels:
            return False
        self.absorb(raw)
        return True

    async def _synced(self) -> tuple[Informer, Informer]:
        if self._watched is None:
            chaperons = self._local.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
            pods = self._local.informer(PODS, labels=names.LABEL_PARENT_UID, fields=_UNBOUND)
            self._watched = (chaperons, pods)
            chaperons.subscribe(self._chaperon_changed)
            pods.subscribe(self._pod_changed)
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                for informer in self._watched:
                    await informer.synced.wait()
        except TimeoutError as error:
            raise Unreachable("the extender has not read this cluster's PodChaperons yet: ask again") from error
        return self._watched

    async def _read_pod(self, key: Key) -> Object | None:
        namespace, name = key
        try:
            return Object(PODS, await self._local.client.get_raw(PODS, name, namespace))
        except NotFound:
            return None

    def _chaperon_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (new or old,):
            if obj is not None:
                self._changed(obj.key, "")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._changed(old.key, old.uid)
        elif new is not None:
            self._changed(new.key, "")


def _pod(obj: Object | None) -> Pod | None:
    if obj is None:
        return None
    owner = obj.controller
    if owner is None:
        return Pod(obj.uid, node=obj.node_name, deleting=obj.deleting)
    return Pod(obj.uid, owner.kind, owner.name, owner.uid, obj.node_name, obj.deleting)
