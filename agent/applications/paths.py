"""Links between ManagedClusters by the drivers of their Targets: whether one reaches the Services of the other."""

from collections.abc import Callable

from agent.clusters.deps import Deps
from agent.drivers.clusters import Clusters
from agent.kube.store import Object
from agent.model.links import Link, link, peer
from agent.model.p2code.linked import unknown_path


class Paths:
    """Links between ManagedClusters, from Targets and virtual nodes."""

    def __init__(self, deps: Deps, leading: Callable[[str, str], Object | None]) -> None:
        """:param leading: returns the Target of a namespace for a ManagedCluster, None if none exists"""
        self._clusters = Clusters(deps)
        self._leading = leading

    def between(self, namespace: str, one: str, other: str) -> Link:
        """Return the link between two ManagedClusters."""
        targets = [self._leading(namespace, each) for each in (one, other)]
        found = [peer(each.decode(), self._clusters.networks_of(each) or ()) for each in targets if each is not None]
        if len(found) < len(targets):
            return unknown_path(namespace, one, other)
        here = [each for each in found if each.is_self]
        away = [each for each in found if not each.is_self]
        return link(None, away[0]) if here and away else link(found[0], found[1])
