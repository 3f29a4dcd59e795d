"""Settings about other clusters: targets, the virtual nodes that represent them, and sources."""

import os
from dataclasses import dataclass

from agent.api import labels, names
from agent.api.accountpolicies import OWN_ACCOUNTS
from agent.base.flag_values import DURATION, NAME, PORT, SWITCH, TEXT, form, number, one_of, whole
from agent.base.flags import flag, repeated, tuned
from agent.model.summary import DETAILS, Detail


@dataclass(frozen=True, kw_only=True)
class Connections:
    """Targets."""

    probe_interval: float = tuned(DURATION, "5s", "pause between probes of a target")
    probe_timeout: float = tuned(DURATION, "3s", "timeout of a probe")
    probe_failures: int = tuned(whole(1), "2", "failed probes in a row that make a ready target unreachable")
    slow_target: float = tuned(
        DURATION,
        "500ms",
        "response time from which a target counts as slow. Until it is fast again, it gets only pods that fit"
        " in no other target",
    )
    agent_interval: float = tuned(DURATION, "15s", "pause between checks of the lease of a target's own agent")
    sign_interval: float = tuned(DURATION, "60s", "pause between heartbeats that this cluster writes in its targets")
    token_renewal: float = tuned(
        number(lambda part: 0 < part < 1, "between 0 and 1"),
        "0.8",
        "fraction of the lifetime of a target's token (0 to 1) after which it is renewed",
    )
    target_plugins: bool = flag(
        SWITCH,
        "false",
        "let kubeconfig Secrets of Targets run credential plugins (exec), with the rights of the agent's process",
    )
    release_after: float = tuned(
        DURATION,
        "10s",
        "how long proxy pods of a deleted Target wait for their delegates if the target cannot be reached",
    )


@dataclass(frozen=True, kw_only=True)
class VirtualNodes:
    """Virtual nodes."""

    node_address: str = flag(TEXT, "", "IP address that virtual nodes announce; empty: $VKUBELET_POD_IP")
    kubelet_port: int = flag(PORT, "10250", "first port of the kubelet API; each virtual node has a separate port")
    kubelet_signer: str = flag(
        TEXT, "", "signer of its serving certificate; empty: $VKUBELET_CSR_SIGNER_NAME, else kubelet's"
    )
    stream_idle: float = tuned(
        DURATION, "4h", "how long logs, exec and port-forward may transfer nothing before the agent closes them"
    )
    node_lease_renew: float = tuned(DURATION, "9s", "pause between renewals of a virtual node's lease")
    node_lease_duration: float = tuned(DURATION, "40s", "validity of a virtual node's lease")
    answer_daemon_sets: bool = tuned(
        SWITCH,
        "true",
        "report pods of DaemonSets on virtual nodes as ready, although no container of them runs, so that"
        " rollouts complete; off: they stay Pending",
    )

    @property
    def announced_address(self) -> str:
        """IP address that virtual nodes announce; empty if unknown."""
        return self.node_address or os.environ.get("VKUBELET_POD_IP", "")

    @property
    def signer(self) -> str:
        """Name of the signer of virtual nodes' serving certificates."""
        return self.kubelet_signer or os.environ.get("VKUBELET_CSR_SIGNER_NAME") or names.KUBELET_SIGNER


def _is_property(text: str) -> bool:
    key, equals, value = text.partition("=")
    return bool(equals) and labels.is_key(key) and labels.is_value(value)


_PROPERTY = form("KEY=VALUE", _is_property, "must be KEY=VALUE with a valid key and value of a label")


@dataclass(frozen=True, kw_only=True)
class Hubs:
    """Hubs of Open Cluster Management that this cluster is a member of."""

    hub_secret: str = flag(
        TEXT,
        "",
        "Secret in the agent's namespace with the kubeconfig of a hub, as hub-kubeconfig-secret: the agent applies the"
        " ManifestWorks of this cluster; empty: this cluster is no member of a hub",
    )
    works_account: str = flag(
        NAME,
        "flotilla-works",
        "service account in the agent's namespace by whose rights ManifestWorks without an executor are applied",
    )


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Sources."""

    source_controller: bool = flag(
        SWITCH, "true", "reconcile Sources and ClusterSources into service accounts and bindings"
    )
    source_role: str = tuned(TEXT, "multicluster-scheduler-source", "ClusterRole that Sources are bound to")
    own_account: tuple[str, ...] = repeated(
        NAME,
        "service account of Flotilla in the agent's namespace; no pod of another cluster runs as this"
        " account. Not given: the accounts of a chart release named flotilla",
        expert=True,
    )
    summary_viewer_role: str = tuned(
        TEXT, "multicluster-scheduler-cluster-summary-viewer", "ClusterRole that lets Sources read the ClusterSummary"
    )
    summary_detail: Detail = flag(
        one_of(*DETAILS),
        "full",
        "details of nodes in the ClusterSummary: full (sums, common labels, node shapes and free capacity),"
        " minimal (as Admiralty: sums, common labels) or sums",
    )
    summary_used: bool = flag(
        SWITCH,
        "false",
        "report the usage of nodes to Sources, if metrics.k8s.io is served; scores of idle capacity need it",
    )
    summary_used_interval: float = tuned(
        DURATION, "30s", "pause between reads of the usage of nodes; reported if it has changed by 2 % of the capacity"
    )
    cluster_property: tuple[str, ...] = repeated(
        _PROPERTY, "KEY=VALUE, a label of the virtual nodes that represent this cluster"
    )
    discovery_interval: float = tuned(
        DURATION, "5m", "pause between checks of state without a watch: served kinds, state of network drivers"
    )

    @property
    def own_accounts(self) -> frozenset[str]:
        """Names of Flotilla's service accounts in the agent's namespace."""
        return frozenset(self.own_account or OWN_ACCOUNTS)
