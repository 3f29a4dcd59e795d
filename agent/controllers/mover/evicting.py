"""What is next for pods that are to move and may have no replacement before they end: they are evicted. Pure.

`withdrawn` on such a pod O says how far its eviction is:

    O without mark            budgets would let it go, and Services lead to others as well: O is withdrawn
    O withdrawn               the withdrawal has had its time: O is evicted; if a budget refuses that now, its mark goes
    O withdrawn, and to stay  its mark goes
"""

from collections.abc import Sequence

from agent.api import names
from agent.api.names import moves
from agent.controllers.mover.plan import Plan, cause_of, stays
from agent.controllers.mover.view import Evict, Owner, Pod, Restore, Tell, Withdraw


def evict(owner: Owner, pods: Sequence[Pod], waiting: Sequence[Pod], plan: Plan) -> None:
    """Evict one pod, the highest ordinal first, once all others are there."""
    movable = []
    for old in waiting:
        why = stays(owner, old)
        if why is None and old.cause != "FailBack":
            movable.append(old)
        else:
            _keep(old, why, plan)
    plan.waits = plan.waits or bool(movable) or any(old.together for old in waiting)
    if owner.refused:
        for old in movable:
            _keep(old, Tell(old, "NoRoom", f"{cause_of(old)}; {owner.refused}"), plan)
        return
    _evict_group([old for old in movable if old.together], plan)
    movable = [old for old in movable if not old.together]
    if not movable:
        return
    others = _others(owner, pods, movable)
    first = min((old for old in movable if not old.room), key=lambda old: not old.withdrawn, default=None)
    for old in movable:
        if others:
            _keep(old, Tell(old, "Held", f"{cause_of(old)}; {others}"), plan)
        elif old.room:
            _keep(old, Tell(old, "NoRoom", f"{cause_of(old)}; {old.room}"), plan)
        elif old is first:
            plan.tell(Tell(old, "Moving", f"{cause_of(old)}; it is evicted as soon as its disruption budgets allow"))
            plan.actions += _next_of_eviction(old)
        else:
            _keep(old, Tell(old, "Misplaced", f"{cause_of(old)}; others of its owner move first"), plan)


def _evict_group(movable: Sequence[Pod], plan: Plan) -> None:
    """Evict one pod of a group that has room elsewhere for all: all others go with it, and start again as one.

    Of a group that is about to do so nothing is said: its pods are being deleted.
    """
    going = [old for old in movable if old.together is not None and not old.together.waits]
    message = "its group starts again as a whole as soon as its disruption budgets allow"
    for old in going:
        plan.tell(Tell(old, "Moving", f"{cause_of(old)}; {message}"))
    if going:
        plan.actions.append(Evict(going[0]))


def _keep(old: Pod, tell: Tell | None, plan: Plan) -> None:
    """A pod is not evicted now: Services are to lead to it, but for one of which nothing is known for now."""
    if tell is not None:
        plan.tell(tell)
    if old.withdrawn and not old.frozen:
        plan.actions.append(Restore(old))


def _next_of_eviction(old: Pod) -> list[Withdraw | Evict]:
    """No request is sent to one that is not available, and nothing can be withdrawn in a target that is silent."""
    if not (old.answers and old.available) or (old.withdrawn and old.settled):
        return [Evict(old)]
    if old.withdrawn:
        return []
    return [Withdraw(old) if old.serves else Evict(old)]


def _others(owner: Owner, pods: Sequence[Pod], movable: Sequence[Pod]) -> str:
    """Which other pods of the owner are to be there before the next one is evicted, empty for none."""
    lives = sum(pod.owned and pod.lives for pod in pods)
    if lives < owner.replicas:
        return "the pods of its owner are not all there yet"
    if lives < owner.had:
        return (
            f"of the {owner.had} pods that its owner had {lives} are there, since it has made no other for one that was"
            f" evicted: {names.SHORT_PREFIX}{moves.MOVE}={moves.EVICT} has the others evicted all the same"
        )
    staying = [pod for pod in pods if pod.owned and pod.lives and pod not in movable]
    for pod in staying:
        if not pod.available:
            return f"pod {pod.name} of its owner is not available yet"
        if not pod.announced:
            return f"not every cluster leads to pod {pod.name} of its owner yet"
    return ""
