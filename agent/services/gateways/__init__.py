"""Gateways between clusters: the certificate and slices of this cluster, and the GatewayPeers that a source writes."""

from agent.services.gateways.peers import GatewayPeersRoom
from agent.services.gateways.slices import GatewaySlicesRoom
from agent.services.gateways.trust import GatewayTrustRoom

__all__ = ["GatewayPeersRoom", "GatewaySlicesRoom", "GatewayTrustRoom"]
