"""Writes of marks and selectors to Services, more rarely if the owner of a Service keeps reverting them."""

from typing import Any

from agent.api import names
from agent.api.kinds import SERVICES
from agent.base.reverted_writes import RevertedWrites
from agent.clusters.copies.field_owners import keep_owners
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.service import is_shared
from agent.model.servicemarks import is_switched

Raw = dict[str, Any]


class ServiceWriter:
    """Writer of Services. Pending marks count as written (`UnwrittenMarks`); a pending selector stays its owner's."""

    def __init__(self, deps: Deps, services: Informer) -> None:
        self._client = deps.local.client
        self._marks = deps.unwritten_marks
        self._services = services
        self._marks_written: RevertedWrites[Key] = RevertedWrites(first=10.0, longest=600.0)
        """Writes of marks alone. They may wait, since pending marks count as written."""
        self._selectors_written: RevertedWrites[Key] = RevertedWrites()

    async def write(self, found: Object, wanted: Raw, patch: Raw) -> float:
        """Write a Service and return 0, or return the seconds until it may be written."""
        written = self._selectors_written if "spec" in patch else self._marks_written
        annotations = wanted["metadata"]["annotations"] or {}
        # Not the selector itself: an owner may alternate between several.
        what = is_switched(wanted) if "spec" in patch else annotations.get(names.ANNOTATION_MARKS)
        cause = f"{found.uid} {what}"
        left = written.pause(found.key, cause)
        # EndpointSlices lose the label after their Service, and get it back later than that.
        removed = found.key in written and names.LABEL_GLOBAL not in found.labels
        if "metadata" in patch and is_shared(annotations) and (left or removed):
            self._marks.put(found, annotations)
        else:
            self._marks.drop(found)
        if left:
            return left
        await self._send(found, patch)
        self._marks.drop(found)
        written.record(found.key, cause)
        return 0.0

    def forget(self, key: Key) -> None:
        """Forget a deleted Service."""
        for written in (self._marks_written, self._selectors_written):
            written.forget(key)

    async def _send(self, found: Object, patch: Raw) -> None:
        patch.setdefault("metadata", {})["resourceVersion"] = found.version
        try:
            raw = await self._client.patch_raw(SERVICES, found.name, patch, found.namespace)
            if found.applied and "spec" in patch:
                raw = await keep_owners(self._client, found, raw)
        except NotFound:
            return
        self._services.absorb(raw)
