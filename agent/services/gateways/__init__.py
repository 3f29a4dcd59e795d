"""Gateways between clusters: the certificate and slices of this cluster, and the GatewayPeers that a source writes."""

from agent.services.gateways.peers import GatewayPeersController
from agent.services.gateways.slices import GatewaySlicesController
from agent.services.gateways.trust import GatewayTrustController

__all__ = ["GatewayPeersController", "GatewaySlicesController", "GatewayTrustController"]
