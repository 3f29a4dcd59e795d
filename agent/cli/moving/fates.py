"""Expected result of a move for each pod alone, or for all pods of a target, by the mover's decisions. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.cli.fleet.units import NOTHING
from agent.cli.output import Table
from agent.moves.mover.decide import decide
from agent.moves.mover.view import Create, Evict, Fail, Owner, Pod, Tell
from agent.ranking.explain import explain
from agent.ranking.rank import Ranking

PLACED, UNKNOWN, NO_ROOM, HELD = "Placed", "Unknown", "NoRoom", "Held"
_CAUSE = "so"
"""Placeholder for the cause in the mover's messages: the user who asked for the move knows it."""
_FINAL = ("DataElsewhere", "IdentityMayRun", UNKNOWN)


@dataclass(frozen=True)
class Verdict:
    """Whether a pod moves, as decided by the rules of its owner."""

    moves: bool
    reason: str = ""
    """Reason in one word why the pod stays, empty if it moves."""
    how: str = ""
    final: bool = False
    """Whether the pod stays until a user intervenes."""


@dataclass(frozen=True)
class Fate:
    """Verdict with the pod's current target and the eligible ones."""

    namespace: str
    pod: str
    uid: str
    source: str
    """Current target, empty without one."""
    to: tuple[str, ...]
    """Eligible targets, in the order in which they are tried."""
    moves: bool
    reason: str
    how: str
    final: bool


def verdict_of(owner: Owner, pod: Pod, *, replaced: bool) -> Verdict:
    """Predict the fate of a pod, provided that nothing else changes.

    :param replaced: whether it already has a replacement
    """
    if not pod.placed:
        return Verdict(moves=True, how="it has no target yet, and gets one of these")
    if not pod.cause:
        return Verdict(moves=False, reason=PLACED, how="it is where it may be")
    if replaced or pod.replaced_by or pod.withdrawn:
        return Verdict(moves=True, how="it moves already")
    if pod.together is not None and pod.together.waits:
        return Verdict(moves=True, how="its group starts again already")
    alone = replace(pod, why=_CAUSE, told="")
    for action in decide(replace(owner, replicas=1, surge=max(1, owner.surge)), [alone]).actions:
        match action:
            case Create():
                return Verdict(moves=True, how="its replacement first")
            case Evict() if pod.together is not None:
                return Verdict(moves=True, how="its group starts again as a whole, once there is room for all of it")
            case Evict():
                return Verdict(moves=True, how=f"evicted: {owner.why}")
            case Fail():
                return Verdict(moves=True, how="it ends as failed, and what makes it makes another")
            case Tell(reason=reason, message=message) if reason not in ("", "Moving"):
                unasked = pod.together is not None and pod.together.unasked
                final = owner.way == "stay" or bool(pod.stays) or unasked or reason in _FINAL
                return Verdict(moves=False, reason=reason, how=message.removeprefix(f"{_CAUSE}; "), final=final)
            case _:
                pass
    return Verdict(moves=False, reason=HELD, how="nothing is to be done about it now")


def with_targets(verdict: Verdict, ranking: Ranking | None) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict, negative if no target fits, and the titles of the targets that fit."""
    if not verdict.moves or ranking is None:
        return verdict, ()
    if not ranking.order:
        why = explain(ranking, {}, {})
        return replace(verdict, moves=False, reason=NO_ROOM, how=f"{verdict.how}, but {why}"), ()
    return verdict, tuple(target.title for target in ranking.order)


def rehearsed(fates: Iterable[Fate], places: Mapping[str, tuple[str, str]]) -> list[Fate]:
    """Return the results for pods that all leave at once.

    :param places: title of the target that each pod gets, or empty with the reason why it gets none, by UID
    """
    found = []
    for fate in fates:
        to, why = places.get(fate.uid, ("", ""))
        if why:
            how = f"{fate.how}, but once those before it have moved {why}"
            found.append(replace(fate, moves=False, reason=NO_ROOM, how=how))
        else:
            found.append(replace(fate, to=(to,) if to else fate.to))
    return found


def summary(fates: Sequence[Fate]) -> str:
    """Return a sentence with the numbers of pods that move, find no room or stay."""
    moves = sum(fate.moves for fate in fates)
    lacking = sum(fate.reason == NO_ROOM for fate in fates)
    return f"of {len(fates)} pods {moves} move, {lacking} find no room, {len(fates) - moves - lacking} stay"


def fates_table(fates: Sequence[Fate], *, everywhere: bool) -> Table:
    """Return the fates as a table."""
    heads = ["POD", "FROM", "TO", "MOVES", "HOW"]
    rows = [
        [
            fate.pod,
            fate.source or NOTHING,
            ", ".join(fate.to) or NOTHING,
            "yes" if fate.moves else "no",
            fate.how if fate.moves else f"{fate.reason}: {fate.how}",
        ]
        for fate in fates
    ]
    if everywhere:
        heads = ["NAMESPACE", *heads]
        rows = [[fate.namespace, *row] for row, fate in zip(rows, fates, strict=True)]
    return heads, rows
