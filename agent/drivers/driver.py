"""Protocol of all network drivers."""

from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import msgspec

from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.kube.store import Key
from agent.model.servicelinks import Finding

LOCAL = ""
"""This cluster, where clusters are named by their virtual nodes."""
BY_ADDRESSES = "EndpointSlices"
"""Reason of the driver that publishes the addresses of pods unchanged."""


class Pair(NamedTuple):
    """Two clusters, by the API groups that each serves."""

    one: frozenset[str]
    other: frozenset[str]
    flat: bool = True
    """True if pods of each cluster can be reached at their own addresses from the other."""
    gateways: bool = False
    """True if both clusters publish gateways."""
    meshes: frozenset[str] = frozenset()
    """Names of drivers whose mesh is configured in each of the two clusters for the other."""

    def both_serve(self, group: str) -> bool:
        """Return whether both clusters serve a kind of this group."""
        return group in self.one and group in self.other


class Place(msgspec.Struct, frozen=True):
    """A shared Service in a cluster."""

    node: str
    """Virtual node of the target, empty for this cluster."""
    port: Port
    service: Key
    uid: str
    """UID of the Service in that cluster."""

    @property
    def title(self) -> str:
        """Return the name of the Service and its cluster for messages."""
        return f"Service {'/'.join(self.service)} {self.where}"

    @property
    def where(self) -> str:
        """Return the name of the cluster for messages."""
        return f"in target {self.port.name}" if self.node else "here"


class Driver(Protocol):
    """A way of sharing endpoints between two clusters. Every call is idempotent.

    All but `detect` raise KubeError if a retry may help.
    """

    name: ClassVar[str]
    """Value of the annotation `network-driver` of a Target."""
    reason: ClassVar[str]
    """Reason of the condition ServicesShared."""
    tells_sources: ClassVar[bool]
    """True if `connected` returns a finding for each source, from cached state."""
    asks: ClassVar[bool]
    """True if `offered` and `connected` send requests to the cluster; False if they return at once."""

    def detect(self, pair: Pair) -> bool:
        """Return whether both clusters have what the driver needs."""
        ...

    async def status(self, target: Target) -> str:
        """Return the problem that keeps the driver from working with a target, with its remedy; empty if none."""
        ...

    async def export(self, place: Place) -> None:
        """Offer the endpoints that a Service has in this cluster to the other clusters."""
        ...

    async def import_(self, place: Place) -> float | None:
        """Publish the endpoints of other clusters in a cluster. Returns seconds until the next check, or None."""
        ...

    async def offered(self, place: Place) -> Finding:
        """Return the state of the endpoints that a cluster offers to other clusters."""
        ...

    async def connected(self, place: Place, source: str) -> Finding:
        """Return whether callers in a cluster reach the endpoints that the source offers.

        A driver that does not distinguish sources returns one finding for all of them.
        """
        ...

    async def teardown(self, place: Place) -> float | None:
        """Delete the objects that `export` and `import_` have left in a cluster that still has the Service.

        Returns seconds until the next check if objects stay for a while; else None.
        """
        ...

    def forget_service(self, node: str, service: Key) -> None:
        """Drop the cached writes for a Service that has been deleted from a cluster."""
        ...

    def forget_cluster(self, node: str) -> None:
        """Drop cached writes for a target that was removed, or whose virtual node represents another cluster."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A driver whose network every cluster has to join, both with callers and with endpoints."""

    async def joined(self, place: Place) -> Finding | None:
        """Return the problem that keeps a cluster out of the network; None if none is known. Raises KubeError."""
        ...
