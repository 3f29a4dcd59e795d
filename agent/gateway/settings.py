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
        FILE, "/etc/flotilla-gateway/gateway.json", "JSON file with the peers and Services of the gateway"
    )
    from_cluster: bool = flag(
        SWITCH,
        "false",
        "write that file from GatewayPeers and EndpointSlices of a cluster, and report the state of peers in"
        " that cluster",
    )
    kubeconfig: str = flag(
        or_empty(FILE), "", "kubeconfig of that cluster; empty: the pod's service account, then $KUBECONFIG"
    )
    pod: str = tuned(TEXT, "", "name of this pod in these reports; empty: $POD_NAME, else the host name")
    certificates: str = tuned(FILE, "/etc/flotilla-gateway/certificates", "directory with tls.crt and tls.key")
    directory: str = tuned(FILE, "/run/flotilla-gateway", "directory that this process shares with Envoy")
    listen: str = tuned(ADDRESS, ":15443", "HOST:PORT at which Envoy listens for gateways of peers (TLS)")
    answer: str = tuned(ADDRESS, "127.0.0.1:19903", "HOST:PORT at which Envoy answers health checks of admitted peers")
    live: str = tuned(ADDRESS, ":8081", "HOST:PORT of Envoy's /ready (HTTP), which shows that Envoy is alive")
    connections: int = flag(
        whole(1),
        str(CONNECTIONS),
        "largest number of connections of Envoy; three quarters of it may come from other clusters",
    )
    memory: int = flag(
        whole(0),
        "0",
        "memory limit of Envoy in bytes. The gateway leaves out Services that would exceed it. 0: no limit is"
        " known. The chart sets the limit of Envoy's container",
    )
    loopback: bool = tuned(SWITCH, "false", "accept endpoints at 127.0.0.1 or ::1, for gateways outside of pods")
    health_address: str = flag(ADDRESS, ":8080", "/healthz, /readyz and /metrics (HTTP)")
    prepare: bool = tuned(
        SWITCH, "false", "write the files that Envoy needs to start, and exit. An init container runs this"
    )
    log_level: str = flag(LOG_LEVEL, "INFO", "DEBUG, INFO, WARNING or ERROR")
    log_json: bool = flag(SWITCH, "false", "write logs as JSON lines")

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
