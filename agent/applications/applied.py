"""Metadata watch on applied objects other than workloads, so that changes by other writers are corrected."""

from typing import Protocol

from agent.api.kinds import CONFIGMAPS, INGRESSES, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from agent.api.names.p2code import LABEL_PSM_UID
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.kube.store import Object, metadata_only

KINDS = (CONFIGMAPS, SECRETS, SERVICES, INGRESSES, PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS)
"""Kinds that the agent's role covers anyway, unless the feature that needs them is off."""


class Changed(Protocol):
    """Callback for a changed object, with the UID of its P2CodeSchedulingManifest.

    `touched`: the object may differ from its applied state.
    """

    def __call__(self, psm_uid: str, *, touched: bool) -> None: ...


class Ancillaries:
    """Watches ConfigMaps, Secrets, Services and similar objects of applications, as far as the agent's rights allow."""

    def __init__(self, deps: Deps, changed: Changed) -> None:
        self._changed = changed
        for kind in KINDS:
            interval = deps.settings.discovery_interval
            watched = Watched(deps.local.port, kind, interval, labels=LABEL_PSM_UID, reduce=metadata_only)
            watched.subscribe(self._object_changed, lambda: None)
            watched.wanted(True)

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        # A new object is in its applied state.
        if old is not None and (uid := old.labels.get(LABEL_PSM_UID)):
            self._changed(uid, touched=True)
