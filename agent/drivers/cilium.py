"""Driver `cilium`: a Cluster Mesh shares Services by their annotations."""

from collections.abc import Iterable
from typing import ClassVar

from agent.drivers.driver import Pair, Place
from agent.drivers.none_and_external import Nothing
from agent.model.servicelinks import UNVERIFIED, Finding

MESH = "clustermesh-apiserver"
"""Name of the Service through which the agents of other clusters of a mesh reach the local cluster."""
_CILIUMS_GROUP = "cilium.io"


class Cilium(Nothing):
    """Cilium's Cluster Mesh: its agents read the annotations that shared Services and their copies have."""

    name: ClassVar[str] = "cilium"
    reason: ClassVar[str] = "Cilium"

    def detect(self, pair: Pair) -> bool:
        """Return whether both clusters serve Cilium's kinds."""
        return pair.both_serve(_CILIUMS_GROUP)

    async def connected(self, place: Place, source: str) -> Finding:
        """Return Unverified: Cilium's agents do not publish the state of endpoints."""
        return Finding("Unknown", UNVERIFIED, "Cilium does not tell whether its clusters reach each other")


def usable(groups: frozenset[str], services: Iterable[str]) -> frozenset[str]:
    """Return the API groups of this cluster that drivers may use, given the names of its Services.

    Without Cluster Mesh, Cilium shares no Services although its kinds are served. A mesh adds a Service to the local
    cluster; in a target the source's agent may not read it.
    """
    return groups if MESH in services else groups - {_CILIUMS_GROUP}
