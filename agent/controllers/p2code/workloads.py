"""The workloads that have been applied, as the API server has them."""

from collections.abc import Callable, Iterable

from agent.api import names
from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS
from agent.api.names.moves import TARGETS
from agent.api.names.p2code import LABEL_PSM_UID
from agent.clusters.deps import Deps
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.p2code.manifests import Identity

KINDS = (PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, CRON_JOBS)


class Workloads:
    """Watches from when it is made; `changed` is called with the UID of the P2CodeSchedulingManifest that has one."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        self._informers = {(k.group, k.name): deps.local.informer(k, labels=LABEL_PSM_UID) for k in KINDS}
        for informer in self._informers.values():
            informer.subscribe(lambda old, new: _tell(changed, old, new))

    @property
    def informers(self) -> Iterable[Informer]:
        """Nothing may be concluded before they have synced."""
        return self._informers.values()

    def get(self, psm_uid: str, identity: Identity) -> Object | None:
        """One that is there, if it is that of this P2CodeSchedulingManifest."""
        informer = self._informers[identity.group, identity.kind]
        obj = informer.store.get((identity.namespace, identity.name))
        return obj if obj is not None and obj.labels.get(LABEL_PSM_UID) == psm_uid and not obj.deleting else None

    def target(self, psm_uid: str, identity: Identity) -> str:
        """Where the pods of one are sent, as annotations name it; empty for nowhere."""
        obj = self.get(psm_uid, identity)
        return (names.annotation(obj.annotations, TARGETS) or "") if obj is not None else ""


def _tell(changed: Callable[[str], None], old: Object | None, new: Object | None) -> None:
    for uid in {obj.labels.get(LABEL_PSM_UID, "") for obj in (old, new) if obj is not None}:
        changed(uid)
