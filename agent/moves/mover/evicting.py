"""Decides which pods to evict, for owners that allow no replacement before the old pod ends. Pure."""

from collections.abc import Sequence

from agent.api import names
from agent.api.names import moves
from agent.moves.mover.owners import STATEFUL_SET, plain
from agent.moves.mover.plan import Plan, cause_of, stays
from agent.moves.mover.view import Evict, Owner, Pod, Tell


def evict(owner: Owner, pods: Sequence[Pod], waiting: Sequence[Pod], plan: Plan) -> None:
    """Plan the eviction of one pod. Pods that serve no client come first, then the highest ordinal.

    :param waiting: pods that have to move, the highest ordinal first
    """
    movable = []
    for old in waiting:
        why = stays(owner, old)
        if why is not None:
            plan.tell(why)
        elif old.cause != "FailBack":
            movable.append(old)
    plan.waits = plan.waits or bool(movable) or any(old.together for old in waiting)
    if owner.refused:
        for old in movable:
            plan.tell(Tell(old, "NoRoom", f"{cause_of(old)}; {owner.refused}"))
        return
    _evict_group([old for old in movable if old.together], plan)
    movable = sorted((old for old in movable if not old.together), key=lambda old: not _serves_nobody(old))
    if not movable:
        return
    missing = _others(owner, pods, movable)
    first = next((old for old in movable if not old.room), None)
    for old in movable:
        # The other pods may wait for this one. An owner that may not recreate evicted pods loses no further one.
        others = missing if owner.had or not _serves_nobody(old) else ""
        if others:
            warns = old is movable[0] and any(pod.lacking for pod in pods)
            plan.tell(Tell(old, "Held", f"{cause_of(old)}; {others}", warns=warns))
        elif old.room:
            plan.tell(Tell(old, "NoRoom", f"{cause_of(old)}; {old.room}"))
        elif old is first:
            plan.tell(Tell(old, "Moving", f"{cause_of(old)}; it is evicted as soon as its disruption budgets allow"))
            plan.actions.append(Evict(old))
        else:
            plan.tell(Tell(old, "Misplaced", f"{cause_of(old)}; others of its owner move first"))


def _evict_group(movable: Sequence[Pod], plan: Plan) -> None:
    """Plan the eviction of one pod of a group that may move: the scheduler then restarts all of its pods together.

    The conditions of a group that is being restarted stay as they are, since its pods are being deleted.
    """
    going = [old for old in movable if old.together is not None and not old.together.waits]
    message = "its group starts again as a whole as soon as its disruption budgets allow"
    for old in going:
        plan.tell(Tell(old, "Moving", f"{cause_of(old)}; {message}"))
    if going:
        plan.actions.append(Evict(going[0]))


def _serves_nobody(old: Pod) -> bool:
    """Return True if a pod serves no client: it is not available, or it is in a lost target."""
    return not old.available or old.lost


def _is_held(owner: Owner, pod: Pod) -> bool:
    """Return True if a terminating pod of a StatefulSet occupies its name until its silent target returns."""
    return plain(owner.kind) == STATEFUL_SET and pod.silent and pod.deleting


def _others(owner: Owner, pods: Sequence[Pod], movable: Sequence[Pod]) -> str:
    """Return why the next eviction has to wait for other pods of the owner; empty if it need not.

    Pods in a silent target delay no eviction: only disruption budgets count them, as in the drain of a node.
    """
    lives = sum(pod.owned and (pod.lives or _is_held(owner, pod)) for pod in pods)
    if lives < owner.replicas:
        return "the pods of its owner are not all there yet"
    if lives < owner.had:
        return (
            f"of the {owner.had} pods that its owner had {lives} are there, since it has made no other for one that was"
            f" evicted: {names.SHORT_PREFIX}{moves.MOVE}={moves.EVICT} has the others evicted all the same"
        )
    staying = [pod for pod in pods if pod.owned and pod.lives and not pod.silent and pod not in movable]
    for pod in staying:
        if not pod.available:
            return f"pod {pod.name} of its owner is not available yet"
        if not pod.announced and pod.lacking:
            return f"pod {pod.name} of its owner is ready, {pod.lacking}"
        if not pod.announced:
            return f"not every cluster leads to pod {pod.name} of its owner yet"
    return ""
