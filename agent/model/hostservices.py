"""Services that represent hosts of another cluster's headless Services. Pure.

The Service of a host routes traffic to this cluster's gateways. An EndpointSlice of the headless Service lists its
cluster IP under the host's name, so that DNS returns it. Callers use the ports of the pods.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.api.names.derived import gateway_host
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_HOST, LABEL_GATEWAY_PEER, LABEL_HEADLESS_OF
from agent.model.endpoints import HEADLESS_LABEL
from agent.model.gatewayhosts import (
    At,
    Ports,
    locals_of,
    told,
)
from agent.model.gatewayslices import Pod, at_gateways, owner, weight

Raw = dict[str, Any]


class HostService(NamedTuple):
    """A Service that represents a host."""

    name: str
    at: At
    ports: Ports
    ready: int
    """Number of ready pods of the host in the other cluster."""


def host_services(peer: Mapping[str, Any], services: Collection[str]) -> list[HostService]:
    """Return the Services for the hosts of a peer.

    :param services: headless Services whose traffic may be routed to the peer
    """
    name = peer["metadata"]["name"]
    return [
        HostService(gateway_host(each.service, host.name, name), (each.service, host.name), each.ports, host.ready)
        for each in told(peer)
        if each.service in services
        for host in each.hosts
    ]


def manifest(peer: Mapping[str, Any], made: HostService) -> Raw:
    """Return the manifest of a host's Service, which has no selector."""
    service, host = made.at
    labels = {LABEL_GATEWAY_PEER: peer["metadata"]["name"], LABEL_HEADLESS_OF: service, LABEL_GATEWAY_HOST: host}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {
            "name": made.name,
            "namespace": peer["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner(peer)],
        },
        "spec": {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ports": ports_of(made)},
    }


def ports_of(made: HostService) -> list[Raw]:
    """Return the ports of a host's Service with the API server's defaults."""
    return [
        {**({"name": name} if name else {}), "port": port, "protocol": "TCP", "targetPort": port}
        for name, port in made.ports
    ]


def slices(
    peer: Mapping[str, Any],
    found: Sequence[HostService],
    pods: Sequence[Pod],
    family: str,
    addresses: Mapping[str, Sequence[str]],
) -> list[Raw]:
    """Return the slices of the hosts' Services with this cluster's gateways, and those of the headless Services.

    :param pods: gateway pods
    :param family: address type of the slices
    :param addresses: cluster IPs of the hosts' Services by name
    """
    made, allotted, listed = list[Raw](), locals_of(peer), defaultdict[tuple[str, Ports], list[Raw]](list)
    for host in found if pods else ():
        its = list[Raw]()
        for number in range(weight(host.ready, len(pods))):
            locals_ = [(name, allotted.get((*host.at, port), ())) for name, port in host.ports]
            ports = [(name, numbers[number]) for name, numbers in locals_ if len(numbers) > number]
            if ports:
                service = {"name": host.name, "ready": host.ready}
                its.append(at_gateways(peer, service, number, ports, pods, family))
        made += its
        address = next((each for each in addresses.get(host.name, ()) if (":" in each) == (family == "IPv6")), None)
        if address is not None:
            reached = any(each["conditions"]["ready"] for slice in its for each in slice["endpoints"])
            listed[host.at[0], host.ports].append(_endpoint(host.at[1], address, reached))
    for name in sorted({name for name, _ in listed}):
        alike = sorted(ports for each, ports in listed if each == name)
        made += [
            _of_headless(peer, name, ports, number, listed[name, ports], family) for number, ports in enumerate(alike)
        ]
    return made


def _endpoint(host: str, address: str, ready: bool) -> Raw:
    return {"addresses": [address], **({"hostname": host} if host else {}), "conditions": {"ready": ready}}


def _of_headless(
    peer: Mapping[str, Any], service: str, ports: Ports, number: int, endpoints: list[Raw], family: str
) -> Raw:
    metadata = peer["metadata"]
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.name,
        "metadata": {
            "name": names.mirror(f"{service}-hosts", f"{metadata['name']}/{family}", number),
            "namespace": metadata["namespace"],
            "labels": {
                names.LABEL_SERVICE_NAME: service,
                names.LABEL_SLICE_MANAGED_BY: GATEWAY_SLICE_MANAGER,
                LABEL_GATEWAY_PEER: metadata["name"],
                HEADLESS_LABEL: "",
            },
            "ownerReferences": [owner(peer)],
        },
        "addressType": family,
        "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports],
        "endpoints": endpoints,
    }
