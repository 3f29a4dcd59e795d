"""Watch on applied workloads, and on their pods that cannot move."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, TARGET_KINDS
from agent.api.names.moves import CONDITION
from agent.api.names.p2code import LABEL_PSM_UID
from agent.applications.applied import Changed
from agent.applications.overwritten import overwritten
from agent.clusters.deps import Deps
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.p2code.manifests import Identity
from agent.model.p2code.progress import Stuck, There, stuck_of
from agent.model.podstate import ENDED

KINDS = (PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, CRON_JOBS)
_CONDITION = CONDITION.encode()
_AGAIN_SECONDS = 300.0
"""Minimum interval between two early corrections of a workload."""


class _Home(NamedTuple):
    """The Target behind a virtual node; the namespace is empty for a ClusterTarget."""

    namespace: str
    title: str


class Workloads:
    """Applied workloads. Calls `changed` with the UID of the P2CodeSchedulingManifest of a changed workload."""

    def __init__(self, deps: Deps, changed: Changed) -> None:
        self._changed = changed
        self._owners = deps.owners
        self._informers = {(k.group, k.name): deps.local.informer(k, labels=LABEL_PSM_UID) for k in KINDS}
        self._psms: dict[str, str] = {}
        """UID of the P2CodeSchedulingManifest by UID of its workload."""
        self._overwritten: dict[str, float] = {}
        """Event-loop time of the last early correction by UID of a workload that another writer had changed."""
        self._stuck: dict[Key, Stuck] = {}
        """Pods that cannot move, with the reason."""
        for informer in self._informers.values():
            informer.subscribe(self._workload_changed)
        self._proxies = deps.proxies.informer.store
        self._choices = deps.choices
        self._targets = deps.local.either(TARGET_KINDS)
        self._moves = deps.settings.moves
        if self._moves:
            deps.proxies.informer.subscribe(self._pod_changed)
        else:
            deps.proxies.informer.subscribe(self._pod_placed)
            deps.choices.on_change(self._chosen_anew)

    @property
    def informers(self) -> Iterable[Informer]:
        """Informers that have to sync before the first decision."""
        return *self._informers.values(), *(self._owners.informers.values() if self._owners is not None else ())

    def of(self, psm_uid: str) -> Callable[[Identity], There]:
        """Return a function that returns the present state of a workload of a P2CodeSchedulingManifest."""
        stuck: defaultdict[str, list[Stuck]] = defaultdict(list)
        for pod, each in self._stuck.items():
            stuck[self._maker(self._proxies.get(pod))].append(each)
        return functools.cache(functools.partial(self._of, psm_uid, stuck))

    def _of(self, psm_uid: str, stuck: Mapping[str, list[Stuck]], identity: Identity) -> There:
        store = self._informers[identity.group, identity.kind].store
        obj = store.get((identity.namespace, identity.name))
        if obj is None or obj.labels.get(LABEL_PSM_UID) != psm_uid or obj.deleting:
            return There()
        return There(obj.decode(), stuck.get(obj.uid, ()), self._left(obj) if not self._moves else ())

    def _left(self, workload: Object) -> list[str]:
        """Return names of pods in a target that their present choice of targets excludes."""
        known = self._proxies.get(workload.key) if workload.kind is PODS else None
        pods = self._choices.pods_of(workload) if workload.kind is not PODS else [known] if known is not None else []
        bound = [pod for pod in pods if pod.node_name and not pod.deleting and pod.phase not in ENDED]
        if not bound:
            return []
        serving = self._targets.serving(workload.namespace)
        homes = {names.virtual_node(*obj.key): _Home(obj.namespace, obj.name) for obj in serving}
        found = []
        for pod in bound:
            choice, home = self._choices.of(pod), homes.get(pod.node_name)
            if choice is not None and home is not None and choice.misplaced(home):
                found.append(pod.name)
        return found

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._psms.pop(old.uid, None)
            self._overwritten.pop(old.uid, None)
        if new is not None:
            self._psms[new.uid] = new.labels.get(LABEL_PSM_UID, "")
        touched = new is None or (old is not None and self._is_overwritten(old, new))
        for uid in {obj.labels.get(LABEL_PSM_UID, "") for obj in (old, new) if obj is not None}:
            self._changed(uid, touched=touched)

    def _is_overwritten(self, old: Object, new: Object) -> bool:
        """Return True if another writer has changed a workload's spec and an early correction is due.

        Limited to one per `_AGAIN_SECONDS`, as the writer may repeat its change.
        """
        if old.head.metadata.generation == new.head.metadata.generation:
            return False
        now = asyncio.get_running_loop().time()
        if now - self._overwritten.get(new.uid, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
            return False
        found = overwritten(old.decode(), new.decode())
        if found:
            self._overwritten[new.uid] = now
        return found

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        known = self._stuck.get(pod.key)
        found = stuck_of(pod.decode(), CONDITION) if pod is new and _CONDITION in pod.raw else None
        if found == known:
            return
        if found is not None and not pod.deleting:
            self._stuck[pod.key] = found
        else:
            self._stuck.pop(pod.key, None)
        self._concern(pod)

    def _pod_placed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is not None and _whereabouts(old) != _whereabouts(new):
            self._concern(pod)

    def _chosen_anew(self, pods: Iterable[Key]) -> None:
        for key in pods:
            self._concern(self._proxies.get(key))

    def _concern(self, pod: Object | None) -> None:
        psm = self._psms.get(self._maker(pod))
        if psm is not None:
            self._changed(psm, touched=False)

    def _maker(self, pod: Object | None) -> str:
        """Return the UID of a pod's topmost owner, or its own without owners; empty if the pod is unknown."""
        if pod is None or self._owners is None:
            return ""
        owners = self._owners.of(pod).owners
        return owners[-1].uid if owners else pod.uid


def _whereabouts(pod: Object | None) -> object:
    """Return a pod's virtual node, whether it is ending, and its target annotations; None without a pod."""
    if pod is None:
        return None
    said = pod.hot_annotations
    return pod.node_name, pod.deleting or pod.phase in ENDED, said.targets, said.targets_short
