"""Assigns addresses and ports to the clusters of a requested sandbox."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hack.lab.sandbox import ipfamilies, network, older
from hack.lab.sandbox.binaries import Programs
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.ipfamilies import VERSIONS, Family
from hack.lab.sandbox.plan import ClusterPlan, NodeShape, Plan, identity

Network = Literal["auto", "namespaces", "loopback"]
PodNetwork = Literal["own", "same"]

_FIRST_HOST = 10


@dataclass(frozen=True)
class Request:
    """Requested properties of a sandbox."""

    names: tuple[str, ...]
    regions: Mapping[str, str]
    shape: NodeShape
    agents: bool
    agent_flags: tuple[str, ...]
    webhook_flags: tuple[str, ...]
    network: Network
    candidate_scheduler: bool = False
    audit: bool | Path = False
    """Whether API servers write audit logs, or the file with their policy."""
    replicas: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    same_pods: bool = False
    family: Family = "ipv4"


async def lay_out(directory: Path, request: Request, programs: Programs) -> Plan:
    """Choose free addresses and return the plan. Call it under `network.exclusive()`. Raises SandboxError."""
    name = identity(directory)
    separate = request.network == "namespaces"
    if request.network == "auto":
        separate = await network.namespaces_work(name)
    _check_network(request, separate=separate)
    plan = Plan(
        directory=str(directory),
        identity=name,
        kubernetes=programs.version,
        programs=programs.paths,
        clusters=(),
        agents=request.agents,
        agent_flags=request.agent_flags,
        webhook_flags=request.webhook_flags,
        candidate_scheduler=request.candidate_scheduler,
        audit=bool(request.audit),
        audit_policy=str(request.audit.resolve()) if isinstance(request.audit, Path) else "",
        replicas=request.replicas,
    )
    if not separate:
        return dataclasses.replace(plan, clusters=_on_loopback(name, request))
    subnets = [
        network.choose_subnet(name, await network.used_networks(version), version)
        for version in VERSIONS[request.family]
    ]
    return dataclasses.replace(
        plan,
        clusters=_in_namespaces(name, request, subnets),
        subnet=str(subnets[0]),
        second_subnet=str(subnets[1]) if len(subnets) > 1 else "",
        bridge=network.bridge_name(name),
    )


def _check_network(request: Request, *, separate: bool) -> None:
    """Raise SandboxError if nodes or IP families need network namespaces and clusters do not get any."""
    if request.shape.kind == "real" and not separate:
        raise SandboxError(
            "real nodes need network namespaces, which take root, `ip`, `nsenter` and a machine that allows them:"
            " leave out --network=loopback and run as root, or use --nodes kwok:N"
        )
    if request.family != "ipv4":
        network.require_ipv6()
        if not separate:
            raise SandboxError(
                "IPv6 needs network namespaces, which take root, `ip`, `nsenter` and a machine that allows them, since"
                " each cluster has an address of its own and the loopback interface has only ::1: run as root without"
                " --network=loopback, or use --ip-family ipv4"
            )


def _in_namespaces(name: str, request: Request, subnets: Sequence[ipfamilies.Network]) -> tuple[ClusterPlan, ...]:
    return tuple(
        ClusterPlan(
            name=cluster,
            index=index,
            address=str(subnets[0][_FIRST_HOST + index]),
            region=request.regions[cluster],
            nodes=request.shape,
            namespace=network.namespace_name(name, cluster),
            kubernetes=_minor(request.versions.get(cluster, "")),
            programs=_programs(request.versions.get(cluster, "")),
            same_pods=request.same_pods,
            family=request.family,
            second_address=str(subnets[1][_FIRST_HOST + index]) if len(subnets) > 1 else "",
        )
        for index, cluster in enumerate(request.names)
    )


def _on_loopback(name: str, request: Request) -> tuple[ClusterPlan, ...]:
    clusters = []
    for index, cluster in enumerate(request.names):
        address = network.loopback_address(name, index)
        version = request.versions.get(cluster, "")
        plan = ClusterPlan(cluster, index, address, request.regions[cluster], request.shape)
        plan = dataclasses.replace(
            plan, kubernetes=_minor(version), programs=_programs(version), same_pods=request.same_pods
        )
        clusters.append(dataclasses.replace(plan, ports=network.free_ports(address)))
    return tuple(clusters)


def _minor(version: str) -> str:
    return version.removeprefix("v").rpartition(".")[0]


def _programs(version: str) -> dict[str, str]:
    return older.paths(version) if version else {}
