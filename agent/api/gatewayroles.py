"""Grants of gateways, and of the agent for gateways, in their cluster (see `ownroles`)."""

from agent.api.accounts import Account, grants
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES, PODS, SECRETS, SERVICES

KEEP_GATEWAYS = "gateways of this cluster, and their GatewayPeers"
GATEWAY_HOSTS = "local addresses for headless Services in other clusters"
CALL = "peers that it calls or admits"
ADDRESSES = "pod addresses that it may call"
SAY = "observed state of its peers"

AGENT_GRANTS = (
    *grants(GATEWAY_PEERS, "list watch create patch delete", KEEP_GATEWAYS),
    *grants(GATEWAY_PEERS, "patch", KEEP_GATEWAYS, sub="status"),
    *grants(SERVICES, "create delete", GATEWAY_HOSTS),
)
AGENT_AT_HOME = grants(SECRETS, "create", KEEP_GATEWAYS)

GATEWAY = Account(
    "gateway",
    {
        "": (
            *grants(GATEWAY_PEERS, "list watch", CALL),
            *grants(GATEWAY_PEERS, "patch", SAY, sub="status"),
            *grants(ENDPOINT_SLICES, "list watch", CALL),
            *grants(PODS, "list watch", ADDRESSES),
            *grants(NAMESPACES, "get", CALL, names=("kube-system",)),
        ),
    },
)
"""The process next to Envoy needs no grant for Secrets: its certificate is mounted."""
