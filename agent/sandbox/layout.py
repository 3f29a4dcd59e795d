"""From what was asked for to a plan: who gets which address, and which ports."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from agent.sandbox import network, older
from agent.sandbox.binaries import Programs
from agent.sandbox.errors import SandboxError
from agent.sandbox.plan import ClusterPlan, NodeShape, Plan, identity

Network = Literal["auto", "namespaces", "loopback"]
PodNetwork = Literal["own", "same"]

_FIRST_HOST = 10


@dataclass(frozen=True)
class Request:
    """What a sandbox is to be like."""

    names: tuple[str, ...]
    regions: Mapping[str, str]
    shape: NodeShape
    agents: bool
    agent_flags: tuple[str, ...]
    webhook_flags: tuple[str, ...]
    network: Network
    candidate_scheduler: bool = False
    audit: bool = False
    audit_policy: str = ""
    replicas: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    same_pods: bool = False


async def lay_out(directory: Path, request: Request, programs: Programs) -> Plan:
    """Choose addresses that nobody uses. Call it under `network.exclusive()`. Raises SandboxError."""
    name = identity(directory)
    separate = request.network == "namespaces"
    if request.network == "auto":
        separate = await network.namespaces_work(name)
    if request.shape.kind == "real" and not separate:
        raise SandboxError(
            "real nodes need network namespaces, which take root and a machine that allows them: leave out"
            " --network=loopback and run as root, or use --nodes kwok:N"
        )
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
        audit=request.audit,
        audit_policy=request.audit_policy,
        replicas=request.replicas,
    )
    if not separate:
        return dataclasses.replace(plan, clusters=_on_loopback(name, request))
    subnet = network.choose_subnet(name, await network.used_networks())
    clusters = _in_namespaces(name, request, subnet)
    return dataclasses.replace(plan, clusters=clusters, subnet=str(subnet), bridge=network.bridge_name(name))


def _in_namespaces(name: str, request: Request, subnet: IPv4Network) -> tuple[ClusterPlan, ...]:
    return tuple(
        ClusterPlan(
            name=cluster,
            index=index,
            address=str(subnet[_FIRST_HOST + index]),
            region=request.regions[cluster],
            nodes=request.shape,
            namespace=network.namespace_name(name, cluster),
            kubernetes=_minor(request.versions.get(cluster, "")),
            programs=_programs(request.versions.get(cluster, "")),
            same_pods=request.same_pods,
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
