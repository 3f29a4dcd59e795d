"""The plan of an owner's moves, and the reasons that keep a pod in its target however its owner moves pods. Pure."""

from dataclasses import dataclass, field

from agent.moves.mover.owners import plain
from agent.moves.mover.view import Action, Owner, Pod, Tell, until
from agent.moves.mover.whole_groups import ONE_OF_A_KIND

CAUSES = {
    "Lost": "the target that it is in is lost",
    "Retire": "the target that it is in is being emptied",
    "Targets": "the target that it is in is not among those that multicluster/targets and allowed-targets let it go to",
    "Placement": "the Placement that it follows has decided for other clusters",
    "FailBack": "a target that it prefers is back",
}
UNKNOWN = "its target does not answer: it is looked at again once it does, or is lost"


@dataclass
class Plan:
    """Actions for one owner, in this order. A new leader can continue after any of them."""

    actions: list[Action] = field(default_factory=list)
    waits: bool = False
    """Whether to re-check soon, since no event will report the awaited state."""
    holds: bool = False
    """Whether a pod stays misplaced: re-check it now and then, although an event usually comes earlier."""

    def tell(self, action: Tell) -> None:
        """Set the condition Placed of a pod if it changes."""
        self.holds |= bool(action.reason)
        if action.news:
            self.actions.append(action)


def cause_of(pod: Pod) -> str:
    """Return the text of a pod's cause."""
    return pod.why or CAUSES[pod.cause]


def stays(owner: Owner, old: Pod) -> Tell | None:
    """Return the condition of a pod that may not move now; None if it may."""
    cause = cause_of(old)
    if old.frozen:
        return Tell(old, "Held", UNKNOWN)
    if old.data:
        return Tell(old, "DataElsewhere", f"{cause}; {old.stays}")
    if (plain(owner.kind) in ONE_OF_A_KIND or owner.remakes) and not (old.answers or old.dead):
        return Tell(old, "IdentityMayRun", f"{cause}; it may still run there: {until(old.fence)}")
    if old.together is not None and old.together.reason:
        return Tell(old, old.together.reason, f"{cause}; {old.together.message}")
    alone = "the pods of its group are not replaced one by one" if old.together and owner.way == "surge" else ""
    reason = old.stays or alone or held_by(owner, old) or (owner.why if owner.way == "stay" else "")
    return Tell(old, "Held", f"{cause}; {reason}") if reason else None


def held_by(owner: Owner, old: Pod) -> str:
    """Return why a pod has to wait for its owner; empty if it does not.

    A rollout holds no pod in a lost target: that pod serves no client, and the rollout may wait for it. Only a
    generation that the owner's controller has not observed yet holds it.
    """
    return owner.held if old.cause != "Lost" or owner.unseen else ""
