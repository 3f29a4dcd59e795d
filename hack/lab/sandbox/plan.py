"""Plan of a sandbox: names, addresses, ports, sizes. Pure; kept in the sandbox's directory as JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

import msgspec

from agent.model import hostport
from hack.lab.sandbox import ipfamilies
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.ipfamilies import VERSIONS, Family

MAX_CLUSTERS = 31
"""Largest number of clusters for which `ipfamilies` has pod and service networks."""

PORTS = {
    "kube-apiserver": 6443,
    "etcd": 2379,
    "etcd-peer": 2380,
    "kube-controller-manager": 10257,
    "kube-scheduler": 10259,
    "webhook": 9443,
    "webhook-health": 8082,
    "agent-health": 8081,
    "agent-2-health": 8083,
    "candidate-scheduler": 10260,
    "extender": 10261,
    "kubelet": 10250,
    "kubelet-health": 10248,
    "kube-proxy-health": 10256,
    "kube-proxy-metrics": 10249,
}
"""Default port of every listening process. A cluster without an address of its own may need different ones."""

OLDEST_MINOR = 30
"""Oldest supported minor version: before Kubernetes 1.30 webhooks have no match conditions."""
OLDEST = "v1.30.14"

NodeKind = Literal["kwok", "real"]


@dataclass(frozen=True)
class NodeShape:
    """Number and size of a cluster's nodes. A real node has the size of the machine, only `pods` limits it."""

    count: int = 5
    cpu: str = "32"
    memory: str = "256Gi"
    pods: int = 110
    kind: NodeKind = "kwok"
    fakes: int = 0
    """Number of fake nodes next to a real one, which then accepts only pods that tolerate its taint `type=real`."""

    @property
    def fake(self) -> int:
        """Number of all fake nodes."""
        return self.count if self.kind == "kwok" else self.fakes


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster. `namespace` is its network namespace; empty if all clusters share the machine's network."""

    name: str
    index: int
    address: str
    region: str
    nodes: NodeShape
    namespace: str = ""
    ports: Mapping[str, int] = field(default_factory=lambda: dict(PORTS))
    kubernetes: str = ""
    """Kubernetes version (`1.30`), with paths in `programs`, if it differs from the sandbox's; else empty."""
    programs: Mapping[str, str] = field(default_factory=dict)
    same_pods: bool = False
    """Whether all clusters have the same pod network, which is not routed between them."""

    family: Family = "ipv4"
    """IP families of the cluster's addresses, pods and Services."""
    second_address: str = ""
    """The IPv6 address of a dual-stack cluster; empty in other clusters."""

    @property
    def server(self) -> str:
        """URL of the API server, as every other cluster and the machine itself reach it."""
        return f"https://{self.at('kube-apiserver')}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the cluster, the primary one first."""
        return (self.address, self.second_address) if self.second_address else (self.address,)

    @property
    def wildcard(self) -> str:
        """Address on which a server accepts connections to all `addresses`."""
        return "::" if self.second_address else self.address

    def at(self, port: str) -> str:
        """Return HOST:PORT of a process that other clusters can reach, by the name of its port."""
        return hostport.join(self.address, self.ports[port])

    def listen(self, port: str) -> str:
        """Return HOST:PORT on which one of our own processes has to listen; without HOST in dual-stack clusters."""
        return f":{self.ports[port]}" if self.second_address else self.at(port)

    @property
    def private_address(self) -> str:
        """Address on which processes listen that only their own cluster may reach."""
        return "127.0.0.1" if self.namespace else self.address

    @property
    def extender(self) -> str:
        """HOST:PORT on which the agent serves the candidate scheduler."""
        return hostport.join(self.private_address, self.ports["extender"])

    @property
    def pod_ranges(self) -> tuple[str, ...]:
        """Pod networks, one for each IP version; different in each cluster unless all have the same."""
        return tuple(map(str, self._pods))

    @property
    def real_pod_ranges(self) -> tuple[str, ...]:
        """Pod networks of a real node: the lower half of each if the cluster has fake nodes, too."""
        return tuple(str(next(each.subnets())) if self.nodes.fakes else str(each) for each in self._pods)

    @property
    def fake_pod_ranges(self) -> tuple[str, ...]:
        """Pod networks of fake nodes: the upper half of each if the cluster has a real node, too."""
        return tuple(str([*each.subnets()][1]) if self.nodes.fakes else str(each) for each in self._pods)

    @property
    def _pods(self) -> list[ipfamilies.Network]:
        number = 0 if self.same_pods else self.index
        return [ipfamilies.pods(version, number) for version in VERSIONS[self.family]]

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """Networks of ClusterIPs, one for each IP version; different in each cluster."""
        return tuple(str(ipfamilies.services(version, self.index)) for version in VERSIONS[self.family])

    @property
    def first_services(self) -> tuple[str, ...]:
        """Addresses that the Service `kubernetes` can have: the first one of each range."""
        return tuple(str(ip_network(each)[1]) for each in self.service_ranges)


@dataclass(frozen=True)
class Plan:
    """The whole sandbox. Without network namespaces `bridge` and subnets are empty."""

    directory: str
    identity: str
    kubernetes: str
    programs: Mapping[str, str]
    clusters: tuple[ClusterPlan, ...]
    subnet: str = ""
    bridge: str = ""
    agents: bool = True
    agent_flags: tuple[str, ...] = ()
    webhook_flags: tuple[str, ...] = ()
    candidate_scheduler: bool = False
    audit: bool = False
    audit_policy: str = ""
    """File with the audit policy; empty for the sandbox's own policy."""
    replicas: int = 1
    second_subnet: str = ""
    """IPv6 network that joins dual-stack clusters; empty if the clusters have one IP family."""

    @property
    def subnets(self) -> tuple[str, ...]:
        """Networks that join the clusters, one for each IP version; empty without network namespaces."""
        return tuple(filter(None, (self.subnet, self.second_subnet)))

    @property
    def host_address(self) -> str:
        """Address of the machine itself, as every cluster reaches it."""
        return str(ip_network(self.subnet)[1]) if self.subnet else "127.0.0.1"

    @property
    def real_nodes(self) -> bool:
        """Whether the clusters run real containers."""
        return any(cluster.nodes.kind == "real" for cluster in self.clusters)

    @property
    def fake_nodes(self) -> bool:
        """Whether there are fake nodes, which run no containers."""
        return any(cluster.nodes.kind == "kwok" or cluster.nodes.fakes for cluster in self.clusters)

    def dump(self) -> bytes:
        """Return the plan as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @staticmethod
    def parse(text: bytes) -> "Plan":
        """Parse a plan that `dump` wrote. Raises SandboxError if it is invalid."""
        try:
            return msgspec.json.decode(text, type=Plan)
        except msgspec.DecodeError as error:
            raise SandboxError(f"the sandbox's record is damaged ({error}): take it down and up again") from error


def identity(directory: Path) -> str:
    """Return six hex digits that identify the sandbox in this directory on the machine."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:6]
