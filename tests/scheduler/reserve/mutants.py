"""Agents that break one rule each."""

from dataclasses import replace
from typing import Any

from agent.scheduler.groups import decide as groups
from agent.scheduler.reserve import decide as reserve
from agent.scheduler.reserve import steps
from agent.scheduler.reserve.view import ReservePod
from tests.scheduler.reserve.agent_model import Agent


class AllowsBeforeItClaims(Agent):
    @staticmethod
    def decide(view: ReservePod, now: float) -> list[steps.Step]:
        found = reserve.reserved(view)
        if found and not view.claim:
            return [steps.Allow(found[0].node_name, found[0].uid, found[0].version)]
        return reserve.decide(view, now)


class MovesAClaimWithoutReading(Agent):
    reads_before_unclaiming = False


class ClaimsWithoutGuard(Agent):
    guards_claims = False


class AllowsWhateverHasTheName(Agent):
    guards_uids = False


class KeepsLosers(Agent):
    sweeps = False

    @staticmethod
    def decide(view: ReservePod, now: float) -> list[steps.Step]:
        return [step for step in reserve.decide(view, now) if not (view.claim and isinstance(step, steps.Delete))]


class AsksForNoSecondRound(Agent):
    @staticmethod
    def decide(view: ReservePod, now: float) -> list[steps.Step]:
        return [step for step in reserve.decide(view, now) if not isinstance(step, steps.NextRound)]


class NeverGivesUp(Agent):
    @staticmethod
    def decide(view: ReservePod, now: float) -> list[steps.Step]:
        return [step for step in reserve.decide(view, now) if not isinstance(step, steps.GiveUp)]


class AllowsMembersOneByOne(Agent):
    @staticmethod
    def decide_group(*arguments: Any) -> groups.GroupDecision:
        decision = groups.decide(*arguments)
        return replace(decision, permits={uid: replace(permit, allow=True) for uid, permit in decision.permits.items()})


class NeverReleasesAGroup(Agent):
    limits = replace(Agent.limits, timeout=1e9, hopeless=1e9)
