"""ManifestWorks of applications, as a hub of Open Cluster Management has them: read only while any asks for them."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from agent.api.kinds import MANIFEST_WORKS
from agent.api.names.p2code import LABEL_PSM_UID
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.controllers.p2code.plan import Hub
from agent.kube.store import Key, Object
from agent.model.p2code.manifests import at, objects

_NAMED = ("apiVersion", "kind")
_METADATA = ("name", "namespace")


class Changed(Protocol):
    """Called with the UID of a P2CodeSchedulingManifest one of whose ManifestWorks has changed, or is gone."""

    def __call__(self, psm_uid: str, *, gone: bool) -> None: ...


class ManifestWorks:
    """`turned` is called when it may be all that have changed."""

    def __init__(self, deps: Deps, changed: Changed, turned: Callable[[], None]) -> None:
        self._changed = changed
        self._turned = turned
        self._asking: set[Key] = set()
        self._of: dict[str, dict[Key, Object]] = {}
        """By the UID of the P2CodeSchedulingManifest."""
        interval = deps.settings.discovery_interval
        self._watched = Watched(
            deps.local.port, MANIFEST_WORKS, interval, labels=LABEL_PSM_UID, reduce=without_contents
        )
        self._watched.subscribe(self._work_changed, self._turn)

    def asked(self, psm: Key, *, asks: bool) -> None:
        """Whether a P2CodeSchedulingManifest is to be distributed by them."""
        (self._asking.add if asks else self._asking.discard)(psm)
        self._watched.wanted(bool(self._asking))

    def hub(self, psm_uid: str) -> Hub:
        """What is known of those of a P2CodeSchedulingManifest."""
        if self._watched.store is None:
            return Hub(refusal=self._watched.refusal)
        return Hub({key: obj.decode() for key, obj in self._of.get(psm_uid, {}).items()})

    def _work_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            uid = obj.labels.get(LABEL_PSM_UID, "") if obj is not None else ""
            if obj is None or not uid:
                continue
            mine = self._of.setdefault(uid, {})
            if obj is new:
                mine[obj.key] = obj
            else:
                mine.pop(obj.key, None)
            if not mine:
                del self._of[uid]
            self._changed(uid, gone=new is None)

    def _turn(self) -> None:
        if self._watched.store is None:
            self._of.clear()
        self._turned()


def without_contents(raw: bytes) -> bytes:
    """A ManifestWork whose manifests are only named: what is in them, such as Secrets, is not kept."""
    work: dict[str, Any] = msgspec.json.decode(raw)
    named = [
        {field: each.get(field) for field in _NAMED}
        | {"metadata": {field: at(each, "metadata").get(field) for field in _METADATA}}
        for each in objects(work, "spec", "workload", "manifests")
    ]
    work["spec"] = {"workload": {"manifests": named}}
    work["metadata"].pop("managedFields", None)
    return msgspec.json.encode(work)
