"""EndpointSlices in the source of namespaces in which the owner of a Service keeps removing marks.

The EndpointSlice controller copies a Service's labels to its slices, and slices of shared Services are watched by one
of these labels. Slices that lose it seem to have been deleted. So all slices of these namespaces are watched.
"""

import asyncio

from agent.api.kinds import ENDPOINT_SLICES
from agent.clusters.cluster import Cluster
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.kube.subscribers import Subscriber

LINGER_SECONDS = 60.0
"""Seconds that a namespace is still watched once its marks are written: slices get their labels later."""


class UnmarkedSlices:
    """One informer for each of these namespaces."""

    def __init__(self, local: Cluster, marks: UnwrittenMarks) -> None:
        self._local = local
        self._marks = marks
        self._informers: dict[str, Informer] = {}
        self._told: set[str] = set()
        """Namespaces with at least one slice in the store: subscribers get slices before the informer is synced."""
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._subscribers: list[Subscriber] = []
        marks.subscribe(self._marks_changed)

    def of(self, namespace: str) -> Informer | None:
        """Return the informer of all slices of a namespace; None if it has not been read, or the label is enough."""
        return self._informers.get(namespace) if self.is_known(namespace) else None

    def is_known(self, namespace: str) -> bool:
        """Return False while slices of a namespace may lack the label and have not been read."""
        informer = self._informers.get(namespace)
        return informer is None or namespace in self._told or informer.synced.is_set()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Register a subscriber, called like an informer's for each slice of these namespaces."""
        self._subscribers.append(subscriber)
        for informer in self._informers.values():
            informer.subscribe(subscriber)

    def _marks_changed(self, service: Object) -> None:
        namespace = service.namespace
        if self._marks.any_in(namespace):
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
