"""Track one pod that moves: the pod that takes its place, and that pod's successors. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent.api.conditions import is_true
from agent.api.kinds import JOBS, Kind
from agent.kube.store import Object
from agent.model.podstate import ENDED
from agent.moves.mover.facts import is_replacement, owner_of

_JOB_IS_OVER = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class Following:
    """A pod and its successors: replacements by their annotations, or else the next pods of the same owner."""

    def __init__(self, pod: Object, known: Iterable[Object]) -> None:
        """:param known: pods that existed before anything was written"""
        self.pod = pod
        """Last observed state of the pod that is followed now."""
        self.is_going = False
        """Whether the pod is terminating, has ended, or does not exist."""
        self.is_gone = False
        self._owner = owner_of(pod)[3]
        self._trail = {pod.uid: pod}
        self._replacements: dict[str, Object] = {}
        """Replacements by UID, the newest last."""
        self._before = {each.uid for each in known if self._is_made(each)}
        """UIDs of the owner's pods that are not successors."""

    @property
    def is_bare(self) -> bool:
        """Whether the pod has no owner that would recreate it."""
        return self.pod.controller is None and not is_replacement(self.pod)

    @property
    def has_finished(self) -> bool:
        """Whether the pod has succeeded: its owner does not replace it then."""
        return self.pod.phase == "Succeeded"

    def see(self, pods: Iterable[Object]) -> list[tuple[Object, Object]]:
        """Observe the current pods; return pairs of a pod and its successor."""
        family = {pod.uid: pod for pod in pods if pod.uid == self.pod.uid or owner_of(pod)[3] == self._owner}
        for pod in family.values():
            if is_replacement(pod) and pod.hot_annotations.replaces in self._trail:
                self._replacements[pod.uid] = pod
        steps = []
        self._look(family)
        while self.is_going and (new := self._successor(family)) is not None:
            steps.append((self.pod, new))
            self.pod = self._trail[new.uid] = new
            self._look(family)
        if not self.is_going:
            self._before |= {pod.uid for pod in family.values() if self._is_made(pod)}
        return steps

    def _look(self, family: Mapping[str, Object]) -> None:
        now = family.get(self.pod.uid)
        self.pod = now if now is not None else self.pod
        self.is_gone = now is None
        self.is_going = now is None or now.deleting or now.phase in ENDED

    def _successor(self, family: Mapping[str, Object]) -> Object | None:
        """Return the pod's successor: its replacement once adopted, or else a pod that its owner has created since."""
        living = {uid: pod for uid, pod in family.items() if self._is_made(pod) and _lives(pod)}
        meant = (self.pod.hot_annotations.replaced_by, *reversed(self._replacements))
        first = [living[uid] for uid in meant if uid in living and uid not in self._trail]
        made = [pod for uid, pod in living.items() if uid not in self._before and uid not in self._trail]
        return next(iter(first or sorted(made, key=lambda pod: (pod.name != self.pod.name, pod.name))), None)

    def _is_made(self, pod: Object) -> bool:
        """Return True if the owner controls the pod, because it has created or adopted it."""
        return pod.controller is not None and pod.controller.uid == self._owner

    def of(self, pods: Iterable[Object]) -> list[Object]:
        """Select the followed pod, its predecessors and its replacements from all pods."""
        return [pod for pod in pods if pod.uid in self._trail or pod.uid in self._replacements]

    def living(self, pods: Iterable[Object]) -> int:
        """Return the number of living pods of its owner."""
        return sum(self._is_made(pod) and _lives(pod) for pod in pods)


def _lives(pod: Object) -> bool:
    return not pod.deleting and pod.phase not in ENDED


def wanted(kind: Kind, owner: Mapping[str, Any]) -> int:
    """Return the number of pods that an owner wants now; 0 if it does not specify one."""
    spec, status = owner.get("spec") or {}, owner.get("status") or {}
    if "deletionTimestamp" in owner.get("metadata", {}):
        return 0
    if kind is not JOBS:
        return int(spec.get("replicas") or 0)
    if spec.get("suspend") or any(is_true(status.get("conditions"), each) for each in _JOB_IS_OVER):
        return 0
    most, succeeded = int(spec.get("parallelism", 1)), int(status.get("succeeded") or 0)
    if spec.get("completions") is None:
        return 0 if succeeded else most
    return max(0, min(most, int(spec["completions"]) - succeeded))


def nobody_makes(
    following: Following, kind: Kind | None, owner: Mapping[str, Any] | None, pods: Collection[Object]
) -> str:
    """Return why no owner replaces a pod that has ended or was deleted; empty if one may.

    :param kind: kind of its controller, None for one that is not read
    :param owner: current manifest of the controller, None if it does not exist
    """
    reference = following.pod.controller
    if following.is_bare or reference is None:
        return "nothing makes it again"
    if kind is None:
        return ""
    title = f"{reference.kind} {reference.name}"
    if owner is None or owner["metadata"]["uid"] != reference.uid or "deletionTimestamp" in owner["metadata"]:
        return f"{title}, which has made it, is gone, too"
    number, living = wanted(kind, owner), following.living(pods)
    return f"{title} makes no other: of {number} that it wants there are {living}" if living >= number else ""
