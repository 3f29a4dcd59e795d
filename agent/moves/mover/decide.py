"""Decides the next steps for the misplaced pods of one owner. Pure.

All state is on the pods: `replaces` on a replacement N, `replaced-by` on the pod O that it replaces, and the owner
reference of N. A new leader therefore continues at any step:

    no N                      O is misplaced, and the owner may have one pod more: create N
    N, O without mark         N is available and every cluster has its address: mark O
    N, O marked               give N the missing label
    N with the label          the owner adopts N, and deletes the marked pod as the surplus one
    N adopted, O marked and   the owner deleted another pod: remove O's marks and try again
      no surplus pod
    O well placed again       remove O's marks and delete N
    O deleted, N not adopted  delete N

`evicting` handles owners that allow no replacement first. Services stop routing to O once its owner has deleted it,
before its delegate ends: the controller `feedback` does that for every pod.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from agent.model import replacement
from agent.moves.mover.evicting import evict
from agent.moves.mover.plan import UNKNOWN, Plan, cause_of, held_by, stays
from agent.moves.mover.view import Adopt, Create, Discard, Fail, Mark, Owner, Pod, Restore, Tell


def decide(owner: Owner, pods: Sequence[Pod]) -> Plan:
    """Return the next actions for the pods of an owner."""
    plan = Plan()
    for pod in pods:
        if pod.owned and pod.lives and not pod.cause:
            plan.tell(Tell(pod, ""))
    begun = _go_on(owner, pods, plan)
    for pod in pods:
        if pod.withdrawn and pod.lives and pod.uid not in begun:
            plan.actions.append(Restore(pod))
    plan.waits |= any(pod.fence for pod in pods if _is_to_go(pod))
    waiting = sorted((pod for pod in pods if _is_to_go(pod) and pod.uid not in begun), key=lambda pod: pod.ordinal)
    failed = [pod for pod in waiting if _is_dead(owner, pod)]
    plan.waits |= bool(failed and owner.refused)
    for pod in failed:
        if owner.refused:
            plan.tell(Tell(pod, "NoRoom", f"{cause_of(pod)}; {owner.refused}"))
        else:
            plan.actions.append(Fail(pod))
    waiting = [pod for pod in waiting if pod not in failed]
    if owner.way == "surge":
        _replace(owner, pods, waiting, plan)
    else:
        evict(owner, pods, waiting[::-1], plan)
    return plan


def is_of_interest(pod: Pod) -> bool:
    """Return True if a pod has to move, or if a move has left something to undo. False for nearly all pods."""
    return bool(pod.cause or pod.replaces or pod.replaced_by or pod.withdrawn or pod.told)


def _is_to_go(pod: Pod) -> bool:
    return pod.owned and pod.lives and bool(pod.cause)


def _is_dead(owner: Owner, pod: Pod) -> bool:
    """Return True if a pod has to be failed: it certainly no longer runs, and its owner creates another."""
    return owner.remakes and pod.cause == "Lost" and pod.dead and not pod.stays


# Moves that have begun ----------------------------------------------------------------------------------------------


def _go_on(owner: Owner, pods: Sequence[Pod], plan: Plan) -> set[str]:
    """Plan the next step of every replacement. Return the UIDs of the pods that have one."""
    by_uid = {pod.uid: pod for pod in pods if pod.owned}
    begun: dict[str, Pod] = {}
    ready: dict[str, Pod] = {}
    marked = _marked(pods)
    for new in sorted(_replacements(pods), key=lambda pod: (not _is_meant(pod, by_uid), pod.created, pod.name)):
        old = by_uid.get(new.replaces)
        if old is None or not old.lives or old.uid in begun or new.ended:
            if old is not None and old.replaced_by == new.uid and old.lives:
                plan.actions.append(Restore(old))
            plan.actions.append(Discard(new, "what it was to replace is gone, or replaced already"))
        else:
            begun[old.uid] = new
            if old.replaced_by != new.uid:
                _prepare(_Begun(owner, old, new, marked), plan)
            elif _finish(old, new, marked, plan):
                ready[old.uid] = new
    going = set()
    for old in by_uid.values():
        if old.replaced_by and old.lives and old.uid not in begun:
            begun[old.uid] = old
            plan.waits = True
            if _is_about_to_go(owner, old, pods):
                going.add(old.uid)
            else:
                plan.actions.append(Restore(old))
    _adopt(marked, ready, going, plan)
    return set(begun)


def _adopt(marked: Iterable[Pod], ready: Mapping[str, Pod], going: Collection[str], plan: Plan) -> None:
    """Plan as many adoptions as are safe at once.

    For each adopted replacement the owner deletes one pod, the lowest rank first. So a replacement may only be adopted
    if every pod of a lower rank may be deleted, too. This holds in any order, and if the leader changes in between.

    :param ready: replacements that may be adopted, by the UIDs of the pods that they replace
    :param going: UIDs of pods whose replacements are adopted
    """
    for old in sorted(marked, key=lambda pod: (pod.rank, pod.uid in ready)):
        if old.uid in ready:
            plan.actions.append(Adopt(ready[old.uid], old))
        elif old.uid not in going:
            return


def _is_about_to_go(owner: Owner, old: Pod, pods: Sequence[Pod]) -> bool:
    """Return True if the owner of a marked pod has yet to adopt the replacement or to delete a surplus pod.

    Otherwise it has deleted another pod, or the replacement no longer exists.
    """
    new = next((pod for pod in pods if pod.uid == old.replaced_by), None)
    if new is None or not new.lives:
        return False
    return not new.owned or sum(pod.owned and pod.lives for pod in pods) > owner.replicas


def _is_meant(new: Pod, by_uid: dict[str, Pod]) -> bool:
    """Return True if the pod that a replacement is for names this replacement in its mark."""
    old = by_uid.get(new.replaces)
    return old is not None and old.replaced_by == new.uid


def _marked(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are marked as replaced."""
    return [pod for pod in pods if pod.owned and pod.lives and pod.replaced_by]


def _replacements(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.replaces and not pod.owned and not pod.deleting]


class _Begun(NamedTuple):
    """A replacement whose old pod is not marked yet."""

    owner: Owner
    old: Pod
    new: Pod
    marked: Sequence[Pod]
    """Pods of the owner that are marked as replaced."""


def _prepare(begun: _Begun, plan: Plan) -> None:
    """Plan the next step by the first rule that applies; the last rule always does."""
    any(rule(begun, plan) for rule in _RULES)


def _unknown(begun: _Begun, plan: Plan) -> bool:
    """Wait while it is not known whether the old pod has to move."""
    if not begun.old.frozen:
        return False
    plan.tell(Tell(begun.old, "Held", UNKNOWN))
    return True


def _well_placed(begun: _Begun, plan: Plan) -> bool:
    """Discard the replacement of a pod that no longer has to move."""
    return not begun.old.cause and _discard(begun, plan, "the pod that it was to replace is well placed again")


def _held(begun: _Begun, plan: Plan) -> bool:
    """Discard a replacement that the owner would not adopt, or whose old pod has to stay for now."""
    owner, old, new, _ = begun
    held = held_by(owner, old)
    if not (new.outdated or held or owner.way != "surge"):
        return False
    why = held or owner.why or "its template is not that of its owner any more"
    plan.tell(Tell(old, "Held", why))
    return _discard(begun, plan, why)


def _astray(begun: _Begun, plan: Plan) -> bool:
    """Discard a replacement that has to move itself."""
    astray = begun.new.cause and (begun.new.cause != "FailBack" or begun.old.cause == "FailBack")
    return bool(astray) and _discard(begun, plan, "it is where it should not be, either", astray=True)


def _silent(begun: _Begun, plan: Plan) -> bool:
    """Discard a replacement in a target that does not answer."""
    silent = begun.new.silent and begun.new.placed
    return silent and _discard(begun, plan, "its target does not answer")


def _ready(begun: _Begun, plan: Plan) -> bool:
    """Mark the old pod once its replacement serves in every cluster."""
    new = begun.new
    if not (new.placed and new.answers and new.available and new.announced):
        return False
    planned = sum(isinstance(action, Mark) for action in plan.actions)
    rank = max((pod.rank for pod in begun.marked), default=-1) + 1 + planned
    plan.actions.append(Mark(begun.old, new, rank))
    plan.waits = True
    return True


def _starting(begun: _Begun, plan: Plan) -> bool:
    """Wait for the replacement, and report what it lacks."""
    plan.waits = True
    if begun.new.waits or begun.new.lacking or _in_turn(begun.old).news:
        plan.tell(_moving(begun.old, begun.new))
    return True


_RULES: tuple[Callable[[_Begun, Plan], bool], ...] = (
    _unknown,
    _well_placed,
    _held,
    _astray,
    _silent,
    _ready,
    _starting,
)
"""Rules for a replacement whose old pod is not marked yet. Each returns whether it applies; the first decides."""


def _discard(begun: _Begun, plan: Plan, why: str, *, astray: bool = False) -> bool:
    plan.actions.append(Discard(begun.new, why, astray=astray))
    plan.waits = True
    return True


def _in_turn(old: Pod) -> Tell:
    """Return the condition of a pod that waits for its turn. The text is constant, since each change is a write."""
    return Tell(old, "Misplaced", f"{cause_of(old)}; it is replaced in its turn, a few of its owner at a time")


def _moving(old: Pod, new: Pod) -> Tell:
    if new.waits:
        why = new.pending or "see that pod"
        return Tell(old, "NoRoom", f"{cause_of(old)}; its replacement {new.name} has no node yet: {why}", warns=True)
    if new.lacking:
        return Tell(old, "Moving", f"{cause_of(old)}; its replacement {new.name} is ready, {new.lacking}", warns=True)
    return Tell(old, "Moving", f"{cause_of(old)}; its replacement is {new.name}")


def _finish(old: Pod, new: Pod, marked: Sequence[Pod], plan: Plan) -> bool:
    """Return True if a replacement whose old pod is marked may be adopted. Remove the mark if it no longer holds."""
    plan.waits = True
    if not old.cause or not new.available or new.cause == "Lost" or (new.silent and not new.selected):
        plan.actions.append(Restore(old))
    elif old.frozen and not all(pod.frozen for pod in marked):
        # The owner would delete this pod first: others must not wait for a target that may be unreachable for long.
        plan.actions.append(Restore(old))
    elif old.frozen:
        plan.tell(Tell(old, "Held", UNKNOWN))
    else:
        return new.answers
    return False


# Moves that begin ---------------------------------------------------------------------------------------------------


def _replace(owner: Owner, pods: Sequence[Pod], waiting: Sequence[Pod], plan: Plan) -> None:
    """Create replacements. Lost pods get theirs all at once, since they serve no client.

    Of the other replacements, those without a node must not outnumber those with one; the first is always allowed. As
    long as one has waited too long for a node, no other is created.
    """
    lost = {pod.uid for pod in pods if pod.lost}
    news = [new for new in _replacements(pods) if new.replaces not in lost]
    lives = sum(pod.lives and not pod.lost for pod in pods)
    placed = sum(new.placed for new in news)
    pending = len(news) - placed
    most_pending = 1 if any(new.waits for new in news) else max(1, placed)
    under_way = len(news) - sum(isinstance(each, Discard) and each.new in news for each in plan.actions)
    for old in sorted(waiting, key=lambda old: not old.lost):
        why = stays(owner, old)
        most = 1 if old.cause == "FailBack" else owner.surge
        is_full = pending >= most_pending or under_way >= most or lives >= owner.replicas + most
        if why is not None:
            plan.tell(why)
        elif owner.refused:
            plan.tell(Tell(old, "NoRoom", owner.refused))
            plan.waits = True
        elif is_full and not old.lost:
            plan.waits = True
            plan.tell(_in_turn(old))
        else:
            plan.actions.append(Create(old, _free_name(owner, old, pods)))
            begun = int(not old.lost)
            pending, under_way, lives = pending + begun, under_way + begun, lives + 1
            plan.waits = True


def _free_name(owner: Owner, old: Pod, pods: Iterable[Pod]) -> str:
    """Return the first unused name for a replacement.

    An adopted replacement may have one already, if its owner deleted another pod instead of this one.
    """
    taken = {pod.name for pod in pods}
    names = (replacement.name(owner.name, old.uid, round) for round in count())
    return next(name for name in names if name not in taken)
