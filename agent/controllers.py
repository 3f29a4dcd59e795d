"""All controllers of the agent, in one list."""

from collections.abc import Callable
from typing import Any

import agent.moves.mover.metrics  # noqa: F401 -- metrics of moves are served, as 0, also if moves are off
from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.clusters.deps import Deps
from agent.dependencies.follow import FollowController, PermittedController, ReleaseController
from agent.dependencies.placeholder_volumes import PlaceholderVolumeController
from agent.dependencies.rules import NetworkPolicyController, RoleBindingController, RoleController
from agent.dependencies.source_api import NoSourceApi, SourceApiController
from agent.moves.fence.promises import FencePromiseController
from agent.moves.fence.stopping import FenceStoppingController
from agent.placement.managed_clusters import ClusterSetController, ManagedClusterController, TargetClusterController
from agent.placement.placements.controller import PlacementController
from agent.placement.target_choice.controller import TargetChoiceController
from agent.placement.usage_scores import UsageScoresController
from agent.pods.adoption.controller import AdoptionController
from agent.pods.chaperon.controller import Chaperon
from agent.pods.chaperon.grace_periods import GracePeriods
from agent.pods.elect_by_default.controller import ElectByDefaultController
from agent.pods.events.controller import DelegateEvents
from agent.pods.feedback.controller import Feedback
from agent.pods.live_changes.controller import LiveChanges
from agent.pods.orphan_finalizers.controller import OrphanFinalizersController
from agent.pods.orphans import OrphansController
from agent.runtime.controller import Controller
from agent.services.addresses import AddressesController
from agent.services.copies.controller import GlobalServices
from agent.services.endpoints.controller import EndpointsController
from agent.services.endpoints.networkdriver import NetworkDriverController
from agent.services.ingress.controller import IngressController
from agent.services.ingress.secrets import IngressSecretController
from agent.services.reroute.controller import ServiceRerouteController
from agent.services.unready_pods import UnreadyPodsController
from agent.settings import Settings
from agent.targets.heartbeats import HeartbeatController, HeartbeatPlaceController
from agent.targets.inventory.controller import InventoryController
from agent.targets.source.controller import SourceController
from agent.targets.summary.controller import SummaryController
from agent.targets.target.controller import TargetController
from agent.targets.target.secrets import TargetSecretController
from agent.targets.target.tokens import TargetTokenController
from agent.targets.virtual_node.controller import VirtualNodeController
from agent.targets.virtual_node.foreign_pods import ForeignPodController
from agent.targets.virtual_node.lease import NodeLeaseController
from agent.targets.virtual_node.unplaced import UnplacedPodController

Factory = Callable[[Deps], Controller[Any]]

ALWAYS: tuple[Factory, ...] = (
    # In targets: offers, delegates, fences.
    SummaryController,
    Chaperon,
    GracePeriods,
    FenceStoppingController,
    FencePromiseController,
    HeartbeatPlaceController,
    # In sources: election, Targets, virtual nodes, status, what follows pods.
    ElectByDefaultController,
    TargetController,
    TargetSecretController,
    TargetTokenController,
    InventoryController,
    ManagedClusterController,
    ClusterSetController,
    TargetClusterController,
    VirtualNodeController,
    ForeignPodController,
    Feedback,
    OrphansController,
    AdoptionController,
    HeartbeatController,
    LiveChanges,
    DelegateEvents,
    FollowController,
    ReleaseController,
    PlaceholderVolumeController,
    PermittedController,
    RoleController,
    RoleBindingController,
    NetworkPolicyController,
    OrphanFinalizersController,
    # Placements, if this cluster evaluates them.
    PlacementController,
    UsageScoresController,
    # Services, in sources and targets.
    NetworkDriverController,
    ServiceRerouteController,
    GlobalServices,
    EndpointsController,
    UnreadyPodsController,
    IngressController,
    IngressSecretController,
    AddressesController,
)
"""Controllers of the leader, whatever its settings."""


def build_for_every_replica(local: Cluster, clock: Clock, settings: Settings) -> list[Controller[Any]]:
    """Return the controllers of every replica, leading or not."""
    return [NodeLeaseController(local, clock, settings)]


def build(deps: Deps) -> list[Controller[Any]]:
    """Return every controller of the leader that these settings ask for."""
    controllers = [build_one(deps) for build_one in ALWAYS]
    controllers.append(UnplacedPodController(deps))
    if deps.settings.source_api:
        controllers.append(SourceApiController(deps))
    else:
        NoSourceApi(deps)
    if deps.owners is not None:
        controllers.append(TargetChoiceController(deps, deps.owners))
    controllers += [build_one(deps) for build_one in optional_controllers(deps.settings)]
    if deps.settings.source_controller:
        controllers.append(SourceController(deps))
    if deps.settings.hub_secret:
        from agent.klusterlet import controllers as klusterlet

        controllers += klusterlet.build(deps)
    return controllers


def optional_controllers(settings: Settings) -> list[Factory]:
    """Return controllers that settings switch on or off; each is imported only if it is on."""
    controllers: list[Factory] = []
    if settings.moves:
        from agent.moves.mover.controller import Mover

        controllers.append(Mover)
    if settings.service_links:
        from agent.services.links import ServiceLinksController

        controllers.append(ServiceLinksController)
    if settings.mcs:
        from agent.services.imports import ServiceImportsController

        controllers.append(ServiceImportsController)
    if settings.p2code:
        from agent.applications import P2CodeController

        controllers.append(P2CodeController)
    if settings.ac3_networks:
        from agent.services.ac3 import AC3NetworkController

        controllers.append(AC3NetworkController)
    if settings.gateway:
        from agent.services.gateways import GatewayPeersController, GatewaySlicesController, GatewayTrustController

        controllers += [GatewayTrustController, GatewaySlicesController, GatewayPeersController]
    if settings.hub:
        from agent.hub.heartbeats import HeartbeatController as HubHeartbeatController
        from agent.hub.registration import RegistrationController
        from agent.hub.requests import RequestController

        controllers += [RequestController, RegistrationController, HubHeartbeatController]
    if settings.prometheus_scores:
        from agent.placement.prometheus_scores import PrometheusScoresController

        controllers.append(PrometheusScoresController)
    if settings.moves:
        controllers += _fences_and_lost_targets()
    return controllers


def _fences_and_lost_targets() -> list[Factory]:
    from agent.moves.fence.pods import FencedPodController
    from agent.moves.fence.renewals import FenceController
    from agent.moves.lost_targets.controller import TargetLifeController
    from agent.moves.lost_targets.overlimit import OverLimitController
    from agent.moves.lost_targets.retired import RetiredController

    return [TargetLifeController, RetiredController, OverLimitController, FenceController, FencedPodController]
