"""Input of the checks: read once and immutable. None always means that it could not be read."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from agent.api.conditions import condition_of
from agent.api.roles import Grant
from agent.clusters.agenthealth import Lease
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
    """How a target is reached, as far as that ends some day."""

    secret: str
    issued: datetime | None = None
    ends: datetime | None = None
    """None: never, or it does not say."""
    what: str = "token"


@dataclass(frozen=True)
class TargetView:
    """A Target or ClusterTarget, and the facts that its cluster has returned."""

    manifest: Raw
    node: Raw | None = None
    """Its virtual node, None when there is none."""
    credentials: Credentials | None = None
    cluster: ClusterView | None = None
    missing: tuple[Grant, ...] | None = None
    """Rights that the target's role for sources does not grant."""
    unread: str = ""
    """Why the target itself was not asked."""
    services: frozenset[Key] | None = None
    """Services that are there, as far as the target is for their namespace."""

    @property
    def namespace(self) -> str:
        """The only one that it serves, empty for all."""
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
        """How findings call it."""
        return f"target {self.namespace}/{self.name}" if self.namespace else f"target {self.name}"


class Trial(StrEnum):
    """How the creation of an elected pod went, which the API server was asked for without doing it."""

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
    """That it serves (PEM), from the Secret that its replicas share."""
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
    """Pods of one namespace that ask to be elected and were not."""

    namespace: str
    pods: tuple[str, ...]
    later: tuple[str, ...] = ()
    """Those of the pods that were annotated after their creation."""


@dataclass(frozen=True)
class Spread:
    """A workload that stays, and is spread hard over labels of virtual nodes."""

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
    """Its namespace and name, with a slash."""
    why: str
    remedy: str


class Verdict(StrEnum):
    """How the call of a gateway went."""

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
    """Of the GatewayPeer; empty for this cluster's own gateways, as the next."""
    peer: str = ""
    connected: bool = False
    """Whether this cluster's gateways report a connection to it."""


@dataclass(frozen=True)
class View:
    """All that was read of an installation, for the checks."""

    now: datetime
    client: str
    """Version of this command."""
    cluster: ClusterView
    crds: dict[str, Raw] | None = None
    policies: frozenset[str] | None = None
    """Names of the ValidatingAdmissionPolicies that a binding has deny."""
    targets: tuple[TargetView, ...] = ()
    sources: tuple[Raw, ...] = ()
    """Sources and ClusterSources of this cluster."""
    webhook: WebhookView = WebhookView()
    rights: Rights | None = None
    namespaces: tuple[Raw, ...] | None = None
    unproxied: tuple[Unproxied, ...] | None = None
    obstacles: tuple[Obstacle, ...] | None = None
    unscheduled: tuple[Obstacle, ...] | None = None
    """Delegates here for which there is no candidate scheduler, one for each message."""
    misplaced: tuple[str, ...] | None = None
    """Namespaces and names of pods on virtual nodes that run nowhere."""
    spread: tuple[Spread, ...] | None = None
    """Workloads that stay, and for which virtual nodes are domains."""
    proxies: tuple[Raw, ...] | None = None
    """Proxy pods of this cluster."""
    services: frozenset[Key] | None = None
    """Services of this cluster."""
    endpointless: tuple[Endpointless, ...] | None = None
    links: tuple[Raw, ...] = ()
    """ServiceLinks of this cluster."""
    peers: tuple[Raw, ...] = ()
    """GatewayPeers of this cluster: the gateways of others, which its own call."""
    calls: tuple[Call, ...] = ()
    """Called gateways: those of the peers, and this cluster's own."""
    unread: tuple[tuple[str, str], ...] = ()
    """Objects that could not be read, each with the reason."""
