"""Configuration of a gateway: its own cluster, the peers in each namespace, and its own shared Services. Pure.

A peer is another cluster in one namespace. Each peer has its own CA, so that a user with the right to create peers in a
namespace reaches only its Services. TLS server names (SNI) identify the calling cluster and the called Service.
"""

import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from agent.model import hostport

FIRST_PORT, LAST_PORT = 20000, 59999
"""Range of the local ports of a gateway pod that represent ports of other clusters' Services."""
SUFFIX = "gateway.flotilla"
Protocol = Literal["TCP", "UDP"]
TCP: Protocol = "TCP"
UDP: Protocol = "UDP"
_HEALTH = "health"
_DIGITS = 16
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


class Called(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of a peer's Service, and the local ports that represent it."""

    name: str
    port: int
    locals: tuple[int, ...] = ()
    protocol: Protocol = TCP
    host: str | None = None
    """Host name of the called pods of a headless Service; empty for pods without; None for other Services."""


class Offered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of an own Service that a peer may call."""

    name: str
    port: int
    protocol: Protocol = TCP
    host: str | None = None


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another cluster in one namespace: its Services, and the local ones that it may call."""

    name: str
    namespace: str
    uid: str
    ca: str
    addresses: tuple[str, ...] = ()
    services: tuple[Called, ...] = ()
    offered: tuple[Offered, ...] = ()

    @property
    def key(self) -> str:
        """Name of the peer in Envoy's configuration and in the gateway's reports."""
        return f"{self.namespace}/{self.name}"

    @property
    def gateways(self) -> str:
        """Digest of the peer's UID, CA and addresses. GatewayPeers of one cluster usually share it."""
        return _digest(f"{self.uid}\n{self.ca}\n{' '.join(self.addresses)}")


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of an own Service with the addresses of its ready endpoints."""

    namespace: str
    name: str
    port: int
    endpoints: tuple[str, ...] = ()
    protocol: Protocol = TCP
    host: str | None = None


class Gateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whole configuration of one gateway."""

    cluster: str
    peers: tuple[Peer, ...] = ()
    services: tuple[Service, ...] = ()


class InvalidGateway(ValueError):
    """A configuration that cannot be used at all; the message names the field and the remedy."""


class Judged(msgspec.Struct, frozen=True):
    """The valid part of a configuration, and the problems of refused peers by key."""

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
    """A peer, why it cannot be used (empty if it can), and its label in server names."""

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
        """Parse a document. An invalid peer does not affect other peers.

        :raises InvalidGateway: if the document is no JSON of a gateway, or has no valid UID
        """
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
    """Return the decoding error of a whole document, with its path; empty if there is none."""
    try:
        _decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""


def _without_conflicts(listed: Iterable[_Known]) -> tuple[tuple[Peer, ...], dict[str, str]]:
    """Drop peers with a problem of their own, and peers with a name, UID or local port of an earlier peer."""
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
    """Return a message about the first local port of a peer that another peer has; empty if there is none."""
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
    """Return True if a text is HOST:PORT, with an IP address or a DNS name and a port above 0."""
    try:
        host, port = hostport.split(text)
    except ValueError:
        return False
    return bool(port) and (is_ip(host) or bool(_HOST.fullmatch(host)))


def _is_endpoint(text: str, loopback: bool) -> bool:
    """Return True if HOST:PORT is an address that a pod can have.

    A gateway must not connect to its own pod (loopback) or to the link of its node.
    """
    try:
        host, port = hostport.split(text)
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback or (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped):
        return loopback and bool(port)
    return bool(port) and not (address.is_link_local or address.is_multicast or address.is_unspecified)


def is_ip(host: str) -> bool:
    """Return True if a host is an IP address and not a DNS name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def identity(uid: str) -> str:
    """Return the URI in the certificates of a cluster's gateways."""
    return f"spiffe://{uid}/gateway"


def caller(namespace: str, uid: str) -> str:
    """Return the label of server names that identifies the calling cluster in a namespace."""
    return _digest(f"{namespace}/{uid}")


def callers_suffix(namespace: str, uid: str, own: str) -> str:
    """Return the suffix of all server names with which cluster `uid` calls Services in a namespace of cluster `own`."""
    return f"{caller(namespace, uid)}.{_digest(own)}.{SUFFIX}"


def server_name(
    namespace: str, service: str, port: int, uid: str, own: str, host: str | None = None, *, protocol: Protocol = TCP
) -> str:
    """Return the server name with which cluster `uid` calls a port of a Service, or of its host, in cluster `own`."""
    what = f"{namespace}/{service}/{port}" + ("" if protocol == TCP else f"/{protocol}")
    what += f"/{host}" if host is not None else ""
    return f"{_digest(what)}.{callers_suffix(namespace, uid, own)}"


def health_name(namespace: str, uid: str, own: str) -> str:
    """Return the server name with which cluster `uid` asks the gateways of cluster `own` whether they admit it."""
    return f"{_HEALTH}.{callers_suffix(namespace, uid, own)}"


def alive_name(uid: str) -> str:
    """Return the server name of the check whether the gateways of cluster `uid` work: the same for all callers."""
    return f"{_HEALTH}.{_digest(uid)}.{SUFFIX}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
