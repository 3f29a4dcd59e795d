"""All rooms of the agent, in one list."""

from collections.abc import Callable
from typing import Any

import agent.controllers.mover.metrics  # noqa: F401 -- these are served, as 0, where moves are off, too
from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.clusters.deps import Deps
from agent.controllers.addresses import AddressesRoom
from agent.controllers.adoption.controller import AdoptionRoom
from agent.controllers.chaperon.controller import Chaperon
from agent.controllers.chaperon.grace_periods import GracePeriods
from agent.controllers.delegateevents.controller import DelegateEvents
from agent.controllers.elect_by_default.controller import ElectByDefaultRoom
from agent.controllers.endpoints.controller import EndpointsRoom
from agent.controllers.endpoints.networkdriver import NetworkDriverRoom
from agent.controllers.feedback.controller import Feedback
from agent.controllers.fence.promises import FencePromiseController
from agent.controllers.fence.stopping import StoppingRoom
from agent.controllers.follow import FollowRoom, PermittedRoom, ReleaseRoom
from agent.controllers.followrules import NetworkPolicyRoom, RoleBindingRoom, RoleRoom
from agent.controllers.globalsvc.controller import GlobalServices
from agent.controllers.ingress.controller import IngressRoom
from agent.controllers.ingress.secrets import IngressSecretRoom
from agent.controllers.inventory.controller import InventoryRoom
from agent.controllers.livechanges.controller import LiveChanges
from agent.controllers.managedclusters import ClusterSetRoom, ManagedClusterRoom, TargetClusterRoom
from agent.controllers.orphan_finalizers.controller import OrphanFinalizersRoom
from agent.controllers.orphans import OrphansRoom
from agent.controllers.placement.controller import PlacementRoom
from agent.controllers.signs import SignsPlaceRoom, SignsRoom
from agent.controllers.source.controller import SourceRoom
from agent.controllers.sourceapi import NoSourceApi, SourceApiRoom
from agent.controllers.standins import StandInRoom
from agent.controllers.summary.controller import SummaryRoom
from agent.controllers.svcreroute.controller import ServiceRerouteRoom
from agent.controllers.target.controller import TargetRoom
from agent.controllers.target.secrets import TargetSecretRoom
from agent.controllers.target.tokens import TargetTokenRoom
from agent.controllers.targetchoice.controller import TargetChoiceRoom
from agent.controllers.unreadypods import UnreadyPodsRoom
from agent.controllers.usagescores import UsageScoresRoom
from agent.controllers.virtualnode.controller import VirtualNodeRoom
from agent.controllers.virtualnode.foreign_pods import ForeignPodRoom
from agent.controllers.virtualnode.lease import NodeLeaseRoom
from agent.controllers.virtualnode.unplaced import UnplacedPodRoom
from agent.runtime.controller import Controller
from agent.settings import Settings

Room = Callable[[Deps], Controller[Any]]

ROOMS: tuple[Room, ...] = (
    # Where others' pods run: what a target offers and makes.
    SummaryRoom,
    Chaperon,
    GracePeriods,
    StoppingRoom,
    FencePromiseController,
    SignsPlaceRoom,
    # Where pods come from: which of them, the clusters they may go to, and what comes home.
    ElectByDefaultRoom,
    TargetRoom,
    TargetSecretRoom,
    TargetTokenRoom,
    InventoryRoom,
    ManagedClusterRoom,
    ClusterSetRoom,
    TargetClusterRoom,
    VirtualNodeRoom,
    ForeignPodRoom,
    Feedback,
    OrphansRoom,
    AdoptionRoom,
    SignsRoom,
    LiveChanges,
    DelegateEvents,
    FollowRoom,
    ReleaseRoom,
    StandInRoom,
    PermittedRoom,
    RoleRoom,
    RoleBindingRoom,
    NetworkPolicyRoom,
    OrphanFinalizersRoom,
    # Where pods may go, where Placements of Open Cluster Management are evaluated here.
    PlacementRoom,
    UsageScoresRoom,
    # What leads to pods, in every cluster that they may run in.
    NetworkDriverRoom,
    ServiceRerouteRoom,
    GlobalServices,
    EndpointsRoom,
    UnreadyPodsRoom,
    IngressRoom,
    IngressSecretRoom,
    AddressesRoom,
)
"""Those of the leader, whatever its settings."""


def build_for_every_replica(local: Cluster, clock: Clock, settings: Settings) -> list[Controller[Any]]:
    """Rooms that also replicas run that do not lead."""
    return [NodeLeaseRoom(local, clock, settings)]


def build(deps: Deps) -> list[Controller[Any]]:
    """Every room of the leader that these settings ask for."""
    rooms = [room(deps) for room in ROOMS]
    rooms.append(UnplacedPodRoom(deps))
    if deps.settings.source_api:
        rooms.append(SourceApiRoom(deps))
    else:
        NoSourceApi(deps)
    if deps.owners is not None:
        rooms.append(TargetChoiceRoom(deps, deps.owners))
    rooms += [room(deps) for room in optional_rooms(deps.settings)]
    if deps.settings.source_controller:
        rooms.append(SourceRoom(deps))
    return rooms


def optional_rooms(settings: Settings) -> list[Room]:
    """Rooms that are off by default; they are imported only where their setting asks for them."""
    rooms: list[Room] = []
    if settings.moves:
        from agent.controllers.mover.controller import Mover

        rooms.append(Mover)
    if settings.service_links:
        from agent.controllers.links import ServiceLinksRoom

        rooms.append(ServiceLinksRoom)
    if settings.mcs:
        from agent.controllers.serviceimports import ServiceImportsRoom

        rooms.append(ServiceImportsRoom)
    if settings.p2code:
        from agent.controllers.p2code import P2CodeRoom

        rooms.append(P2CodeRoom)
    if settings.ac3_networks:
        from agent.controllers.ac3 import NetworksRoom

        rooms.append(NetworksRoom)
    if settings.gateway:
        from agent.controllers.gateways import GatewayPeersRoom, GatewaySlicesRoom, GatewayTrustRoom

        rooms += [GatewayTrustRoom, GatewaySlicesRoom, GatewayPeersRoom]
    if settings.prometheus_scores:
        from agent.controllers.promscores import PrometheusScoresRoom

        rooms.append(PrometheusScoresRoom)
    if settings.moves:
        from agent.controllers.fence.pods import FencedPodController
        from agent.controllers.fence.renewals import FenceRoom
        from agent.controllers.targetlife.controller import TargetLifeRoom
        from agent.controllers.targetlife.overlimit import OverLimitRoom
        from agent.controllers.targetlife.retired import RetiredRoom

        rooms += [TargetLifeRoom, RetiredRoom, OverLimitRoom, FenceRoom, FencedPodController]
    return rooms
