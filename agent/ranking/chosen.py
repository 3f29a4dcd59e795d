"""Chosen: the targets that annotations allow for a pod, and their order of preference. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from agent.model.claimfilter import ClaimFilter
from agent.model.targetchoice import TargetChoice
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo

NOT_CHOSEN = "NotChosen"
NOT_CLAIMED = "NotClaimed"

_Refused = Sequence[tuple[TargetInfo, Rejection]]


class _Divided(NamedTuple):
    """Result for the targets of one moment."""

    targets: Sequence[TargetInfo]
    refused: _Refused


_known: WeakKeyDictionary[TargetChoice | ClaimFilter, _Divided] = WeakKeyDictionary()
"""Cached while the targets are the same object."""


def not_chosen(pod: PodInfo, targets: Sequence[TargetInfo]) -> _Refused:
    """Filter: targets ruled out by the pod, its controller, its namespace or the settings."""
    choice = pod.choice
    if choice is None:
        return ()
    known = _known.get(choice)
    if known is None or known.targets is not targets:
        known = _known[choice] = _divided(targets, choice.refusal, lambda why: Rejection(NOT_CHOSEN, why))
    return known.refused


def not_claimed(pod: PodInfo, targets: Sequence[TargetInfo]) -> _Refused:
    """Filter: targets whose cluster lacks claims that the pod or its namespace requires."""
    claims = pod.claims
    if claims is None:
        return ()
    known = _known.get(claims)
    if known is None or known.targets is not targets:
        known = _known[claims] = _divided(targets, claims.refusal, lambda why: Rejection(NOT_CLAIMED, why))
    return known.refused


def _divided(
    targets: Sequence[TargetInfo], refusal: Callable[[TargetInfo], str], rejection: Callable[[str], Rejection]
) -> _Divided:
    reasons = ((target, refusal(target)) for target in targets)
    return _Divided(targets, [(target, rejection(reason)) for target, reason in reasons if reason])


def preference(pod: PodInfo, target: TargetInfo) -> int:
    """Return the number of groups of targets that the pod prefers to this target's group."""
    return pod.choice.preference(target) if pod.choice is not None else 0
