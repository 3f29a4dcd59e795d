"""Allocatable and allocated amounts of one target at one moment, independent of the pod."""

from typing import TYPE_CHECKING

from agent.ranking.snapshot import PodTemplate, TargetInfo

if TYPE_CHECKING:
    from agent.ranking.usage import Usage


class Allocation:
    """Share of a target that is allocated, from 0 (nothing) to 1.

    If the target reports free capacity, requests of assumed pods are added to the allocated part. Otherwise the
    requests of our own pods count as allocated. A target that reports no capacity is judged by the number of our
    pods.
    """

    __slots__ = ("_cpu", "_memory", "_pods", "_share", "target", "usage", "version")

    def __init__(self, target: TargetInfo, usage: "Usage") -> None:
        self.target = target
        self.usage = usage
        self.version = usage.version
        whole = {name: amount for name in ("cpu", "memory", "pods") if (amount := target.allocatable.get(name, 0)) > 0}
        per = {name: 1 / (amount * len(whole)) for name, amount in whole.items()}
        self._share = sum(self._used(name, amount) * per[name] for name, amount in whole.items())
        self._cpu, self._memory, self._pods = (per.get(name, 0.0) for name in ("cpu", "memory", "pods"))
        if not whole:
            self._share = 1 - 1 / (1 + len(usage.pods))

    def _used(self, name: str, whole: int) -> int:
        free = self.target.totals.free
        if free is None:
            return self.usage.requests.get(name, 0)
        return whole - free.get(name, 0) + self.usage.assumed_requests.get(name, 0)

    def share(self, template: PodTemplate) -> float:
        """Return the allocated share of the target with this pod: the mean over cpu, memory and pods."""
        cpu, memory, pods = template.measured
        share = self._share + cpu * self._cpu + memory * self._memory + pods * self._pods
        return 0.0 if share < 0 else min(share, 1.0)
