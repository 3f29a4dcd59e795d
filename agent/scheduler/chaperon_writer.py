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
from agent.clusters import chaperons
from agent.clusters.agenthealth import GIVE_UP, answers
from agent.clusters.deps import Deps
from agent.clusters.refusal_backoff import concerns_all
from agent.clusters.selecting import SelectingServices
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
"""Reason of a target that answers reads, and leaves the creation of chaperons unanswered."""

FAILING = "PodsFailing"
"""Reason of a target that takes chaperons, where no pods can be created for them."""

_ANSWER_SECONDS = 10.0
"""So long a target's agent may take to answer; one that lives does within moments."""
_PLACED_SECONDS = 5.0
"""When to look again at a delegate that has a node which its chaperon does not tell."""


class Foreign(Exception):
    """A chaperon of the name is there and belongs to another pod."""


class ChaperonRefused(Exception):
    """The target has answered, and not taken a chaperon or what it needs; the message is what the pod says of it.

    `for_certain`: there is no chaperon by this, and there will be none.
    """

    def __init__(self, message: str, *, for_certain: bool) -> None:
        super().__init__(message)
        self.for_certain = for_certain


class ChaperonWriter:
    """Writes to targets; the answer to each write goes into the store of chaperons, and wakes nobody."""

    def __init__(self, deps: Deps, cache: SchedulerCache, proxies: ProxyWriter) -> None:
        self._deps = deps
        self._cache = cache
        self._proxies = proxies
        self._services = SelectingServices(deps.local)
        self._made: tuple[tuple[str, str, bool, str, bool, bool], dict[str, Any]] = (
            ("", "", False, "", False, True),
            {},
        )
        """The chaperon made last, and of what."""

    async def create(self, proxy: dict[str, Any], target: Target, *, reserve: bool = False) -> None:
        """Create the chaperon; an answer that it is there already is as good (ruling 2).

        :raises InvalidPod: if the proxy pod cannot be made into one
        :raises Foreign: if another pod's is in the way
        :raises ChaperonRefused: if the target refuses it
        :raises Unsent: if it has not left: there is no connection, or the target is being removed
        """
        manifest = self._delayed(self._manifest(proxy, target, reserve=reserve), proxy, target)
        metadata, sent = proxy["metadata"], False
        self._proxies.stopwatch.lap(metadata["uid"], "queue")
        if self._deps.sending.is_closed(target):
            raise Unsent(f"target {target.title} is being removed")
        with self._deps.sending.holding(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            try:
                await self._deps.prerequisites.ensure(proxy, target)
                if not target.ready:
                    # Another cluster may answer in its place by now.
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
        with self._deps.sending.request(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            self._proxies.absorb(target.chaperons, await target.port.create_raw(CHAPERONS, manifest))
        label_collisions.report(self._deps, proxy, target)

    def _manifest(self, proxy: dict[str, Any], target: Target, *, reserve: bool) -> dict[str, Any]:
        """The candidates of a pod are the same in all targets, and are mostly made one after the other."""
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
        """With what delays the end of the delegate, if that is asked for, and a Service selects it, or may."""
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
        moment, uid = self._deps.sending.moment, proxy["metadata"]["uid"]
        raw = await target.port.get_raw(CHAPERONS, metadata["name"], metadata["namespace"])
        if Object(CHAPERONS, raw).labels.get(names.LABEL_PARENT_UID) != uid:
            raise Foreign(f"PodChaperon {metadata['name']} exists and belongs to another pod")
        target.chaperons.absorb(raw)
        self._deps.sending.read(target, moment, uid)

    async def annotate(self, target: Target, chaperon: Mapping[str, Any], key: str, value: str) -> None:
        """Write one annotation of a chaperon with these metadata, guarded by UID and version; nothing if it is gone."""
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
        """Remember why a target could not take the pod, then delete the chaperon there, unless its delegate has a node.

        A scheduler there may give it one at any moment, which no precondition on the chaperon notices. So the target's
        agent is asked to delete the delegate, at a version that has no node; Feedback then deletes the chaperon.

        :param warn: whether an event tells of it as well
        :return: in how many seconds to look again, unless something changes before; None if the chaperon was deleted
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
    """Seconds in which a target's agent may still answer; None if it was not asked to give up the delegate."""
    if givingup.ANNOTATION_GIVE_UP not in annotations:
        return None
    try:
        asked = parse(annotations[givingup.ANNOTATION_GIVE_UP])
    except ValueError:
        return 0.0
    return min(max(0.0, _ANSWER_SECONDS - (now - asked).total_seconds()), _ANSWER_SECONDS)


def _refusal(proxy: Mapping[str, Any], target: Target, error: StatusError, *, sent: bool) -> ChaperonRefused | None:
    """What an error means that came of sending a chaperon, which the target's memory takes note of.

    None for one that another try may overcome at once, or that did not come from the target.

    :param sent: whether the chaperon itself was refused, and not something that the pod needs there
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
    """Whether a chaperon says that no pods can be created in its cluster for now, whatever is in them."""
    conditions = (chaperon.get("status") or {}).get("conditions")
    return (find_condition(conditions, PODS_CREATED) or {}).get("status") == "False"


def note_refusal(proxy: Mapping[str, Any], target: Target, reason: str, words: str) -> None:
    """A target refuses a pod for a reason that concerns all pods of its namespace."""
    target.refusal_backoff.refused(proxy["metadata"]["namespace"], proxy["metadata"]["uid"], reason, words)
