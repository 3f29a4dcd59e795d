"""Decide the next steps for one proxy pod in mode `reserve`. Pure (wire contract, 4.2 and 14; rulings 1, 2, 4, 9).

Every feasible target gets a candidate that may not start, and reserves a node for it. One candidate is claimed and
allowed, the others are deleted. These rules keep a pod from running twice, even if an actor works with outdated state:

- a claim names a target *and the UID of the chaperon there*, in one write guarded by the proxy pod's version;
- only the chaperon that the claim names is allowed, by a write guarded by its UID;
- a claim is withdrawn only after a read of its target has shown that this chaperon does not exist. UIDs are never
  reused, so a late permission based on an old claim has no effect.

All state is read from API objects. `CandidateStatus.since` is held by the process: losing it costs time only.
"""

from collections.abc import Sequence

from agent.model.podstate import NEGATIVE, CandidateStatus, claim_stands
from agent.scheduler.reserve.steps import (
    Allow,
    Bind,
    Claim,
    Create,
    Delete,
    GiveUp,
    NextRound,
    Step,
    Unclaim,
    Wait,
)
from agent.scheduler.reserve.view import ReservePod, Timeouts

NO_SCHEDULER = "no scheduler has reserved a node for the pod's candidate: see that a candidate scheduler runs there"


def decide(view: ReservePod, now: float) -> list[Step]:
    """Return the steps in order; a step that fails ends the pass. `now` is in seconds of the monotonic clock."""
    if claim_stands(view.claim, held=view.claim_held, connected=view.claim_known):
        return _claimed(view, now)
    return _unclaimed(view, now)


def reasons(view: ReservePod, now: float) -> dict[str, str]:
    """Return why targets that have a candidate have not reserved a node for it, by virtual node."""
    found = {s.node_name: s.reason for s in view.candidates if s.live and s.state in NEGATIVE}
    silent = [s for s in view.candidates if _is_mute(s) and s.since + view.timeouts.silence <= now]
    return found | {s.node_name: s.reason or NO_SCHEDULER for s in silent}


def _is_mute(candidate: CandidateStatus) -> bool:
    return candidate.live and candidate.state == "pending" and not candidate.allowed


def home(view: ReservePod) -> CandidateStatus | None:
    """Return the chaperon that the claim names; None if it has not been seen.

    Two Targets may point to the same cluster, so the chaperon may also appear under another virtual node.
    """
    if not view.claim:
        return None
    uid = view.claim_uid
    for candidate in sorted(view.candidates, key=lambda s: s.node_name != view.claim):
        if candidate.uid == uid or (not uid and candidate.node_name == view.claim):
            return candidate
    return None


def feasible(view: ReservePod) -> tuple[str, ...]:
    """Virtual nodes that the pod may be bound to, best first."""
    return tuple(node for node in view.order if not view.permit.only or node == view.permit.only)


def reserved(view: ReservePod) -> list[CandidateStatus]:
    """Candidates with a reservation that could be claimed, best first."""
    rank = {node: index for index, node in enumerate(feasible(view))}
    found = [s for s in view.candidates if s.state == "reserved" and s.live and not s.allowed and s.node_name in rank]
    return sorted(found, key=lambda s: rank[s.node_name])


# With a claim ------------------------------------------------------------------------------------------------------


def _claimed(view: ReservePod, now: float) -> list[Step]:
    here = home(view)
    losers = _losers(view, here)
    if not view.claim_known:
        return [*losers, Wait("the pod is claimed by this target, which is not connected")]
    if not view.claim_ready or (here is not None and not here.ready):
        return [*losers, Wait(f"the pod is claimed by this target: {view.claim_state}")]
    if here is None:
        return [Unclaim()]
    if here.going:
        return [Wait()]
    if here.state == "bound":
        return [Bind(), *losers]
    return [*(_allowed(view, here, now) if here.allowed else _not_allowed(view, here)), *losers]


def _not_allowed(view: ReservePod, here: CandidateStatus) -> list[Step]:
    """Return the steps for a valid claim whose candidate is not allowed yet."""
    permit = view.permit
    if not permit.reserve:
        return [Delete(here.node_name, here.uid, here.version)]
    if here.state in NEGATIVE and not permit.committed:
        return [GiveUp(here.reason, here.uid, here.version)]
    if permit.allow:
        return [Allow(here.node_name, here.uid, here.version)]
    return [*_raise(here), Wait(permit.message)]


def _allowed(view: ReservePod, here: CandidateStatus, now: float) -> list[Step]:
    """Return the steps for an allowed candidate. The target binds it even if the hold has expired, if its scheduler
    runs.
    """
    if here.state not in NEGATIVE:
        return [_neglected(view, here, now)]
    left = here.since + view.timeouts.dwell - now
    if not any(node != view.claim for node in feasible(view)):
        return [Wait(here.reason)]
    return [GiveUp(here.reason, here.uid, here.version)] if left <= 0 else [Wait(here.reason, left)]


def neglected_in(here: CandidateStatus, timeouts: Timeouts, now: float) -> float | None:
    """Seconds until an allowed candidate counts as neglected; None if it never does."""
    return None if here.preempting or not here.allowed else here.since + timeouts.take_up - now


def _neglected(view: ReservePod, here: CandidateStatus, now: float) -> Step:
    left = neglected_in(here, view.timeouts, now)
    if left is None or left > 0:
        return Wait("", left)
    if any(node != view.claim for node in feasible(view)):
        return GiveUp(view.timeouts.neglect, here.uid, here.version)
    return Wait(view.timeouts.neglect)


def _losers(view: ReservePod, here: CandidateStatus | None) -> list[Step]:
    known = {view.claim_uid, here.uid if here else ""}
    return [_delete(s) for s in _distinct(view) if s.live and s.uid not in known]


# Without -----------------------------------------------------------------------------------------------------------


def _unclaimed(view: ReservePod, now: float) -> list[Step]:
    certain = [s for s in _distinct(view) if s.allowed or s.state == "bound"]
    if certain:
        return _adopt(view, certain)
    if not view.permit.reserve:
        return [*(_delete(s) for s in _distinct(view) if s.live), Wait(view.permit.message)]
    found, untried = reserved(view), _untried(view, now)
    left = _patience_left(view, found, untried, now) if found else None
    if left is not None and left <= 0 and view.permit.claim:
        return [Claim(found[0].node_name, found[0].uid)]
    targets = feasible(view)
    steps: list[Step] = [Create(node) for node in untried]
    here = {s.uid for s in view.candidates if s.node_name in targets}
    for candidate in _distinct(view):
        if candidate.live and candidate.uid not in here:
            steps.append(_delete(candidate))
        elif candidate.live:
            steps += _raise(candidate)
    if not view.permit.claim:
        return [*steps, Wait(view.permit.message)]
    if steps and left is None:
        left = view.timeouts.silence
    return [*steps, Wait("", left) if steps or found else _why_not(view, now)]


def _untried(view: ReservePod, now: float) -> Sequence[str]:
    """Virtual nodes that need candidates, best first: all targets, or as many as may be undecided at a time."""
    taken = {s.node_name for s in view.candidates} | view.creating | view.refused
    found = [node for node in feasible(view) if node not in taken]
    if not view.most:
        return found
    refusing = reasons(view, now)
    hopeful = {s.node_name for s in view.candidates if s.live and s.node_name not in refusing} | view.creating
    return found[: max(0, view.most - len(hopeful & {*feasible(view)}))]


def _adopt(view: ReservePod, certain: list[CandidateStatus]) -> list[Step]:
    """Adopt candidates that an earlier leader allowed without a claim: keep one, and claim it once it is alone."""
    rank = {node: index for index, node in enumerate(view.order)}
    certain.sort(key=lambda s: (s.state != "bound", s.going, rank.get(s.node_name, len(rank)), s.node_name))
    kept, *others = certain
    if others:
        away = next((s.node_name for s in others if not s.ready), "")
        message = f"a second delegate may run on {away}, which does not answer" if away else ""
        return [*(_delete(s) for s in others if s.live), Wait(message)]
    if kept.going:
        return [Wait()]
    if not kept.ready:
        return [Wait(f"a delegate may run on {kept.node_name}, which does not answer")]
    return [Claim(kept.node_name, kept.uid)]


def _patience_left(view: ReservePod, found: list[CandidateStatus], untried: Sequence[str], now: float) -> float:
    """Seconds that the best reservation still waits for targets that rank better."""
    best = found[0]
    undecided = {s.node_name for s in view.candidates if not s.going and s.state not in NEGATIVE}
    undecided |= {*view.creating, *untried}
    targets = feasible(view)
    better = targets[: targets.index(best.node_name)]
    if view.permit.claim_at_once or undecided.isdisjoint(better):
        return 0.0
    return min(s.since for s in found) + view.timeouts.patience - now


def _why_not(view: ReservePod, now: float) -> Wait:
    """Report why nothing is reserved, once every target has refused or has been silent too long."""
    targets = feasible(view)
    if not targets:
        return Wait("no target passes the filters")
    known = reasons(view, now)
    if any(node not in known and node not in view.refused for node in targets):
        due = [
            s.since + view.timeouts.silence - now for s in view.candidates if _is_mute(s) and s.node_name not in known
        ]
        return Wait("", min(due, default=view.timeouts.silence))
    return Wait("; ".join(f"{node}: {known.get(node, 'takes no candidate')}" for node in targets))


def _raise(candidate: CandidateStatus) -> list[Step]:
    return [NextRound(candidate.node_name, candidate.uid, candidate.round + 1)] if candidate.ended else []


def _delete(candidate: CandidateStatus) -> Step:
    confirm = candidate.allowed or candidate.state == "bound"
    return Delete(candidate.node_name, candidate.uid, candidate.version, confirm)


def _distinct(view: ReservePod) -> list[CandidateStatus]:
    """Return each chaperon once. If two Targets point to its cluster, the one that answers counts."""
    found: dict[str, CandidateStatus] = {}
    for candidate in sorted(view.candidates, key=lambda s: not s.ready):
        found.setdefault(candidate.uid, candidate)
    return list(found.values())
