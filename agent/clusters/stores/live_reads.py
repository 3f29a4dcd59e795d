"""What is asked of an API server itself before a pod or a target is let go of, or a chaperon deleted.

A store may be old: the process may have stood still, a watch be late, an answer have been lost. What it does not hold
proves nothing.
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
    """A target that gives no answer meanwhile is probed at once."""
    try:
        yield
    except Unreachable:
        target.probe_now()
        raise


class LiveReads:
    """Reads that bypass the stores. All raise KubeError: then nothing is let go, and silent targets are probed."""

    def __init__(self, local: Client, cluster_uid: str, chaperons: Chaperons, sending: InflightChaperons) -> None:
        self._local = local
        self._cluster_uid = cluster_uid
        self._chaperons = chaperons
        self._sending = sending
        self._delegates = Delegates()

    async def proxy(self, key: Key) -> Object | None:
        """The proxy pod as the API server of this cluster has it, None when there is none."""
        try:
            pod = Object(PODS, await self._local.get_raw(PODS, key[1], key[0]))
        except NotFound:
            return None
        return pod if pod.scheduler_name == names.SCHEDULER_PROXY else None

    async def is_free(self, target: Target, pod: Object) -> bool:
        """Whether a target has neither chaperon nor delegate of a proxy pod, and none is on its way there.

        Where the last chaperon was seen going and none was sent since, only its delegate is asked for, and nobody if it
        had told that this had ended. A target's agent may still be making the delegate of a chaperon that has just
        gone: that is for its garbage collector to find out.
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
        """Seconds after which to ask again whether a target is free of a proxy pod: as long as its chaperon is gone."""
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
        """Whether a target has a chaperon of a proxy pod, which is in the store then."""
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
        """Whether the delegate of a chaperon with these metadata has a node, whatever the chaperon says of it."""
        with _probed(target):
            return await self._delegates.has_node(target, chaperon)

    async def is_made(self, target: Target, chaperon: Mapping[str, Any]) -> bool:
        """Return True if a target is known to have the delegate of a chaperon with these metadata."""
        with _probed(target):
            return await self._delegates.is_made(target, chaperon)

    async def left_in(self, target: Target) -> list[Object]:
        """Chaperons that this cluster has made in a target, without their content."""
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
        """Have a chaperon that was found there in the store, if it is still there."""
        try:
            raw = await target.port.get_raw(CHAPERONS, chaperon.name, chaperon.namespace)
        except NotFound:
            return
        target.chaperons.absorb(raw)

    async def _confirm(self, target: Target) -> None:
        """What another cluster does not have says nothing. Raises Unreachable if one answers in the target's place."""
        if not await target.identity.confirm():
            raise Unreachable(f"another cluster answers in place of target {target.title}")
