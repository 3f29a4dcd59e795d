"""Marks of shared Services whose owners remove them again and again: for this agent they count as written."""

from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.kube.store import Key, Object

Raw = dict[str, Any]


class UnwrittenMarks:
    """Annotations that a Service should have and lacks, by Service. After a restart the agent decides again."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, Mapping[str, str]]] = {}
        """UID of the Service, and the annotations that it should have, whole."""
        self._listeners: list[Callable[[Object], None]] = []

    def subscribe(self, listener: Callable[[Object], None]) -> None:
        """Register a listener: called with each Service whose marks begin or cease to count."""
        self._listeners.append(listener)

    def put(self, service: Object, annotations: Mapping[str, str]) -> None:
        """Treat a Service as if it had the marks among these annotations."""
        marks = {key: value for key, value in annotations.items() if service.annotations.get(key) != value}
        known = self._known.get(service.key)
        self._known[service.key] = (service.uid, marks)
        if known is None:
            self._tell(service)

    def drop(self, service: Object) -> None:
        """Treat a Service as having only its written marks."""
        if self._known.pop(service.key, None) is not None:
            self._tell(service)

    def has(self, service: Object) -> bool:
        """Return True if marks of a Service count that are not written on it."""
        known = self._known.get(service.key)
        return known is not None and known[0] == service.uid

    def any_in(self, namespace: str) -> bool:
        """Return True if marks of a Service of a namespace count that are not written on it."""
        return any(key[0] == namespace for key in self._known)

    def annotations(self, service: Object) -> Mapping[str, str]:
        """Return the annotations that count: the written ones and the marks."""
        known = self._known.get(service.key)
        if known is None or known[0] != service.uid:
            return service.annotations
        return {**service.annotations, **known[1]}

    def decode(self, service: Object) -> Raw:
        """Return a Service with the annotations that count."""
        raw = service.decode()
        if not self.has(service):
            return raw
        metadata = {**raw["metadata"], "annotations": self.annotations(service)}
        return {**raw, "metadata": metadata}

    def is_labelled(self, service: Object) -> bool:
        """Return True if a Service has the label of shared Services, or counts as one that has it."""
        return names.LABEL_GLOBAL in service.labels or self.has(service)

    def _tell(self, service: Object) -> None:
        for listener in self._listeners:
            listener(service)
