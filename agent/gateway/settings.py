"""Settings of the gateway's process: each has a flag, an environment variable and a default."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from agent.base import flags
from agent.base.flag_values import ADDRESS, FILE, LOG_LEVEL, SWITCH, TEXT, or_empty, whole
from agent.base.flags import flag, tuned
from agent.model.envoyparts import CONNECTIONS

PREFIXES = ("FLOTILLA_GATEWAY_", "FLOTILLA_")
"""Prefixes of environment variables; the first match wins."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The gateway."""

    input: str = tuned(
        FILE, "/etc/flotilla-gateway/gateway.json", "what the gateway is told: peers and Services (JSON)"
    )
    from_cluster: bool = flag(
        SWITCH,
        "false",
        "write that file by GatewayPeers and EndpointSlices of a cluster, and say there how peers are",
    )
    kubeconfig: str = flag(
        or_empty(FILE), "", "kubeconfig of that cluster; empty: the pod's service account, then $KUBECONFIG"
    )
    pod: str = tuned(TEXT, "", "name of this pod in what it says there; empty: $POD_NAME, else the host name")
    certificates: str = tuned(FILE, "/etc/flotilla-gateway/certificates", "directory of tls.crt and tls.key")
    directory: str = tuned(FILE, "/run/flotilla-gateway", "directory that this process shares with Envoy")
    listen: str = tuned(ADDRESS, ":15443", "where Envoy listens for gateways of peers (TLS)")
    answer: str = tuned(ADDRESS, "127.0.0.1:19903", "where Envoy answers checks of peers that it has admitted")
    live: str = tuned(ADDRESS, ":8081", "where Envoy answers whether it is alive: /ready (HTTP)")
    connections: int = flag(
        whole(1), str(CONNECTIONS), "connections that Envoy takes at most; from outside of the cluster three quarters"
    )
    memory: int = flag(
        whole(0),
        "0",
        "memory limit of Envoy in bytes. The gateway leaves out Services that would exceed it. 0: no limit is known."
        " The chart sets the limit of Envoy's container",
    )
    loopback: bool = tuned(SWITCH, "false", "let endpoints be at 127.0.0.1 or ::1, for gateways that are in no pod")
    health_address: str = flag(ADDRESS, ":8080", "/healthz, /readyz and /metrics (HTTP)")
    prepare: bool = tuned(SWITCH, "false", "write what Envoy starts with, and end: before both start in a pod")
    log_level: str = flag(LOG_LEVEL, "INFO", "DEBUG, INFO, WARNING or ERROR")
    log_json: bool = flag(SWITCH, "false", "log JSON lines")

    @property
    def named(self) -> str:
        """Name of this pod."""
        return self.pod or os.environ.get("POD_NAME") or socket.gethostname()


def parse(arguments: Sequence[str]) -> Settings:
    """Return the settings from a command line and the environment. Raises InvalidSetting."""
    return flags.parse(
        Settings,
        arguments,
        program="python -m agent.gateway",
        purpose="What a gateway's Envoy does: makes its files, and tells how peers are.",
        prefixes=PREFIXES,
    )
