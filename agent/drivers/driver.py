"""What every network driver can do."""

from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import msgspec

from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.kube.store import Key
from agent.model.servicelinks import Finding

HERE = ""
"""This cluster, where clusters are named by their virtual nodes."""
BY_ADDRESSES = "EndpointSlices"
"""Reason of the driver that tells addresses of pods as they are."""


class Pair(NamedTuple):
    """Two clusters, by the API groups that each serves."""

    one: frozenset[str]
    other: frozenset[str]
    flat: bool = True
    """Whether pods of either may be reached at their own addresses from the other."""
    gateways: bool = False
    """Whether both tell of gateways."""
    meshes: frozenset[str] = frozenset()
    """Drivers whose mesh has been told of either in the other, by their names."""

    def both_serve(self, group: str) -> bool:
        """Whether a kind of this group can be used in either."""
        return group in self.one and group in self.other


class Place(msgspec.Struct, frozen=True):
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
        return f"Service {'/'.join(self.service)} {self.where}"

    @property
    def where(self) -> str:
        """The same of its cluster."""
        return f"in target {self.port.name}" if self.node else "here"


class Driver(Protocol):
    """One way of sharing endpoints between two clusters. Every call may be repeated: what is done is not done again.

    All but `detect` raise KubeError where another try may help.
    """

    name: ClassVar[str]
    """As the annotation `network-driver` of a Target has it."""
    reason: ClassVar[str]
    """As the condition ServicesShared has it."""
    tells_sources: ClassVar[bool]
    """Whether `connected` says of each source by itself whether it is reached, from what has been read before."""
    asks: ClassVar[bool]
    """Whether `offered` and `connected` ask the cluster, which may take its time; else they answer at once."""

    def detect(self, pair: Pair) -> bool:
        """Whether both clusters have what the driver needs."""
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

    async def offered(self, place: Place) -> Finding:
        """What has become of the endpoints that a cluster offers to others."""
        ...

    async def connected(self, place: Place, source: str) -> Finding:
        """Whether callers in one cluster reach the endpoints that another one, the source, offers.

        A driver that does not tell sources apart answers for all of them.
        """
        ...

    async def teardown(self, place: Place) -> float | None:
        """Take away what `export` and `import_` have left in a cluster where the Service still is.

        Returns in how many seconds to look again, if something stays for a while.
        """
        ...

    def forget_service(self, node: str, service: Key) -> None:
        """A Service is no longer in a cluster: forget what was written of it there."""
        ...

    def forget_cluster(self, node: str) -> None:
        """A target is gone, or its virtual node stands for another cluster: forget what was written there."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A driver whose network a cluster has to join: those that call, and those that are called."""

    async def joined(self, place: Place) -> Finding | None:
        """What keeps a cluster out of the network; None for nothing that is known. Raises KubeError."""
        ...
