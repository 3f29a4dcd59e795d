"""Writes of a move. UID and resourceVersion guard them, and a new leader can continue after any of them."""

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition
from agent.api.kinds import PODS
from agent.api.names import lifecycle, moves
from agent.base.clock import parse, stamp
from agent.clusters.deps import Deps
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from agent.kube.store import Key, Object
from agent.model import replacement
from agent.model.replacement import Moved
from agent.model.status import status_of_given_up
from agent.moves.mover.metrics import MOVES, SECONDS
from agent.moves.mover.view import Adopt, Create, Discard, Evict, Fail, Mark, Owner, Pod, Restore, Tell

log = logging.getLogger(__name__)

Raw = dict[str, Any]

_DEAD = "its target is lost: nothing of it runs any more there, and it is for its owner to make another pod"
_NOT_ELECTED = (
    "it would run here, since the webhook has not made it a proxy pod: is that called for this namespace, and does the"
    " template ask for it?"
)
_QUOTA = "exceeded quota"
QUOTA_SECONDS, REFUSED_SECONDS = 30.0, 600.0
"""Seconds before a refused replacement is tried again. Temporary refusals start with the first, and double up to the
second; all others wait for the second."""


class Refusal:
    """Reason why a replacement of an owner was not created or was useless, and when to try again."""

    def __init__(self, message: str, *, passes: bool, before: "Refusal | None" = None) -> None:
        """:param passes: whether the reason is temporary, so that the pods wait and are not evicted instead"""
        self.message = message
        self.passes = passes
        self.tries: int = before.tries + 1 if passes and before is not None and before.passes else 0
        seconds = min(REFUSED_SECONDS, QUOTA_SECONDS * 2.0 ** min(self.tries, 16)) if passes else REFUSED_SECONDS
        self.until = time.monotonic() + seconds

    @property
    def stands(self) -> bool:
        """Whether it is too early to try again."""
        return time.monotonic() < self.until


class Writer:
    """Writes to the API server. Skips pods that have been deleted; Conflict leaves a changed pod to the next try."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._pods = deps.proxies.informer
        self.refusals: dict[str, Refusal] = {}
        """By UID of the owner."""

    async def create(self, owner: Owner, raw: Raw, action: Create, left_out: str) -> None:
        """Create a replacement. Raises KubeError."""
        old = self._now(raw["metadata"]["namespace"], action.old)
        if old is None:
            return
        if raw["metadata"]["uid"] in self.refusals and not await self.is_elected(owner, raw):
            return
        since = stamp(self._deps.clock.now())
        template = replacement.digest(raw["spec"]["template"])
        moved = Moved(old.node_name, action.old.cause, since, template)
        manifest = replacement.manifest(raw, old.decode(), action.name, left_out, moved)
        try:
            answer = await self._client.create_raw(PODS, manifest)
        except AlreadyExists:
            await self._find(owner, raw, action)
            return
        except (Forbidden, Invalid) as error:
            self._refuse(owner, raw, error.message, passes=_QUOTA in error.message)
            return
        created = Object(PODS, answer)
        if created.scheduler_name == names.SCHEDULER_PROXY and created.hot_annotations.replaces == old.uid:
            self._pods.absorb(answer)
            return
        # The webhook has not made it a proxy pod: it would run in the source.
        await self._client.delete(PODS, created.name, created.namespace, uid=created.uid, grace=0)
        self._refuse(owner, raw, _NOT_ELECTED, passes=True)

    async def is_elected(self, owner: Owner, raw: Raw | None) -> bool:
        """Return True if the webhook makes the owner's pods proxy pods, by a dry run; also if that is refused."""
        template = ((raw or {}).get("spec") or {}).get("template")
        if raw is None or not template:
            return True
        metadata = {"generateName": f"{raw['metadata']['name']}-", "namespace": raw["metadata"]["namespace"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            **template,
            "metadata": {**(template.get("metadata") or {}), **metadata},
        }
        try:
            answer = await self._client.create_raw(PODS, pod, dry_run=True)
        except (Forbidden, Invalid):
            return True
        if Object(PODS, answer).scheduler_name == names.SCHEDULER_PROXY:
            return True
        self._refuse(owner, raw, _NOT_ELECTED, passes=True)
        return False

    async def _find(self, owner: Owner, raw: Raw, action: Create) -> None:
        """After AlreadyExists: use the existing replacement, or let the move wait if another pod has the name."""
        namespace = raw["metadata"]["namespace"]
        try:
            found = Object(PODS, await self._client.get_raw(PODS, action.name, namespace))
        except NotFound:
            return
        if found.scheduler_name == names.SCHEDULER_PROXY and any(
            each.uid == raw["metadata"]["uid"] for each in found.head.metadata.owner_references or ()
        ):
            self._pods.absorb(found.raw)
        elif not found.deleting:
            self._refuse(owner, raw, f"pod {found.name} has its name, and is none: delete that pod", passes=True)

    def _refuse(self, owner: Owner, raw: Raw, why: str, *, passes: bool) -> None:
        """Record why no replacement could be created, once for all that were tried at the same time."""
        remedy = "it is tried again" if passes else "its pods are evicted instead"
        message = f"a replacement is refused: {why}; {remedy}"
        uid = raw["metadata"]["uid"]
        before = self.refusals.get(uid)
        if before is not None and before.stands:
            return
        self.refusals[uid] = Refusal(message, passes=passes, before=before)
        self._deps.recorder.event(raw, "Warning", "MoveWaiting", message)
        log.info("%s %s: %s", owner.kind, owner.name, message)

    async def mark(self, namespace: str, action: Mark) -> None:
        """Mark a pod as replaced."""
        old = self._now(namespace, action.old)
        if old is not None:
            marks = replacement.mark(old.decode(), action.new.uid, action.rank)
            await self._patch(old, {"annotations": marks})

    async def restore(self, namespace: str, action: Restore) -> None:
        """Remove the marks of a replaced pod."""
        old = self._now(namespace, action.old)
        if old is not None:
            await self._patch(old, {"annotations": replacement.restore(old.decode())})

    async def adopt(self, raw: Raw, action: Adopt, owner: Owner) -> None:
        """Give a replacement the labels of its owner's template.

        :raises Conflict: if the replacement no longer exists; later adoptions then wait, too
        """
        new = self._now(raw["metadata"]["namespace"], action.new)
        if new is None:
            raise Conflict(409, "Conflict", f"{action.new.name} is gone")
        labels = raw["spec"]["template"]["metadata"].get("labels") or {}
        missing = {key: value for key, value in labels.items() if new.labels.get(key) != value}
        annotations = new.annotations
        if not await self._patch(new, {"labels": missing, "annotations": {moves.ANNOTATION_REPLACES: None}}):
            raise Conflict(409, "Conflict", f"{action.new.name} is gone")
        self.refusals.pop(raw["metadata"]["uid"], None)
        MOVES.labels(action.old.cause, owner.kind, "replaced").inc()
        moved = replacement.moved(annotations)
        if moved is not None and moved.since:
            SECONDS.observe(max(0.0, (self._deps.clock.now() - parse(moved.since)).total_seconds()))
        message = f"it takes the place of {action.old.name}, which was in another target"
        self._deps.recorder.event(new.decode(), "Normal", "Moved", message)

    async def discard(self, namespace: str, action: Discard, owner: Owner) -> None:
        """Delete a replacement, guarded by its resourceVersion: not if it has been adopted in the meantime."""
        new = self._now(namespace, action.new)
        if new is None:
            return
        moved = replacement.moved(new.annotations)
        try:
            answer = await self._client.delete(PODS, new.name, namespace, uid=new.uid, version=new.version)
        except NotFound:
            return
        if answer:
            self._pods.absorb(answer)
        if action.new.ended:
            uid = next((each.uid for each in new.head.metadata.owner_references or ()), "")
            message = f"its replacement {new.name} has failed; another is made in a while"
            self.refusals[uid] = Refusal(message, passes=True, before=self.refusals.get(uid))
        MOVES.labels(moved.cause if moved is not None else "", owner.kind, "undone").inc()

    async def evict(self, namespace: str, action: Evict, owner: Owner) -> str:
        """Evict a pod. Return the message of a disruption budget that refuses it; empty if none does.

        A pod in a lost target is deleted. Its last status may still be ready, so that a disruption budget would protect
        it forever.
        """
        if action.old.cause == "Lost" and not (action.old.answers and action.old.available):
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(PODS, action.old.name, namespace, uid=action.old.uid)
            MOVES.labels(action.old.cause, owner.kind, "deleted").inc()
            return ""
        try:
            await self._evict(namespace, action)
        except (NotFound, Conflict):
            return ""
        except TooManyRequests as error:
            return error.message
        MOVES.labels(action.old.cause, owner.kind, "evicted").inc()
        return ""

    async def _evict(self, namespace: str, action: Evict) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": action.old.name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": action.old.uid}},
        }
        await self._client.create_raw(PODS, body, namespace, sub="eviction")

    async def fail(self, namespace: str, action: Fail, owner: Owner) -> None:
        """Set a pod's phase to Failed, guarded by its resourceVersion: not if feedback has just copied its end."""
        old = self._now(namespace, action.old)
        if old is None:
            return
        status = status_of_given_up(_DEAD, stamp(self._deps.clock.now()))
        body = {"metadata": {"uid": old.uid, "resourceVersion": old.version}, "status": status}
        try:
            answer = await self._client.patch_raw(PODS, old.name, body, namespace, sub="status", style="strategic")
        except NotFound:
            return
        self._pods.absorb(answer)
        MOVES.labels(action.old.cause, owner.kind, "failed").inc()
        self._deps.recorder.event(old.decode(), "Warning", lifecycle.POD_LOST, _DEAD)

    async def tell(self, namespace: str, action: Tell) -> None:
        """Write the condition Placed of a pod, and a Warning event if requested. Raises Invalid, Forbidden."""
        pod = self._now(namespace, action.pod)
        if pod is None:
            return
        conditions = (pod.decode().get("status") or {}).get("conditions")
        message = action.message or "it is in a target where it may be"
        status: Status = "False" if action.reason else "True"
        reason = action.reason or "Placed"
        changed = set_condition(conditions, moves.CONDITION, status, reason, message, self._deps.clock.now())
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [find_condition(changed, moves.CONDITION)]}}
        try:
            answer = await self._client.patch_raw(PODS, pod.name, body, namespace, sub="status", style="strategic")
        except (NotFound, Conflict) as error:
            log.info("condition of pod %s/%s not written: %s", namespace, pod.name, error)
            return
        self._pods.absorb(answer)
        if action.warns:
            self._deps.recorder.event(pod.decode(), "Warning", "MoveWaiting", message)

    def _now(self, namespace: str, pod: Pod) -> Object | None:
        """Return a pod from the store; None if it has been deleted, or recreated with another UID."""
        found = self._pods.store.get((namespace, pod.name))
        return found if found is not None and found.uid == pod.uid else None

    async def _patch(self, pod: Object, metadata: Mapping[str, Any]) -> bool:
        key: Key = pod.key
        guards = {"uid": pod.uid, "resourceVersion": pod.version}
        try:
            answer = await self._client.patch_raw(PODS, key[1], {"metadata": {**guards, **metadata}}, key[0])
        except NotFound:
            return False
        self._pods.absorb(answer)
        return True
