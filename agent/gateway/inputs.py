"""The input file of a gateway's loop, computed namespace by namespace.

A large installation has thousands of GatewayPeers. A change concerns one namespace: only its part is computed again.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agent.model.gatewayaddresses import Addresses, left_out, of_pods, warning
from agent.model.gatewayallocation import Allocation
from agent.model.gatewayhosts import EVERY_OFFERED, with_hosts
from agent.model.gatewaylink import document
from agent.model.gatewaysize import Key, Limits, Priced, Served, entries, peer_entry, priced, trimmed

Raw = dict[str, Any]
_FEW = 4


class Contents(NamedTuple):
    """Objects of one namespace."""

    peers: Sequence[Raw]
    """GatewayPeers that are not being deleted."""
    slices: Sequence[Raw]
    """EndpointSlices of shared Services."""


class Watched(NamedTuple):
    """Pods of the cluster."""

    addresses: Addresses
    problem: str
    """Reason why addresses may be out of date; empty if they are current."""


class _Read(NamedTuple):
    """Objects of one namespace that may be served."""

    contents: Contents
    slices: list[Raw]
    """EndpointSlices with only those endpoints that are pods of the namespace."""
    priced: Priced


class _Part(NamedTuple):
    """The part of one namespace."""

    peers: tuple[tuple[str, str, str, bytes], ...]
    """Time of creation, name, namespace and JSON of each peer."""
    services: tuple[bytes, ...]
    warnings: Mapping[str, str]
    """Messages about endpoints and Services that are left out, by peer."""
    foreign: int
    """Addresses of endpoints that belong to no pod of the namespace."""
    left_out: Mapping[Key, int]
    """Number of Services that exceed the limits, by GatewayPeer."""


class Inputs:
    """The input file, kept as one part for each namespace with GatewayPeers."""

    def __init__(self, limit: Limits, before: Served, contents: Callable[[str], Contents]) -> None:
        """:param before: GatewayPeers and their Services that the gateway serves already
        :param contents: function that returns the objects of a namespace
        """
        self.own = ""
        """UID of the cluster."""
        self._allocation = Allocation(limit, entries(before))
        self._contents = contents
        self._parts: dict[str, _Part] = {}
        self._read: dict[str, _Read] = {}
        """A few namespaces whose needs are recorded and whose part is pending. The objects of all would take
        much memory.
        """

    @property
    def namespaces(self) -> Iterable[str]:
        """Namespaces with GatewayPeers."""
        return self._parts.keys()

    def is_served(self, peer: Key) -> bool:
        """Return True if a GatewayPeer fits into the limits."""
        return peer_entry(peer) in self._allocation.kept(peer[0])

    def warning(self, peer: str) -> str:
        """Return which endpoints or Services of a peer are left out, and the remedy; empty if none."""
        part = self._parts.get(peer.partition("/")[0])
        return part.warnings.get(peer, "") if part is not None else ""

    @property
    def left_out(self) -> int:
        """Number of Services that exceed the limits."""
        return sum(count for part in self._parts.values() for count in part.left_out.values())

    @property
    def foreign(self) -> int:
        """Number of addresses that the gateway does not call, because no pod of their namespace has them."""
        return sum(part.foreign for part in self._parts.values())

    def price(self, namespace: str, pods: Watched) -> None:
        """Record the present needs of a namespace."""
        found = self._objects(namespace, pods)
        self._allocation.update(namespace, found.priced.costs)
        if len(self._read) < _FEW:
            self._read[namespace] = found

    def settle(self) -> set[str]:
        """Decide what fits into the limits; return the namespaces whose choice has changed."""
        return self._allocation.settle()

    def compute(self, namespace: str, pods: Watched) -> list[tuple[str, str]]:
        """Compute the part of a namespace; return its new warnings as pairs of peer and message."""
        before = self._parts.pop(namespace, None)
        known = self._read.pop(namespace, None)
        found, slices, offered = known if known is not None else self._objects(namespace, pods)
        if not found.peers:
            return []
        peers = trimmed(offered.peers, self._allocation.kept(namespace))
        made = with_hosts(document(self.own, peers, slices), peers, slices)
        foreign, left = left_out(found.slices, pods.addresses), self._allocation.left_out(namespace)
        warnings = {}
        for each in found.peers:
            key = (namespace, each["metadata"]["name"])
            too_much = self._allocation.limit.problem(left.get(key, 0), namespace)
            warnings["/".join(key)] = too_much or warning(each, foreign, EVERY_OFFERED, pods.problem)
        created = {each["metadata"]["name"]: each["metadata"]["creationTimestamp"] for each in peers}
        self._parts[namespace] = _Part(
            tuple((created[peer.name], peer.name, namespace, msgspec.json.encode(peer)) for peer in made.peers),
            tuple(map(msgspec.json.encode, made.services)),
            warnings,
            sum(map(len, foreign.values())),
            left,
        )
        had = before.warnings if before is not None else {}
        return [(peer, text) for peer, text in sorted(warnings.items()) if text and text != had.get(peer)]

    def _objects(self, namespace: str, pods: Watched) -> _Read:
        found = self._contents(namespace)
        slices = of_pods(found.slices, pods.addresses)
        return _Read(found, slices, priced(self.own, found.peers, slices))

    def document(self) -> bytes:
        """Return the input file. Of two peers that claim one local port, the older one comes first."""
        parts = [self._parts[namespace] for namespace in sorted(self._parts)]
        peers = sorted(itertools.chain.from_iterable(each.peers for each in parts), key=operator.itemgetter(0, 1, 2))
        services = itertools.chain.from_iterable(each.services for each in parts)
        return b"".join(
            (
                b'{"cluster":',
                msgspec.json.encode(self.own),
                b',"peers":[',
                b",".join(peer for *_, peer in peers),
                b'],"services":[',
                b",".join(services),
                b"]}",
            )
        )


class _Metadata(msgspec.Struct, rename="camel"):
    labels: msgspec.Raw = msgspec.Raw()
    deletion_timestamp: str = ""
    creation_timestamp: str = ""


class _Status(msgspec.Struct, rename="camel"):
    services: msgspec.Raw = msgspec.Raw()
    udp_services: msgspec.Raw = msgspec.Raw()
    headless: msgspec.Raw = msgspec.Raw()


class _Used(msgspec.Struct, rename="camel"):
    """Fields of GatewayPeers and EndpointSlices that decide what a gateway does."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)
    spec: msgspec.Raw = msgspec.Raw()
    address_type: msgspec.Raw = msgspec.Raw()
    ports: msgspec.Raw = msgspec.Raw()
    endpoints: msgspec.Raw = msgspec.Raw()


_decode_used = msgspec.json.Decoder(_Used).decode


def are_alike(old: bytes, new: bytes) -> bool:
    """Return True if a gateway does the same by both versions of a GatewayPeer or EndpointSlice.

    Every gateway pod writes how peers are into each GatewayPeer, which changes nothing that gateways do.
    """
    try:
        return _decode_used(old) == _decode_used(new)
    except msgspec.DecodeError:
        return False
