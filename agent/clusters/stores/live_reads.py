"""Reads from an API server before a pod or target is released, or a chaperon deleted.

A store may be stale: the process may have been suspended, a watch delayed, or an answer lost. So an object that
is missing from a store may exist.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.delegates import Delegates
from agent.clusters.stores.deleted_chaperons import Departure
from agent.clusters.stores.inflight_chaperons import InflightChaperons
from agent.clusters.target import Target
from agent.kube.client import METADATA_LIST, Client
from agent.kube.errors import NotFound, Unreachable
from agent.kube.store import Key, Object

_AGAIN_SECONDS = 2.0
_SOONEST_SECONDS, _LATEST_SECONDS = 0.5, 10.0


@contextlib.contextmanager
def _probed(target: Target) -> Iterator[None]:
    """Context manager that probes a target at once if it does not answer."""
    try:
        yield
    except Unreachable:
        target.probe_now()
        raise


class LiveReads:
    """Reads that bypass the stores. All raise KubeError: then nothing is released, and silent targets are probed."""

    def __init__(self, local: Client, cluster_uid: str, chaperons: Chaperons, sending: InflightChaperons) -> None:
        self._local = local
        self._cluster_uid = cluster_uid
        self._chaperons = chaperons
        self._sending = sending
        self._delegates = Delegates()

    async def proxy(self, key: Key) -> Object | None:
        """Return the proxy pod from the local API server, None if it does not exist."""
        try:
            pod = Object(PODS, await self._local.get_raw(PODS, key[1], key[0]))
        except NotFound:
            return None
        return pod if pod.scheduler_name == names.SCHEDULER_PROXY else None

    async def is_free(self, target: Target, pod: Object) -> bool:
        """Return whether a target has neither chaperon nor delegate of a proxy pod, and no chaperon is on its
        way to it.

        If the store showed the deletion of the last chaperon and none was sent since, only the delegate is
        read. If that chaperon had reported the end of the delegate, nothing is read. A target's agent may still
        be creating the delegate of a chaperon that has just been deleted: the target's garbage collector
        deletes that delegate.
        """
        if self._sending.is_under_way(target, pod.uid):
            return False
        departure = self._chaperons.departed(target, pod.uid)
        if departure is None or self._sending.is_unknown(target, pod.uid):
            departure = None
            if await self.has(target, pod.namespace, pod.uid):
                return False
        elif departure.ended:
            return True
        return not await self._has_delegate(target, pod, departure)

    def pause(self, target: Target, pod: Object) -> float:
        """Return the seconds until the next check whether a target is free of a proxy pod: the age of the
        deletion, bounded.
        """
        departure = self._chaperons.departed(target, pod.uid)
        if departure is None:
            return _AGAIN_SECONDS
        return min(max(time.monotonic() - departure.at, _SOONEST_SECONDS), _LATEST_SECONDS)

    async def _has_delegate(self, target: Target, pod: Object, departure: Departure | None) -> bool:
        with _probed(target):
            if await self._delegates.is_there(target, pod, departure):
                return True
            if departure is not None and not target.identity.sure:
                await self._confirm(target)
        return False

    async def has(self, target: Target, namespace: str, uid: str) -> bool:
        """Return whether a target has a chaperon of a proxy pod. If so, it is in the store afterwards."""
        moment = self._sending.moment
        with _probed(target):
            selector = f"{names.LABEL_PARENT_UID}={uid}"
            _, found = await target.port.list_raw(CHAPERONS, namespace, labels=selector)
            if not found:
                await self._confirm(target)
        for raw in found:
            target.chaperons.absorb(bytes(raw))
        self._sending.read(target, moment, uid)
        return bool(found)

    async def has_node(self, target: Target, chaperon: Mapping[str, Any]) -> bool:
        """Return whether the delegate of a chaperon with these metadata has a node, read from the target."""
        with _probed(target):
            return await self._delegates.has_node(target, chaperon)

    async def is_made(self, target: Target, chaperon: Mapping[str, Any]) -> bool:
        """Return True if a target is known to have the delegate of a chaperon with these metadata."""
        with _probed(target):
            return await self._delegates.is_made(target, chaperon)

    async def left_in(self, target: Target) -> list[Object]:
        """Return metadata of the chaperons that this cluster has created in a target."""
        moment = self._sending.moment
        with _probed(target):
            _, found = await target.port.list_raw(
                CHAPERONS,
                target.namespace or None,
                labels=names.children_of(self._cluster_uid),
                accept=METADATA_LIST,
            )
            await self._confirm(target)
        self._sending.read(target, moment)
        return [Object(CHAPERONS, bytes(raw)) for raw in found]

    async def take(self, target: Target, chaperon: Object) -> None:
        """Put a chaperon into the store if it still exists."""
        try:
            raw = await target.port.get_raw(CHAPERONS, chaperon.name, chaperon.namespace)
        except NotFound:
            return
        target.chaperons.absorb(raw)

    async def _confirm(self, target: Target) -> None:
        """Confirm the target's identity: an object missing in another cluster proves nothing.

        Raises Unreachable if another cluster answers in the target's place.
        """
        if not await target.identity.confirm():
            raise Unreachable(f"another cluster answers in place of target {target.title}")
