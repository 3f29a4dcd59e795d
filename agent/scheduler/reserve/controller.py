"""Mode `reserve`: candidates in every feasible target; one that has a reservation is claimed, allowed and bound."""

import time
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.model.errors import InvalidPod
from agent.model.podstate import NEGATIVE, CandidateStatus, observe
from agent.scheduler.cache.scheduler_cache import WAITING, SchedulerCache
from agent.scheduler.limits import PrioritySemaphore
from agent.scheduler.reserve import decide as room
from agent.scheduler.reserve import steps
from agent.scheduler.reserve.candidate_writer import CandidateWriter, Drop, Send, parent_uid
from agent.scheduler.writes import CROWDED_SECONDS, Writes
from agent.scheduling.explain import explain
from agent.scheduling.ranking import NO_ROOM, Ranking

_UNASKED = Ranking((), 0, ())
_AGAIN_SECONDS = 0.05
_LEFT_SECONDS = 1.0
"""When to ask again whether a delegate that was given up is gone."""


class _Ranked(NamedTuple):
    """The targets for one pod, and for which version of it and which epoch of the cache."""

    moment: tuple[int, str]
    ranking: Ranking


class ReserveScheduling:
    """Takes the next steps for one proxy pod; returns in how many seconds to look again, if it is to."""

    def __init__(
        self, deps: Deps, cache: SchedulerCache, writes: Writes, couriers: CandidateWriter, turnstile: PrioritySemaphore
    ) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._targets = deps.targets
        self._cache = cache
        self._writes = writes
        self._couriers = couriers
        self._turnstile = turnstile
        settings = deps.settings
        self._limits = room.Timeouts(settings.reserve_patience, settings.dwell, take_up=settings.take_up)
        self._seen: dict[str, dict[str, CandidateStatus]] = {}
        self._rankings: dict[str, _Ranked] = {}

    def forget(self, uid: str) -> None:
        """A pod needs no target any more."""
        self._seen.pop(uid, None)
        self._rankings.pop(uid, None)
        self._couriers.forget(uid)
        self._turnstile.leave(uid)

    async def turn(self, pod: Object) -> float | None:
        """As `step`, for a pod without a group, which waits until it may have candidates."""
        closed, claim = self._cache.closed(pod.namespace), pod.known.claim
        begun = closed or claim or self._deps.chaperons.of(pod.key)
        if not begun and not self._turnstile.admits(pod):
            return None
        gate = room.PERMITTED
        if closed:
            # It stays with the target that it is claimed by.
            gate = room.Permit(only=claim) if claim else room.denied(closed)
        try:
            return await self.step(pod, gate)
        finally:
            if self._is_decided(pod):
                self._turnstile.leave(pod.uid)

    def _is_decided(self, pod: Object) -> bool:
        fresh = self._cache.proxies.store.get(pod.key)
        if fresh is None or fresh.known.claim:
            return True
        seen = self._seen.get(pod.uid, {}).values()
        return not self._couriers.sending(pod.uid) and all(s.going or s.state in NEGATIVE for s in seen)

    async def step(self, pod: Object, gate: room.Permit = room.PERMITTED) -> float | None:
        """All steps that can be taken now."""
        before = self._rankings.get(pod.uid)
        try:
            view, ranking = self.view(pod, gate, order=False)
            found = room.decide(view, time.monotonic())
            if before is not None and self._rankings.get(pod.uid) is before and any(_counts(s, gate) for s in found):
                view, ranking = self.view(pod, gate, fresh=True)
                found = room.decide(view, time.monotonic())
        except InvalidPod as error:
            await self._writes.say(pod.decode(), f"{error}")
            return None
        try:
            return await self._take(pod, view, ranking, found)
        finally:
            self._cache.leave_turns(pod, self._couriers.sending(pod.uid))

    def view(
        self, pod: Object, gate: room.Permit = room.PERMITTED, *, order: bool = True, fresh: bool = False
    ) -> tuple[room.ReservePod, Ranking]:
        """What the decision is made from.

        :param order: whether the order of the targets is wanted also where it decides nothing
        :param fresh: whether it has to be that of this moment; else it may be as old as what the cache was told last
        :raises InvalidPod: if the pod's manifest is unusable
        """
        claim = pod.known.claim
        target = self._targets.by_node(claim)
        sightings = self._sightings(pod)
        settled = target is not None and target.ready and self._goes_well(pod, sightings)
        ranking = _UNASKED if settled and not order else self._ranking(pod, fresh=fresh)
        view = room.ReservePod(
            claim=claim,
            claim_uid=pod.known.claim_uid,
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=any(name.startswith(names.PREFIX) for name in pod.finalizers),
            claim_state=target.record.message if target is not None else "",
            sightings=sightings,
            order=_order(ranking, sightings),
            sending=self._couriers.sending(pod.uid),
            resting=self._couriers.resting(pod.uid),
            gate=gate,
            limits=self._limits,
        )
        return view, ranking

    def _goes_well(self, pod: Object, sightings: tuple[CandidateStatus, ...]) -> bool:
        """Whether the chaperon that the claim names is there and no target has to be found in place of it."""
        uid, now = pod.known.claim_uid, time.monotonic()
        here = next((s for s in sightings if uid and s.uid == uid and s.state not in NEGATIVE), None)
        left = room.neglected_in(here, self._limits, now) if here is not None else None
        return here is not None and (left is None or left > 0)

    def _ranking(self, pod: Object, *, fresh: bool) -> Ranking:
        known = self._rankings.get(pod.uid)
        moment = (self._cache.epoch, pod.version)
        if fresh or known is None or known.moment != moment:
            known = self._rankings[pod.uid] = _Ranked(moment, self._cache.ranking(pod)[1])
        return known.ranking

    def _sightings(self, pod: Object) -> tuple[CandidateStatus, ...]:
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

    async def _take(
        self, pod: Object, view: room.ReservePod, ranking: Ranking, found: list[steps.Step]
    ) -> float | None:
        again: float | None = WAITING
        for step in found:
            match step:
                case steps.Wait(message, seconds):
                    later = await self._tell(pod, view, ranking, message) if message else None
                    due = [max(left, _AGAIN_SECONDS) for left in (seconds, later) if left is not None]
                    again = min(due, default=WAITING)
                case steps.Candidate(node):
                    self._couriers.run_errand(Send(pod.key, pod.uid, node))
                case steps.Bind():
                    await self._writes.bind(pod, view.claim, "reserve")
                    again = None
                case steps.Claim(node, uid):
                    target = self._targets.by_node(node)
                    if target is None or await self._writes.claim(pod, target, uid, view.gate.run) is None:
                        return None
                    self._writes.stopwatch.lap(pod.uid, "reserve")
                    return 0.0
                case steps.Unclaim():
                    return await self._unclaim(pod)
                case steps.GiveUp():
                    await self._give_up(pod, step)
                case _:
                    if await self._change(pod, step):
                        return CROWDED_SECONDS
        left = self._couriers.rest_left(pod.uid)
        if left is None or again is None:
            return again
        return left if again == WAITING else min(left, again)

    async def _unclaim(self, pod: Object) -> float:
        """Take the claim back where nothing is left in its target; returns in how many seconds to look again."""
        target = self._targets.by_node(pod.known.claim)
        if target is not None and not await self._deps.live_reads.is_free(target, pod):
            return _LEFT_SECONDS
        proxy = pod.decode()
        annotations = {names.ANNOTATION_CLAIM: None, names.ANNOTATION_CLAIM_UID: None}
        await self._writes.patch(proxy["metadata"], {"resourceVersion": pod.version, "annotations": annotations})
        return 0.0

    async def _give_up(self, pod: Object, step: steps.GiveUp) -> None:
        """Remember first: what is gone cannot be asked any more why it was refused."""
        placed = self._placed(pod, step.uid)
        if placed is not None:
            target, chaperon = placed
            proxy = pod.decode()
            if step.reason == self._limits.neglect:
                self._writes.warn(proxy, target, step.reason)
            await self._writes.remember(proxy, target.node_name, step.reason, "reserve")
            await self._couriers.drop(target, Drop(chaperon.key, step.uid, step.version, target.node_name, begun=True))

    async def _change(self, pod: Object, step: steps.Step) -> bool:
        """Change one chaperon, guarded by its UID and version; whether too many wait for its target already."""
        if not isinstance(step, steps.Allow | steps.NextRound | steps.Delete):
            return False
        placed = self._placed(pod, step.uid, step.node_name)
        if placed is None:
            return False
        target, chaperon = placed
        if isinstance(step, steps.Delete):
            if not step.confirm or not await self._claims(pod, step.uid):
                drop = Drop(chaperon.key, step.uid, step.version, target.node_name, begun=step.confirm)
                self._couriers.run_errand(drop)
            return False
        if self._writes.crowded_by_changes(target):
            return True
        if isinstance(step, steps.Allow):
            await self._writes.annotate(target, chaperon, names.ANNOTATION_IS_ALLOWED, "true", step.version)
        else:
            number = str(step.round)
            await self._writes.annotate(target, chaperon, names.ANNOTATION_RESERVE_ROUND, number, chaperon.version)
        return False

    async def _claims(self, pod: Object, uid: str) -> bool:
        """Whether the proxy pod's claim names this chaperon by now."""
        try:
            raw = await self._client.get_raw(PODS, pod.name, pod.namespace)
        except NotFound:
            return False
        fresh = self._cache.proxies.absorb(raw)
        return fresh.uid == pod.uid and fresh.known.claim_uid == uid

    def _placed(self, pod: Object, uid: str, node: str = "") -> tuple[Target, Object] | None:
        found = [each for each in self._deps.chaperons.of(pod.key) if each.chaperon.uid == uid]
        found.sort(key=lambda each: (not each.target.ready, each.target.node_name != node))
        return (found[0].target, found[0].chaperon) if found else None

    async def _tell(self, pod: Object, view: room.ReservePod, ranking: Ranking, message: str) -> float | None:
        refusals = self._couriers.refusals(pod.uid) | room.reasons(view, time.monotonic())
        claim = {view.claim: message} if view.claim else {}
        text = view.gate.message or explain(ranking, refusals, claim)
        return await self._writes.refuse(pod.decode(), text, ranking, hush=not view.gate.message)


def _counts(step: steps.Step, gate: room.Permit) -> bool:
    """Whether a step is one for which the order of the targets has to be that of this moment."""
    match step:
        case steps.Claim() | steps.Candidate():
            return True
        case steps.Wait(message):
            return bool(message) and message != gate.message
        case _:
            return False


def _order(ranking: Ranking, sightings: tuple[CandidateStatus, ...]) -> tuple[str, ...]:
    """Virtual nodes where the pod may go, best first.

    A reservation is the truth: where one stands, an estimate of free room does not count.
    """
    held = {sighting.node_name for sighting in sightings if sighting.state == "reserved"}
    roomless = [
        place for place, rejection in ranking.rejected if rejection.reason in NO_ROOM and place.node_name in held
    ]
    return tuple(dict.fromkeys(place.node_name for place in (*ranking.order, *roomless, *ranking.pending)))
