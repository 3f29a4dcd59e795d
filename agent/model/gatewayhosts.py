"""Hosts of headless Services in GatewayPeers, as sources write them and gateways read them. Pure.

A host is the `hostname` of a headless Service's endpoints; each pod of a StatefulSet has its own. The empty host
represents all endpoints without a `hostname`. Callers use the ports of the pods, not those of the Service. GatewayPeers
have separate fields for hosts; an older CRD drops these fields.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.model import gatewaylink
from agent.model.gatewaylink import (
    addresses_in,
    are_shared_by,
    by_service,
    is_elsewhere,
    is_listened_at,
    is_ready,
    step,
    writer,
)
from agent.model.gatewaypeer import Called, Gateway, Offered, Peer, Service

Raw = dict[str, Any]
Ports = tuple[tuple[str, int], ...]
"""Names and numbers of ports; each name and each number occurs once."""
At = tuple[str, str]
"""A headless Service and a host of it."""

HEADLESS, OFFERED = "headless", "offeredHeadless"
"""Fields of a GatewayPeer's spec: the peer's headless Services, and the local ones that the peer may call."""
EVERY_CALLED = (*gatewaylink.CALLED.values(), HEADLESS)
"""All fields with Services of the peer, headless or not. The status has the local ports that represent them."""
EVERY_OFFERED = (*gatewaylink.OFFERED.values(), OFFERED)
"""All fields with local Services that the peer may call, headless or not."""
SWITCH_ON = "set --gateway-headless of the agent"
HOSTS_LIMIT = 100
"""Maximum number of hosts of one Service in a GatewayPeer."""


class Host(NamedTuple):
    """Pods with the same `hostname`; the name is empty for pods without."""

    name: str
    ready: int = 0
    """Number of ready pods; in a GatewayPeer rounded down."""


class Headless(NamedTuple):
    """Hosts of a headless Service that have the same ports."""

    service: str
    ports: Ports
    hosts: tuple[Host, ...]
    left_out: int = 0
    """Number of the Service's hosts beyond HOSTS_LIMIT, which GatewayPeers do not name."""


def hosts_of(
    service: str, slices: Iterable[Mapping[str, Any]], away: Collection[str], ports: Collection[str]
) -> list[Headless]:
    """Return the hosts of a headless Service in this cluster, grouped by their ports.

    :param slices: EndpointSlices of the Service
    :param away: names of virtual nodes, whose endpoints are skipped
    :param ports: names of the Service's ports to include
    """
    numbers, ready = defaultdict[str, set[tuple[int, str]]](set), defaultdict[str, set[str]](set)
    for slice in slices:
        told = [(number, name) for name, number in tcp_ports(slice) if name in ports]
        for endpoint in slice.get("endpoints") or () if told else ():
            if endpoint.get("nodeName") in away or is_elsewhere(endpoint):
                continue
            host = endpoint.get("hostname") or ""
            pod = str((endpoint.get("targetRef") or {}).get("uid") or endpoint["addresses"][0])
            numbers[host].update(told)
            if is_ready(endpoint):
                ready[host].add(pod)
    names = sorted(numbers, key=_in_order)
    found = defaultdict[Ports, list[Host]](list)
    for name in names[:HOSTS_LIMIT]:
        found[_once(numbers[name])].append(Host(name, len(ready[name])))
    left = max(0, len(names) - HOSTS_LIMIT)
    return [Headless(service, told_ports, tuple(hosts), left) for told_ports, hosts in sorted(found.items())]


def tcp_ports(slice: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return names and numbers of an EndpointSlice's TCP ports; none if its address type is FQDN."""
    if slice["addressType"] == "FQDN":
        return []
    ports = (each for each in slice.get("ports") or () if each.get("port") and each.get("protocol", "TCP") == "TCP")
    return [(each.get("name") or "", each["port"]) for each in ports]


def ready_of(peer: Mapping[str, Any], service: str) -> int | None:
    """Return the ready endpoints of a peer's Service, rounded down; None if the GatewayPeer lacks the Service."""
    every = (each for field in gatewaylink.CALLED.values() for each in peer["spec"].get(field) or ())
    found = [each.get("ready", 0) for each in every if each["name"] == service]
    hosts = [host.ready for each in told(peer) if each.service == service for host in each.hosts]
    return max(found, default=0) + sum(hosts) if found or hosts else None


def _once(ports: Iterable[tuple[int, str]]) -> Ports:
    """Drop ports with a repeated number or name: a Service cannot have two ports with the same name or number."""
    found = dict[int, str]()
    for number, name in sorted(ports):
        if name not in found.values():
            found.setdefault(number, name)
    return tuple((name, number) for number, name in found.items())


def _in_order(host: str) -> tuple[str, int, str]:
    """Return the sort key of a host: db-9 before db-10, so that HOSTS_LIMIT cuts off a StatefulSet's last pods."""
    base, ordinal = re.fullmatch(r"(.*?)(\d{0,9})", host, re.DOTALL).groups()  # type: ignore[union-attr]
    return base, int(ordinal or -1), host


def written(field: str, found: Sequence[Headless]) -> Raw:
    """Return a field of a GatewayPeer's spec with these hosts; {} without hosts."""
    return {field: [_written(each, field == HEADLESS) for each in found]} if found else {}


def _written(each: Headless, called: bool) -> Raw:
    hosts = [{"name": host.name, **({"ready": step(host.ready)} if called else {})} for host in each.hosts]
    ports = [{"name": name, "port": port} for name, port in each.ports]
    left = {"leftOut": each.left_out} if called and each.left_out else {}
    return {"name": each.service, "ports": ports, "hosts": hosts, **left}


def told(peer: Mapping[str, Any], field: str = HEADLESS) -> Iterator[Headless]:
    """Yield the hosts in a field of a GatewayPeer, each once, and at most HOSTS_LIMIT of a Service."""
    seen = defaultdict[str, set[str]](set)
    for each in peer["spec"].get(field) or ():
        hosts, of_service = list[Host](), seen[each["name"]]
        for host in each["hosts"]:
            if host["name"] not in of_service and len(of_service) < HOSTS_LIMIT:
                of_service.add(host["name"])
                hosts.append(Host(host["name"], host.get("ready", 0)))
        ports = _once((port["port"], port.get("name") or "") for port in each["ports"])
        yield Headless(each["name"], ports, tuple(hosts), each.get("leftOut", 0))


def names_told(peer: Mapping[str, Any], field: str = HEADLESS) -> set[str]:
    """Return the names of the headless Services in a field of a GatewayPeer."""
    return {each["name"] for each in peer["spec"].get(field) or ()}


def names_called(peer: Mapping[str, Any]) -> set[str]:
    """Return the names of the peer's Services that gateways may call, headless or not."""
    return {each["name"] for field in EVERY_CALLED for each in peer["spec"].get(field) or ()}


def locals_of(peer: Mapping[str, Any]) -> dict[tuple[str, str, int], tuple[int, ...]]:
    """Return the local ports that represent ports of the peer's hosts, by Service, host and port."""
    return {
        (each["name"], each["host"], port["port"]): tuple(port.get("locals") or ())
        for each in (peer.get("status") or {}).get(HEADLESS) or ()
        for port in each.get("ports", ())
    }


def every_local(peer: Mapping[str, Any]) -> set[int]:
    """Return all local ports that represent Services or hosts of a peer."""
    return locals_of_services(peer) | locals_of_hosts(peer)


def locals_of_services(peer: Mapping[str, Any]) -> set[int]:
    """Return the local ports that represent ports of a peer's Services."""
    return {port for ports in gatewaylink.locals_of(peer).values() for port in ports}


def locals_of_hosts(peer: Mapping[str, Any]) -> set[int]:
    """Return the local ports that represent ports of a peer's hosts."""
    return {port for ports in locals_of(peer).values() for port in ports}


def leads_to_hosts(peer: Mapping[str, Any], service: str) -> bool:
    """Return True if a gateway listens for every host of a Service and the peer answers it, by the status."""
    locals_ = locals_of(peer)
    ports = [
        locals_.get((service, host.name, port), ())
        for each in told(peer)
        if each.service == service
        for host in each.hosts
        for _, port in each.ports
    ]
    return bool(ports) and all(ports) and is_listened_at(peer, {each for found in ports for each in found})


def with_hosts(gateway: Gateway, peers: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> Gateway:
    """Return a gateway's configuration with the hosts of headless Services added."""
    found = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in peers}
    if not any(each["spec"].get(HEADLESS) or each["spec"].get(OFFERED) for each in found.values()):
        return gateway
    known = by_service(slices)
    made, wanted = list[Peer](), dict[tuple[str, str, int, str], Service]()
    for peer in gateway.peers:
        raw = found[peer.namespace, peer.name]
        offered = list[Offered]()
        for each in told(raw, OFFERED):
            own = known.get((peer.namespace, each.service), [])
            if not are_shared_by(own, writer(raw), gateway.cluster):
                continue
            for host in each.hosts:
                for _, port in each.ports:
                    offered.append(Offered(each.service, port, host=host.name))
                    at = (peer.namespace, each.service, port, host.name)
                    wanted.setdefault(at, Service(*at[:3], _endpoints(own, port, host.name), host=host.name))
        made.append(replace(peer, services=(*peer.services, *_called(raw)), offered=(*peer.offered, *offered)))
    more = tuple(wanted[each] for each in sorted(wanted))
    return replace(gateway, peers=tuple(made), services=(*gateway.services, *more))


def _called(peer: Mapping[str, Any]) -> list[Called]:
    locals_ = locals_of(peer)
    return [
        Called(each.service, port, ports, host=host.name)
        for each in told(peer)
        for host in each.hosts
        for _, port in each.ports
        if (ports := locals_.get((each.service, host.name, port), ()))
    ]


def _endpoints(slices: Iterable[Mapping[str, Any]], port: int, host: str) -> tuple[str, ...]:
    """Return HOST:PORT of a host's ready endpoints on nodes of this cluster."""
    return addresses_in(
        slices,
        lambda each: port if any(number == port for _, number in tcp_ports(each)) else None,
        lambda endpoint: (endpoint.get("hostname") or "") == host,
    )
