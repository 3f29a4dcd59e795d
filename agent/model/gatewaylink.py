"""GatewayPeers, as sources write them and gateways read them. Pure.

A GatewayPeer represents another cluster (the peer) in one namespace. This cluster's gateways call the peer's `services`
and let the peer call the `offered` local Services of the namespace. Only Services that the writing source has shared
count: copies of its Services, or in the source itself Services that are marked as shared.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import GATEWAY_SLICE_MANAGER
from agent.model import hostport
from agent.model.endpoints import is_mirror
from agent.model.gatewaypeer import TCP, UDP, Called, Gateway, Offered, Peer, Protocol, Service
from agent.model.gatewaytold import Told
from agent.model.servicelinks import PROGRAMMED

Raw = dict[str, Any]
_STEPS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CALLED: dict[Protocol, str] = {TCP: "services", UDP: "udpServices"}
"""Fields of spec and status with the peer's Services, by protocol. An older CRD drops the whole field of UDP."""
OFFERED: dict[Protocol, str] = {TCP: "offered", UDP: "udpOffered"}
NO_PORT = "NoPort"
"""Reason of a GatewayPeer's condition Programmed: Services of the peer lack local ports."""
_VIRTUAL = names.virtual_node("", "")
"""Prefix of the names of virtual nodes."""


class Shared(NamedTuple):
    """A Service that one of two linked clusters shares with the other."""

    name: str
    ports: tuple[tuple[str, int], ...]
    """Names and numbers of its TCP ports."""
    ready: int = 0
    """Number of ready endpoints in the other cluster."""
    udp: tuple[tuple[str, int], ...] = ()
    """Names and numbers of its UDP ports."""

    def of(self, protocol: Protocol) -> tuple[tuple[str, int], ...]:
        """Return names and numbers of its ports of a protocol."""
        return self.ports if protocol == TCP else self.udp


def ports_of(service: Mapping[str, Any], protocol: Protocol) -> tuple[tuple[str, int], ...]:
    """Return names and numbers of a Service's ports of a protocol.

    :param service: spec of the Service
    """
    ports = service.get("ports") or ()
    return tuple((each.get("name") or "", each["port"]) for each in ports if each.get("protocol", TCP) == protocol)


def step(ready: int) -> int:
    """Round a number of ready endpoints down to a step, so that few pod changes update a GatewayPeer."""
    return max(each for each in _STEPS if each <= max(ready, 0))


def manifest(
    name: str,
    namespace: str,
    source: str,
    uid: str,
    told: Told,
    services: Sequence[Shared],
    offered: Sequence[Shared],
    headless: Mapping[str, Any] = MappingProxyType({}),
) -> Raw:
    """Return the GatewayPeer that represents another cluster.

    :param source: UID of the cluster that writes it
    :param uid: UID of the other cluster
    :param headless: fields of the spec about headless Services (see `gatewayhosts`)
    """
    return {
        "apiVersion": GATEWAY_PEERS.api_version,
        "kind": GATEWAY_PEERS.name,
        "metadata": {"name": name, "namespace": namespace, "labels": {names.LABEL_PARENT_CLUSTER_UID: source}},
        "spec": {
            "uid": uid,
            "ca": told.ca,
            "addresses": list(told.addresses),
            **_written(services, offered, TCP),
            **{field: found for field, found in _written(services, offered, UDP).items() if found},
            **headless,
        },
    }


def _written(services: Sequence[Shared], offered: Sequence[Shared], protocol: Protocol) -> Raw:
    called = (each for each in sorted(services) if each.of(protocol))
    return {
        CALLED[protocol]: [{**_service(each, protocol), "ready": step(each.ready)} for each in called],
        OFFERED[protocol]: [_service(each, protocol) for each in sorted(offered) if each.of(protocol)],
    }


def _service(shared: Shared, protocol: Protocol) -> Raw:
    return {"name": shared.name, "ports": [{"name": name, "port": port} for name, port in shared.of(protocol)]}


def writer(peer: Mapping[str, Any]) -> str:
    """Return the UID of the cluster that wrote a GatewayPeer; empty if its label is missing."""
    return str((peer["metadata"].get("labels") or {}).get(names.LABEL_PARENT_CLUSTER_UID, ""))


def is_shared_by(labels: Mapping[str, str], source: str, own: str) -> bool:
    """Return True if a source has shared a Service: it is the source's copy, or is marked as shared in the source.

    :param labels: labels of the Service or of one of its EndpointSlices
    :param source: UID of the source; empty for none
    :param own: UID of the cluster with the Service
    """
    if source == own:
        return labels.get(names.LABEL_GLOBAL) == "true"
    return bool(source) and labels.get(names.LABEL_PARENT_CLUSTER_UID) == source


def are_shared_by(slices: Iterable[Mapping[str, Any]], source: str, own: str) -> bool:
    """Return True if all slices of a Service are shared by the source."""
    return all(is_shared_by(_labels(each), source, own) for each in slices)


def called(peer: Mapping[str, Any]) -> Iterator[tuple[Protocol, Mapping[str, Any]]]:
    """Yield the peer's Services from the spec with their protocol; a Service with TCP and UDP occurs twice."""
    for protocol, field in CALLED.items():
        for each in peer["spec"].get(field) or ():
            yield protocol, each


def locals_of(peer: Mapping[str, Any]) -> dict[tuple[str, int, Protocol], tuple[int, ...]]:
    """Return the local ports that represent ports of a peer's Services, by Service, port and protocol."""
    status = peer.get("status") or {}
    return {
        (each["name"], port["port"], protocol): tuple(port.get("locals") or ())
        for protocol, field in CALLED.items()
        for each in status.get(field) or ()
        for port in each.get("ports", ())
    }


def leads_to(peer: Mapping[str, Any], name: str) -> bool:
    """Return True if callers reach every port of a peer's Service: a gateway listens, and the peer answers it.

    The spec lists all ports of the Service. The status lists only ports that the Service has in the callers' cluster.
    """
    found = locals_of(peer)
    ports = [
        found.get((name, port["port"], protocol), ())
        for protocol, each in called(peer)
        if each["name"] == name
        for port in each["ports"]
    ]
    return bool(ports) and all(ports) and is_listened_at(peer, {each for some in ports for each in some})


def is_listened_at(peer: Mapping[str, Any], ports: Collection[int]) -> bool:
    """Return True if one gateway listens at all these local ports and the peer answers it.

    With reason NoPort some Services of the peer lack local ports; gateways serve the other Services.
    """
    status = peer.get("status") or {}
    programmed = find_condition(status.get("conditions"), PROGRAMMED) or {}
    says = (status.get("gateways") or {}).values()
    serves = programmed.get("status") == "True" or programmed.get("reason") == NO_PORT
    return serves and any(each.get("healthy") and set(ports) <= set(each.get("listens") or ()) for each in says)


def document(own: str, peers: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> Gateway:
    """Return the configuration of a cluster's gateways, from all its GatewayPeers and the slices of shared Services.

    :param own: UID of the cluster
    """
    listed = sorted(peers, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    known = by_service(slices)
    found, wanted = list[Peer](), dict[tuple[str, str, int, Protocol], Service]()
    for peer in listed:
        namespace, offered = peer["metadata"]["namespace"], list[Offered]()
        for protocol, service in _offered(peer):
            own_slices = known.get((namespace, service["name"]), [])
            if not are_shared_by(own_slices, writer(peer), own):
                continue
            for port in service["ports"]:
                offered.append(Offered(service["name"], port["port"], protocol=protocol))
                at = (namespace, service["name"], port["port"])
                endpoints = _endpoints(own_slices, port.get("name") or "", protocol)
                wanted.setdefault((*at, protocol), Service(*at, endpoints, protocol=protocol))
        found.append(_peer(peer, tuple(offered)))
    return Gateway(own, tuple(found), tuple(wanted[each] for each in sorted(wanted)))


def _offered(peer: Mapping[str, Any]) -> Iterator[tuple[Protocol, Mapping[str, Any]]]:
    for protocol, field in OFFERED.items():
        for each in peer["spec"].get(field) or ():
            yield protocol, each


def _peer(peer: Mapping[str, Any], offered: tuple[Offered, ...]) -> Peer:
    metadata, spec, locals_ = peer["metadata"], peer["spec"], locals_of(peer)
    services = (
        Called(each["name"], port["port"], locals_.get((each["name"], port["port"], protocol), ()), protocol=protocol)
        for protocol, each in called(peer)
        for port in each["ports"]
    )
    return Peer(
        metadata["name"],
        metadata["namespace"],
        spec["uid"],
        spec["ca"],
        tuple(spec.get("addresses") or ()),
        tuple(each for each in services if each.locals),
        offered,
    )


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return found


def by_service(slices: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Group a cluster's own slices by namespace and Service.

    Mirrors and slices of gateways are left out, so that no cluster passes on the endpoints of another.
    """
    found = dict[tuple[str, str], list[Mapping[str, Any]]]()
    for each in slices:
        labels = _labels(each)
        service = labels.get(names.LABEL_SERVICE_NAME)
        if service and not is_mirror(labels) and labels.get(names.LABEL_SLICE_MANAGED_BY) != GATEWAY_SLICE_MANAGER:
            found.setdefault((each["metadata"]["namespace"], service), []).append(each)
    return found


def _endpoints(slices: Iterable[Mapping[str, Any]], port: str, protocol: Protocol) -> tuple[str, ...]:
    """Return HOST:PORT of ready endpoints on nodes of this cluster, for the port with this name and protocol."""

    def number(slice: Mapping[str, Any]) -> int | None:
        told = slice.get("ports") or ()
        numbers = {(each.get("name") or "", each.get("protocol") or TCP): each.get("port") for each in told}
        return numbers.get((port, protocol))

    return addresses_in(slices, number, lambda endpoint: True)


def addresses_in(
    slices: Iterable[Mapping[str, Any]],
    number: Callable[[Mapping[str, Any]], int | None],
    counts: Callable[[Mapping[str, Any]], bool],
) -> tuple[str, ...]:
    """Return HOST:PORT of ready endpoints on nodes of this cluster, sorted.

    :param number: returns the port number of a slice; None to skip the slice
    :param counts: returns False to skip an endpoint
    """
    found = set[str]()
    for each in slices:
        port = number(each)
        if port is None or each["addressType"] == "FQDN":
            continue
        for endpoint in each.get("endpoints") or ():
            if counts(endpoint) and is_ready(endpoint) and not is_elsewhere(endpoint):
                found.update(hostport.join(address, port) for address in endpoint["addresses"][:1])
    return tuple(sorted(found))


def is_ready(endpoint: Mapping[str, Any]) -> bool:
    """Return True if an endpoint of an EndpointSlice is ready; a missing condition counts as ready."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def is_elsewhere(endpoint: Mapping[str, Any]) -> bool:
    """Return True if an endpoint, or a pod's spec, names a virtual node: its containers run in another cluster."""
    return str(endpoint.get("nodeName") or "").startswith(_VIRTUAL + "-")
