"""Groups: reads the input of `decide`, and lets the members take their steps together or not at all."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

from agent.api import names
from agent.api.conditions import set_condition
from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.kube.errors import Conflict, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.model.podstate import ENDED
from agent.model.status import restarts_always
from agent.scheduler.cache.scheduler_cache import NEW_SECONDS, SchedulerCache
from agent.scheduler.groups import decide
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.order import Contender, GroupMemory, Timeouts
from agent.scheduler.limits import RequestLimits
from agent.scheduler.modes import group_name, group_of, is_open
from agent.scheduler.proxy_writer import ProxyWriter
from agent.scheduler.reserve.controller import ReserveScheduling
from agent.scheduler.reserve.view import ReservePod
from agent.scheduler.results import Done, RequeueAfter, Result, soonest

DISRUPTED = "DisruptionTarget"
REASON = "DeletionByGroupRestart"

_CONFLICT, _ERROR = RequeueAfter(0.2), RequeueAfter(1.0)
_SHORTEST_SECONDS = 0.05


class GroupScheduling:
    """Takes the next steps for the pods of a group. Calls `wake` with keys of groups whose turn may have come."""

    def __init__(
        self,
        deps: Deps,
        cache: SchedulerCache,
        proxies: ProxyWriter,
        reserve: ReserveScheduling,
        limits: RequestLimits,
        wake: Callable[[Key], None],
    ) -> None:
        self._cache = cache
        self._proxies = proxies
        self._reserve = reserve
        self._slots = limits.members
        self._wake = wake
        self._client = deps.local.client
        self._recorder = deps.recorder
        self._clock = deps.clock
        self._timeouts = Timeouts(timeout=deps.settings.group_timeout)
        self._memories: dict[Key, GroupMemory] = {}
        self._contenders: dict[Key, Contender] = {}
        cache.proxies.store.index("group", _group_value)

    def members(self, key: Key) -> list[Object]:
        """Return the pods of a group."""
        return self._cache.proxies.store.by_index("group", _value(key))

    async def step(self, key: Key) -> Result:
        """Take the next steps of all members."""
        pods = self.members(key)
        if not pods:
            self._memories.pop(key, None)
            if self._contenders.pop(key, None) is not None:
                self._wake_others(key)
            return Done()
        if any(map(self._cache.is_new, pods)):
            return RequeueAfter(NEW_SECONDS)
        group, flaws = self._gather(key, pods)
        rivals = [contender for other, contender in self._contenders.items() if other != key]
        decision = decide.decide(group, rivals, time.monotonic(), self._timeouts)
        self._memories[key] = decision.memory
        self._note(key, decide.contender(Group(group.key, group.members, decision.memory)))
        for pod in pods:
            if pod.uid in flaws:
                await self._proxies.tell(pod.decode(), flaws[pod.uid])
        ready = [pod for pod in pods if is_open(pod) and pod.uid in decision.permits and pod.uid not in flaws]
        gone = [pod for pod in pods if pod.uid in decision.to_delete]
        results = await asyncio.gather(
            *(self._attempt(partial(self._reserve.step, pod, decision.permits[pod.uid])) for pod in ready)
        )
        results += await asyncio.gather(*(self._attempt(partial(self._delete, pod, decision.why)) for pod in gone))
        if decision.seconds is not None:
            results.append(RequeueAfter(decision.seconds))
        result = soonest(*results)
        return RequeueAfter(max(_SHORTEST_SECONDS, result.seconds)) if isinstance(result, RequeueAfter) else result

    def _gather(self, key: Key, pods: list[Object]) -> tuple[Group, dict[str, str]]:
        flaws: dict[str, str] = {}
        members = []
        for pod in pods:
            if pod.gated:
                continue
            view: ReservePod | None = None
            if is_open(pod):
                self._cache.decisions.follow(pod)
                try:
                    view, _ = self._reserve.view(pod)
                except InvalidPod as error:
                    flaws[pod.uid] = str(error)
            reference = self._cache.decisions.reference(pod)
            members.append(_member(pod, view, ", group ".join(filter(None, reference or ()))))
        name = (key[0], group_name(key) or "")
        memory = self._memories.get(key) or GroupMemory(queued=time.monotonic())
        gated = sum(pod.gated and not pod.deleting for pod in pods)
        return Group(name, tuple(members), memory, gated, self._cache.closed(key[0])), flaws

    async def _attempt(self, step: Callable[[], Awaitable[Result]]) -> Result:
        async with self._slots:
            try:
                return await step()
            except Conflict:
                return _CONFLICT
            except KubeError:
                return _ERROR

    async def _delete(self, pod: Object, why: str) -> Result:
        """Delete a pod, after a DisruptionTarget condition by which failure policies of Jobs can ignore its failure.

        :raises Conflict: if the pod has changed
        :raises KubeError: if another request fails
        """
        raw, identity = pod.decode(), {"uid": pod.uid, "resourceVersion": pod.version}
        told = set_condition([], DISRUPTED, "True", REASON, why, self._clock.now())
        patch = {"metadata": identity, "status": {"conditions": told}}
        try:
            answer = await self._client.patch_raw(PODS, pod.name, patch, pod.namespace, sub="status", style="strategic")
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, version=Object(PODS, answer).version)
        except NotFound:
            return Done()
        self._recorder.event(raw, "Warning", "GroupRestart", why)
        return Done()

    def _note(self, key: Key, contender: Contender) -> None:
        before = self._contenders.get(key)
        self._contenders[key] = contender
        if (
            before is not None
            and before.wants
            and (before.holds or before.claims)
            and not (contender.wants and (contender.holds or contender.claims))
        ):
            self._wake_others(key)

    def _wake_others(self, key: Key) -> None:
        for other in self._contenders:
            if other != key:
                self._wake(other)


def _member(pod: Object, view: ReservePod | None, placement: str = "") -> Member:
    annotations = pod.annotations
    manifest = pod.decode()
    return Member(
        name=pod.name,
        uid=pod.uid,
        created=pod.head.metadata.creation_timestamp or "",
        size=names.annotation(annotations, names.POD_GROUP_SIZE),
        policy=names.annotation(annotations, names.POD_GROUP_POLICY),
        priority=pod.priority,
        owner=pod.controller.uid if pod.controller else "",
        view=view,
        node_name=pod.node_name,
        placement=placement,
        started=(manifest.get("status") or {}).get("startTime") or "",
        over=pod.phase in ENDED,
        going=pod.deleting,
        on_failure=names.annotation(annotations, names.POD_GROUP_ON_FAILURE),
        run=annotations.get(names.ANNOTATION_GROUP_RUN, ""),
        done=pod.phase == "Succeeded" and not restarts_always(manifest),
        grace=manifest["spec"].get("terminationGracePeriodSeconds") or 0,
    )


def _value(key: Key) -> str:
    return "/".join(key)


def _group_value(pod: Object) -> tuple[str, ...]:
    key = group_of(pod)
    return (_value(key),) if key else ()
