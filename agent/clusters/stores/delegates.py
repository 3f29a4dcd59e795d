"""Delegate pods, read from the target: their chaperon may be deleted before them (`departures`).

They are read before every release of a pod, not only after failures. That costs 1.5 ms of CPU in all processes
together, of the 60 to 80 ms of a pod's deletion.
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any
from weakref import WeakSet

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.stores.deleted_chaperons import Departure
from agent.clusters.target import Target
from agent.kube.client import METADATA_LIST, METADATA_ONE
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.model.podstate import claimed_node


class Delegates:
    """Reads metadata of single delegates from the target's API server. Every method raises KubeError."""

    def __init__(self) -> None:
        self._by_list: WeakSet[Target] = WeakSet()
        """Targets that let their pods be listed, and not be read by name, as Admiralty's do."""

    async def is_there(self, target: Target, pod: Object, departure: Departure | None) -> bool:
        """Return whether a target still has the delegate of a proxy pod whose chaperon has been deleted.

        Without the right to read pods: False, since the target has reported all of its chaperons.
        """
        try:
            found = await self._find(target, pod, departure)
        except Forbidden:
            return False
        return any(_is_of(each, pod, departure) for each in found)

    async def has_node(self, target: Target, chaperon: Mapping[str, Any]) -> bool:
        """Return whether the delegate of a chaperon with these metadata has a node, read from the target.

        Without the right to read pods: False, since chaperons report all nodes.
        """
        fields = f"metadata.name={chaperon['name']},spec.nodeName!="
        return await _has_delegate(chaperon, self._list(target, chaperon["namespace"], fields=fields))

    async def is_made(self, target: Target, chaperon: Mapping[str, Any]) -> bool:
        """Return True if a target has the delegate of a chaperon with these metadata, False without the right
        to read pods.
        """
        return await _has_delegate(chaperon, self._named(target, chaperon["namespace"], chaperon["name"]))

    async def _find(self, target: Target, pod: Object, departure: Departure | None) -> list[Object]:
        if departure is not None:
            return await self._named(target, pod.namespace, departure.name)
        if claimed_node(pod):
            return await self._named(target, pod.namespace, names.chaperon(pod.name, pod.uid))
        # An earlier agent has created it, under a name of its own choice.
        return await self._list(target, pod.namespace, labels=f"{names.LABEL_PARENT_UID}={pod.uid}")

    async def _named(self, target: Target, namespace: str, name: str) -> list[Object]:
        if target not in self._by_list:
            try:
                raw = await target.port.get_raw(PODS, name, namespace, accept=METADATA_ONE)
            except NotFound:
                return []
            except Forbidden:
                self._by_list.add(target)
            else:
                return [Object(PODS, raw)]
        return await self._list(target, namespace, fields=f"metadata.name={name}")

    async def _list(self, target: Target, namespace: str, *, labels: str = "", fields: str = "") -> list[Object]:
        port = target.port
        _, found = await port.list_raw(PODS, namespace, labels=labels, fields=fields, accept=METADATA_LIST)
        return [Object(PODS, bytes(raw)) for raw in found]


async def _has_delegate(chaperon: Mapping[str, Any], pods: Awaitable[Iterable[Object]]) -> bool:
    """Return True if a chaperon with these metadata controls one of the pods, False without the right to read pods."""
    try:
        found = await pods
    except Forbidden:
        return False
    return any(each.controller is not None and each.controller.uid == chaperon["uid"] for each in found)


def _is_of(delegate: Object, pod: Object, departure: Departure | None) -> bool:
    """Return whether a chaperon of the proxy pod controls the pod. False for pods that were orphaned on purpose and for
    foreign pods of that name."""
    owner = delegate.controller
    if owner is None or owner.kind != CHAPERONS.name:
        return False
    known = departure is not None and owner.uid == departure.uid
    return known or delegate.labels.get(names.LABEL_PARENT_UID) == pod.uid
