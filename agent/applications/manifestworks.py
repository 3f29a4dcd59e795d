"""Watch on the ManifestWorks of applications on a hub of Open Cluster Management, while any application uses them."""

from collections.abc import Callable
from typing import Any

import msgspec

from agent.api.kinds import MANIFEST_WORKS
from agent.api.names.p2code import LABEL_PSM_UID
from agent.applications.applied import Changed
from agent.applications.plan import Hub
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.kube.store import Key, Object
from agent.model.p2code.manifests import at, objects

_PSM = "psm"
_NAMED = ("apiVersion", "kind")
_METADATA = ("name", "namespace")


class ManifestWorks:
    """ManifestWorks by application. Calls `turned` if all may have changed."""

    def __init__(self, deps: Deps, changed: Changed, turned: Callable[[], None]) -> None:
        self._changed = changed
        self._asking: set[Key] = set()
        interval = deps.settings.discovery_interval
        self._watched = Watched(
            deps.local.port, MANIFEST_WORKS, interval, labels=LABEL_PSM_UID, reduce=without_contents
        )
        self._watched.subscribe(self._work_changed, turned)

    def asked(self, psm: Key, *, asks: bool) -> None:
        """Record whether a P2CodeSchedulingManifest uses ManifestWorks; watch them while any does."""
        (self._asking.add if asks else self._asking.discard)(psm)
        self._watched.wanted(bool(self._asking))

    def hub(self, psm_uid: str) -> Hub:
        """Return the ManifestWorks of a P2CodeSchedulingManifest, or the API server's refusal to list them."""
        if self._watched.store is None:
            return Hub(refusal=self._watched.refusal)
        return Hub({obj.key: obj.decode() for obj in self._watched.find(_PSM, _psm_of, psm_uid)})

    def _work_changed(self, old: Object | None, new: Object | None) -> None:
        for uid in {uid for obj in (old, new) if obj is not None for uid in _psm_of(obj)}:
            self._changed(uid, touched=new is None)


def _psm_of(work: Object) -> list[str]:
    """Return the UID of the P2CodeSchedulingManifest in the label of a ManifestWork; empty if it has no label."""
    return [uid] if (uid := work.labels.get(LABEL_PSM_UID)) else []


def without_contents(raw: bytes) -> bytes:
    """Reduce the manifests of a ManifestWork to their names, to keep no contents such as Secrets in memory."""
    work: dict[str, Any] = msgspec.json.decode(raw)
    named = [
        {field: each.get(field) for field in _NAMED}
        | {"metadata": {field: at(each, "metadata").get(field) for field in _METADATA}}
        for each in objects(work, "spec", "workload", "manifests")
    ]
    work["spec"] = {"workload": {"manifests": named}}
    work["metadata"].pop("managedFields", None)
    return msgspec.json.encode(work)
