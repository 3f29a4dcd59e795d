"""Chosen: the targets that a pod may go to by annotation, and in which order of preference. Pure."""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from agent.model.targetchoice import TargetChoice
from agent.scheduling.rejection import Rejection
from agent.scheduling.snapshot import PodInfo, TargetInfo

NOT_CHOSEN = "NotChosen"


class _Divided(NamedTuple):
    """The answer for the targets of one moment."""

    targets: Sequence[TargetInfo]
    refused: Sequence[tuple[TargetInfo, Rejection]]


_known: WeakKeyDictionary[TargetChoice, _Divided] = WeakKeyDictionary()
"""Kept for as long as the targets are the same."""


def not_chosen(pod: PodInfo, targets: Sequence[TargetInfo]) -> Sequence[tuple[TargetInfo, Rejection]]:
    """Targets that the pod may not go to by what it, its controller, its namespace or the settings say."""
    choice = pod.choice
    if choice is None:
        return ()
    known = _known.get(choice)
    if known is None or known.targets is not targets:
        reasons = ((target, choice.refusal(target)) for target in targets)
        refused = [(target, Rejection(NOT_CHOSEN, reason)) for target, reason in reasons if reason]
        known = _known[choice] = _Divided(targets, refused)
    return known.refused


def preference(pod: PodInfo, target: TargetInfo) -> int:
    """How many groups of targets the pod prefers to the one that a target belongs to."""
    return pod.choice.preference(target) if pod.choice is not None else 0
