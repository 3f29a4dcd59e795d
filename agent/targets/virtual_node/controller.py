"""Virtual node: keep one Node for every Target.

Watches  Targets, ClusterTargets, all nodes, states of targets, the ClusterSummary in each target.
Writes   the Node: labels, our taints, status. Users' labels, taints, annotations and cordon survive.
Absent target: Ready stays True; the condition TargetReachable becomes False, and the node gets a NoSchedule taint.
A target whose agent does not work gets another taint, so that it receives no new pods. Its running pods stay.
If a Target has been deleted, this controller deletes the pods of its node, then the node. Pods of DaemonSets are
deleted after the node, since their controller recreates them while it exists. A node that another agent has created
waits for a Target for a while: uninstalling Admiralty deletes its Targets.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, NODES, PODS, TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, one_line
from agent.kube.store import Key, Object
from agent.model.daemonpod import comes_again
from agent.model.target_health import standing
from agent.model.virtualnode import free, has_several_huge_pages
from agent.runtime.controller import Controller
from agent.targets.virtual_node.decide import Create, TargetAndNode, check_pattern, decide, settles_in

if TYPE_CHECKING:
    from datetime import datetime

    from agent.kube.informer import Informer

VIRTUAL = f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}"
REAL = f"{names.PROVIDER_KEY}!={names.PROVIDER_VALUE}"
_HUGE_PAGES = "huge-pages"
_SEVERAL = "several"
_FEATURES, _DECLARED = "features", "declared"
FREE_SECONDS = 10.0
"""Seconds between two writes of a target's free capacity."""
_RETIRE_SECONDS = 1.0
ANOTHERS_SECONDS = 300.0
"""Seconds that another agent's node may lack a Target: a user who replaces that agent applies the Target again."""
_TOLD_SECONDS = 5.0
"""Seconds to wait for the watch event of a node's deletion; then the node is deleted again."""
_VERSION_LIMIT = 100
_UNSYNCED_SECONDS = 0.1


class VirtualNodeController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "virtualnode"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._address = deps.settings.announced_address
        self._versions: dict[Key, str] = {}
        self._missing_since: dict[Key, datetime] = {}
        self._anothers_since: dict[Key, float] = {}
        """Moment from which another agent's node has lacked its Target, by key of that Target."""
        self._retired: dict[Key, tuple[str, float]] = {}
        """UID and moment of the deletion of a Target's node, until the watch reports the deletion."""
        self._summaries: dict[Key, tuple[Informer, Callable[[], None]]] = {}
        self._nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self._real = deps.local.informer(NODES, labels=REAL)
        self._real.store.index(_HUGE_PAGES, _huge_pages)
        self._real.store.index(_FEATURES, _features)
        self._several_huge_pages = self._declares_features = False
        self._free: dict[Key, tuple[str, float]] = {}
        """Free capacity that was written to each node, and when."""
        self._targets = deps.local.either(TARGET_KINDS)
        self.watch(self._nodes, target_of)
        self.watch(self._real, lambda node: ())
        self._real.subscribe(self._real_node_changed)
        for informer in self._targets.informers:
            self.watch(informer, lambda target: [target.key])
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._changed)
        deps.targets.on_detach(self._detached)
        deps.endpoints.subscribe(self._served)

    async def reconcile(self, key: Key) -> float | None:
        """Create, update or delete the node of one Target."""
        target = self._targets.get(key)
        node = self._nodes.store.get(("", names.virtual_node(*key)))
        if target is None:
            self._missing_since.pop(key, None)
            self._free.pop(key, None)
            if node is None:
                self._retired.pop(key, None)
                return None
            return self._kept_for(key, node) or self._rest_after_deletion(key, node) or await self._retire(key, node)
        self._anothers_since.pop(key, None)
        self._retired.pop(key, None)
        connected = self._deps.targets.get(key)
        if connected is not None and connected.ready and key not in self._versions:
            await self._ask_version(connected)
        view = self._view(key, target, node)
        if view.record is not None:
            self._missing_since.pop(key, None)
        missing_since = self._missing_since.setdefault(key, view.now) if view.record is None else None
        wait = settles_in(view.record, missing_since, view.now)
        if wait > 0:
            return wait
        if node is None and (self._summary_is_coming(key) or self._port_is_coming(key)):
            return _UNSYNCED_SECONDS
        await self._apply(view)
        if view.summary is not None and view.free != free(view.summary):
            return FREE_SECONDS
        return None

    def _room(self, key: Key, summary: dict[str, Any] | None) -> str:
        """Return the free capacity to publish. It changes at most every FREE_SECONDS: all watches get each write."""
        now = time.monotonic()
        told, since = self._free.get(key, ("", -FREE_SECONDS))
        if summary is not None and now - since >= FREE_SECONDS:
            current = free(summary)
            if current != told:
                self._free[key] = (current, now)
                return current
        return told

    def _view(self, key: Key, target: Object, node: Object | None) -> TargetAndNode:
        connected = self._deps.targets.get(key)
        summary = connected.summary if connected is not None else None
        told = summary.decode() if summary is not None else None
        manifest = target.decode()
        excluded = (manifest.get("spec") or {}).get("excludedLabelsRegexp")
        flaw = check_pattern(excluded, summary.labels if summary is not None else None)
        if flaw:
            self._deps.recorder.event(manifest, "Warning", "InvalidRegexp", flaw)
        return TargetAndNode(
            key=key,
            node=node.decode() if node is not None else None,
            record=connected.record if connected is not None else None,
            agent=connected.agent if connected is not None else None,
            draining=target.deleting,
            summary=told,
            told=connected.told.annotations if connected is not None and connected.told is not None else None,
            free=self._room(key, told),
            excluded=None if flaw else excluded,
            address=self._address,
            port=self._port(key),
            served=self._deps.endpoints.served(names.virtual_node(*key)),
            version=self._versions.get(key, ""),
            now=self._deps.clock.now(),
            several_huge_pages=self._several_huge_pages,
            declares_features=self._declares_features,
            managed_cluster=(manifest.get("status") or {}).get("managedCluster") or "",
            standing=standing(manifest),
        )

    def _summary_is_coming(self, key: Key) -> bool:
        """Return True if the summary will arrive soon: a node created with its capacity takes one write, not two."""
        connected = self._deps.targets.get(key)
        if connected is None or not connected.ready:
            return False
        informer = self._summaries[key][0]
        return not informer.synced.is_set() and informer.error is None

    def _port_is_coming(self, key: Key) -> bool:
        endpoints, name = self._deps.endpoints, names.virtual_node(*key)
        return endpoints.active and endpoints.port(name) is None and endpoints.served(name) is None

    def _port(self, key: Key) -> int | None:
        endpoints = self._deps.endpoints
        return endpoints.port(names.virtual_node(*key)) if endpoints.active else self._deps.settings.kubelet_port

    def _served(self, name: str) -> None:
        node = self._nodes.store.get(("", name))
        for key in target_of(node) if node is not None else ():
            self.queue.add(key)

    async def _apply(self, view: TargetAndNode) -> None:
        """Carry out the next write. Its answer updates the store, which enqueues the key for any further write."""
        action = decide(view)
        name = names.virtual_node(*view.key)
        if action is None:
            return
        if isinstance(action, Create):
            try:
                self._nodes.absorb(await self._client.create_raw(NODES, action.manifest))
                return
            except AlreadyExists:
                # A user has removed its provider label, or the watch has not delivered it yet.
                action = decide(replace(view, node=await self._client.get(NODES, name)))
        if action is not None and not isinstance(action, Create):
            self._nodes.absorb(await self._client.patch_raw(NODES, name, action.body, sub=action.sub))

    def _kept_for(self, key: Key, node: Object) -> float:
        """Return the seconds until a node without a Target may be deleted."""
        if names.ANNOTATION_APPLIED_LABELS in node.annotations:
            return 0.0
        now = time.monotonic()
        return max(0.0, self._anothers_since.setdefault(key, now) + ANOTHERS_SECONDS - now)

    async def _retire(self, key: Key, node: Object) -> float | None:
        """Delete the pods of a node without a Target, then the node. Pods of DaemonSets are deleted after it."""
        try:
            await self._client.get_raw(TARGET_KINDS.of(key[0]), key[1], key[0])
        except NotFound:
            pass
        else:
            # The Target exists: the watch of Targets lags behind that of nodes.
            return _RETIRE_SECONDS
        _, items = await self._client.list_raw(PODS, fields=f"spec.nodeName={node.name}")
        pods = [Object(PODS, bytes(item)) for item in items]
        holding = [pod for pod in pods if not comes_again(pod.decode())]
        for pod in holding:
            if not pod.deleting:
                await self._delete_pod(pod)
        if holding:
            return _RETIRE_SECONDS
        with contextlib.suppress(NotFound, Conflict), self._nodes.vanished.noticed(node.key, node.uid):
            await self._client.delete(NODES, node.name, uid=node.uid)
        self._retired[key] = (node.uid, time.monotonic())
        return _TOLD_SECONDS

    def _rest_after_deletion(self, key: Key, node: Object) -> float:
        """Return the seconds to wait for the event of a node's deletion; 0 if it was not deleted, or long ago."""
        uid, at = self._retired.get(key, ("", 0.0))
        return max(0.0, at + _TOLD_SECONDS - time.monotonic()) if uid == node.uid else 0.0

    async def _delete_pod(self, pod: Object) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)

    async def _ask_version(self, target: Target) -> None:
        try:
            self._versions[target.key] = one_line(await target.port.git_version(), _VERSION_LIMIT)
        except KubeError:
            # Some targets refuse this request; it is repeated when they become ready again.
            self._versions[target.key] = ""

    def _real_node_changed(self, old: Object | None, new: Object | None) -> None:
        found = self._real.store.count(_HUGE_PAGES, _SEVERAL) > 0, self._real.store.count(_FEATURES, _DECLARED) > 0
        if found != (self._several_huge_pages, self._declares_features):
            self._several_huge_pages, self._declares_features = found
            for target in self._targets:
                self.queue.add(target.key)

    def _attached(self, target: Target) -> None:
        informer = target.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={names.SUMMARY_NAME}")
        stop = self.watch(informer, lambda summary: [target.key], required=False)
        self._summaries[target.key] = (informer, stop)

    def _changed(self, target: Target) -> None:
        if not target.ready:
            self._versions.pop(target.key, None)
        self.queue.add(target.key)

    def _detached(self, target: Target) -> None:
        _, stop = self._summaries.pop(target.key, (None, lambda: None))
        stop()
        self._versions.pop(target.key, None)


class _Capacity(msgspec.Struct):
    class Status(msgspec.Struct):
        capacity: dict[str, str | int] | None = None

    status: Status = msgspec.field(default_factory=Status)


_capacity_decoder = msgspec.json.Decoder(_Capacity)


def _huge_pages(node: Object) -> Iterable[str]:
    return (_SEVERAL,) if has_several_huge_pages(_capacity_decoder.decode(node.raw).status.capacity) else ()


def _features(node: Object) -> Iterable[str]:
    return (_DECLARED,) if b'"declaredFeatures"' in node.raw else ()


def target_of(node: Object) -> Iterable[Key]:
    """Return the key of the Target of a virtual node, from its labels; empty if the node belongs to no Target."""
    labels = node.labels
    if names.LABEL_CLUSTER_TARGET_NAME in labels:
        key = ("", labels[names.LABEL_CLUSTER_TARGET_NAME])
    else:
        key = (labels.get(names.LABEL_TARGET_NAMESPACE, ""), labels.get(names.LABEL_TARGET_NAME, ""))
        if not all(key):
            return []
    return [key] if names.virtual_node(*key) == node.name else []
