"""What a gateway is told: its own cluster, the clusters it is linked with, by namespace, and its own shared Services.

A peer is another cluster in one namespace. Each has a CA of its own, so that who may name peers in a namespace reaches
the Services of that namespace and no others. Names of TLS (SNI) say who calls what. Pure.
"""

import hashlib
import ipaddress
import re
from collections.abc import Collection
from typing import Literal

import msgspec

from agent.model import hostport

FIRST_PORT, LAST_PORT = 20000, 59999
"""Ports of a gateway pod that may stand for a port of another cluster's Service."""
SUFFIX = "gateway.flotilla"
Protocol = Literal["TCP", "UDP"]
TCP: Protocol = "TCP"
UDP: Protocol = "UDP"
_HEALTH = "health"
_DIGITS = 16
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class Called(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of a peer's Service, and the local ports that stand for it."""

    name: str
    port: int
    locals: tuple[int, ...] = ()
    protocol: Protocol = TCP


class Offered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of an own Service that a peer may call."""

    name: str
    port: int
    protocol: Protocol = TCP


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another cluster in one namespace: what it may call here, and what is called there."""

    name: str
    namespace: str
    uid: str
    ca: str
    addresses: tuple[str, ...] = ()
    services: tuple[Called, ...] = ()
    offered: tuple[Offered, ...] = ()

    @property
    def key(self) -> str:
        """Its name in Envoy and in what is told of it."""
        return f"{self.namespace}/{self.name}"


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of an own Service with the addresses of its ready endpoints."""

    namespace: str
    name: str
    port: int
    endpoints: tuple[str, ...] = ()
    protocol: Protocol = TCP


class Gateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one gateway is told."""

    cluster: str
    peers: tuple[Peer, ...] = ()
    services: tuple[Service, ...] = ()


class InvalidGateway(ValueError):
    """What a gateway is told cannot be used at all; the message names the field and the remedy."""


class Judged(msgspec.Struct, frozen=True):
    """What of it can be used, and why the rest cannot, by peer."""

    gateway: Gateway
    problems: dict[str, str]


_decode = msgspec.json.Decoder(Gateway).decode


def read(document: bytes, *, loopback: bool = False) -> Judged:
    """What a document tells. One peer that is wrong takes no other with it. Raises InvalidGateway."""
    try:
        gateway = _decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidGateway(f"not the JSON of a gateway: {error}") from error
    if not _UID.fullmatch(gateway.cluster):
        raise InvalidGateway(f"cluster: {gateway.cluster!r} is no UID of a cluster: take that of namespace kube-system")
    return judge(gateway, loopback=loopback)


def judge(gateway: Gateway, *, loopback: bool = False) -> Judged:
    """Leave out peers and endpoints that cannot be used.

    :param loopback: whether endpoints may be at the gateway's own node, as where it is in no pod
    """
    peers, problems = list[Peer](), dict[str, str]()
    keys, callers, ports = set[str](), set[str](), set[int]()
    for peer in gateway.peers:
        problem = _problem(peer, gateway.cluster, ports)
        label = caller(peer.namespace, peer.uid)
        if not problem and peer.key in keys:
            problem = "name: there are two of this name in the namespace: leave one out"
        if not problem and label in callers:
            problem = f"uid: {peer.uid} is that of another peer in the namespace, too: leave one of them out"
        if problem:
            problems[peer.key] = problem
            continue
        keys.add(peer.key)
        callers.add(label)
        ports |= {each for called in peer.services for each in called.locals}
        peers.append(peer)
    services = tuple(
        msgspec.structs.replace(each, endpoints=tuple(a for a in each.endpoints if _is_endpoint(a, loopback)))
        for each in gateway.services
    )
    return Judged(Gateway(gateway.cluster, tuple(peers), services), problems)


def _problem(peer: Peer, own: str, taken: Collection[int]) -> str:
    """Why a peer cannot be used, empty where it can."""
    if not _UID.fullmatch(peer.uid):
        return f"uid: {peer.uid!r} is no UID of a cluster: take that of its namespace kube-system"
    if peer.uid == own:
        return "uid: it is that of this cluster: name another one"
    if not peer.ca:
        return "ca: missing: name the certificates (PEM) of the CA of the peer's gateway"
    for address in peer.addresses:
        if not is_address(address):
            return f"addresses: {address!r} is not HOST:PORT"
    seen = set(taken)
    for called in peer.services:
        for port in called.locals:
            if not FIRST_PORT <= port <= LAST_PORT:
                return f"services: {called.name}: local port {port} is not in {FIRST_PORT}-{LAST_PORT}"
            if port in seen:
                return f"services: {called.name}: local port {port} stands for something else already: take a free one"
            seen.add(port)
    return ""


def is_address(text: str) -> bool:
    """Whether it is HOST:PORT, as gateways are called."""
    try:
        host, port = hostport.split(text)
    except ValueError:
        return False
    return bool(port) and (is_ip(host) or bool(_HOST.fullmatch(host)))


def _is_endpoint(text: str, loopback: bool) -> bool:
    """Whether it is an address that a pod can have: a gateway opens nothing in its own pod or on its node's link."""
    try:
        host, port = hostport.split(text)
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback or (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped):
        return loopback and bool(port)
    return bool(port) and not (address.is_link_local or address.is_multicast or address.is_unspecified)


def is_ip(host: str) -> bool:
    """Whether it is an IP address and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def identity(uid: str) -> str:
    """The URI by which certificates of a cluster's gateways are known."""
    return f"spiffe://{uid}/gateway"


def caller(namespace: str, uid: str) -> str:
    """The label of server names by which a cluster calls what is in a namespace."""
    return _digest(f"{namespace}/{uid}")


def callers_suffix(namespace: str, uid: str, own: str) -> str:
    """What all server names end in by which the cluster `uid` calls Services of a namespace of the cluster `own`."""
    return f"{caller(namespace, uid)}.{_digest(own)}.{SUFFIX}"


def server_name(namespace: str, service: str, port: int, uid: str, own: str, *, protocol: Protocol = TCP) -> str:
    """The server name by which the cluster `uid` calls a port of a Service of the cluster `own`."""
    what = f"{namespace}/{service}/{port}" + ("" if protocol == TCP else f"/{protocol}")
    return f"{_digest(what)}.{callers_suffix(namespace, uid, own)}"


def health_name(namespace: str, uid: str, own: str) -> str:
    """The server name by which the cluster `uid` asks the gateways of the cluster `own` whether they admit it."""
    return f"{_HEALTH}.{callers_suffix(namespace, uid, own)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
