"""Input of the checks: read once and immutable. None always means that it could not be read."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from agent.api.conditions import condition_of
from agent.api.roles import Grant
from agent.cli.hubs.asked import Asked
from agent.clusters.health.agent_health import Lease
from agent.kube.store import Key
from agent.model.virtualnode import KUBELET_SERVING

Raw = dict[str, Any]


@dataclass(frozen=True)
class ClusterView:
    """This cluster, or that of a target."""

    title: str
    kubernetes: str = ""
    has_summary: bool | None = None
    """Whether the cluster's agent has published a ClusterSummary."""
    agent: str = ""
    """Version of that agent, empty for Admiralty's."""
    leases: tuple[Lease, ...] | None = None
    skew: float | None = None
    """Seconds that its clock is ahead of this machine's, give or take one."""


@dataclass(frozen=True)
class Credentials:
    """Credentials for a target, and their expiry."""

    secret: str
    issued: datetime | None = None
    ends: datetime | None = None
    """End of validity; None if unlimited or unknown."""
    what: str = "token"


@dataclass(frozen=True)
class TargetView:
    """A Target or ClusterTarget, and the facts that its cluster has returned."""

    manifest: Raw
    node: Raw | None = None
    """Its virtual node, None if it does not exist."""
    credentials: Credentials | None = None
    cluster: ClusterView | None = None
    missing: tuple[Grant, ...] | None = None
    """Rights that the target's role for sources does not grant."""
    unread: str = ""
    """Why the target itself could not be read; empty if it was."""
    services: frozenset[Key] | None = None
    """Services of the target, in the namespaces that it serves; None if they could not be read."""

    @property
    def namespace(self) -> str:
        """The only namespace that the target serves, empty for all."""
        return str(self.manifest["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return str(self.manifest["metadata"]["name"])

    @property
    def serving(self) -> Any:
        """Condition of the virtual node about kubelet serving (logs, exec, ...), None if it has none."""
        return condition_of(self.node or {}, KUBELET_SERVING)

    @property
    def title(self) -> str:
        """Title in findings."""
        return f"target {self.namespace}/{self.name}" if self.namespace else f"target {self.name}"


class Trial(StrEnum):
    """Result of a dry-run creation of an elected pod."""

    PROXY = "it became a proxy pod"
    ORDINARY = "it stayed an ordinary pod"
    NO_WEBHOOK = "the webhook did not answer"
    REFUSED = "it was refused"
    UNTRIED = "it was not tried"


@dataclass(frozen=True)
class WebhookView:
    """Both configurations of the webhook, its ready endpoints and certificate, and the trials of both."""

    mutating: tuple[Raw, ...] | None = None
    """MutatingWebhookConfigurations with webhooks of Flotilla or Admiralty."""
    validating: tuple[Raw, ...] | None = None
    ready: dict[str, int | None] | None = None
    """Ready endpoints by `namespace/name` of the Services that configurations name."""
    certificate: bytes | None = None
    """Certificate that the webhook serves (PEM), from the Secret that its replicas share."""
    trial: Trial = Trial.UNTRIED
    trial_words: str = ""
    trial_namespace: str = ""
    refuses: bool | None = None
    """Whether the webhook refused an invalid Target in a dry run, None if that was not tried."""


@dataclass(frozen=True)
class Rights:
    """Rights that the agent of this cluster needs and lacks."""

    account: str
    missing: tuple[Grant, ...]


@dataclass(frozen=True)
class Unproxied:
    """Pods of one namespace that request election and were not elected."""

    namespace: str
    pods: tuple[str, ...]
    later: tuple[str, ...] = ()
    """Names of the pods that were annotated after their creation."""


@dataclass(frozen=True)
class Spread:
    """A workload that is not elected and has hard spread constraints over labels of virtual nodes."""

    title: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Obstacle:
    """Event that reports an obstacle."""

    about: str
    message: str
    at: datetime | None


@dataclass(frozen=True)
class Endpointless:
    """A Service without ready endpoint that selects ready proxy pods."""

    service: str
    """Namespace and name of the Service, as NAMESPACE/NAME."""
    why: str
    remedy: str


class Verdict(StrEnum):
    """Result of calling a gateway."""

    ADMITTED = "both sides take the other's certificate"
    UNASKED = "its certificate is right; whether it takes ours was not asked"
    UNREACHABLE = "nobody answers"
    NO_TLS = "it speaks no TLS 1.3"
    NOT_LINKED = "it shows no certificate for this server name"
    OTHER_CA = "its certificate is of another CA"
    OTHER_CLUSTER = "its certificate is another cluster's"
    EXPIRED = "its certificate has expired"
    NOT_ADMITTED = "it refuses our certificate"


@dataclass(frozen=True)
class Dialed:
    """Result of calling a gateway."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True)
class Call:
    """Address of a gateway that doctor has called."""

    address: str
    heard: Dialed
    namespace: str = ""
    """Namespace of the GatewayPeer; empty for this cluster's own gateways, as is the next field."""
    peer: str = ""
    connected: bool = False
    """Whether this cluster's gateways report a connection to it."""


@dataclass(frozen=True)
class View:
    """Everything that was read of an installation."""

    now: datetime
    client: str
    """Version of this command."""
    cluster: ClusterView
    crds: dict[str, Raw] | None = None
    policies: frozenset[str] | None = None
    """Names of the ValidatingAdmissionPolicies that a binding enforces with Deny."""
    targets: tuple[TargetView, ...] = ()
    sources: tuple[Raw, ...] = ()
    """Sources and ClusterSources of this cluster."""
    webhook: WebhookView = WebhookView()
    rights: Rights | None = None
    namespaces: tuple[Raw, ...] | None = None
    unproxied: tuple[Unproxied, ...] | None = None
    obstacles: tuple[Obstacle, ...] | None = None
    unscheduled: tuple[Obstacle, ...] | None = None
    """Delegates in this cluster without a candidate scheduler, one for each message."""
    misplaced: tuple[str, ...] | None = None
    """Namespaces and names of pods that are bound to virtual nodes but run in no target."""
    spread: tuple[Spread, ...] | None = None
    """Workloads that are not elected and whose spread constraints count virtual nodes as domains."""
    proxies: tuple[Raw, ...] | None = None
    """Proxy pods of this cluster."""
    services: frozenset[Key] | None = None
    """Services of this cluster."""
    shared: frozenset[Key] | None = None
    """Services of this cluster that are shared with targets."""
    endpointless: tuple[Endpointless, ...] | None = None
    links: tuple[Raw, ...] = ()
    """ServiceLinks of this cluster."""
    peers: tuple[Raw, ...] = ()
    """GatewayPeers of this cluster: gateways of other clusters that the local gateways call."""
    calls: tuple[Call, ...] = ()
    """Called gateways: those of the peers, and this cluster's own."""
    members: tuple[Raw, ...] = ()
    """ManagedClusters, if this cluster is a hub."""
    asked: tuple[Asked, ...] = ()
    """Certificate requests of agents that want to join, if this cluster is a hub."""
    hub_address: str | None = None
    """Published address of the hub; None if there is none."""
    unread: tuple[tuple[str, str], ...] = ()
    """Objects that could not be read, each with the reason."""
