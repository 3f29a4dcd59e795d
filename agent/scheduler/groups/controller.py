"""Pods that start together or not at all: gathers what `group` decides about, and lets the members take their steps."""

import asyncio
import time
from collections.abc import Callable

from agent.api import names
from agent.clusters.deps import Deps
from agent.kube.errors import Conflict, KubeError
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.model.podstate import ENDED
from agent.model.status import restarts_always
from agent.scheduler.cache.scheduler_cache import NEW, WAITING, SchedulerCache
from agent.scheduler.groups import decide as room
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.takingback import TakingBack
from agent.scheduler.groups.turns import Memory, Stage, Timeouts
from agent.scheduler.modes import group_name, group_of, is_open
from agent.scheduler.reserve.controller import ReserveScheduling
from agent.scheduler.reserve.decide import Permit, ReservePod
from agent.scheduler.writes import Writes

_AT_ONCE = 32
_RETRY_SECONDS = 0.2


class GroupScheduling:
    """`wake` is called with the keys of groups whose turn may have come."""

    def __init__(
        self,
        deps: Deps,
        cache: SchedulerCache,
        writes: Writes,
        reserving: ReserveScheduling,
        wake: Callable[[Key], None],
    ) -> None:
        self._cache = cache
        self._writes = writes
        self._reserving = reserving
        self._wake = wake
        self._taking_back = TakingBack(deps)
        self._limits = Timeouts(timeout=deps.settings.group_timeout)
        self._memories: dict[Key, Memory] = {}
        self._stages: dict[Key, Stage] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        cache.proxies.store.index("group", _group_value)

    def members(self, key: Key) -> list[Object]:
        """The pods of a group."""
        return self._cache.proxies.store.by_index("group", _value(key))

    async def step(self, key: Key) -> float | None:
        """The next steps of all members; returns in how many seconds to look again, if the group is to."""
        pods = self.members(key)
        if not pods:
            self._memories.pop(key, None)
            if self._stages.pop(key, None) is not None:
                self._wake_others(key)
            return None
        if any(map(self._cache.is_early, pods)):
            return NEW.total_seconds()
        group, flaws = self._gather(key, pods)
        rivals = [stage for other, stage in self._stages.items() if other != key]
        verdict = room.decide(group, rivals, time.monotonic(), self._limits)
        self._memories[key] = verdict.memory
        self._note(key, room.stage(Group(group.key, group.members, verdict.memory)))
        for pod in pods:
            if pod.uid in flaws:
                await self._writes.say(pod.decode(), flaws[pod.uid])
        waits = await asyncio.gather(
            *(
                self._member(pod, verdict.gates[pod.uid])
                for pod in pods
                if is_open(pod) and pod.uid in verdict.gates and pod.uid not in flaws
            )
        )
        gone = [pod for pod in pods if pod.uid in verdict.taken_back]
        waits += await asyncio.gather(*(self._take_back(pod, verdict.why) for pod in gone))
        due = [wait for wait in (*waits, verdict.seconds) if wait is not None and wait != WAITING]
        if due:
            return max(0.05, min(due))
        return WAITING if WAITING in waits else None

    def _gather(self, key: Key, pods: list[Object]) -> tuple[Group, dict[str, str]]:
        flaws: dict[str, str] = {}
        members = []
        for pod in pods:
            if pod.gated:
                continue
            view: ReservePod | None = None
            if is_open(pod):
                try:
                    view, _ = self._reserving.view(pod)
                except InvalidPod as error:
                    flaws[pod.uid] = str(error)
            members.append(_member(pod, view))
        name = (key[0], group_name(key) or "")
        memory = self._memories.get(key) or Memory(queued=time.monotonic())
        gated = sum(pod.gated and not pod.deleting for pod in pods)
        return Group(name, tuple(members), memory, gated, self._cache.closed(key[0])), flaws

    async def _member(self, pod: Object, gate: Permit) -> float | None:
        async with self._slots:
            try:
                return await self._reserving.step(pod, gate)
            except Conflict:
                return _RETRY_SECONDS
            except KubeError:
                return 5 * _RETRY_SECONDS

    async def _take_back(self, pod: Object, why: str) -> float | None:
        async with self._slots:
            try:
                await self._taking_back.take_back(pod, why)
            except Conflict:
                return _RETRY_SECONDS
            except KubeError:
                return 5 * _RETRY_SECONDS
        return None

    def _note(self, key: Key, stage: Stage) -> None:
        before = self._stages.get(key)
        self._stages[key] = stage
        if (
            before is not None
            and before.wants
            and (before.holds or before.claims)
            and not (stage.wants and (stage.holds or stage.claims))
        ):
            self._wake_others(key)

    def _wake_others(self, key: Key) -> None:
        for other in self._stages:
            if other != key:
                self._wake(other)


def _member(pod: Object, view: ReservePod | None) -> Member:
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
