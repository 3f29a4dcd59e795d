"""Bounds on the configuration of one Envoy: memory and files. Pure.

An Envoy that runs out of memory breaks the connections of all namespaces. The cost of all GatewayPeers is therefore
estimated before the configuration is built. `gatewayallocation` chooses the entries to keep if it exceeds the limits.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from agent.model import gatewaylink
from agent.model.gatewayhosts import EVERY_CALLED, EVERY_OFFERED, HEADLESS
from agent.model.gatewayhosts import OFFERED as OFFERED_HEADLESS
from agent.model.gatewayhosts import locals_of as locals_of_hosts
from agent.model.gatewaylink import CALLED, OFFERED, are_shared_by, by_service, is_ready, locals_of, writer
from agent.model.gatewaypeer import Gateway

Raw = dict[str, Any]
Key = tuple[str, str]
Served = Mapping[Key, Mapping[str, tuple[str, ...]]]
"""Names of Services by GatewayPeer and field."""
At = tuple[Key, str, str, int]
"""Entry: GatewayPeer, field of its spec, Service, number among those of that name. Empty field: the peer itself."""

_MIB = 1024 * 1024
FILES_LIMIT = 56 * _MIB
"""Maximum bytes of files on the chart's volume of 64 MiB; a file exists twice while it is replaced."""
_FIELDS = (*EVERY_CALLED, *EVERY_OFFERED)
_T = TypeVar("_T")
_BASE = 65 * _MIB
_USABLE = 0.9
"""Fraction of Envoy's memory for the configuration. Connections take the rest."""


class Cost(NamedTuple):
    """Bytes of Envoy's memory, and of the gateway's files while one is replaced, as measured with Envoy 1.40."""

    memory: float = 0.0
    files: float = 0.0

    def times(self, count: int) -> "Cost":
        """Return this cost times a count."""
        return Cost(self.memory * count, self.files * count)

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum of both costs."""
        return Cost(self.memory + other.memory, self.files + other.files)


LISTENER, CLUSTER, ENDPOINT = Cost(23_000, 2_400), Cost(34_000, 1_500), Cost(1_500, 210)
UDP_LISTENER, UDP_CLUSTER = Cost(0.2 * _MIB, 8_000), Cost(0.1 * _MIB, 8_000)
PEER = Cost(0.2 * _MIB, 8_000)


class Limits(NamedTuple):
    """Upper bounds for one Envoy."""

    memory: float
    """Bytes for its configuration."""
    files: float = FILES_LIMIT

    def problem(self, left_out: int, namespace: str) -> str:
        """Return a message with the number of Services, the limits and the remedy; empty if the number is 0."""
        if not left_out:
            return ""
        most = f"{self.memory / _MIB:.0f} MiB of Envoy's memory or " if self.memory < float("inf") else ""
        return (
            f"gateways leave out {left_out} of its Services: the GatewayPeers of all namespaces together need more than"
            f" {most}{self.files / _MIB:.0f} MiB of its files: share fewer Services of namespace {namespace} by"
            " gateways, or raise gateway.resources.limits.memory of the chart"
        )

    def part(self, cost: Cost) -> float:
        """Return the fraction of the limits that is used up."""
        return max(cost.memory / self.memory, cost.files / self.files)


def limits(memory: int) -> Limits:
    """Return the limits for an Envoy.

    :param memory: memory limit of Envoy's container in bytes; 0 if unknown, for no limit of memory
    """
    return Limits(max(_MIB, memory * _USABLE - _BASE) if memory else float("inf"))


class Priced(NamedTuple):
    """GatewayPeers of one namespace with only the Services that gateways serve, and their costs."""

    peers: list[Raw]
    costs: dict[At, Cost]


def priced(own: str, peers: Iterable[Raw], slices: Iterable[Mapping[str, Any]]) -> Priced:
    """Drop Services that gateways do not serve, and return the cost of everything else.

    :param own: UID of the cluster
    :param peers: GatewayPeers of one namespace
    """
    listed = sorted(peers, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    known = _Known(own, slices)
    found, costs = list[Raw](), dict[At, Cost]()
    for peer in listed:
        served: Raw = {field: [] for field in _FIELDS if peer["spec"].get(field)}
        priced_entries = list(_costs(peer, known))
        for field, each, _ in priced_entries:
            if field:
                served[field].append(each)
        made = {**peer, "spec": {**peer["spec"], **served}}
        costs.update(_named(made, priced_entries))
        found.append(made)
    return Priced(found, costs)


def trimmed(peers: Iterable[Raw], kept: Collection[At]) -> list[Raw]:
    """Return the GatewayPeers and Services that are kept.

    :param peers: GatewayPeers of `priced`
    """
    return [_trimmed(peer, kept) for peer in peers if peer_entry(_key(peer)) in kept]


def peer_entry(peer: Key) -> At:
    """Return the entry of a GatewayPeer itself."""
    return peer, "", "", 0


def served_by(gateway: Gateway) -> Served:
    """Return the names of all Services in an input file of a gateway."""
    found = dict[Key, Mapping[str, tuple[str, ...]]]()
    for peer in gateway.peers:
        fields = defaultdict[str, dict[str, None]](dict)
        for called in peer.services:
            fields[HEADLESS if called.host is not None else CALLED[called.protocol]][called.name] = None
        for offered in peer.offered:
            field = OFFERED_HEADLESS if offered.host is not None else OFFERED[offered.protocol]
            fields[field][offered.name] = None
        found[peer.namespace, peer.name] = {field: tuple(names) for field, names in fields.items()}
    return found


def entries(served: Served) -> Iterator[At]:
    """Yield the entries of GatewayPeers and their Services."""
    for key, fields in served.items():
        yield peer_entry(key)
        for field, names in fields.items():
            seen = Counter[str]()
            for name in names:
                yield key, field, name, seen[name]
                seen[name] += 1


class _Known:
    """Slices by Service."""

    def __init__(self, own: str, slices: Iterable[Mapping[str, Any]]) -> None:
        self._own = own
        self._slices = by_service(slices)
        self._ready = {at: sum(map(_is_ready, _endpoints(some))) for at, some in self._slices.items()}
        self._shared = dict[tuple[Key, str], bool]()

    def ready(self, service: Key, source: str) -> int | None:
        """Return how many ready endpoints a Service has; None if it has no slices that the source has shared."""
        at = (service, source)
        if (shared := self._shared.get(at)) is None:
            found = self._slices.get(service)
            shared = self._shared[at] = bool(found) and are_shared_by(found or (), source, self._own)
        return self._ready[service] if shared else None


def _costs(peer: Raw, known: _Known) -> Iterator[tuple[str, Any, Cost]]:
    """Yield the cost of a GatewayPeer itself, then field, Service and cost of each Service that gateways serve."""
    spec, namespace, source = peer["spec"], peer["metadata"]["namespace"], writer(peer)
    ca = len(spec["ca"])
    yield "", None, PEER.plus(Cost(4.0 * ca, 4.0 * ca))
    locals_ = Counter[tuple[str, str, str]]()
    for (name, _, protocol), numbers in locals_of(peer).items():
        locals_[CALLED[protocol], name, ""] += len(numbers)
    for (name, host, _), numbers in locals_of_hosts(peer).items():
        locals_[HEADLESS, name, host] += len(numbers)
    for field in CALLED.values() if locals_ else ():
        for each in spec.get(field) or ():
            if count := locals_[field, each["name"], ""]:
                yield field, each, (UDP_LISTENER if field == CALLED["UDP"] else LISTENER).times(count)
    for each in spec.get(HEADLESS) or () if locals_ else ():
        if count := sum(locals_[HEADLESS, each["name"], host["name"]] for host in each["hosts"]):
            yield HEADLESS, each, LISTENER.times(count)
    for field in EVERY_OFFERED:
        cluster = UDP_CLUSTER if field == OFFERED["UDP"] else CLUSTER
        for each in spec.get(field) or ():
            if (ready := known.ready((namespace, each["name"]), source)) is not None:
                ports, hosts = len(each["ports"]), len(each["hosts"]) if field == OFFERED_HEADLESS else 1
                yield field, each, cluster.times(ports * hosts).plus(ENDPOINT.times(ports * ready))


def _named(peer: Raw, found: Iterable[tuple[str, Any, _T]]) -> Iterator[tuple[At, _T]]:
    """Yield each item with its entry; a headless Service has several entries if its hosts have different ports."""
    key, seen = _key(peer), Counter[tuple[str, str]]()
    for field, each, what in found:
        name = each["name"] if field else ""
        yield (key, field, name, seen[field, name]), what
        seen[field, name] += 1


def _entries(peer: Raw) -> Iterator[tuple[str, Any, Any]]:
    yield "", None, None
    for field in _FIELDS:
        yield from ((field, each, each) for each in peer["spec"].get(field) or ())


def _trimmed(peer: Raw, kept: Collection[At]) -> Raw:
    found: Raw = {field: [] for field in _FIELDS if peer["spec"].get(field)}
    for at, each in _named(peer, _entries(peer)):
        if at in kept and at[1]:
            found[at[1]].append(each)
    return {**peer, "spec": {**peer["spec"], **found}}


def _key(peer: Mapping[str, Any]) -> Key:
    return peer["metadata"]["namespace"], peer["metadata"]["name"]


def _endpoints(slices: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (each for slice in slices for each in slice.get("endpoints") or ())


def _is_ready(endpoint: Mapping[str, Any]) -> bool:
    return is_ready(endpoint) and not gatewaylink.is_elsewhere(endpoint)
