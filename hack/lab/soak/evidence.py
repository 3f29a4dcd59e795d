"""What a soak is judged by: the lives of pods, and what was made to fail meanwhile. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hack.lab.soak.lives import History, Life, Moment

LEADER_SECONDS = 15.0
_BLIND_SECONDS = 5.0
"""Requests that were under way when an API server ended may be carried out, or noted, so much later."""
_SERVED_BY = ("kube-apiserver", "etcd")
AGENTS = ("agent", "agent-2")


@dataclass(frozen=True)
class Outage:
    """Something of a cluster was made to fail, from `began` to `ended` (seconds since 1970)."""

    cluster: str
    process: str
    what: str
    began: float
    ended: float

    @property
    def unserved(self) -> bool:
        """Whether the cluster's API was affected."""
        return self.process in _SERVED_BY


@dataclass(frozen=True)
class Evidence:
    """All that is known. `living`: cluster and UID of the pods that there are now; `jobs`: completions by name;
    `leaderless`: how long nobody may lead, in seconds."""

    source: str
    history: History
    outages: Sequence[Outage] = ()
    living: frozenset[tuple[str, str]] = frozenset()
    jobs: Mapping[str, int] = field(default_factory=dict)
    leaderless: float = LEADER_SECONDS

    def over(self, life: Life) -> Moment | None:
        """When a pod was over; None if it is not, or nobody can know.

        API servers that are killed do not note what they have done: such a pod was over at some time until then.
        """
        if life.over is not None or (life.cluster, life.uid) in self.living:
            return life.over
        for outage in self._unserved(life.cluster):
            if outage.ended + _BLIND_SECONDS > life.seen:
                line = f"not there any more; last seen before {outage.what} of {life.cluster}/{outage.process}"
                return Moment(life.seen, outage.ended + _BLIND_SECONDS, line)
        return None

    def excused(self, cluster: str, began: float, ended: float, *, least: float = 0.0) -> bool:
        """Whether the API of a cluster was affected at some time between, for `least` seconds."""
        return any(
            each.began < ended and each.ended + _BLIND_SECONDS > began
            for each in self._unserved(cluster)
            if each.ended - each.began >= least
        )

    def might_lead(self, cluster: str, began: float, ended: float) -> float:
        """For how long, in one go, there was an agent between that nothing was done to: one that could have led."""
        return max(_longest_gap(began, ended, self._outages_of(cluster, agent)) for agent in AGENTS)

    def _outages_of(self, cluster: str, process: str) -> list[Outage]:
        found = [each for each in self.outages if each.cluster == cluster and each.process == process]
        return sorted(found, key=lambda each: each.began)

    def _unserved(self, cluster: str) -> list[Outage]:
        found = [each for each in self.outages if each.cluster == cluster and each.unserved]
        return sorted(found, key=lambda each: each.began)


def _longest_gap(began: float, ended: float, outages: Sequence[Outage]) -> float:
    """The longest time between two moments in which none of these outages was."""
    longest, free = 0.0, began
    for each in outages:
        longest = max(longest, min(each.began, ended) - free)
        free = max(free, each.ended)
    return max(longest, ended - free)
