"""Mode `ranked`: one candidate at a time, in the target that the pod has claimed, allowed from the beginning."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.stores import chaperons
from agent.clusters.target import Target
from agent.kube.errors import KubeError, Unreachable, Unsent
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.model.errors import InvalidPod
from agent.model.podstate import taken_up_by
from agent.model.schedulername import special
from agent.ranking.explain import explain
from agent.scheduler.cache.missing_schedulers import PublishedSchedulers
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_writer import NO_ANSWER, ChaperonRefused, ChaperonWriter, Foreign, note_refusal
from agent.scheduler.failed_targets import FailedTarget, failed_targets_of
from agent.scheduler.limits import RequestLimits
from agent.scheduler.proxy_writer import ProxyWriter
from agent.scheduler.ranked import decide as steps
from agent.scheduler.ranked.neglected_chaperons import NeglectedChaperons
from agent.scheduler.results import AT_ONCE, Done, Queued, RequeueAfter, Result, WaitForChange, soonest_after

_SILENCES = 2
"""Unanswered chaperon requests in a row before the pod moves on: the link may have lost the first answer."""
_GATED_SECONDS = 3.0
"""Seconds that a delegate may have scheduling gates before its proxy pod reports it: most queues need moments."""
_MOVING = RequeueAfter(1.0)
"""Requeue until a delegate that may be left in another target has been deleted; each try reads the target again."""
_UNSETTLED = RequeueAfter(1.0)
"""Requeue without writing a condition: not all targets have been read yet."""


class RankedScheduling:
    """Takes the next step for one proxy pod."""

    def __init__(
        self,
        deps: Deps,
        cache: SchedulerCache,
        proxies: ProxyWriter,
        chaperons: ChaperonWriter,
        limits: RequestLimits,
        wake: Callable[[Key], None],
    ) -> None:
        self._deps = deps
        self._cache = cache
        self._proxies = proxies
        self._chaperons = chaperons
        self._dwell = timedelta(seconds=deps.settings.dwell)
        self._limiter = limits.chaperons
        self._published = PublishedSchedulers(deps)
        self._neglected = NeglectedChaperons(deps.settings.take_up, wake)
        self._unsent: dict[str, tuple[str, str]] = {}
        """Claim that this process wrote, and its renewal, by pod UID, while no chaperon can have been sent for it."""
        self._silences: dict[str, int] = {}
        """Number of consecutive unanswered chaperon requests, by pod UID."""

    def forget(self, uid: str) -> None:
        """Drop the state of a pod that needs no target any longer."""
        self._unsent.pop(uid, None)
        self._silences.pop(uid, None)
        self._neglected.forget(uid)
        self._limiter.cancel(uid)

    async def step(self, pod: Object) -> Result:
        """Take the next step for a pod, and return when to requeue it."""
        if not podstate.claimed_node(pod) and await self._cleared(pod):
            return _MOVING
        target = self._deps.targets.by_node(podstate.claimed_node(pod))
        placed = self._placed(pod, target)
        chaperon = placed.decode() if placed is not None else None
        if target is not None and target.ready and placed is not None and chaperon is not None:
            step = steps.fast_path(chaperon)
            if step is None and steps.is_gated(chaperon):
                waited = self._neglected.gate(pod, placed, target.node_name)
                if waited < _GATED_SECONDS:
                    return RequeueAfter(_GATED_SECONDS - waited)
                return await self._place(pod, target, chaperon)
            neglected = await self._is_neglected(pod, target, placed, chaperon)
            if isinstance(step, steps.Bind):
                await self._proxies.bind(pod, target.node_name, "ranked")
            if (
                step is not None
                and not neglected
                and (isinstance(step, steps.Bind) or not self._cache.misplaced(pod, target))
            ):
                return Done()
        return await self._place(pod, target, chaperon)

    async def _is_neglected(self, pod: Object, target: Target, placed: Object, chaperon: dict[str, Any]) -> bool:
        by = taken_up_by(chaperon)
        if by == "scheduler":
            if self._neglected.taken(pod.uid):
                target.refusal_backoff.accepted(pod.namespace)
                await self._note_scheduler(target, pod, chaperon, missing=False)
        elif by == "agent":
            self._neglected.forget(pod.uid)
        else:
            self._neglected.begin(pod, placed, target.node_name)
        neglected = self._neglected.is_neglected(pod.uid)
        if neglected and not by:
            await self._note_scheduler(target, pod, chaperon, missing=True)
        return neglected

    async def _note_scheduler(self, target: Target, pod: Object, chaperon: dict[str, Any], *, missing: bool) -> None:
        """Record whether a target lacks the scheduler that a chaperon names, if a cluster may lack it.

        Without a delegate, no scheduler can be missing. No agent reports delegates that no scheduler has handled,
        and Admiralty's agent publishes no lease, so the target is read directly.
        """
        scheduler = special(chaperon["spec"])
        if not scheduler or (missing and not await self._is_made(target, pod, chaperon)):
            return
        note = self._cache.missing.note if missing else self._cache.missing.forget
        note(target.node_name, scheduler)
        await self._published.publish(target, scheduler, missing=missing)

    async def _is_made(self, target: Target, pod: Object, chaperon: dict[str, Any]) -> bool:
        made = False
        with suppress(KubeError):
            made = await self._deps.live_reads.is_made(target, chaperon["metadata"])
        self._neglected.note_delegate(pod.uid, made=made)
        return made

    async def _cleared(self, pod: Object) -> bool:
        """Delete chaperons of an earlier agent for an unclaimed pod; return True while any, or a delegate, exists.

        Admiralty creates candidates in all targets; with another one of ours, the pod would have two delegates.
        Targets that connect during these reads are checked, too.
        """
        found = self._in_ready_targets(pod)
        for each in found:
            if not each.chaperon.deleting:
                await chaperons.delete(each.target, each.chaperon.decode())
        return bool(found) or await self._any_delegate_of(pod) or bool(self._in_ready_targets(pod))

    def _in_ready_targets(self, pod: Object) -> list[chaperons.Placed]:
        return [each for each in self._deps.chaperons.of(pod.key) if each.target.ready and each.is_of(pod)]

    async def _any_delegate_of(self, pod: Object) -> bool:
        """Return True if a ready target still has a delegate whose chaperon was deleted. Silent targets do not
        count.
        """
        known = self._deps.chaperons
        left = [each for each in self._deps.targets if known.departed(each, pod.uid) is not None and each.ready]
        for target in left:
            if not await self._deps.live_reads.is_free(target, pod):
                return True
            known.expect(target, pod.uid)
        return False

    def _placed(self, pod: Object, target: Target | None) -> Object | None:
        """Return the pod's chaperon in the target of its claim; None if it has none."""
        for each in self._deps.chaperons.of(pod.key):
            if each.target is target and each.is_of(pod):
                return each.chaperon
        return None

    async def _place(self, pod: Object, target: Target | None, chaperon: dict[str, Any] | None) -> Result:
        """Choose a target, or the step for a pod that its target cannot take."""
        proxy = pod.decode()
        try:
            _, ranking = self._cache.ranking(pod)
        except InvalidPod as error:
            await self._proxies.tell(proxy, f"{error}")
            return Done()
        claim = podstate.claimed_node(pod)
        view = steps.RankedPod(
            claim=claim,
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=podstate.is_held(pod.finalizers),
            claim_unsent=self._is_unsent(pod),
            claim_state=target.record.message if target is not None else "",
            chaperon=chaperon,
            failed=self._failed(proxy),
            ranking=ranking,
            now=self._deps.clock.now(),
            dwell=self._dwell,
            closed=self._cache.closed(pod.namespace),
            neglected=self._neglected.why(pod.uid, chaperon, target.agent if target is not None else None),
            misplaced=self._cache.misplaced(pod, target) if target is not None else "",
            spared=target is not None and self._cache.spared(pod, target),
        )
        step = steps.decide(view)
        if not isinstance(step, steps.GiveUp):
            self._cache.end_trials(pod, (step.node_name,) if isinstance(step, steps.Claim) else ())
        return await self._take(pod, proxy, view, step)

    @staticmethod
    def _failed(proxy: dict[str, Any]) -> dict[str, FailedTarget]:
        annotations = proxy["metadata"].get("annotations") or {}
        return failed_targets_of(proxy) if names.ANNOTATION_ATTEMPTS in annotations else {}

    async def _take(self, pod: Object, proxy: dict[str, Any], view: steps.RankedPod, step: steps.Step) -> Result:
        if isinstance(step, steps.Claim):
            return await self._claim(pod, proxy, self._deps.targets.by_node(step.node_name))
        self._limiter.cancel(pod.uid)
        target = self._deps.targets.by_node(view.claim)
        match step:
            case steps.GiveUp(reason) if view.chaperon is not None and target is not None:
                warn = bool(view.neglected)
                left = await self._chaperons.give_up(proxy, target, view.chaperon, reason, "ranked", warn=warn)
                return Done() if left is None else RequeueAfter(left)
            case steps.Wait(message, seconds):
                if message or view.chaperon is None:
                    if not self._cache.can_tell(pod):
                        return _UNSETTLED
                    later = await self._tell(pod, proxy, view, message)
                    return soonest_after(seconds, later)
            case steps.Stop(message):
                await self._proxies.tell(proxy, message)
                return WaitForChange()
            case _:
                pass
        return Done()

    async def _tell(self, pod: Object, proxy: dict[str, Any], view: steps.RankedPod, message: str) -> float | None:
        tried = {node: attempt.reason for node, attempt in view.failed.items()}
        claim = {view.claim: message} if message else {}
        ranking = self._cache.reasoned(pod, view.ranking)
        return await self._proxies.tell_rejections(proxy, explain(ranking, tried, claim), ranking)

    async def _claim(self, pod: Object, proxy: dict[str, Any], target: Target | None) -> Result:
        if target is None or self._deps.inflight_chaperons.is_closed(target):
            return WaitForChange()
        with self._limiter.slot(target.node_name, pod.uid, pod.key, pod.priority) as admitted:
            if not admitted:
                return Queued()
            # Held from before the claim, so that a concurrent release of the pod waits for the request that follows it.
            with self._deps.inflight_chaperons.holding(target, pod.key, pod.uid):
                return await self._go(pod, proxy, target)

    async def _go(self, pod: Object, proxy: dict[str, Any], target: Target) -> Result:
        before = self._deps.targets.by_node(podstate.claimed_node(pod))
        unsent = self._is_unsent(pod)
        if before not in (None, target) and not unsent and not await self._deps.live_reads.is_free(before, pod):
            return _MOVING
        claimed = await self._proxies.claim(pod, target)
        if claimed is None or self._cache.is_gone(claimed):
            return Done()
        self._proxies.stopwatch.lap(pod.uid, "queue")
        anew = unsent or podstate.claimed_node(pod) != target.node_name
        return await self._send(claimed, proxy, target, anew=anew)

    def _is_unsent(self, pod: Object) -> bool:
        return bool(podstate.claimed_node(pod)) and self._unsent.get(pod.uid) == podstate.claim_as_written(pod)

    async def _send(self, claimed: Object, proxy: dict[str, Any], target: Target, *, anew: bool) -> Result:
        """Send the chaperon for a new claim; `anew`: none can have been sent for this claim before."""
        self._unsent.pop(claimed.uid, None)
        try:
            await self._chaperons.create(proxy, target)
        except Unsent:
            self._note_unsent(claimed, anew=anew)
            raise
        except Unreachable as error:
            return await self._silent(claimed, proxy, target, error)
        except InvalidPod as error:
            await self._proxies.tell(proxy, str(error))
            return Done()
        except ChaperonRefused as error:
            self._note_unsent(claimed, anew=anew and error.for_certain)
            return await self._untaken(proxy, target, str(error))
        except Foreign as error:
            return await self._untaken(proxy, target, str(error))
        self._silences.pop(claimed.uid, None)
        placed = self._placed(claimed, target)
        if placed is not None:
            self._neglected.begin(claimed, placed, target.node_name)
        return Done()

    def _note_unsent(self, claimed: Object, *, anew: bool) -> None:
        if anew:
            self._unsent[claimed.uid] = podstate.claim_as_written(claimed)

    async def _silent(self, claimed: Object, proxy: dict[str, Any], target: Target, error: Unreachable) -> Result:
        """Handle a missing answer: the chaperon may exist or be created late, so read this target before any other."""
        if await self._deps.live_reads.has(target, claimed.namespace, claimed.uid):
            return _MOVING
        count = self._silences[claimed.uid] = self._silences.get(claimed.uid, 0) + 1
        if count < _SILENCES:
            raise error
        del self._silences[claimed.uid]
        note_refusal(proxy, target, NO_ANSWER, str(error))
        return await self._untaken(proxy, target, f"cannot create PodChaperon: {error}")

    async def _untaken(self, proxy: dict[str, Any], target: Target, reason: str) -> Result:
        """Record the refusal and requeue the pod at once for the next target."""
        self._silences.pop(proxy["metadata"]["uid"], None)
        self._proxies.warn(proxy, target, reason)
        await self._proxies.remember(proxy, target.node_name, reason, "ranked", refused=True)
        return AT_ONCE
