"""Gateways between clusters: this cluster's own certificate and slices, and what a source tells all of them."""

from agent.controllers.gateways.peers import GatewayPeersRoom
from agent.controllers.gateways.slices import GatewaySlicesRoom
from agent.controllers.gateways.trust import GatewayTrustRoom

__all__ = ["GatewayPeersRoom", "GatewaySlicesRoom", "GatewayTrustRoom"]
