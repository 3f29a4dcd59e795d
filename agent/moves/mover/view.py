"""Input and output of the mover's decisions: an owner, its pods, their replacements, and the actions. Pure."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent.ranking.explain import without_figures

Cause = Literal["", "Lost", "Retire", "Targets", "Placement", "FailBack"]
"""Reason why a pod should leave its target; empty if it is well placed."""

MoveMode = Literal["surge", "evict", "stay"]
"""Way in which an owner's pods move: replacement first, eviction, or not at all."""


_STEP_SECONDS = 10


def until(fence: float | None) -> str:
    """Return the event that will prove that a pod in an unresponsive target no longer runs.

    Seconds are rounded up to steps, since each new text is a write to the pod.

    :param fence: as in `Pod`
    """
    if fence is None:
        return "certify that it does not, by multicluster/lost on the Target"
    return f"its fence will have stopped it in {math.ceil(fence / _STEP_SECONDS) * _STEP_SECONDS} s"


@dataclass(frozen=True)
class Together:
    """Decision about a group with misplaced pods. The default: all of them may move at once."""

    reason: Literal["", "Held", "NoRoom", "DataElsewhere", "IdentityMayRun"] = ""
    """Why no pod of the group moves; empty if all may."""
    message: str = ""
    waits: bool = False
    """Whether the group is being restarted now."""
    unasked: bool = False
    """Whether the group stays because of annotations that its pods have or lack."""


@dataclass(frozen=True)
class Pod:
    """A pod of the owner, or a replacement that the owner is to adopt."""

    name: str
    uid: str
    created: str = ""
    priority: int = 0
    """Value of its priority class."""
    owned: bool = True
    """Whether the owner controls it; False for a replacement before its adoption."""
    placed: bool = True
    """Whether it is bound to a virtual node."""
    waits: bool = False
    """Whether it has had no node for longer than scheduling takes if capacity exists."""
    pending: str = ""
    """The scheduler's message about a pod without a node, without figures of free capacity; empty if none."""
    deleting: bool = False
    ended: bool = False
    available: bool = True
    """Whether it has been ready for the owner's minReadySeconds."""
    cause: Cause = ""
    why: str = ""
    """Specific text for the cause; empty for the default text."""
    answers: bool = True
    """Whether its target answers."""
    silent: bool = False
    """Whether that target has not answered for `--endpoints-grace`, after which no Service routes to its pods."""
    certified: bool = False
    """Whether a user has certified that nothing runs in its target any longer, and nothing contradicts that."""
    fence: float | None = None
    """Seconds until the fence has certainly stopped the pod; 0 if it has, None if the pod is not fenced."""
    stays: str = ""
    """Why it cannot move whatever its owner is; empty if it can."""
    data: bool = False
    """Whether it stays because its volume is in its target."""
    together: Together | None = None
    """Decision about its group; None for a well-placed pod and for a pod without a group."""
    replaces: str = ""
    """UID of the pod that this replacement is for; empty after its adoption."""
    replaced_by: str = ""
    """UID of its replacement, set shortly before the owner deletes this pod; otherwise empty."""
    withdrawn: bool = False
    """Whether an earlier version removed labels from its delegate before an eviction; they have to be restored."""
    room: str = ""
    """Why no admitted target has capacity for a pod that has to be evicted; empty if one has."""
    rank: int = 0
    """Deletion order of pods that are being replaced: the owner deletes the lowest rank first."""
    selected: bool = True
    """Whether its owner's selector matches its labels."""
    outdated: bool = False
    """Whether the owner's template has changed since this replacement was created."""
    announced: bool = True
    """Whether every cluster that shares a Service of this pod has its address.

    Set on replacements, and on well-placed pods of owners whose pods are evicted.
    """
    lacking: str = ""
    """Text about the clusters that have lacked the address of this available pod for some time; empty if none."""
    told: str = ""
    """`REASON: MESSAGE` of its condition Placed; empty if that is missing or True."""

    @property
    def frozen(self) -> bool:
        """Whether its state is unknown: a misplaced pod whose target does not answer but is not lost yet."""
        return bool(self.cause) and self.cause != "Lost" and not self.answers

    @property
    def lost(self) -> bool:
        """Whether its target is lost and does not answer, so that it serves no client."""
        return self.cause == "Lost" and not self.answers

    @property
    def dead(self) -> bool:
        """Whether it certainly no longer runs, although its target does not answer."""
        return not self.answers and (self.certified or self.fence == 0)

    @property
    def lives(self) -> bool:
        """Whether the owner counts the pod as one of its replicas: it is not being deleted and has not ended."""
        return not self.deleting and not self.ended

    @property
    def ordinal(self) -> tuple[int, str]:
        """Number at the end of its name, -1 if none, then the name: sorts the pods of a StatefulSet."""
        number = self.name.rpartition("-")[2]
        return (int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else -1, self.name)


@dataclass(frozen=True)
class Owner:
    """Controller of the pods in the source, and how its pods move."""

    kind: str
    name: str
    way: MoveMode
    why: str = ""
    """Why its pods stay, or are evicted rather than replaced; empty if they are replaced."""
    held: str = ""
    """Why no move of its pods begins now; empty if one may."""
    replicas: int = 1
    surge: int = 1
    """Number of pods above `replicas` that may exist during a move."""
    remakes: bool = False
    """Whether it creates another pod for a failed one, so that a pod in a lost target may be failed."""
    doubted: bool = False
    """Whether it may not recreate an evicted pod: its kind is unknown."""
    had: int = 0
    """Number of pods that a doubted owner had before the last eviction; 0 if no eviction is known."""
    refused: str = ""
    """Temporary reason why no replacement may be created and no pod ended; empty if none."""
    unseen: bool = False
    """Whether its controller has not yet observed its latest generation, which takes moments."""


@dataclass(frozen=True)
class Create:
    """Create a replacement of a pod. The name is derived from the pod's UID, so that a retry creates no second one."""

    old: Pod
    name: str


@dataclass(frozen=True)
class Mark:
    """Mark a pod as replaced: its owner deletes it before all pods without an earlier mark."""

    old: Pod
    new: Pod
    rank: int


@dataclass(frozen=True)
class Adopt:
    """Give a replacement its missing labels: the owner adopts it, and deletes the marked pod as the surplus one."""

    new: Pod
    old: Pod


@dataclass(frozen=True)
class Restore:
    """Remove the marks of a pod that stays."""

    old: Pod


@dataclass(frozen=True)
class Discard:
    """Delete a replacement that is unnecessary or useless."""

    new: Pod
    why: str
    astray: bool = False
    """Whether its target is no better than that of the pod that it was to replace."""


@dataclass(frozen=True)
class Evict:
    """Evict a pod if its disruption budgets allow that: its owner creates another."""

    old: Pod


@dataclass(frozen=True)
class Fail:
    """Set the phase of a pod that certainly no longer runs to Failed: its owner creates another.

    This is a single write. If the target returns, its remains of the pod are deleted.
    """

    old: Pod


@dataclass(frozen=True)
class Tell:
    """Set the condition Placed of a pod: False with a reason, or True if the reason is empty."""

    pod: Pod
    reason: Literal["", "Misplaced", "Moving", "NoRoom", "Held", "DataElsewhere", "IdentityMayRun"]
    message: str = ""
    warns: bool = False
    """Whether to emit an event, too: `kubectl describe` shows no messages of conditions."""

    @property
    def news(self) -> bool:
        """Whether the pod's condition differs from this one."""
        if not self.reason:
            return bool(self.pod.told)
        return self.pod.told != f"{self.reason}: {self.message}"

    @property
    def has_other_figures(self) -> bool:
        """Whether the pod's condition already has this message with other figures."""
        return self.reason == "NoRoom" and without_figures(self.pod.told) == without_figures(
            f"{self.reason}: {self.message}"
        )


Action = Create | Mark | Adopt | Restore | Discard | Evict | Fail | Tell


def reasons(pods: Iterable[Pod], actions: Iterable[Action]) -> Counter[str]:
    """Count an owner's misplaced pods by the reason in their condition Placed, after these actions."""
    told = {action.pod.uid: action.reason for action in actions if isinstance(action, Tell)}
    away = (pod for pod in pods if pod.owned and pod.lives and pod.cause)
    return Counter(told.get(pod.uid) or pod.told.partition(":")[0] or "Moving" for pod in away)
