"""Chaperon: create the delegate pod of a PodChaperon, and copy the pod's status to the PodChaperon.

Watches  PodChaperons, delegate pods, Sources and ClusterSources of this cluster, and its virtual nodes if it has any.
Writes   delegate pods (creates them; deletes those without a node that their source gives up); the chaperon's status,
  its non-wire annotations, and its annotations for a missing or ending pod.

Needs no connection to the source.
"""

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.base.reverted_writes import RevertedWrites
from agent.clusters.deps import Deps
from agent.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    StatusError,
    Unreachable,
)
from agent.kube.store import Key, Object
from agent.model import priorityclass
from agent.model.podstate import ENDED, is_refused
from agent.model.spread import honoring_taints
from agent.pods.chaperon import actions, decide
from agent.pods.chaperon.delegate_memory import Ended, Failures, is_controlled
from agent.pods.chaperon.once import Once, made
from agent.pods.chaperon.policies import Policies
from agent.pods.chaperon.refusals import refused
from agent.pods.chaperon.telling import is_news
from agent.runtime.controller import Controller

_CANNOT_CREATE = "cannot create pod for pod chaperon"
_REFUSED_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
"""Seconds until a pod is re-checked that exists but that the watch has not shown yet."""
_START_SECONDS = 5.0
"""Longest time for which the report of a node waits for the kubelet's first status of the pod."""


class Chaperon(Controller[Key]):
    """Reconciles one chaperon at a time."""

    name = "chaperon"
    workers = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._chaperons = deps.local.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self._pods = deps.local.informer(PODS, labels=names.LABEL_PARENT_UID)
        self._virtual = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self._placed: dict[Key, float] = {}
        """Chaperons whose delegate has a node that is not reported yet, with the monotonic time of the first look."""
        self._agreed: dict[Key, tuple[str, str]] = {}
        """Versions of a chaperon and its delegate that agree, so that nothing has to be done."""
        self._once = Once(self._client, self._chaperons, self._pods)
        self._ended = Ended(self._pods)
        self._failures = Failures()
        self._followed: RevertedWrites[Key] = RevertedWrites()
        """Live changes that were applied, by delegate. Another controller of this cluster may revert them."""
        self._chaperons.flaws.subscribe(self._unreadable)
        self.watch(self._chaperons, lambda chaperon: (chaperon.key,))
        self.watch(self._pods, lambda pod: (pod.key,) if is_controlled(pod) else ())
        self.watch(self._virtual, lambda node: ())
        self._policies = Policies(deps, self._policy_changed)

    def order(self, key: Key) -> Any:
        """Handle ended pods that are being deleted first: their chaperons are deleted within moments."""
        pod = self._pods.store.get(key)
        return key not in self._ended and (pod is None or not pod.deleting or pod.phase not in ENDED)

    async def reconcile(self, key: Key) -> float | None:
        """Compare a chaperon with its pod and apply the difference."""
        chaperon, pod = self._chaperons.store.get(key), self._pods.store.get(key)
        last = self._ended.of(key, chaperon)
        if chaperon is None or (chaperon.deleting and last is None and (pod is None or pod.phase not in ENDED)):
            self._placed.pop(key, None)
            self._agreed.pop(key, None)
            self._once.forget(chaperon)
            self._failures.forget(key)
            self._followed.forget(key)
            return None
        versions = (chaperon.version, pod.version) if pod is not None else None
        if versions is not None and versions == self._agreed.get(key):
            return None
        owner, found = chaperon.decode(), pod.decode() if pod else None
        missing, rules = self._deps.settings.pod_missing, self._policies.of(owner, found)
        gone = last.decode() if last is not None else None
        view = decide.ChaperonAndPod(
            owner,
            found,
            missing,
            self._silence(key, owner, found),
            rules,
            last=gone,
            candidates=self._deps.settings.candidate_scheduler,
            unmade=self._once.is_unmade(chaperon),
            unborn=self._once.is_unborn(chaperon),
            bar=self._deps.fences.seen.bar(chaperon),
        )
        return await self._take(key, view, versions, decide.decide(view, self._deps.clock.now()))

    def _policy_changed(self, namespace: str) -> None:
        for chaperon in self._chaperons.store:
            if namespace in ("", chaperon.namespace):
                self.queue.add(chaperon.key)

    def _unreadable(self, key: Key, why: str) -> None:
        if not why:
            return
        found = self._chaperons.store.get(key)
        identity = {"namespace": key[0], "name": key[1], "uid": found.uid if found is not None else None}
        about = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "metadata": identity}
        message = f"not all of it can be read, correct or delete it: {why}"
        self._deps.recorder.event(about, "Warning", "Unreadable", message)

    def _silence(self, key: Key, chaperon: dict[str, Any], pod: dict[str, Any] | None) -> float:
        if not is_news(chaperon, pod):
            self._placed.pop(key, None)
            return 0.0
        return self._placed.setdefault(key, time.monotonic()) + _START_SECONDS - time.monotonic()

    async def _take(
        self, key: Key, view: decide.ChaperonAndPod, versions: tuple[str, str] | None, found: list[actions.Action]
    ) -> float | None:
        self._agreed.pop(key, None)
        match found:
            case []:
                written = versions[0] if versions is not None else ""
            case [actions.PutStatus(status)]:
                written = await self._tell(view, status)
            case _:
                left = self._reverted(key, view, found)
                found = [each for each in found if not left or not isinstance(each, actions.PatchPod)]
                pauses = [left or None, *[await self._apply(view, action) for action in found]]
                return min((pause for pause in pauses if pause is not None), default=None)
        if written and versions is not None:
            self._agreed[key] = (written, versions[1])
        return None

    def _reverted(self, key: Key, view: decide.ChaperonAndPod, found: list[actions.Action]) -> float:
        """Return the seconds to wait before live changes that another controller keeps reverting; 0 for none."""
        if view.pod is None or not any(isinstance(each, actions.PatchPod) for each in found):
            return 0.0
        changes = (view.chaperon["metadata"].get("annotations") or {}).get(names.ANNOTATION_LIVE_CHANGES, "")
        cause = f"{view.pod['metadata']['uid']} {changes}"
        left = self._followed.pause(key, cause)
        if not left:
            self._followed.record(key, cause)
        return left

    async def _apply(self, view: decide.ChaperonAndPod, action: actions.Action) -> float | None:
        namespace, name = view.chaperon["metadata"]["namespace"], view.chaperon["metadata"]["name"]
        match action:
            case actions.CreatePod(once):
                return await self._create(view, once=once)
            case actions.PatchChaperon(patch, if_missing):
                if if_missing and await self._is_there(view):
                    return _AGAIN_SECONDS
                self._chaperons.absorb(await self._client.patch_raw(CHAPERONS, name, patch, namespace))
            case actions.PutStatus(status):
                await self._tell(view, status)
            case actions.PatchPod(patch, sub):
                await self._follow(view, patch, sub)
            case actions.DeletePod():
                await self._delete(view.pod or {})
            case actions.Foreign(message):
                self._deps.recorder.event(view.chaperon, "Warning", "ErrResourceExists", message)
                return await self._refused(view, message)
            case actions.Refuse(message, by):
                self._deps.recorder.event(view.chaperon, "Warning", "FailedCreate", message)
                return await self._refused(view, message, by)
            case actions.RefuseChange(message):
                self._deps.recorder.event(view.pod or view.chaperon, "Warning", "FailedUpdate", message)
            case actions.LeaveOut(message):
                self._deps.recorder.event(view.pod or view.chaperon, "Warning", "AnnotationsLeftOut", message)
            case actions.NoScheduler(message, status):
                self._deps.recorder.event(view.pod or view.chaperon, "Warning", "NoScheduler", message)
                await self._tell(view, status)
            case actions.LookAgain(seconds):
                return seconds
        return None

    async def _tell(self, view: decide.ChaperonAndPod, status: dict[str, Any]) -> str:
        """Replace the status. Return the chaperon's new version; empty if the chaperon has been deleted.

        For a custom resource a PUT costs the API server a quarter less than a patch.
        """
        metadata = view.chaperon["metadata"]
        current = self._chaperons.store.get((metadata["namespace"], metadata["name"]))
        if current is None or current.uid != metadata["uid"]:
            return ""
        fresh = {**view.chaperon, "metadata": {**metadata, "resourceVersion": current.version}, "status": status}
        try:
            raw = await self._client.update_raw(CHAPERONS, fresh, sub="status")
        except NotFound:
            return ""
        return self._chaperons.absorb(raw).version

    async def _follow(self, view: decide.ChaperonAndPod, patch: dict[str, Any], sub: str | None) -> None:
        namespace, name = view.chaperon["metadata"]["namespace"], view.chaperon["metadata"]["name"]
        try:
            raw = await self._client.patch_raw(PODS, name, patch, namespace, sub=sub, style="strategic")
        except (BadRequest, Forbidden, Invalid, NotFound) as error:
            # The status is still reported, and the next change of pod or chaperon retries. Events on the delegate are
            # copied to the proxy pod, where the author of the change sees them.
            self._deps.recorder.event(view.pod or view.chaperon, "Warning", "FailedUpdate", error.message)
            return
        self._pods.absorb(raw)

    async def _delete(self, pod: dict[str, Any]) -> None:
        """Delete the pod at this version. Any later change, for example by a scheduler, conflicts and requeues the
        chaperon."""
        metadata = pod["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        with suppress(Conflict, NotFound):
            await self._client.delete(PODS, metadata["name"], metadata["namespace"], uid=uid, version=version)

    async def _is_there(self, view: decide.ChaperonAndPod) -> bool:
        """Return whether the API server has the chaperon's own pod; if so, add it to the store."""
        metadata = view.chaperon["metadata"]
        try:
            raw = await self._client.get_raw(PODS, metadata["name"], metadata["namespace"])
        except NotFound:
            return False
        controller = Object(PODS, raw).controller
        if controller is None or controller.uid != metadata["uid"]:
            return False
        self._pods.absorb(raw)
        return True

    async def _create(self, view: decide.ChaperonAndPod, *, once: bool) -> float | None:
        key = (view.chaperon["metadata"]["namespace"], view.chaperon["metadata"]["name"])
        # Delegates stay in this cluster, so its own virtual nodes are no topology domains for them.
        chaperon = honoring_taints(view.chaperon) if len(self._virtual.store) else view.chaperon
        try:
            raw, lacks = await made(self._client, self._once if once else None, chaperon)
        except AlreadyExists:
            self._failures.forget(key)
            return await self._in_the_way(view)
        except (BadRequest, Forbidden, Invalid) as error:
            self._failures.forget(key)
            self._deps.recorder.event(view.chaperon, "Warning", "FailedCreate", error.message)
            return await self._refused(view, f"{_CANNOT_CREATE}: {error.message}")
        except Conflict:
            raise
        except (StatusError, Unreachable) as error:
            return await self._failing(key, view, error)
        pod = self._pods.absorb(raw)
        if lacks:
            # Recorded on the delegate, because its warnings are copied to the source.
            self._deps.recorder.event(pod.decode(), "Warning", "PriorityClassMissing", priorityclass.told(lacks))
        self._failures.forget(key)
        return None

    async def _failing(self, key: Key, view: decide.ChaperonAndPod, error: KubeError) -> float:
        """Pause before the next attempt. A brief failure, such as the restart of a webhook, is not reported to the
        source."""
        pause = self._failures.pause(key)
        if pause is None:
            raise error
        if not is_refused(view.chaperon.get("status") or {}):
            # Reported once, since the error text differs between attempts.
            self._deps.recorder.event(view.chaperon, "Warning", "FailedCreate", str(error))
            await self._tell(view, refused(f"{_CANNOT_CREATE}: {error}", passing=True))
        return pause

    async def _in_the_way(self, view: decide.ChaperonAndPod) -> float | None:
        """Handle AlreadyExists: the pod is ours and the watch has not shown it yet, or it is foreign."""
        namespace, name = view.chaperon["metadata"]["namespace"], view.chaperon["metadata"]["name"]
        try:
            raw = await self._client.get_raw(PODS, name, namespace)
        except NotFound:
            return 0.1
        self._pods.absorb(raw)
        again: float | None = None
        fresh = replace(view, pod=Object(PODS, raw).decode(), silence=0.0)
        for action in decide.decide(fresh, self._deps.clock.now()):
            again = await self._apply(fresh, action)
        return again

    async def _refused(self, view: decide.ChaperonAndPod, message: str, by: str = "") -> float:
        await self._once.withdraw(view.chaperon)
        status = refused(message, by)
        if (view.chaperon.get("status") or {}).get("conditions") != status["conditions"]:
            await self._tell(view, status)
        return _REFUSED_SECONDS
