"""What a move is decided by: one owner, its pods and their replacements, and what is done about them. Pure."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent.ranking.explain import without_figures

Cause = Literal["", "Lost", "Retire", "Targets", "Placement", "FailBack"]
"""Why a pod should not be where it is; empty for one that is well placed."""

MoveMode = Literal["surge", "evict", "stay"]
"""How an owner's pods move: replacement first, eviction, or not at all."""


_STEP_SECONDS = 10


def until(fence: float | None) -> str:
    """What has to happen before it is sure that a pod in a target that does not answer does not run there any more.

    Seconds are told in steps: each is a write.

    :param fence: as in `Pod`
    """
    if fence is None:
        return "certify that it does not, by multicluster/lost on the Target"
    return f"its fence will have stopped it in {math.ceil(fence / _STEP_SECONDS) * _STEP_SECONDS} s"


@dataclass(frozen=True)
class Together:
    """What a group has to say about each of its pods that is misplaced: by default that all of them may go at once."""

    reason: Literal["", "Held", "NoRoom", "DataElsewhere", "IdentityMayRun"] = ""
    """Why none of them goes; empty if all may."""
    message: str = ""
    waits: bool = False
    """Whether it is starting again just now."""
    unasked: bool = False
    """Whether it is what its pods say, or do not say, that keeps them."""


@dataclass(frozen=True)
class Pod:
    """A pod of the owner, or a replacement that is to become one."""

    name: str
    uid: str
    created: str = ""
    priority: int = 0
    """Of its priority class."""
    owned: bool = True
    """Whether the owner controls it: a replacement is not before it has been adopted."""
    placed: bool = True
    """Whether it is bound to a virtual node."""
    waits: bool = False
    """Whether it has been without a node for longer than it takes where there is room."""
    pending: str = ""
    """Message of the scheduler about a pod without a node, without figures of free capacity; empty if there is none."""
    deleting: bool = False
    ended: bool = False
    available: bool = True
    """Ready, and for as long as minReadySeconds of its owner says."""
    cause: Cause = ""
    why: str = ""
    """The cause in words, where it has more than usual."""
    answers: bool = True
    """Whether the target that it is in answers."""
    silent: bool = False
    """Whether that target has not answered for `--endpoints-grace`, after which no Service routes to its pods."""
    certified: bool = False
    """Whether a person has certified that nothing of its target runs any more, and nothing shows otherwise."""
    fence: float | None = None
    """In how many seconds its target has stopped it, if that is cut off; 0 for it has. None: nobody has said so."""
    stays: str = ""
    """Why it cannot be moved whatever its owner is, in words; empty if it can."""
    data: bool = False
    """Whether it stays because of its data."""
    together: Together | None = None
    """Of a pod of a group that is misplaced: what that has to say."""
    replaces: str = ""
    """UID of the pod that it replaces, until it is adopted."""
    replaced_by: str = ""
    """UID of the replacement for which it is about to go."""
    withdrawn: bool = False
    """Whether an earlier version took labels off its delegate before an eviction, so that they have to come back."""
    room: str = ""
    """Of one that is to be evicted: why no target that it may go to has room for it, in words; empty if one has."""
    rank: int = 0
    """Of a pod that is replaced: of several, its owner deletes that of the lowest first."""
    selected: bool = True
    """Whether its owner's selector matches its labels."""
    outdated: bool = False
    """Of a replacement: whether it was made from another template than its owner has now."""
    announced: bool = True
    """Of a replacement, and of those that stay where pods are evicted: whether every cluster that shares a Service that
    selects it has its address.
    """
    lacking: str = ""
    """Where its address has not been for some time although it is available, in words; empty if nowhere."""
    told: str = ""
    """What its condition Placed says already: REASON: MESSAGE; empty for one that has no such condition, or a true."""

    @property
    def frozen(self) -> bool:
        """Whether nobody knows for now what is true of it: its target may come back, or be lost."""
        return bool(self.cause) and self.cause != "Lost" and not self.answers

    @property
    def lost(self) -> bool:
        """Whether it is in a lost target that does not answer, so that it serves no client."""
        return self.cause == "Lost" and not self.answers

    @property
    def dead(self) -> bool:
        """Whether its target does not answer, and all the same it is sure that it does not run there any more."""
        return not self.answers and (self.certified or self.fence == 0)

    @property
    def lives(self) -> bool:
        """Whether it counts as one of its owner's replicas."""
        return not self.deleting and not self.ended

    @property
    def ordinal(self) -> tuple[int, str]:
        """What its name ends with, as of a StatefulSet's pods."""
        number = self.name.rpartition("-")[2]
        return (int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else -1, self.name)


@dataclass(frozen=True)
class Owner:
    """What makes the pods, and how they move."""

    kind: str
    name: str
    way: MoveMode
    why: str = ""
    """Why its pods stay, or are evicted rather than replaced, in words."""
    held: str = ""
    """Why no move of its pods begins now, in words; empty if one may."""
    replicas: int = 1
    surge: int = 1
    """How many more pods than that there may be while they move."""
    remakes: bool = False
    """Whether it makes another pod for one that has failed, so that one which cannot run any more may end so."""
    doubted: bool = False
    """Whether it is not known that it makes another pod for one that is evicted."""
    had: int = 0
    """Of such a one: how many pods it had before one of them was evicted; 0 if none was, as far as is known."""
    refused: str = ""
    """Why no pod may be created, or end for another one now, in words, where that may change by itself."""
    unseen: bool = False
    """Whether its controller has not seen its latest change yet, which takes moments."""


@dataclass(frozen=True)
class Create:
    """Create a replacement of a pod: its name is made of that one's UID, so that a repetition makes no second."""

    old: Pod
    name: str


@dataclass(frozen=True)
class Mark:
    """Write on a pod that it is replaced: its owner deletes it before all others but those marked earlier."""

    old: Pod
    new: Pod
    rank: int


@dataclass(frozen=True)
class Adopt:
    """Give a replacement the labels by which its owner takes it and deletes a pod too many, the one that is marked."""

    new: Pod
    old: Pod


@dataclass(frozen=True)
class Restore:
    """Remove the marks of a pod that stays."""

    old: Pod


@dataclass(frozen=True)
class Discard:
    """Delete a replacement that is not needed, or is of no use."""

    new: Pod
    why: str
    astray: bool = False
    """Whether it got a target that is no better than that of the pod that it was to replace."""


@dataclass(frozen=True)
class Evict:
    """Evict a pod, as far as disruption budgets let us: its owner makes another."""

    old: Pod


@dataclass(frozen=True)
class Fail:
    """End a pod as failed, of which nothing runs any more where it was: its owner makes another.

    This is a single write. What of it is found in its target when that is back is deleted there.
    """

    old: Pod


@dataclass(frozen=True)
class Tell:
    """Say on a pod why it is not where it should be, or (no reason) that it is."""

    pod: Pod
    reason: Literal["", "Misplaced", "Moving", "NoRoom", "Held", "DataElsewhere", "IdentityMayRun"]
    message: str = ""
    warns: bool = False
    """Whether an event reports it, too: `kubectl describe` shows no messages of conditions."""

    @property
    def news(self) -> bool:
        """Whether the pod does not say so already."""
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
    """How many pods of an owner are not where they should be, by the reason that they say, or are about to."""
    told = {action.pod.uid: action.reason for action in actions if isinstance(action, Tell)}
    away = (pod for pod in pods if pod.owned and pod.lives and pod.cause)
    return Counter(told.get(pod.uid) or pod.told.partition(":")[0] or "Moving" for pod in away)
