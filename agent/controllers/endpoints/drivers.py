"""What it takes to have the clusters of a federation know each other's endpoints, and the drivers that take nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.kube.store import Key

MESH = "clustermesh-apiserver"
"""Name of the Service by which the agents of a mesh's other clusters reach this one."""
_CILIUMS_GROUP = "cilium.io"


@dataclass(frozen=True)
class Place:
    """One shared Service in one cluster."""

    node: str
    """Virtual node of the target, empty for this cluster."""
    port: Port
    service: Key
    uid: str
    """Of the Service there."""

    @property
    def title(self) -> str:
        """How a user calls it."""
        where = f"in target {self.port.name}" if self.node else "here"
        return f"Service {'/'.join(self.service)} {where}"


class Driver(Protocol):
    """One way of sharing endpoints. Every call may be repeated, and does nothing that is done already.

    All but `detect` raise KubeError where another try may help.
    """

    name: ClassVar[str]
    """As the annotation `network-driver` of a Target has it."""
    reason: ClassVar[str]
    """As the condition ServicesShared has it."""

    def detect(self, groups: frozenset[str]) -> bool:
        """Whether a cluster that serves these API groups has what the driver needs."""
        ...

    async def status(self, target: Target) -> str:
        """What keeps the driver from working with a target, and what to do about it; empty if nothing does."""
        ...

    async def export(self, place: Place) -> None:
        """Have the other clusters learn of the endpoints that a Service has in this one."""
        ...

    async def import_(self, place: Place) -> float | None:
        """Have one cluster know the endpoints of the others. Returns in how many seconds to look again, if at all."""
        ...

    async def teardown(self, place: Place) -> None:
        """Take away what `export` and `import_` have left in a cluster where the Service still is."""
        ...

    def forget(self, node: str) -> None:
        """The target behind a virtual node is no more, or is another cluster."""
        ...


class Nothing:
    """Annotations are all it takes, and others write those; or nothing is wanted."""

    name: ClassVar[str] = "none"
    reason: ClassVar[str] = "Off"

    def detect(self, groups: frozenset[str]) -> bool:
        """Never by itself."""
        return False

    async def status(self, target: Target) -> str:
        """Nothing can fail."""
        return ""

    async def export(self, place: Place) -> None:
        """Nothing to do."""

    async def import_(self, place: Place) -> float | None:
        """Nothing to do."""
        return None

    async def teardown(self, place: Place) -> None:
        """Nothing to do."""

    def forget(self, node: str) -> None:
        """Nothing is remembered."""


class Cilium(Nothing):
    """Cilium's Cluster Mesh: its agents read the annotations that shared Services and their copies have."""

    name: ClassVar[str] = "cilium"
    reason: ClassVar[str] = "Cilium"

    def detect(self, groups: frozenset[str]) -> bool:
        """Whether Cilium's own kinds are served."""
        return _CILIUMS_GROUP in groups


def usable(groups: frozenset[str], services: Iterable[str]) -> frozenset[str]:
    """The API groups of this cluster that say something about drivers, given the names of its Services.

    Most clusters with Cilium have no Cluster Mesh: then nothing but its kinds would be shared. What a mesh adds to a
    cluster is a Service; in a target, sources may not look for it.
    """
    return groups if MESH in services else groups - {_CILIUMS_GROUP}
