"""What has been applied beside workloads: watched by its metadata alone, so that what somebody changes is put right."""

from typing import Protocol

from agent.api.kinds import CONFIGMAPS, INGRESSES, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from agent.api.names.p2code import LABEL_PSM_UID
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.kube.store import Object, metadata_only

KINDS = (CONFIGMAPS, SECRETS, SERVICES, INGRESSES, PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS)
"""Those that an agent may watch anyway, unless what needs them is switched off."""


class Changed(Protocol):
    """Called with the UID of a P2CodeSchedulingManifest of whose objects one has changed.

    `touched`: it may not be as it was applied any more.
    """

    def __call__(self, psm_uid: str, *, touched: bool) -> None: ...


class Ancillaries:
    """Watches from when it is made, as far as the agent may."""

    def __init__(self, deps: Deps, changed: Changed) -> None:
        self._changed = changed
        for kind in KINDS:
            interval = deps.settings.discovery_interval
            watched = Watched(deps.local.port, kind, interval, labels=LABEL_PSM_UID, reduce=metadata_only)
            watched.subscribe(self._object_changed, lambda: None)
            watched.wanted(True)

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        # One that has just come to be is as it was applied.
        if old is not None and (uid := old.labels.get(LABEL_PSM_UID)):
            self._changed(uid, touched=True)
