"""Settings of the agent process: its cluster, its logs, and leader election."""

import os
import socket
from dataclasses import dataclass
from uuid import uuid4

from agent.api import labels
from agent.base.eventloop import EVENT_LOOPS, EventLoop
from agent.base.flag_values import ADDRESS, DURATION, FILE, LOG_LEVEL, SWITCH, TEXT, form, one_of, or_empty
from agent.base.flags import InvalidSetting, flag, tuned
from agent.model import hostport
from agent.model.duration import written

_LABEL = form(
    "NAME",
    labels.is_value,
    "cannot be written as a label value: at most 63 letters, digits, dashes, dots and underscores, the first and the"
    " last a letter or a digit",
)


@dataclass(frozen=True, kw_only=True)
class Process:
    """This cluster and this process."""

    kubeconfig: str = flag(
        or_empty(FILE), "", "kubeconfig of this cluster; empty: the pod's service account, then $KUBECONFIG"
    )
    context: str = flag(TEXT, "", "context of the kubeconfig; empty: its current one")
    cluster_name: str = flag(
        _LABEL,
        "",
        "name of this cluster, at most 63 characters; it is written on objects that this cluster creates in"
        " other clusters",
    )
    health_address: str = flag(ADDRESS, ":8080", "HOST:PORT of /healthz, /readyz, /cluster and /metrics")
    metrics_address: str = flag(
        or_empty(ADDRESS),
        "",
        "HOST:PORT of /metrics over HTTPS, for clients with a token that may get that path; empty: /metrics"
        " is served next to /healthz, to all clients",
    )
    log_level: str = flag(LOG_LEVEL, "INFO", "DEBUG, INFO, WARNING or ERROR")
    log_json: bool = flag(SWITCH, "false", "write logs as JSON lines")
    request_timeout: float = tuned(
        DURATION,
        "10s",
        "timeout of a request to an API server; for a list, the longest pause between two parts of the answer",
    )
    event_loop: EventLoop = tuned(
        one_of(*EVENT_LOOPS),
        "asyncio",
        "asyncio: Python's own event loop; uvloop: that of the package uvloop, which may need less CPU",
    )
    unwell_after: float = tuned(
        DURATION,
        "60s",
        "how long a watch may fail, or a task may be restarted repeatedly. After that the target is not"
        " ready, or, in this cluster, the agent releases its lease to another replica",
    )

    @property
    def told_address(self) -> tuple[str, int]:
        """IP address and port at which other clusters can identify this agent's pod; ("", 0) if it serves none."""
        host, port = hostport.split(self.health_address)
        address = os.environ.get("VKUBELET_POD_IP", "")
        return (address, port) if port and host in ("", "0.0.0.0", "::", address) else ("", 0)


@dataclass(frozen=True, kw_only=True)
class Leadership:
    """Leader election."""

    namespace: str = flag(TEXT, "", "namespace of the leader lease; empty: the pod's own, else kube-system")
    identity: str = tuned(TEXT, "", "name of this replica in leader election; empty: host name and a random part")
    lease_duration: float = tuned(
        DURATION, "12s", "how long other replicas wait for a leader that does not renew its lease"
    )
    lease_renew: float = tuned(DURATION, "11s", "how long the leader tries to renew its lease before it stops leading")
    lease_retry: float = tuned(
        DURATION,
        "1.4s",
        "pause between renewals of the lease, whether the earlier ones are answered or not; a waiting replica"
        " checks twice as often",
    )

    @property
    def replica(self) -> str:
        """Name of this replica in leader election."""
        return self.identity or os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"

    def check(self) -> None:
        """Raise InvalidSetting if the times of leader election contradict each other."""
        if not self.lease_retry < self.lease_renew < self.lease_duration:
            raise InvalidSetting(
                "--tuning: lease-retry must be shorter than lease-renew, and that shorter than lease-duration; they are"
                f" {written(self.lease_retry)}, {written(self.lease_renew)} and {written(self.lease_duration)}"
            )
