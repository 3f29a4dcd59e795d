"""What the proxy scheduler writes: claims, chaperons, the memory of attempts, bindings, the reason for waiting."""

import logging
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import set_condition
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters import chaperons
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, StatusError, Unreachable, Unsent
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.delegatepod import chaperon as make_chaperon
from agent.model.errors import InvalidPod
from agent.scheduler.gather import attempts_annotation, attempts_of
from agent.scheduler.world import World

log = logging.getLogger(__name__)

REFUSED_RETRY_SECONDS = 30.0
_TARGET_GONE_SECONDS = 0.1
_MOVING_SECONDS = 1.0


class Writes:
    """Each method is one step for one proxy pod, given as a dict; methods return when to look again, in seconds.

    What the process knows beyond the API objects only saves work or widens the choice; losing it loses nothing.
    """

    def __init__(self, deps: Deps, proxies: Informer, world: World) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._proxies = proxies
        self._world = world
        self.unsent: dict[str, str] = {}
        """UIDs of pods to the virtual node they are claimed for, as long as no chaperon can have left for it."""
        self.bound: set[str] = set()
        """UIDs of pods bound by us that the watch still shows without a node."""

    def forget(self, uid: str) -> None:
        """A pod needs no target any more."""
        self.bound.discard(uid)
        self.unsent.pop(uid, None)

    async def claim(self, proxy: dict[str, Any], node_name: str) -> float | None:
        """Leave only one target's finalizer on the pod, guarded by its version: a deposed leader fails here."""
        target = self._deps.targets.by_node(node_name)
        if target is None:
            return _TARGET_GONE_SECONDS
        metadata = proxy["metadata"]
        if await self._still_there(proxy):
            return _MOVING_SECONDS
        kept = [name for name in metadata.get("finalizers") or () if not name.startswith(names.PREFIX)]
        patch = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "uid": metadata["uid"],
                "finalizers": [*kept, target.finalizer],
                "annotations": {names.ANNOTATION_CLAIM: node_name},
                **self._untracked(proxy),
            }
        }
        pod = self._proxies.store.get((metadata["namespace"], metadata["name"]))
        if pod is None or pod.uid != metadata["uid"]:
            return None
        self._world.assume(pod, node_name)
        try:
            raw = await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"])
            self._proxies.absorb(raw)
        except NotFound:
            return None
        finally:
            self._world.retract(pod)
        self.unsent[metadata["uid"]] = node_name
        return await self.create(proxy, node_name)

    def _untracked(self, proxy: dict[str, Any]) -> dict[str, Any]:
        """Ends the tracking of field owners of a pod on which nobody uses server-side apply.

        It costs the API server 0.6 ms at each later write; an apply that comes later begins it anew
        (structured-merge-diff's `before-first-apply`).
        """
        metadata = proxy["metadata"]
        pod = self._proxies.store.get((metadata["namespace"], metadata["name"]))
        return {"managedFields": [{}]} if pod is not None and not pod.applied else {}

    async def _still_there(self, proxy: dict[str, Any]) -> bool:
        """Whether the target of an older claim has a chaperon after all: asked of the target itself (ruling 1)."""
        metadata = proxy["metadata"]
        claim = (metadata.get("annotations") or {}).get(names.ANNOTATION_CLAIM, "")
        target = self._deps.targets.by_node(claim)
        if target is None or self.unsent.get(metadata["uid"]) == claim:
            return False
        selector = f"{names.LABEL_PARENT_UID}={metadata['uid']}"
        _, found = await target.cluster.client.list_raw(CHAPERONS, metadata["namespace"], labels=selector)
        for raw in found:
            target.chaperons.absorb(bytes(raw))
        return bool(found)

    async def create(self, proxy: dict[str, Any], node_name: str) -> float | None:
        """Send the chaperon; an answer that it is there already is as good (ruling 2)."""
        target = self._deps.targets.by_node(node_name)
        if target is None:
            return _TARGET_GONE_SECONDS
        try:
            manifest = make_chaperon(
                proxy, cluster_name=self._deps.settings.cluster_name, cluster_uid=self._deps.cluster_uid
            )
        except InvalidPod as error:
            await self.say(proxy, str(error))
            return None
        unsent = self.unsent.pop(proxy["metadata"]["uid"], None)
        try:
            target.chaperons.absorb(await target.cluster.client.create_raw(CHAPERONS, manifest))
        except AlreadyExists:
            await self._adopt(target, proxy, manifest)
        except Unsent:
            if unsent == node_name:
                self.unsent[proxy["metadata"]["uid"]] = node_name
            target.doubt()
            raise
        except Unreachable:
            target.doubt()
            raise
        except (Forbidden, Invalid, NotFound) as error:
            await self.say(proxy, f"{target.title}: cannot create PodChaperon: {error}")
            return await self._remember(proxy, node_name, str(error))
        return None

    async def _adopt(self, target: Target, proxy: dict[str, Any], manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        raw = await target.cluster.client.get_raw(CHAPERONS, metadata["name"], metadata["namespace"])
        if Object(CHAPERONS, raw).labels.get(names.LABEL_PARENT_UID) == proxy["metadata"]["uid"]:
            target.chaperons.absorb(raw)
        else:
            message = f"PodChaperon {metadata['name']} exists and belongs to another pod"
            await self._remember(proxy, target.node_name, message)

    async def _remember(self, proxy: dict[str, Any], node_name: str, reason: str) -> float:
        """Note on the pod why a target could not take it; the pod, not the process, keeps the memory."""
        metadata = proxy["metadata"]
        known = attempts_of(proxy)
        if known.get(node_name) != reason:
            patch = {
                "metadata": {
                    "uid": metadata["uid"],
                    "annotations": {names.ANNOTATION_ATTEMPTS: attempts_annotation(known, node_name, reason)},
                }
            }
            self._proxies.absorb(await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"]))
        return REFUSED_RETRY_SECONDS

    async def give_up(self, proxy: dict[str, Any], chaperon: Mapping[str, Any], node_name: str, reason: str) -> None:
        """Remember why a target could not take the pod, then delete the chaperon there."""
        target = self._deps.targets.by_node(node_name)
        if target is None:
            return
        await self._remember(proxy, node_name, reason)
        await chaperons.delete(target, chaperon)

    async def bind(self, pod: Object, node_name: str) -> None:
        """Bind the pod, and no other of its name, to the virtual node."""
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        try:
            await self._client.create_raw(PODS, binding, sub="binding")
        except (NotFound, Conflict):
            return
        self.bound.add(pod.uid)
        regarding = {"apiVersion": PODS.api_version, "kind": PODS.name, "metadata": metadata}
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
        self._deps.recorder.event(regarding, "Normal", "Scheduled", message)

    async def say(self, proxy: dict[str, Any], message: str) -> None:
        """Tell on the pod why it waits; once, as long as the reason stays the same."""
        conditions = (proxy.get("status") or {}).get("conditions") or []
        current: dict[str, Any] = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if current.get("message") == message:
            return
        conditions = set_condition(
            conditions, "PodScheduled", "False", "Unschedulable", message, self._deps.clock.now()
        )
        metadata = proxy["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        try:
            raw = await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"], sub="status")
        except StatusError as error:
            log.info("condition not written: %s", error)
            return
        self._proxies.absorb(raw)
        self._deps.recorder.event(proxy, "Warning", "FailedScheduling", message)
