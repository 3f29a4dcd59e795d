"""Driver `cilium`: a Cluster Mesh shares Services by their annotations."""

from collections.abc import Iterable
from typing import ClassVar

from agent.drivers.driver import Pair, Place
from agent.drivers.nothing import Nothing
from agent.model.servicelinks import UNVERIFIED, Finding

MESH = "clustermesh-apiserver"
"""Name of the Service by which the agents of a mesh's other clusters reach this one."""
_CILIUMS_GROUP = "cilium.io"


class Cilium(Nothing):
    """Cilium's Cluster Mesh: its agents read the annotations that shared Services and their copies have."""

    name: ClassVar[str] = "cilium"
    reason: ClassVar[str] = "Cilium"

    def detect(self, pair: Pair) -> bool:
        """Whether Cilium's own kinds are served."""
        return pair.both_serve(_CILIUMS_GROUP)

    async def connected(self, place: Place, source: str) -> Finding:
        """Its agents know, and tell nobody."""
        return Finding("Unknown", UNVERIFIED, "Cilium does not tell whether its clusters reach each other")


def usable(groups: frozenset[str], services: Iterable[str]) -> frozenset[str]:
    """The API groups of this cluster that say something about drivers, given the names of its Services.

    Most clusters with Cilium have no Cluster Mesh: then nothing but its kinds would be shared. What a mesh adds to a
    cluster is a Service; in a target, sources may not look for it.
    """
    return groups if MESH in services else groups - {_CILIUMS_GROUP}
