"""Gateways between clusters: the certificate and slices of this cluster, and the GatewayPeers that a source writes."""

from agent.controllers.gateways.peers import GatewayPeersRoom
from agent.controllers.gateways.slices import GatewaySlicesRoom
from agent.controllers.gateways.trust import GatewayTrustRoom

__all__ = ["GatewayPeersRoom", "GatewaySlicesRoom", "GatewayTrustRoom"]
