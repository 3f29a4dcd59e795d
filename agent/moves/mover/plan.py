"""What a move comes to so far, and what keeps a pod where it is whichever way its owner's pods move. Pure."""

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
    """What to do, in this order: each write stands for itself, and whoever is killed between two goes on from there."""

    actions: list[Action] = field(default_factory=list)
    waits: bool = False
    """Whether to look again soon, for something that no event tells of."""
    holds: bool = False
    """Whether a pod is not where it should be: then to look again by and by, though events bring that about earlier."""

    def tell(self, action: Tell) -> None:
        """Say it, if it is not said already."""
        self.holds |= bool(action.reason)
        if action.news:
            self.actions.append(action)


def cause_of(pod: Pod) -> str:
    """Why a pod should not be where it is, in words."""
    return pod.why or CAUSES[pod.cause]


def stays(owner: Owner, old: Pod) -> Tell | None:
    """Why a pod is not moved now, None where it may be."""
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
    """Return why a pod waits for what its owner does just now, empty if it does not.

    A pod in a lost target serves nobody, and a rollout may wait for that very pod: only a change that its controller
    has not seen yet holds it.
    """
    return owner.held if old.cause != "Lost" or owner.unseen else ""
