"""Evidence for judging a soak: the lives of pods, and the faults meanwhile. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hack.lab.soak.lives import History, Life, Moment

LEADER_SECONDS = 15.0
_BLIND_SECONDS = 5.0
"""Seconds after an outage within which requests from before may still be executed or recorded."""
_SERVED_BY = ("kube-apiserver", "etcd")
AGENTS = ("agent", "agent-2")


@dataclass(frozen=True)
class Outage:
    """A fault in a cluster, from `began` to `ended` (seconds since 1970)."""

    cluster: str
    process: str
    what: str
    began: float
    ended: float

    @property
    def unserved(self) -> bool:
        """Whether the fault affected the cluster's API."""
        return self.process in _SERVED_BY


@dataclass(frozen=True)
class Evidence:
    """The whole evidence of a soak.

    `living` holds cluster and UID of pods that exist now, `jobs` completions by name. `leaderless` is the
    longest time without a leader that is allowed, in seconds.
    """

    source: str
    history: History
    outages: Sequence[Outage] = ()
    living: frozenset[tuple[str, str]] = frozenset()
    jobs: Mapping[str, int] = field(default_factory=dict)
    leaderless: float = LEADER_SECONDS

    def over(self, life: Life) -> Moment | None:
        """Return when a pod was over; None if it still exists or no log can show it.

        A killed API server does not record its last requests. Such a pod was over at some time before the
        outage ended.
        """
        if life.over is not None or (life.cluster, life.uid) in self.living:
            return life.over
        for outage in self._unserved(life.cluster):
            if outage.ended + _BLIND_SECONDS > life.seen:
                line = f"not there any more; last seen before {outage.what} of {life.cluster}/{outage.process}"
                return Moment(life.seen, outage.ended + _BLIND_SECONDS, line)
        return None

    def excused(self, cluster: str, began: float, ended: float, *, least: float = 0.0) -> bool:
        """Return whether an outage of the cluster's API of at least `least` seconds overlaps the period."""
        return any(
            each.began < ended and each.ended + _BLIND_SECONDS > began
            for each in self._unserved(cluster)
            if each.ended - each.began >= least
        )

    def might_lead(self, cluster: str, began: float, ended: float) -> float:
        """Return the longest uninterrupted time, in seconds, in which an agent without faults could have led."""
        return max(_longest_gap(began, ended, self._outages_of(cluster, agent)) for agent in AGENTS)

    def _outages_of(self, cluster: str, process: str) -> list[Outage]:
        found = [each for each in self.outages if each.cluster == cluster and each.process == process]
        return sorted(found, key=lambda each: each.began)

    def _unserved(self, cluster: str) -> list[Outage]:
        found = [each for each in self.outages if each.cluster == cluster and each.unserved]
        return sorted(found, key=lambda each: each.began)


def _longest_gap(began: float, ended: float, outages: Sequence[Outage]) -> float:
    """Return the longest time between two moments that is free of outages, in seconds."""
    longest, free = 0.0, began
    for each in outages:
        longest = max(longest, min(each.began, ended) - free)
        free = max(free, each.ended)
    return max(longest, ended - free)
