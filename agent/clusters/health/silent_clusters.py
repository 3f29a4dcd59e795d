"""Clusters behind Targets, and how many of them do not answer. Several Targets may use one cluster. Pure.

Counts are updated by events: checking one target costs the same regardless of their number.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.api.names import lifecycle
from agent.kube.store import Key
from agent.model.target_health import is_set
from agent.model.targetlife import is_held


class Member(NamedTuple):
    """State of one Target, as counted."""

    uid: str
    """UID of its cluster."""
    silent: bool
    """Whether the target does not answer."""
    ready: bool = False
    """Whether the target answers and its cluster's identity is confirmed."""


def counted_as(target: Mapping[str, Any]) -> str:
    """Return the cluster UID for which a Target counts; empty for the local cluster, or while the UID is unknown.

    A Target that is declared lost does not count.
    """
    if (target.get("spec") or {}).get("self") or is_set(target["metadata"].get("annotations"), lifecycle.LOST):
        return ""
    return str((target.get("status") or {}).get("clusterUID") or "")


class SilentClusters:
    """Clusters by UID, with the Targets that use them."""

    def __init__(self) -> None:
        self._members: dict[Key, Member] = {}
        self._clusters: dict[str, dict[Key, Member]] = {}
        self._away = 0
        """Number of clusters whose Targets are all silent."""

    def put(self, key: Key, member: Member) -> None:
        """Record the state of a Target. A Target without a cluster UID does not count."""
        if self._members.get(key) == member:
            return
        self.remove(key)
        if not member.uid:
            return
        cluster = self._clusters.get(member.uid, {})
        before = _is_away(cluster)
        self._members[key] = self._clusters.setdefault(member.uid, cluster)[key] = member
        self._away += _is_away(cluster) - before

    def remove(self, key: Key) -> None:
        """Forget a Target."""
        member = self._members.pop(key, None)
        if member is None:
            return
        cluster = self._clusters[member.uid]
        before = _is_away(cluster)
        del cluster[key]
        self._away += _is_away(cluster) - before
        if not cluster:
            del self._clusters[member.uid]

    @property
    def held(self) -> bool:
        """Return whether failover is suspended: all clusters, or most of several, do not answer."""
        return is_held(self._away, len(self._clusters))

    def way_to(self, key: Key) -> str:
        """Return the name of another Target through which the cluster of this one answers, empty if there is none."""
        member = self._members.get(key)
        others = self._clusters[member.uid].items() if member is not None else ()
        return next(("/".join(other).lstrip("/") for other, each in others if other != key and each.ready), "")

    def beside(self, key: Key) -> list[Key]:
        """Return the other Targets of the same cluster."""
        member = self._members.get(key)
        return [other for other in self._clusters[member.uid] if other != key] if member is not None else []


def _is_away(cluster: dict[Key, Member]) -> bool:
    return bool(cluster) and all(member.silent for member in cluster.values())
