"""All rooms of the agent, in one list."""

import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import agent

# Metrics of moves are served, as 0, also if moves are off.
import agent.moves.mover.metrics
from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.clusters.deps import Deps
from agent.dependencies.follow import FollowRoom, PermittedRoom, ReleaseRoom
from agent.dependencies.placeholder_volumes import StandInRoom
from agent.dependencies.rules import NetworkPolicyRoom, RoleBindingRoom, RoleRoom
from agent.dependencies.source_api import NoSourceApi, SourceApiRoom
from agent.moves.fence.promises import FencePromiseController
from agent.moves.fence.stopping import StoppingRoom
from agent.placement.managed_clusters import ClusterSetRoom, ManagedClusterRoom, TargetClusterRoom
from agent.placement.placements.controller import PlacementRoom
from agent.placement.target_choice.controller import TargetChoiceRoom
from agent.placement.usage_scores import UsageScoresRoom
from agent.pods.adoption.controller import AdoptionRoom
from agent.pods.chaperon.controller import Chaperon
from agent.pods.chaperon.grace_periods import GracePeriods
from agent.pods.elect_by_default.controller import ElectByDefaultRoom
from agent.pods.events.controller import DelegateEvents
from agent.pods.feedback.controller import Feedback
from agent.pods.live_changes.controller import LiveChanges
from agent.pods.orphan_finalizers.controller import OrphanFinalizersRoom
from agent.pods.orphans import OrphansRoom
from agent.runtime.controller import Controller
from agent.services.addresses import AddressesRoom
from agent.services.copies.controller import GlobalServices
from agent.services.endpoints.controller import EndpointsRoom
from agent.services.endpoints.networkdriver import NetworkDriverRoom
from agent.services.ingress.controller import IngressRoom
from agent.services.ingress.secrets import IngressSecretRoom
from agent.services.reroute.controller import ServiceRerouteRoom
from agent.services.unready_pods import UnreadyPodsRoom
from agent.settings import Settings
from agent.targets.heartbeats import SignsPlaceRoom, SignsRoom
from agent.targets.inventory.controller import InventoryRoom
from agent.targets.source.controller import SourceRoom
from agent.targets.summary.controller import SummaryRoom
from agent.targets.target.controller import TargetRoom
from agent.targets.target.secrets import TargetSecretRoom
from agent.targets.target.tokens import TargetTokenRoom
from agent.targets.virtual_node.controller import VirtualNodeRoom
from agent.targets.virtual_node.foreign_pods import ForeignPodRoom
from agent.targets.virtual_node.lease import NodeLeaseRoom
from agent.targets.virtual_node.unplaced import UnplacedPodRoom

Room = Callable[[Deps], Controller[Any]]

PARTS = ("applications", "dependencies", "moves", "placement", "pods", "services", "targets")
"""Packages of `agent` that hold controllers. They do not import each other: they meet on API objects."""

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


def module_names() -> Iterator[str]:
    """Yield the modules of all parts, also those of controllers that are off."""
    for part in PARTS:
        for module in pkgutil.walk_packages([f"{agent.__path__[0]}/{part}"], f"agent.{part}."):
            yield module.name


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
        from agent.moves.mover.controller import Mover

        rooms.append(Mover)
    if settings.service_links:
        from agent.services.links import ServiceLinksRoom

        rooms.append(ServiceLinksRoom)
    if settings.mcs:
        from agent.services.imports import ServiceImportsRoom

        rooms.append(ServiceImportsRoom)
    if settings.p2code:
        from agent.applications import P2CodeRoom

        rooms.append(P2CodeRoom)
    if settings.ac3_networks:
        from agent.services.ac3 import NetworksRoom

        rooms.append(NetworksRoom)
    if settings.gateway:
        from agent.services.gateways import GatewayPeersRoom, GatewaySlicesRoom, GatewayTrustRoom

        rooms += [GatewayTrustRoom, GatewaySlicesRoom, GatewayPeersRoom]
    if settings.prometheus_scores:
        from agent.placement.prometheus_scores import PrometheusScoresRoom

        rooms.append(PrometheusScoresRoom)
    if settings.moves:
        rooms += _fences_and_lost_targets()
    return rooms


def _fences_and_lost_targets() -> list[Room]:
    from agent.moves.fence.pods import FencedPodController
    from agent.moves.fence.renewals import FenceRoom
    from agent.moves.lost_targets.controller import TargetLifeRoom
    from agent.moves.lost_targets.overlimit import OverLimitRoom
    from agent.moves.lost_targets.retired import RetiredRoom

    return [TargetLifeRoom, RetiredRoom, OverLimitRoom, FenceRoom, FencedPodController]
