"""Dependencies of controllers."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.clusters.copies.prerequisites import Prerequisites
from agent.clusters.health.target_outages import TargetOutages
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.endpoint_refusals import EndpointRefusals
from agent.clusters.stores.endpoints import Endpoints
from agent.clusters.stores.fenced_pods import FencedPods
from agent.clusters.stores.fences import Fences
from agent.clusters.stores.held_requests import HeldRequests
from agent.clusters.stores.inflight_chaperons import InflightChaperons
from agent.clusters.stores.live_reads import LiveReads
from agent.clusters.stores.namespaces import Namespaces
from agent.clusters.stores.orphan_deletion_guard import OrphanDeletionGuard
from agent.clusters.stores.owners import Owners
from agent.clusters.stores.proxies import ProxyPods
from agent.clusters.stores.service_links import ServiceLinks
from agent.clusters.stores.target_choices import TargetChoices
from agent.clusters.stores.unlabelled import Unlabelled
from agent.clusters.stores.unmarked_slices import UnmarkedSlices
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.clusters.target_status import TargetStatus
from agent.kube.events import Recorder
from agent.kube.store import Object
from agent.runtime.lease import LeaderLease
from agent.settings import Settings


@dataclass(frozen=True)
class Deps:
    """Passed to every controller by the composition root.

    Controllers communicate by API objects that they read from each other's stores. Some memory of this process is
    shared, too, because an API object would be late, wrong after a restart, or cost writes for each pod. Each has one
    owner that writes it. All of it is rebuilt after a restart:

    - `target_outages`: by `lost_targets`; the mover decides by it which targets are lost.
    - `fences.seen`: by `fence`; the chaperon's controller starts no pod whose fence has expired.
    - `inflight_chaperons`: by the scheduler; feedback and the Target's controller release none of them.
    - `orphan_deletion_guard`: by `heartbeats`; all controllers that delete orphans ask it.
    - `prerequisites`: by `follow` and the other copiers; the scheduler waits for copies, the Target's controller for
      their deletion.
    - `endpoints`: by the kubelet API; virtual nodes announce its ports and certificates.
    - `unwritten_marks`: by `reroute`; controllers of Services treat these marks as written.
    - `endpoint_refusals`: by `endpoints`; drivers and the mover do not wait for a cluster that refuses EndpointSlices.
    """

    settings: Settings
    clock: Clock
    local: Cluster
    cluster_uid: str
    targets: Targets
    chaperons: Chaperons
    prerequisites: Prerequisites
    recorder: Recorder
    endpoints: Endpoints = field(default_factory=Endpoints)
    lease: LeaderLease | None = None
    """Leader lease of this replica; None without leader election."""
    inflight_chaperons: InflightChaperons = field(default_factory=InflightChaperons)
    target_outages: TargetOutages = field(default_factory=TargetOutages)
    fences: Fences = field(default_factory=Fences)

    @property
    def home(self) -> str:
        """Namespace in which this process runs."""
        return self.lease.namespace if self.lease is not None else self.settings.namespace or "kube-system"

    @property
    def server_now(self) -> datetime:
        """Current time by the clock of the source's API server. Compare it with timestamps that this server has set."""
        return self.clock.now() + timedelta(seconds=self.local.client.session.skew)

    def fence_left(self, pod: Object) -> float | None:
        """Return the seconds until the fence has certainly stopped a bound pod; None if it is unknown or not fenced."""
        return self.fences.sent.left(pod, self.settings.fence_wait)

    @cached_property
    def namespaces(self) -> Namespaces:
        """Lookup of the enabled namespaces of this cluster."""
        return Namespaces(self.local, self.chaperons)

    @cached_property
    def proxies(self) -> ProxyPods:
        """Proxy pods of this cluster."""
        return ProxyPods(self.local)

    @cached_property
    def unlabelled(self) -> Unlabelled:
        """Chaperons whose delegates lack labels of this version."""
        return Unlabelled(self.targets, self.chaperons, self.proxies)

    @cached_property
    def unwritten_marks(self) -> UnwrittenMarks:
        """Marks of shared Services that their owners keep removing."""
        return UnwrittenMarks()

    @cached_property
    def unmarked_slices(self) -> UnmarkedSlices:
        """EndpointSlices of namespaces with Services that carry such marks."""
        return UnmarkedSlices(self.local, self.unwritten_marks)

    @cached_property
    def endpoint_refusals(self) -> EndpointRefusals:
        """Clusters that refuse EndpointSlices. No API object records that."""
        return EndpointRefusals()

    @cached_property
    def choices(self) -> TargetChoices:
        """Targets that each proxy pod may use according to annotations."""
        return TargetChoices(self.local, self.namespaces, self.proxies, self.owners, self.settings)

    @cached_property
    def held_requests(self) -> HeldRequests:
        """Requests of proxy pods in targets with limits."""
        return HeldRequests(self.local, self.proxies)

    @cached_property
    def fenced_pods(self) -> FencedPods:
        """Proxy pods of this cluster that ask for a fence."""
        return FencedPods(self.proxies, self.chaperons, self.namespaces, self.owners, self.choices)

    @cached_property
    def owners(self) -> Owners | None:
        """Owners of pods, None if they are not used."""
        return Owners(self.local) if self.settings.moves or self.settings.p2code else None

    @cached_property
    def placement(self) -> PlacementMode:
        """Evaluation of Placements in this cluster, and watches of their kinds."""
        return PlacementMode(self.local, self.settings.placement, self.settings.discovery_interval)

    @cached_property
    def service_links(self) -> ServiceLinks:
        """Requests of ServiceLinks and of annotations of Services."""
        settings = self.settings
        return ServiceLinks(self.local, settings.discovery_interval, wanted=settings.service_links)

    @cached_property
    def target_status(self) -> TargetStatus:
        """Writer through which every controller writes the status of Targets."""
        return TargetStatus(self.local)

    @cached_property
    def live_reads(self) -> LiveReads:
        """Reads that precede a release."""
        return LiveReads(self.local.client, self.cluster_uid, self.chaperons, self.inflight_chaperons)

    @cached_property
    def orphan_deletion_guard(self) -> OrphanDeletionGuard:
        """Guard for orphan deletion."""
        return OrphanDeletionGuard(self.local, self.proxies.informer, self.targets, self.cluster_uid, self.lease)
