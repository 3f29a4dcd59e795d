"""Chaperon writer: creates and changes chaperons in targets, and interprets refusals of the target."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from agent.api import names
from agent.api.conditions import PODS_CREATED, find_condition
from agent.api.kinds import CHAPERONS
from agent.api.names import givingup
from agent.base.clock import parse, stamp
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import GIVE_UP, answers
from agent.clusters.health.refusal_backoff import concerns_all
from agent.clusters.stores import chaperons
from agent.clusters.stores.selecting_services import SelectingServices
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError, Unauthorized, Unreachable, Unsent
from agent.kube.store import Object
from agent.model import shutdowndelay
from agent.model.delegatepod import chaperon as make_chaperon
from agent.scheduler import label_collisions
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.modes import Mode
from agent.scheduler.proxy_writer import ProxyWriter

NO_ANSWER = "NoAnswer"
"""Reason for a target that answers reads but does not answer requests to create chaperons."""

FAILING = "PodsFailing"
"""Reason for a target that accepts chaperons but in which no pods can be created for them."""

_ANSWER_SECONDS = 10.0
"""Seconds to wait for the target's agent to answer; a running agent answers within moments."""
_PLACED_SECONDS = 5.0
"""Seconds until the next check of a delegate that has a node which its chaperon's status does not show yet."""


class Foreign(Exception):
    """A chaperon with the computed name exists and belongs to another pod."""


class ChaperonRefused(Exception):
    """The target refused a chaperon or an object that it needs; the message is recorded on the pod.

    `for_certain`: True if this request created no chaperon and cannot create one later.
    """

    def __init__(self, message: str, *, for_certain: bool) -> None:
        super().__init__(message)
        self.for_certain = for_certain


class ChaperonWriter:
    """All writes to chaperons. Each response enters the store of chaperons without waking subscribers."""

    def __init__(self, deps: Deps, cache: SchedulerCache, proxies: ProxyWriter) -> None:
        self._deps = deps
        self._cache = cache
        self._proxies = proxies
        self._services = SelectingServices(deps.local)
        self._made: tuple[tuple[str, str, bool, str, bool, bool], dict[str, Any]] = (
            ("", "", False, "", False, True),
            {},
        )
        """The manifest built last, and the inputs that it was built from."""

    async def create(self, proxy: dict[str, Any], target: Target, *, reserve: bool = False) -> None:
        """Create the chaperon; AlreadyExists counts as success if it belongs to this pod (ruling 2).

        :raises InvalidPod: if no chaperon can be made from the proxy pod
        :raises Foreign: if a chaperon of this name belongs to another pod
        :raises ChaperonRefused: if the target refuses it
        :raises Unsent: if no request was sent: the target is not connected, or is being removed
        """
        manifest = self._delayed(self._manifest(proxy, target, reserve=reserve), proxy, target)
        metadata, sent = proxy["metadata"], False
        self._proxies.stopwatch.lap(metadata["uid"], "queue")
        if self._deps.inflight_chaperons.is_closed(target):
            raise Unsent(f"target {target.title} is being removed")
        with self._deps.inflight_chaperons.holding(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            try:
                await self._deps.prerequisites.ensure(proxy, target)
                if not target.ready:
                    # Another cluster may answer at this address by now.
                    raise Unsent(target.record.message)
                sent = True
                await self._post(proxy, target, manifest)
            except AlreadyExists:
                await self._adopt(target, proxy, manifest["metadata"])
            except Unreachable:
                target.probe_now()
                raise
            except StatusError as error:
                raise _refusal(proxy, target, error, sent=sent) or error from error
        self._proxies.stopwatch.lap(metadata["uid"], "candidate")

    async def _post(self, proxy: dict[str, Any], target: Target, manifest: dict[str, Any]) -> None:
        metadata = proxy["metadata"]
        self._deps.chaperons.expect(target, metadata["uid"])
        with self._deps.inflight_chaperons.request(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            self._proxies.absorb(target.chaperons, await target.port.create_raw(CHAPERONS, manifest))
        label_collisions.report(self._deps, proxy, target)

    def _manifest(self, proxy: dict[str, Any], target: Target, *, reserve: bool) -> dict[str, Any]:
        """Build the chaperon, or reuse the last one: candidates of a pod are equal in all targets and mostly built in
        sequence.
        """
        metadata, settings = proxy["metadata"], self._deps.settings
        source_api = "" if target.is_self else settings.source_api
        injected = self._cache.injected_follow(metadata["namespace"])
        exact = not self._deps.unlabelled.any(target, metadata["namespace"])
        made_of = (metadata["uid"], metadata["resourceVersion"], reserve, source_api, injected, exact)
        if self._made[0] != made_of:
            made = make_chaperon(
                proxy,
                cluster_name=settings.cluster_name,
                cluster_uid=self._deps.cluster_uid,
                reserve=reserve,
                source_api=source_api,
                injected=injected,
                exact=exact,
            )
            self._made = (made_of, made)
        return self._made[1]

    def _delayed(self, manifest: dict[str, Any], proxy: dict[str, Any], target: Target) -> dict[str, Any]:
        """Add the shutdown delay set on the pod or namespace, if a Service selects the pod or may select it."""
        metadata = proxy["metadata"]
        namespace = self._deps.namespaces.annotations(metadata["namespace"])
        delay = shutdowndelay.seconds(metadata.get("annotations") or {}, namespace)
        if not delay or not shutdowndelay.is_possible(self._cache.version(target)):
            return manifest
        known = self._services.informer.synced.is_set()
        if known and not self._services.of(metadata["namespace"], metadata.get("labels") or {}):
            return manifest
        return {**manifest, "spec": shutdowndelay.delayed(manifest["spec"], delay)}

    async def _adopt(self, target: Target, proxy: dict[str, Any], metadata: dict[str, Any]) -> None:
        moment, uid = self._deps.inflight_chaperons.moment, proxy["metadata"]["uid"]
        raw = await target.port.get_raw(CHAPERONS, metadata["name"], metadata["namespace"])
        if Object(CHAPERONS, raw).labels.get(names.LABEL_PARENT_UID) != uid:
            raise Foreign(f"PodChaperon {metadata['name']} exists and belongs to another pod")
        target.chaperons.absorb(raw)
        self._deps.inflight_chaperons.read(target, moment, uid)

    async def annotate(self, target: Target, chaperon: Mapping[str, Any], key: str, value: str) -> None:
        """Write one annotation of a chaperon, guarded by UID and version; do nothing if it has been deleted."""
        guard = {"uid": chaperon["uid"], "resourceVersion": chaperon["resourceVersion"]}
        body = {"metadata": {**guard, "annotations": {key: value}}}
        try:
            raw = await target.port.patch_raw(CHAPERONS, chaperon["name"], body, chaperon["namespace"])
        except NotFound:
            return
        except Unreachable:
            target.probe_now()
            raise
        self._proxies.absorb(target.chaperons, raw)

    async def give_up(
        self,
        proxy: Mapping[str, Any],
        target: Target,
        chaperon: Mapping[str, Any],
        reason: str,
        mode: Mode,
        *,
        warn: bool = False,
    ) -> float | None:
        """Record why a target could not take the pod, then delete its chaperon, unless the delegate has a node.

        The target's scheduler may bind the delegate at any moment, and no precondition on the chaperon covers that. The
        target's agent is therefore asked to delete the delegate at a version without a node; Feedback then deletes the
        chaperon.

        :param warn: True to emit an event as well
        :return: seconds until the next check, unless something changes before; None if the chaperon was deleted
        """
        now = self._deps.clock.now()
        left = _answer_due(chaperon["metadata"].get("annotations") or {}, now)
        if left:
            return left
        asks = left is None and answers(target.agent, target.summary, GIVE_UP)
        if not asks and await self._deps.live_reads.has_node(target, chaperon["metadata"]):
            return _PLACED_SECONDS
        failing = creates_no_pods(chaperon)
        if failing:
            note_refusal(proxy, target, FAILING, reason)
        if failing or warn:
            self._proxies.warn(proxy, target, reason)
        await self._proxies.remember(proxy, target.node_name, reason, mode, refused=failing)
        if not asks:
            await chaperons.delete(target, chaperon, as_it_was=True)
            return None
        with suppress(Conflict):
            await self.annotate(target, chaperon["metadata"], givingup.ANNOTATION_GIVE_UP, stamp(now))
        return _ANSWER_SECONDS


def _answer_due(annotations: Mapping[str, str], now: datetime) -> float | None:
    """Seconds left for the target's agent to answer; None if it was not asked to give up the delegate."""
    if givingup.ANNOTATION_GIVE_UP not in annotations:
        return None
    try:
        asked = parse(annotations[givingup.ANNOTATION_GIVE_UP])
    except ValueError:
        return 0.0
    return min(max(0.0, _ANSWER_SECONDS - (now - asked).total_seconds()), _ANSWER_SECONDS)


def _refusal(proxy: Mapping[str, Any], target: Target, error: StatusError, *, sent: bool) -> ChaperonRefused | None:
    """Interpret an error of sending a chaperon, and record it in the target's backoff.

    Return None if an immediate retry may succeed, or if the error did not come from the target.

    :param sent: True if the chaperon itself was refused, False if an object that the pod needs in the target was
    """
    if isinstance(error, Conflict) or not target.port.has_said(error):
        return None
    if isinstance(error, Unauthorized):
        target.probe_now()
    if concerns_all(error):
        note_refusal(proxy, target, type(error).__name__, error.message)
    else:
        metadata = proxy["metadata"]
        target.refusal_backoff.leave_turn(metadata["namespace"], metadata["uid"])
    if not sent:
        return ChaperonRefused(f"cannot create what the pod needs there: {error}", for_certain=True)
    return ChaperonRefused(f"cannot create PodChaperon: {error}", for_certain=error.status < 500)


def creates_no_pods(chaperon: Mapping[str, Any]) -> bool:
    """Return True if the chaperon's conditions report that no pods can be created in its cluster for now."""
    conditions = (chaperon.get("status") or {}).get("conditions")
    return (find_condition(conditions, PODS_CREATED) or {}).get("status") == "False"


def note_refusal(proxy: Mapping[str, Any], target: Target, reason: str, words: str) -> None:
    """Record that a target refuses a pod for a reason that concerns all pods of its namespace."""
    target.refusal_backoff.refused(proxy["metadata"]["namespace"], proxy["metadata"]["uid"], reason, words)
