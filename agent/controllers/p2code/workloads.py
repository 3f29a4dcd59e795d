"""The workloads that have been applied, as the API server has them, and those of their pods that cannot move."""

from collections.abc import Iterable

from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS
from agent.api.names.moves import CONDITION
from agent.api.names.p2code import LABEL_PSM_UID
from agent.clusters.deps import Deps
from agent.controllers.p2code.applied import Changed
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.p2code.manifests import Identity
from agent.model.p2code.progress import Stuck, There, stuck_of

KINDS = (PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, CRON_JOBS)
_CONDITION = CONDITION.encode()


class Workloads:
    """Watches applied workloads; `changed` is called with the UID of the P2CodeSchedulingManifest that has one."""

    def __init__(self, deps: Deps, changed: Changed) -> None:
        self._changed = changed
        self._owners = deps.owners
        self._informers = {(k.group, k.name): deps.local.informer(k, labels=LABEL_PSM_UID) for k in KINDS}
        self._psms: dict[str, str] = {}
        """UIDs of workloads to those of what they were applied for."""
        self._stuck: dict[Key, Stuck] = {}
        """Pods that cannot move."""
        for informer in self._informers.values():
            informer.subscribe(self._workload_changed)
        self._proxies = deps.proxies.informer.store
        if self._owners is not None:
            deps.proxies.informer.subscribe(self._pod_changed)

    @property
    def informers(self) -> Iterable[Informer]:
        """Nothing may be concluded before they have synced."""
        return *self._informers.values(), *(self._owners.informers.values() if self._owners is not None else ())

    def of(self, psm_uid: str, identity: Identity) -> There:
        """One of a P2CodeSchedulingManifest."""
        store = self._informers[identity.group, identity.kind].store
        obj = store.get((identity.namespace, identity.name))
        if obj is None or obj.labels.get(LABEL_PSM_UID) != psm_uid or obj.deleting:
            return There()
        near = ((pod, stuck) for pod, stuck in self._stuck.items() if pod[0] == obj.namespace)
        return There(obj.decode(), [stuck for pod, stuck in near if self._maker(pod) == obj.uid])

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._psms.pop(old.uid, None)
        if new is not None:
            self._psms[new.uid] = new.labels.get(LABEL_PSM_UID, "")
        # Whatever scales one, a HorizontalPodAutoscaler say, would do it again and again.
        for uid in {obj.labels.get(LABEL_PSM_UID, "") for obj in (old, new) if obj is not None}:
            self._changed(uid, touched=new is None)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        known = self._stuck.get(pod.key)
        found = stuck_of(pod.decode(), CONDITION) if pod is new and _CONDITION in pod.raw else None
        if found == known:
            return
        workload = self._maker(pod.key) or pod.uid
        if found is not None and not pod.deleting:
            self._stuck[pod.key] = found
        else:
            self._stuck.pop(pod.key, None)
        if workload in self._psms:
            self._changed(self._psms[workload], touched=False)

    def _maker(self, pod: Key) -> str:
        """UID of what makes a pod, or its own; empty for one that is not known."""
        obj = self._proxies.get(pod)
        if obj is None or self._owners is None:
            return ""
        owners = self._owners.of(obj).owners
        return owners[-1].uid if owners else obj.uid
