"""EndpointSlices in the source that lack the label of shared Services, by namespace.

The EndpointSlice controller copies a Service's labels to its slices, and the agent watches slices of shared Services by
one of these labels. A slice lacks it in two cases: the owner of the Service keeps removing the label, or a user writes
the slice, since the Service has no selector. So the agent watches all slices in the namespaces of such Services.
"""

import asyncio

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.clusters.cluster import Cluster
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.kube.subscribers import Subscriber
from agent.model.service import has_endpoints_by_hand

LINGER_SECONDS = 60.0
"""Seconds that a namespace is still watched once its marks are written: slices get their labels later."""


class UnmarkedSlices:
    """One informer for each of these namespaces."""

    def __init__(self, local: Cluster, marks: UnwrittenMarks) -> None:
        self._local = local
        self._marks = marks
        self._by_hand: dict[str, set[str]] = {}
        """Names of shared Services whose endpoints a user writes, by namespace."""
        self._informers: dict[str, Informer] = {}
        self._told: set[str] = set()
        """Namespaces with at least one slice in the store: subscribers get slices before the informer is synced."""
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._subscribers: list[Subscriber] = []
        marks.subscribe(lambda service: self._decide(service.namespace))
        local.informer(SERVICES).subscribe(self._service_changed)

    def of(self, namespace: str) -> Informer | None:
        """Return the informer of all slices of a namespace; None if it has not been read, or the label is enough."""
        return self._informers.get(namespace) if self.is_known(namespace) else None

    def is_known(self, namespace: str) -> bool:
        """Return False while slices of a namespace may lack the label and have not been read."""
        informer = self._informers.get(namespace)
        return informer is None or namespace in self._told or informer.synced.is_set()

    def is_by_hand(self, service: Key) -> bool:
        """Return whether a shared Service has no selector, so that a user writes its endpoints."""
        return service[1] in self._by_hand.get(service[0], ())

    @property
    def by_hand(self) -> list[Key]:
        """Shared Services without a selector."""
        return [(namespace, name) for namespace, found in self._by_hand.items() for name in found]

    def subscribe(self, subscriber: Subscriber) -> None:
        """Register a subscriber, called like an informer's for each slice of these namespaces."""
        self._subscribers.append(subscriber)
        for informer in self._informers.values():
            informer.subscribe(subscriber)

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        key = (new or old).key  # type: ignore[union-attr]
        shared = new is not None and not new.deleting and names.LABEL_GLOBAL in new.labels
        by_hand = shared and has_endpoints_by_hand(new.decode())  # type: ignore[union-attr]
        if by_hand == self.is_by_hand(key):
            return
        found = self._by_hand.setdefault(key[0], set())
        (found.add if by_hand else found.discard)(key[1])
        if not found:
            del self._by_hand[key[0]]
        self._decide(key[0])

    def _decide(self, namespace: str) -> None:
        """Begin or end to watch a namespace."""
        if self._marks.any_in(namespace) or namespace in self._by_hand:
            if (end := self._ends.pop(namespace, None)) is not None:
                end.cancel()
            if namespace not in self._informers:
                self._begin(namespace)
        elif namespace in self._informers and namespace not in self._ends:
            loop = asyncio.get_running_loop()
            self._ends[namespace] = loop.call_later(LINGER_SECONDS, self._end, namespace)

    def _begin(self, namespace: str) -> None:
        self._informers[namespace] = informer = self._local.informer(ENDPOINT_SLICES, namespace)
        for subscriber in (lambda old, new: self._told.add(namespace), *self._subscribers):
            informer.subscribe(subscriber)

    def _end(self, namespace: str) -> None:
        del self._ends[namespace]
        self._told.discard(namespace)
        self._local.informers.drop(self._informers.pop(namespace))
