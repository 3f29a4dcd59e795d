"""Hosts of headless Services in other clusters have an address here: a Service each, that leads to the own gateways.

Its cluster IP stands under the host's name in an EndpointSlice of the headless Service: DNS answers with it, and
callers use the pods' own ports. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.api.names.derived import gateway_host
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_HOST, LABEL_GATEWAY_PEER, LABEL_HEADLESS_OF
from agent.model.endpoints import HEADLESS_LABEL
from agent.model.gatewayhosts import At, Host, Ports, locals_of, told
from agent.model.gatewayslices import Pod, at_gateways, keep_and_add, owner, weight

Raw = dict[str, Any]


class Front(NamedTuple):
    """The Service that stands for a host."""

    name: str
    at: At
    ports: Ports
    ready: int
    """How many pods of the host are ready there."""


def fronts(peer: Mapping[str, Any], services: Collection[str]) -> list[Front]:
    """Those of a peer's hosts.

    :param services: headless Services whose callers may be sent there
    """
    return [
        Front(front_name(peer, each.service, host), (each.service, host.name), each.ports, host.ready)
        for each in told(peer)
        if each.service in services
        for host in each.hosts
    ]


def front_name(peer: Mapping[str, Any], service: str, host: Host) -> str:
    """What the Service of a host is called."""
    return gateway_host(service, host.name, peer["metadata"]["name"])


def manifest(peer: Mapping[str, Any], front: Front) -> Raw:
    """The Service of a host; it selects nothing."""
    service, host = front.at
    labels = {LABEL_GATEWAY_PEER: peer["metadata"]["name"], LABEL_HEADLESS_OF: service, LABEL_GATEWAY_HOST: host}
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {
            "name": front.name,
            "namespace": peer["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner(peer)],
        },
        "spec": {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ports": ports_of(front)},
    }


def ports_of(front: Front) -> list[Raw]:
    """Ports of the Service of a host, as API servers complete them."""
    return [
        {**({"name": name} if name else {}), "port": port, "protocol": "TCP", "targetPort": port}
        for name, port in front.ports
    ]


def allot(peer: Mapping[str, Any], found: Sequence[Front], taken: Collection[int], gateways: int) -> list[Raw]:
    """Local ports for every port of every host, as the status has them. Raises Full.

    :param taken: what stands for something else, Services of this peer included
    """
    wanted = {(*each.at, port): weight(each.ready, gateways) for each in found for _, port in each.ports}
    kept = keep_and_add(wanted, locals_of(peer), taken)
    return [
        {
            "name": each.at[0],
            "host": each.at[1],
            "ports": [{"port": port, "locals": kept[(*each.at, port)]} for _, port in each.ports],
        }
        for each in found
    ]


def slices(
    peer: Mapping[str, Any],
    found: Sequence[Front],
    pods: Sequence[Pod],
    family: str,
    addresses: Mapping[str, Sequence[str]],
) -> list[Raw]:
    """The slices of the Services of hosts, which lead to the own gateways, and those of headless Services with them.

    :param family: address type
    :param addresses: cluster IPs of the Services of hosts, by their names
    """
    made, allotted, listed = list[Raw](), locals_of(peer), defaultdict[tuple[str, Ports], list[Raw]](list)
    for front in found if pods else ():
        its = list[Raw]()
        for number in range(weight(front.ready, len(pods))):
            each = [(name, allotted.get((*front.at, port), ())) for name, port in front.ports]
            ports = [(name, locals_[number]) for name, locals_ in each if len(locals_) > number]
            if ports:
                service = {"name": front.name, "ready": front.ready}
                its.append(at_gateways(peer, service, number, ports, pods, family))
        made += its
        address = next((each for each in addresses.get(front.name, ()) if (":" in each) == (family == "IPv6")), None)
        if address is not None:
            reached = any(each["conditions"]["ready"] for slice in its for each in slice["endpoints"])
            listed[front.at[0], front.ports].append(_endpoint(front.at[1], address, reached))
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
