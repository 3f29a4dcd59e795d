"""Fenced pods of this source: which proxy pods ask for a fence, kept up to date by events."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent.api.names import fencing
from agent.base.listeners import tell
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.fences import is_noted, lease_of
from agent.clusters.stores.namespaces import Namespaces
from agent.clusters.stores.owners import Owners
from agent.clusters.stores.proxies import ProxyPods
from agent.clusters.stores.target_choices import TargetChoices
from agent.kube.store import Key, Object
from agent.model import fence

_ASKS = f'/{fencing.FENCE}"'.encode()

Place = Key
"""Virtual node and namespace: a Lease fences the pods of one place."""


class _Fencing(NamedTuple):
    asks: bool
    """Whether the pod asks for a fence."""
    marked: bool
    """Whether the target's agent stops the delegate without renewals: the chaperon carries the annotation of a
    fence.
    """


class FencedPods:
    """Bound proxy pods that ask for a fence, that have a record of one, or whose chaperon has one; indexed by place.

    Each event costs as much as the pods that it concerns; no event scans all pods.
    """

    def __init__(
        self,
        proxies: ProxyPods,
        chaperons: Chaperons,
        namespaces: Namespaces,
        owners: Owners | None,
        choices: TargetChoices,
    ) -> None:
        self._pods = proxies.informer.store
        self._chaperons = chaperons
        self._proxies, self._choices = proxies, choices
        self._namespaces, self._owners = namespaces, owners
        self._places: dict[Place, dict[Key, _Fencing]] = {}
        self._place_of: dict[Key, Place] = {}
        self._listeners: list[Callable[[Key, Place], None]] = []
        proxies.informer.subscribe(self._pod_changed)
        chaperons.subscribe(self._chaperon_changed)
        namespaces.informer.subscribe(self._namespace_changed)
        for informer in owners.informers.values() if owners is not None else ():
            informer.subscribe(self._owner_changed)

    def on_change(self, listener: Callable[[Key, Place], None]) -> None:
        """Register a listener: called with the pod and its place for each change of a pod that is or was fenced."""
        self._listeners.append(listener)
        for place, pods in self._places.items():
            for pod in pods:
                listener(pod, place)

    def asks(self, pod: Object) -> bool:
        """Return True if a bound pod is to be fenced."""
        found = self._places.get((pod.node_name, pod.namespace), {}).get(pod.key)
        return found is not None and found.asks

    def at(self, place: Place) -> list[Object]:
        """Return the pods of a place that ask for a fence, that have a record of one, or whose chaperon has one."""
        found = (self._pods.get(key) for key in self._places.get(place, ()))
        return [pod for pod in found if pod is not None]

    def needs_renewals(self, place: Place) -> bool:
        """Return True if a place needs renewals: a pod asks for a fence, or would still be stopped without them."""
        return any(each.asks or each.marked for each in self._places.get(place, {}).values())

    def places(self, node_name: str) -> list[Place]:
        """Return the places of a virtual node."""
        return [place for place in self._places if place[0] == node_name]

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        place = self._place_of.pop(pod.key, None)
        if place is not None:
            pods = self._places[place]
            pods.pop(pod.key)
            if not pods:
                del self._places[place]
        if new is not None and new.node_name:
            state = _Fencing(self._is_asking(new), self._is_marked(new))
            if any(state) or is_noted(new):
                place = (new.node_name, new.namespace)
                self._place_of[new.key] = place
                self._places.setdefault(place, {})[new.key] = state
        if place is not None:
            tell(self._listeners, pod.key, place)

    def _is_asking(self, pod: Object) -> bool:
        own = pod.annotations if _ASKS in pod.raw else {}
        owners = self._owners.of(pod).owners if self._owners is not None else ()
        annotated = (owner.annotations if _ASKS in owner.raw else {} for owner in owners)
        return fence.asked((own, *annotated, self._namespaces.annotations(pod.namespace)))

    def _is_marked(self, pod: Object) -> bool:
        return any(
            lease_of(each.chaperon)
            for each in self._chaperons.of(pod.key)
            if each.is_of(pod) and each.target.node_name == pod.node_name and not each.chaperon.deleting
        )

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._pods.get(parent)
        if pod is None or not pod.node_name:
            return
        before = self._places.get((pod.node_name, pod.namespace), {}).get(parent)
        if self._is_marked(pod) != (before is not None and before.marked):
            self._pod_changed(pod, pod)

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        if namespace is not None and _said(old) != _said(new):
            self._again(self._proxies.in_namespace(namespace.name))

    def _owner_changed(self, old: Object | None, new: Object | None) -> None:
        owner = new or old
        # Check pods again that were seen before their owner or its own owners.
        if owner is not None and (old is None or _said(old) != _said(new)):
            self._again(self._choices.pods_of(owner))

    def _again(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            if pod.node_name:
                self._pod_changed(pod, pod)


def _said(obj: Object | None) -> str | None:
    if obj is None or _ASKS not in obj.raw:
        return None
    annotations = obj.annotations
    return fence.said(annotations)
