"""What a sandbox is going to be: names, addresses, ports, sizes. Pure; kept in the sandbox's directory as JSON."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

import msgspec

from agent.sandbox.errors import SandboxError

MAX_CLUSTERS = 31
"""Each cluster has a pod network of its own, 10.(224+index).0.0/16, and a service network, 10.(96+index).0.0/16."""

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
"""Default port of everything that listens; a cluster without an address of its own may have to take others."""

OLDEST_MINOR = 30
"""Before Kubernetes 1.30 webhooks have no match conditions."""
OLDEST = "v1.30.14"

NodeKind = Literal["kwok", "real"]

_VERSION = re.compile(r"v?1\.(\d+)(\.\d+)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class NodeShape:
    """How many nodes a cluster gets. Only a fake one is as large as one likes; `pods` limits a real one, too."""

    count: int = 5
    cpu: str = "32"
    memory: str = "256Gi"
    pods: int = 110
    kind: NodeKind = "kwok"
    fakes: int = 0
    """Fake nodes beside a real one, which then takes only pods that tolerate its taint `type=real`."""

    @property
    def fake(self) -> int:
        """How many fake nodes there are in all."""
        return self.count if self.kind == "kwok" else self.fakes


@dataclass(frozen=True)
class ClusterPlan:
    """One cluster: `namespace` is its network namespace, empty where all clusters share the machine's network."""

    name: str
    index: int
    address: str
    region: str
    nodes: NodeShape
    namespace: str = ""
    ports: Mapping[str, int] = field(default_factory=lambda: dict(PORTS))
    kubernetes: str = ""
    """Its version (`1.30`) and the programs of it, where these are not those of the sandbox."""
    programs: Mapping[str, str] = field(default_factory=dict)
    same_pods: bool = False
    """Whether its pod network is that of the first cluster, and nothing of it is routed to others."""

    @property
    def server(self) -> str:
        """URL of the API server, as every other cluster and the machine itself reach it."""
        return f"https://{self.address}:{self.ports['kube-apiserver']}"

    @property
    def private_address(self) -> str:
        """Where processes listen that only their own cluster may talk to."""
        return "127.0.0.1" if self.namespace else self.address

    @property
    def pod_range(self) -> str:
        """Pod network, different in each cluster unless all have the same."""
        return f"{self._pods}.0.0/16"

    @property
    def real_pod_range(self) -> str:
        """What the containers of a real node have of it: the lower half beside fake nodes."""
        return f"{self._pods}.0.0/17" if self.nodes.fakes else self.pod_range

    @property
    def fake_pod_range(self) -> str:
        """What the pods of fake nodes have of it."""
        return f"{self._pods}.128.0/17" if self.nodes.fakes else self.pod_range

    @property
    def _pods(self) -> str:
        return f"10.{224 + (0 if self.same_pods else self.index)}"

    @property
    def service_range(self) -> str:
        """Network of ClusterIPs, different in each cluster."""
        return f"10.{96 + self.index}.0.0/16"

    @property
    def first_service(self) -> str:
        """ClusterIP of the service `kubernetes`."""
        return f"10.{96 + self.index}.0.1"


@dataclass(frozen=True)
class Plan:
    """The whole sandbox. `subnet` and `bridge` are empty without network namespaces."""

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
    """File of the policy of audit logs; empty: the sandbox's own."""
    replicas: int = 1

    @property
    def host_address(self) -> str:
        """Address of the machine itself, as every cluster reaches it."""
        return str(IPv4Network(self.subnet)[1]) if self.subnet else "127.0.0.1"

    @property
    def real_nodes(self) -> bool:
        """Whether containers really run."""
        return any(cluster.nodes.kind == "real" for cluster in self.clusters)

    @property
    def fake_nodes(self) -> bool:
        """Whether there are nodes on which nothing runs."""
        return any(cluster.nodes.kind == "kwok" or cluster.nodes.fakes for cluster in self.clusters)

    def dump(self) -> bytes:
        """The plan as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @staticmethod
    def parse(text: bytes) -> "Plan":
        """The plan that `dump` wrote. Raises SandboxError when it is none."""
        try:
            return msgspec.json.decode(text, type=Plan)
        except msgspec.DecodeError as error:
            raise SandboxError(f"the sandbox's record is damaged ({error}): take it down and up again") from error


def identity(directory: Path) -> str:
    """Six hex digits that name everything of the sandbox in this directory, on the machine."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:6]


def parse_names(clusters: Sequence[str] | str) -> tuple[str, ...]:
    """Cluster names, given as a list or as `cd,us,eu`. Raises SandboxError for a name that does not fit."""
    names = tuple(part.strip() for part in clusters.split(",")) if isinstance(clusters, str) else tuple(clusters)
    for name in names:
        if not _NAME.fullmatch(name):
            raise SandboxError(f"cluster name {name!r}: use at most 40 lower-case letters, digits and dashes")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise SandboxError(f"cluster name {min(repeated)!r} is given twice")
    if not 1 <= len(names) <= MAX_CLUSTERS:
        raise SandboxError(f"{len(names)} clusters: a sandbox has 1 to {MAX_CLUSTERS}")
    return names


def parse_nodes(text: str) -> tuple[NodeKind, int, int]:
    """Kind and number of the nodes in `kwok:5` or `real:1`, and of the fake ones in `real:1+kwok:5`.

    Raises SandboxError.
    """
    first, plus, second = text.partition("+")
    kind, count = _nodes(first, text)
    if not plus:
        return kind, count, 0
    other, fakes = _nodes(second, text)
    if (kind, other) != ("real", "kwok"):
        raise SandboxError(f"nodes {text!r}: write real:1+kwok:N for fake nodes beside a real one")
    return kind, count, fakes


def _nodes(part: str, text: str) -> tuple[NodeKind, int]:
    kind, _, count = part.partition(":")
    if kind == "real" and count.isdecimal() and int(count) > 1:
        raise SandboxError(
            f"nodes {text!r}: a cluster has one real node, since each would need a network namespace of its own;"
            " write real:1, or use more clusters"
        )
    if kind == "real" and count == "1":
        return "real", 1
    if kind != "kwok" or not count.isdecimal() or int(count) > 1000:
        raise SandboxError(
            f"nodes {text!r}: write kwok:N, with N from 0 to 1000, such as kwok:5, or real:1, or real:1+kwok:5"
        )
    return "kwok", int(count)


def parse_regions(pairs: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Regions given as `CLUSTER=REGION`; a cluster without one is its own region. Raises SandboxError."""
    regions = {name: name for name in names}
    for pair in pairs:
        cluster, equals, region = pair.partition("=")
        if not equals or cluster not in regions or not region:
            raise SandboxError(f"region {pair!r}: write CLUSTER=REGION, with one of the clusters {', '.join(names)}")
        regions[cluster] = region
    return regions


def parse_version(text: str) -> str:
    """A version as releases are called: `1.30` and `1.30.14` are `v1.30.14`. Raises SandboxError."""
    match = _VERSION.fullmatch(text)
    if not match or int(match[1]) < OLDEST_MINOR:
        raise SandboxError(f"Kubernetes {text!r}: use 1.{OLDEST_MINOR} or newer, such as {OLDEST[1:]}")
    if match[2]:
        return f"v{text.removeprefix('v')}"
    if int(match[1]) == OLDEST_MINOR:
        return OLDEST
    raise SandboxError(f"Kubernetes {text!r}: write the whole version, such as {text}.1, or 1.{OLDEST_MINOR}")


def parse_versions(pairs: Sequence[str], names: Sequence[str], kind: NodeKind) -> dict[str, str]:
    """Kubernetes versions given as `CLUSTER=1.30`; the others have the sandbox's own. Raises SandboxError."""
    if pairs and kind == "real":
        raise SandboxError("clusters with real nodes are all of one Kubernetes version: leave out either")
    versions = {}
    for pair in pairs:
        cluster, equals, version = pair.partition("=")
        if not equals or cluster not in names:
            raise SandboxError(f"version {pair!r}: write CLUSTER=1.{OLDEST_MINOR}, with one of {', '.join(names)}")
        versions[cluster] = parse_version(version)
    return versions
