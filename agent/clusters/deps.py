"""What rooms are built from."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from agent.base.clock import Clock
from agent.clusters.brake import Brake
from agent.clusters.chaperons import Chaperons
from agent.clusters.cluster import Cluster
from agent.clusters.endpoint_refusals import EndpointRefusals
from agent.clusters.endpoints import Endpoints
from agent.clusters.fenced_pods import FencedPods
from agent.clusters.fences import Fences
from agent.clusters.held_requests import HeldRequests
from agent.clusters.live_reads import LiveReads
from agent.clusters.lives import Lives
from agent.clusters.namespaces import Namespaces
from agent.clusters.owners import Owners
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.prerequisites import Prerequisites
from agent.clusters.proxies import ProxyPods
from agent.clusters.registry import Targets
from agent.clusters.sending import Sending
from agent.clusters.servicelinks import ServiceLinks
from agent.clusters.target_status import TargetStatus
from agent.clusters.targetchoices import TargetChoices
from agent.clusters.unlabelled import Unlabelled
from agent.clusters.unmarked_slices import UnmarkedSlices
from agent.clusters.unwritten_marks import UnwrittenMarks
from agent.kube.events import Recorder
from agent.kube.store import Object
from agent.runtime.lease import LeaderLease
from agent.settings import Settings


@dataclass(frozen=True)
class Deps:
    """Given to every room by the composition root.

    Rooms meet on API objects: what one has found out, another reads from their stores. Two things here are not so, and
    stay. By `prerequisites` the scheduler waits until what a pod needs is in a target, and target's room until it is
    gone again: the wait is one of moments inside one decision, in which a condition to be written, watched and cleared
    for each pod and target would be two writes and a delay. `endpoints` are ports and certificates of this process,
    which the kubelet API has opened and virtual nodes announce: after a restart they are others, so that an object
    that kept them would lie. Neither holds anything that a restart must find again.
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
    """By which this replica leads; None where nobody else could."""
    sending: Sending = field(default_factory=Sending)
    lives: Lives = field(default_factory=Lives)
    fences: Fences = field(default_factory=Fences)

    @property
    def home(self) -> str:
        """The namespace that this process runs in."""
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
        """Which namespaces of this cluster are enabled."""
        return Namespaces(self.local, self.chaperons)

    @cached_property
    def proxies(self) -> ProxyPods:
        """The proxy pods of this cluster."""
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
        """EndpointSlices of namespaces that have Services with such marks."""
        return UnmarkedSlices(self.local, self.unwritten_marks)

    @cached_property
    def endpoint_refusals(self) -> EndpointRefusals:
        """Clusters that refuse EndpointSlices. No API object records that."""
        return EndpointRefusals()

    @cached_property
    def choices(self) -> TargetChoices:
        """Which targets each proxy pod may go to, as annotations say."""
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
        """What controls pods, None where it has no say."""
        return Owners(self.local) if self.settings.moves or self.settings.p2code else None

    @cached_property
    def placement(self) -> PlacementMode:
        """Who evaluates Placements here, and watches of their kinds."""
        return PlacementMode(self.local, self.settings.placement, self.settings.discovery_interval)

    @cached_property
    def service_links(self) -> ServiceLinks:
        """What ServiceLinks and annotations of Services ask for."""
        settings = self.settings
        return ServiceLinks(self.local, settings.discovery_interval, wanted=settings.service_links)

    @cached_property
    def target_status(self) -> TargetStatus:
        """Through this every room writes what it says of a Target."""
        return TargetStatus(self.local)

    @cached_property
    def live_reads(self) -> LiveReads:
        """What is asked before something is let go of."""
        return LiveReads(self.local.client, self.cluster_uid, self.chaperons, self.sending)

    @cached_property
    def brake(self) -> Brake:
        """What holds back the deletion of orphans."""
        return Brake(self.local, self.proxies.informer, self.targets, self.cluster_uid, self.lease)
