"""What a gateway is told: its own cluster, the clusters it is linked with, by namespace, and its own shared Services.

A peer is another cluster in one namespace. Each has a CA of its own, so that who may name peers in a namespace reaches
the Services of that namespace and no others. Names of TLS (SNI) say who calls what. Pure.
"""

import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

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
    host: str | None = None
    """Of a headless Service, which pods: those of this host name, or (empty) those that have none."""


class Offered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of an own Service that a peer may call."""

    name: str
    port: int
    protocol: Protocol = TCP
    host: str | None = None


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
    host: str | None = None


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


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Gateway whose peers and Services are not decoded yet."""

    cluster: str
    peers: tuple[msgspec.Raw, ...] = ()
    services: tuple[msgspec.Raw, ...] = ()


_decode = msgspec.json.Decoder(Gateway).decode
_decode_document = msgspec.json.Decoder(_Document).decode
_decode_peer = msgspec.json.Decoder(Peer).decode
_decode_service = msgspec.json.Decoder(Service).decode


class _Known(NamedTuple):
    """A peer, why it cannot be used (empty if it can), and the label by which it calls."""

    peer: Peer
    problem: str
    label: str


class Reader:
    """Reads documents one after another. Peers and Services that did not change are the same objects as before."""

    def __init__(self, *, loopback: bool = False) -> None:
        """:param loopback: True if endpoints may be at loopback addresses, for a gateway outside of a pod"""
        self._loopback = loopback
        self._own = ""
        self._peers: dict[bytes, _Known] = {}
        """Peers by their JSON."""
        self._services: dict[bytes, Service] = {}

    def read(self, document: bytes) -> Judged:
        """Return what a document says. A wrong peer takes no other with it. Raises InvalidGateway."""
        try:
            found = _decode_document(document)
            if found.cluster != self._own:
                self._own, self._peers = found.cluster, {}
            self._peers = {raw: self._peers.get(raw) or self._peer(raw) for raw in map(bytes, found.peers)}
            self._services = {raw: self._services.get(raw) or self._service(raw) for raw in map(bytes, found.services)}
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidGateway(f"not the JSON of a gateway: {_where(document) or error}") from error
        if not _UID.fullmatch(found.cluster):
            raise InvalidGateway(
                f"cluster: {found.cluster!r} is no UID of a cluster: take that of namespace kube-system"
            )
        peers, problems = _without_conflicts([self._peers[bytes(each)] for each in found.peers])
        services = tuple(self._services[bytes(each)] for each in found.services)
        return Judged(Gateway(found.cluster, peers, services), problems)

    def _peer(self, raw: bytes) -> _Known:
        peer = _decode_peer(raw)
        return _Known(peer, _problem(peer, self._own), caller(peer.namespace, peer.uid))

    def _service(self, raw: bytes) -> Service:
        found = _decode_service(raw)
        usable = tuple(each for each in found.endpoints if _is_endpoint(each, self._loopback))
        return msgspec.structs.replace(found, endpoints=usable)


def _where(document: bytes) -> str:
    """Return the error of a whole document, with the place in it."""
    try:
        _decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""


def _without_conflicts(listed: Iterable[_Known]) -> tuple[tuple[Peer, ...], dict[str, str]]:
    """Leave out peers with a problem of their own, and peers that claim what an earlier peer has."""
    peers, problems = list[Peer](), dict[str, str]()
    keys, callers, ports = set[str](), set[str](), set[int]()
    for peer, wrong, label in listed:
        numbers = {each for called in peer.services for each in called.locals}
        problem = wrong or _conflict(peer, numbers & ports)
        if not problem and peer.key in keys:
            problem = "name: there are two of this name in the namespace: leave one out"
        if not problem and label in callers:
            problem = f"uid: {peer.uid} is that of another peer in the namespace, too: leave one of them out"
        if problem:
            problems[peer.key] = problem
            continue
        keys.add(peer.key)
        callers.add(label)
        ports |= numbers
        peers.append(peer)
    return tuple(peers), problems


def _conflict(peer: Peer, taken: Collection[int]) -> str:
    """Return the first local port of a peer that is taken, as a problem; empty if there is none."""
    for called in peer.services if taken else ():
        for port in called.locals:
            if port in taken:
                return _taken(called, port)
    return ""


def _taken(called: Called, port: int) -> str:
    return f"services: {called.name}: local port {port} stands for something else already: take a free one"


def _problem(peer: Peer, own: str) -> str:
    """Return why a peer cannot be used, without regard to other peers; empty if it can."""
    if not _UID.fullmatch(peer.uid):
        return f"uid: {peer.uid!r} is no UID of a cluster: take that of its namespace kube-system"
    if peer.uid == own:
        return "uid: it is that of this cluster: name another one"
    if not peer.ca:
        return "ca: missing: name the certificates (PEM) of the CA of the peer's gateway"
    for address in peer.addresses:
        if not is_address(address):
            return f"addresses: {address!r} is not HOST:PORT"
    seen = set[int]()
    for called in peer.services:
        for port in called.locals:
            if not FIRST_PORT <= port <= LAST_PORT:
                return f"services: {called.name}: local port {port} is not in {FIRST_PORT}-{LAST_PORT}"
            if port in seen:
                return _taken(called, port)
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


def server_name(
    namespace: str, service: str, port: int, uid: str, own: str, host: str | None = None, *, protocol: Protocol = TCP
) -> str:
    """The server name by which the cluster `uid` calls a port of a Service of the cluster `own`, or of a host of it."""
    what = f"{namespace}/{service}/{port}" + ("" if protocol == TCP else f"/{protocol}")
    what += f"/{host}" if host is not None else ""
    return f"{_digest(what)}.{callers_suffix(namespace, uid, own)}"


def health_name(namespace: str, uid: str, own: str) -> str:
    """The server name by which the cluster `uid` asks the gateways of the cluster `own` whether they admit it."""
    return f"{_HEALTH}.{callers_suffix(namespace, uid, own)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
