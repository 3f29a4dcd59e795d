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
from agent.model import gatewayslices
from agent.model.endpoints import HEADLESS_LABEL
from agent.model.gatewayhosts import (
    HEADLESS,
    At,
    Ports,
    every_local,
    locals_of,
    locals_of_hosts,
    locals_of_services,
    told,
)
from agent.model.gatewaylink import CALLED
from agent.model.gatewayslices import Full, Pod, at_gateways, keep_and_add, owner, weight

Raw = dict[str, Any]


class HostService(NamedTuple):
    """The Service that stands for a host."""

    name: str
    at: At
    ports: Ports
    ready: int
    """How many pods of the host are ready there."""


def host_services(peer: Mapping[str, Any], services: Collection[str]) -> list[HostService]:
    """Those of a peer's hosts.

    :param services: headless Services whose callers may be sent there
    """
    name = peer["metadata"]["name"]
    return [
        HostService(gateway_host(each.service, host.name, name), (each.service, host.name), each.ports, host.ready)
        for each in told(peer)
        if each.service in services
        for host in each.hosts
    ]


def manifest(peer: Mapping[str, Any], made: HostService) -> Raw:
    """The Service of a host; it selects nothing."""
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
    """Ports of the Service of a host, as API servers complete them."""
    return [
        {**({"name": name} if name else {}), "port": port, "protocol": "TCP", "targetPort": port}
        for name, port in made.ports
    ]


def allot(peer: Mapping[str, Any], found: Sequence[HostService], taken: Collection[int], gateways: int) -> list[Raw]:
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


def allot_all(
    peer: Mapping[str, Any], found: Sequence[HostService], taken: Collection[int], gateways: int
) -> tuple[Raw, str]:
    """Local ports of a peer's Services and hosts, by field of the status, and why there are not enough of them.

    All of it by what the status has now: a number that has stood for one of them is free for no other yet. A field for
    which there are not enough is left out.

    :param taken: what stands for something of another peer
    """
    made, problem = Raw(), ""
    for protocol, field in CALLED.items():
        others = {*taken, *locals_of_hosts(peer), *every_local({"status": made})}
        try:
            made[field] = gatewayslices.allot(peer, others, gateways, protocol)
        except Full as full:
            problem = str(full)
    try:
        others = {*taken, *locals_of_services(peer), *every_local({"status": made})}
        made[HEADLESS] = allot(peer, found, others, gateways)
    except Full as full:
        problem = str(full)
    return made, problem


def slices(
    peer: Mapping[str, Any],
    found: Sequence[HostService],
    pods: Sequence[Pod],
    family: str,
    addresses: Mapping[str, Sequence[str]],
) -> list[Raw]:
    """The slices of the Services of hosts, which lead to the own gateways, and those of headless Services with them.

    :param family: address type
    :param addresses: cluster IPs of the Services of hosts, by their names
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
