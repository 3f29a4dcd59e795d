"""Mode `reserve`: candidates in every feasible target; one that has a reservation is claimed, allowed and bound."""

import time
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.model import podstate
from agent.model.errors import InvalidPod
from agent.model.podstate import NEGATIVE, CandidateStatus, observe
from agent.ranking.explain import explain
from agent.ranking.rank import Ranking
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_writer import ChaperonWriter
from agent.scheduler.limits import RequestLimits
from agent.scheduler.modes import group_of
from agent.scheduler.proxy_writer import ProxyWriter
from agent.scheduler.reserve import decide, steps
from agent.scheduler.reserve.candidate_writer import CandidateWriter, CreateCandidate, DeleteChaperon, parent_uid
from agent.scheduler.reserve.view import PERMITTED, Permit, ReservePod, Timeouts, denied
from agent.scheduler.results import AT_ONCE, Done, Queued, RequeueAfter, Result, WaitForChange, soonest, soonest_after

_UNASKED = Ranking((), 0, ())
_AGAIN_SECONDS = 0.05
_LEFT = RequeueAfter(1.0)
"""Requeue until a delegate that was given up has been deleted; each try reads its target again."""


class _Ranked(NamedTuple):
    """The ranking for one pod, and the inputs that it was computed from."""

    moment: tuple[object, ...]
    ranking: Ranking


class ReserveScheduling:
    """Takes the next steps for one proxy pod."""

    def __init__(
        self,
        deps: Deps,
        cache: SchedulerCache,
        proxies: ProxyWriter,
        chaperons: ChaperonWriter,
        candidates: CandidateWriter,
        limits: RequestLimits,
    ) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._targets = deps.targets
        self._cache = cache
        self._proxies = proxies
        self._chaperons = chaperons
        self._writer = candidates
        self._undecided = limits.undecided
        self._changes = limits.changes
        settings = deps.settings
        self._most = settings.reserve_candidates
        self._timeouts = Timeouts(settings.reserve_patience, settings.dwell, take_up=settings.take_up)
        self._seen: dict[str, dict[str, CandidateStatus]] = {}
        self._rankings: dict[str, _Ranked] = {}

    def forget(self, uid: str) -> None:
        """Drop the state of a pod that needs no target any longer."""
        self._seen.pop(uid, None)
        self._rankings.pop(uid, None)
        self._writer.forget(uid)
        self._undecided.release(uid)
        self._changes.cancel(uid)

    async def admitted_step(self, pod: Object) -> Result:
        """As `step`, for a pod without a group, after it has been admitted to have candidates."""
        closed, claim = self._cache.closed(pod.namespace), podstate.claimed_node(pod)
        begun = closed or claim or self._deps.chaperons.of(pod.key)
        if not begun and not self._undecided.admits(pod.uid, pod.key, pod.priority):
            return Done()
        permit = PERMITTED
        if closed:
            # A claimed pod keeps its target.
            permit = Permit(only=claim) if claim else denied(closed)
        try:
            return await self.step(pod, permit)
        finally:
            if self._is_decided(pod):
                self._undecided.release(pod.uid)

    def _is_decided(self, pod: Object) -> bool:
        fresh = self._cache.proxies.store.get(pod.key)
        if fresh is None or podstate.claimed_node(fresh):
            return True
        seen = self._seen.get(pod.uid, {}).values()
        return not self._writer.creating(pod.uid) and all(s.going or s.state in NEGATIVE for s in seen)

    async def step(self, pod: Object, permit: Permit = PERMITTED) -> Result:
        """Take all steps that are possible now."""
        before = self._rankings.get(pod.uid)
        try:
            view, ranking = self.view(pod, permit, order=False)
            found = decide.decide(view, time.monotonic())
            if before is not None and self._rankings.get(pod.uid) is before and any(_counts(s, permit) for s in found):
                view, ranking = self.view(pod, permit, fresh=True)
                found = decide.decide(view, time.monotonic())
        except InvalidPod as error:
            await self._proxies.tell(pod.decode(), f"{error}")
            return Done()
        try:
            return await self._take(pod, view, ranking, found)
        finally:
            self._cache.end_trials(pod, self._writer.creating(pod.uid))

    def view(
        self, pod: Object, permit: Permit = PERMITTED, *, order: bool = True, fresh: bool = False
    ) -> tuple[ReservePod, Ranking]:
        """Collect the input of the decision.

        :param order: True to rank targets even if the decision does not depend on their order
        :param fresh: True to rank again now; otherwise a ranking since the last change of the cache is reused
        :raises InvalidPod: if the pod's manifest is unusable
        """
        claim = podstate.claimed_node(pod)
        target = self._targets.by_node(claim)
        candidates = self._candidates(pod)
        settled = target is not None and target.ready and self._goes_well(pod, candidates)
        ranking = _UNASKED if settled and not order else self._ranking(pod, fresh=fresh)
        if target is not None and not permit.begun and not any(each.allowed for each in candidates):
            # A claim without an allowed candidate is withdrawn.
            why = self._cache.misplaced(pod, target)
            permit = denied(why) if why else permit
        view = ReservePod(
            claim=claim,
            claim_uid=podstate.claimed_chaperon(pod),
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=podstate.is_held(pod.finalizers),
            claim_state=target.record.message if target is not None else "",
            candidates=candidates,
            order=ranking.nodes({each.node_name for each in candidates if each.state == "reserved"}),
            creating=self._writer.creating(pod.uid),
            refused=self._writer.refused(pod.uid),
            permit=permit,
            # Pods of a group are bound in targets with reservations for all members.
            most=0 if group_of(pod) is not None else self._most,
            timeouts=self._timeouts,
        )
        return view, ranking

    def _goes_well(self, pod: Object, candidates: tuple[CandidateStatus, ...]) -> bool:
        """Return True if the chaperon that the claim names exists and needs no other target."""
        uid, now = podstate.claimed_chaperon(pod), time.monotonic()
        here = next((s for s in candidates if uid and s.uid == uid and s.state not in NEGATIVE), None)
        left = decide.neglected_in(here, self._timeouts, now) if here is not None else None
        return here is not None and (left is None or left > 0)

    def _ranking(self, pod: Object, *, fresh: bool) -> Ranking:
        known = self._rankings.get(pod.uid)
        moment = self._cache.moment(pod)
        if fresh or known is None or known.moment != moment:
            known = self._rankings[pod.uid] = _Ranked(moment, self._cache.ranking(pod)[1])
        return known.ranking

    def _candidates(self, pod: Object) -> tuple[CandidateStatus, ...]:
        before = self._seen.get(pod.uid, {})
        now = time.monotonic()
        found = {}
        for target, chaperon in self._deps.chaperons.of(pod.key):
            if parent_uid(chaperon) == pod.uid:
                seen = before.get(f"{target.node_name} {chaperon.uid}")
                if seen is None or (seen.version, seen.ready) != (chaperon.version, target.ready):
                    state = seen.state if seen is not None else "pending"
                    seen = observe(chaperon.decode(), target.node_name, ready=target.ready, now=now, before=seen)
                    if state == "pending" and seen.state not in ("pending", "refused"):
                        target.refusal_backoff.accepted(pod.namespace)
                found[f"{target.node_name} {chaperon.uid}"] = seen
        self._seen[pod.uid] = found
        return tuple(found.values())

    async def _take(self, pod: Object, view: ReservePod, ranking: Ranking, found: list[steps.Step]) -> Result:
        result: Result = WaitForChange()
        for step in found:
            match step:
                case steps.Wait(message, seconds):
                    later = await self._tell(pod, view, ranking, message) if message else None
                    result = soonest_after(*(max(due, _AGAIN_SECONDS) for due in (seconds, later) if due is not None))
                case steps.Create(node):
                    self._writer.enqueue(CreateCandidate(pod.key, pod.uid, node))
                case steps.Bind():
                    await self._proxies.bind(pod, view.claim, "reserve")
                    result = Done()
                case steps.Claim(node, uid):
                    return await self._claim(pod, node, uid, view.permit.run)
                case steps.Unclaim():
                    return await self._unclaim(pod)
                case steps.GiveUp():
                    result = await self._give_up(pod, step)
                case steps.Delete():
                    await self._delete(pod, step)
                case steps.Allow() | steps.NextRound():
                    if not await self._annotate(pod, step):
                        return Queued()
        self._changes.cancel(pod.uid)
        left = self._writer.retry_after(pod.uid)
        return result if left is None or isinstance(result, Done) else soonest(result, RequeueAfter(left))

    async def _claim(self, pod: Object, node: str, uid: str, run: str) -> Result:
        target = self._targets.by_node(node)
        if target is None or await self._proxies.claim(pod, target, uid, run) is None:
            return Done()
        self._proxies.stopwatch.lap(pod.uid, "reserve")
        return AT_ONCE

    async def _unclaim(self, pod: Object) -> Result:
        """Remove the claim if its target has no chaperon and no delegate of the pod."""
        target = self._targets.by_node(podstate.claimed_node(pod))
        if target is not None and not await self._deps.live_reads.is_free(target, pod):
            return _LEFT
        await self._proxies.unclaim(pod)
        return AT_ONCE

    async def _give_up(self, pod: Object, step: steps.GiveUp) -> Result:
        """Record why a target could not take the pod, then delete its chaperon, which holds that reason until then."""
        placed = self._placed(pod, step.uid)
        if placed is None or placed[1].version != step.version:
            return WaitForChange()
        target, chaperon = placed
        proxy = pod.decode()
        if podstate.is_allowed(chaperon.annotations):
            warn = step.reason == self._timeouts.neglect
            raw = chaperon.decode()
            left = await self._chaperons.give_up(proxy, target, raw, step.reason, "reserve", warn=warn)
            return WaitForChange() if left is None else RequeueAfter(left)
        await self._proxies.remember(proxy, target.node_name, step.reason, "reserve")
        write = DeleteChaperon(chaperon.key, step.uid, step.version, target.node_name, begun=True)
        await self._writer.delete(target, write)
        return WaitForChange()

    async def _delete(self, pod: Object, step: steps.Delete) -> None:
        placed = self._placed(pod, step.uid, step.node_name)
        known = self._cache.knows_where(pod)
        if placed is None or not known or (step.confirm and await self._claims(pod, step.uid)):
            return
        target, chaperon = placed
        write = DeleteChaperon(chaperon.key, step.uid, step.version, target.node_name, begun=step.confirm)
        self._writer.enqueue(write)

    async def _annotate(self, pod: Object, step: steps.Allow | steps.NextRound) -> bool:
        """Change one chaperon, guarded by UID and version. Return False if too many requests wait for its target."""
        placed = self._placed(pod, step.uid, step.node_name)
        if placed is None:
            return True
        target, chaperon = placed
        with self._changes.slot(target.node_name, pod.uid, pod.key, pod.priority) as admitted:
            if not admitted:
                return False
            metadata = {"namespace": chaperon.namespace, "name": chaperon.name, "uid": chaperon.uid}
            match step:
                case steps.Allow(version=version):
                    metadata["resourceVersion"] = version
                    await self._chaperons.annotate(target, metadata, names.ANNOTATION_IS_ALLOWED, "true")
                case steps.NextRound(round=number):
                    metadata["resourceVersion"] = chaperon.version
                    await self._chaperons.annotate(target, metadata, names.ANNOTATION_RESERVE_ROUND, str(number))
            return True

    async def _claims(self, pod: Object, uid: str) -> bool:
        """Return True if the proxy pod's claim names this chaperon; reads the pod live."""
        try:
            raw = await self._client.get_raw(PODS, pod.name, pod.namespace)
        except NotFound:
            return False
        fresh = self._cache.proxies.absorb(raw)
        return fresh.uid == pod.uid and podstate.claimed_chaperon(fresh) == uid

    def _placed(self, pod: Object, uid: str, node: str = "") -> tuple[Target, Object] | None:
        found = [each for each in self._deps.chaperons.of(pod.key) if each.chaperon.uid == uid]
        found.sort(key=lambda each: (not each.target.ready, each.target.node_name != node))
        return (found[0].target, found[0].chaperon) if found else None

    async def _tell(self, pod: Object, view: ReservePod, ranking: Ranking, message: str) -> float | None:
        if not self._cache.knows_where(pod):
            return _LEFT.seconds
        refusals = self._writer.reasons(pod.uid) | decide.reasons(view, time.monotonic())
        ranking = self._cache.reasoned(pod, ranking)
        text = view.permit.message or explain(ranking, refusals, {view.claim: message} if view.claim else {})
        return await self._proxies.tell_rejections(pod.decode(), text, ranking, throttled=not view.permit.message)


def _counts(step: steps.Step, permit: Permit) -> bool:
    """Return True if a step requires a current order of the targets."""
    match step:
        case steps.Claim() | steps.Create():
            return True
        case steps.Wait(message):
            return bool(message) and message != permit.message
        case _:
            return False
