"""Progress of a move, judged by the pods that it concerns. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agent.cli.moving.lines import MoveLine
from agent.kube.store import Object
from agent.model.podstate import ENDED
from agent.model.targetchoice import Target, TargetChoice
from agent.moves.mover.facts import facts_of, is_replacement

STUCK = ("Held", "NoRoom", "DataElsewhere", "IdentityMayRun")
"""Phases that may last until a user intervenes."""


@dataclass(frozen=True)
class Pod:
    """A pod that a move concerns, and the choice of its targets; None for any target."""

    raw: Object
    choice: TargetChoice | None = None

    @property
    def counts(self) -> bool:
        """Whether the pod counts among the wanted ones."""
        return not self.raw.deleting and self.raw.phase not in ENDED and not is_replacement(self.raw)


@dataclass(frozen=True)
class Progress:
    """Counts of pods by progress, and why the rest waits."""

    total: int = 0
    done: int = 0
    """Number of pods that are in a valid target and Ready."""
    missing: int = 0
    """Number of pods that their owner has yet to create."""
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Reason why each other pod waits, by UID."""
    stuck: Mapping[str, str] = field(default_factory=dict)
    """Waiting pods that may stay so until a user intervenes, by UID."""
    leftovers: int = 0
    """Number of terminating pods, and of replacements that are no longer needed."""

    @property
    def complete(self) -> bool:
        """Whether the move is complete."""
        return not (self.waiting or self.missing or self.leftovers)

    def __str__(self) -> str:
        if not (self.total or self.leftovers):
            return "there are no pods that it bears on"
        missing = f"; {self.missing} are still to be made" if self.missing else ""
        leftovers = f"; {self.leftovers} have still to go, or to be adopted" if self.leftovers else ""
        return f"{self.done} of {self.total} pods are where they should be{missing}{leftovers}"


def progress(
    pods: Sequence[Pod], homes: Mapping[str, Target], lines: Sequence[MoveLine], wanted: int, stays: Collection[str]
) -> Progress:
    """Measure the progress of a move.

    :param homes: targets by virtual node
    :param wanted: number of pods that the owners want, as far as they specify it
    :param stays: UIDs of pods that certainly stay
    """
    told = {(line.namespace, line.pod): line for line in lines}
    waiting: dict[str, str] = {}
    stuck: dict[str, str] = {}
    counted = [pod for pod in pods if pod.counts]
    for pod in counted:
        why = _waits_for(pod, homes, told.get(pod.raw.key))
        if why:
            waiting[pod.raw.uid] = f"{pod.raw.namespace}/{pod.raw.name}: {why}"
        line = told.get(pod.raw.key)
        if why and (pod.raw.uid in stays or (line is not None and line.phase in STUCK)):
            stuck[pod.raw.uid] = waiting[pod.raw.uid]
    leftovers = sum(_is_left_over(pod, homes, waiting) for pod in pods)
    missing = max(0, wanted - len(counted))
    return Progress(len(counted) + missing, len(counted) - len(waiting), missing, waiting, stuck, leftovers)


def _waits_for(pod: Pod, homes: Mapping[str, Target], line: MoveLine | None) -> str:
    """Return why a pod is not yet in a valid target and Ready; empty if it is."""
    if not pod.raw.node_name:
        return "it has no target yet"
    if _is_misplaced(pod, homes):
        if line is None:
            return "the agent has not begun to move it"
        return f"{line.phase}: {line.message}" if line.message else line.phase
    ready = facts_of(pod.raw).condition("Ready")
    return "" if ready is not None and ready.status == "True" else "it is not Ready yet"


def _is_misplaced(pod: Pod, homes: Mapping[str, Target]) -> bool:
    home = homes.get(pod.raw.node_name)
    return home is not None and pod.choice is not None and bool(pod.choice.misplaced(home))


def _is_left_over(pod: Pod, homes: Mapping[str, Target], waiting: Collection[str]) -> bool:
    """Return True if a move is not complete: the old pod exists, or its owner has not adopted the new one.

    Replacements of waiting pods do not count.
    """
    if pod.raw.phase in ENDED:
        return False
    if is_replacement(pod.raw):
        return pod.raw.hot_annotations.replaces not in waiting
    return pod.raw.deleting and _is_misplaced(pod, homes)
