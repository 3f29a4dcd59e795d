"""Settings of delegates, of objects that are copied to their targets, and of Services."""

from dataclasses import dataclass
from typing import Literal

from agent.api import labels
from agent.api.names.links import GATEWAY_SERVICE
from agent.base.flag_values import ADDRESS, DURATION, NAME, POSITIVE, SWITCH, duration, form, one_of, or_empty
from agent.base.flags import flag, repeated, tuned
from agent.model import sourceapi

_ANNOTATION = form("KEY", labels.is_key, "must be the key of an annotation, or a domain")
_REACHED = form("HOST:PORT", lambda text: sourceapi.split(text) is not None, "must be HOST:PORT")


@dataclass(frozen=True, kw_only=True)
class Delegates:
    """Delegates."""

    pod_missing: float = tuned(
        DURATION, "60s", "how long a delegate may be missing before its chaperon creates it again"
    )
    home_annotation: tuple[str, ...] = repeated(
        _ANNOTATION,
        "annotation of delegates, or domain of its key, that comes home, and no other; none: all but those that others"
        " act upon; of a Target with spec.podCIDRs none that holds addresses of pods",
        expert=True,
    )
    event_rate: float = tuned(
        POSITIVE,
        "10",
        "warnings about delegates that are copied from a target per second; bursts may have ten times as many",
    )


@dataclass(frozen=True, kw_only=True)
class Followers:
    """Objects that follow pods."""

    follow_wait: float = tuned(
        DURATION, "5s", "longest time that a pod waits until the objects that it needs have been copied to its target"
    )
    follow_linger: float = tuned(DURATION, "10s", "how long a copy stays in a target after the last pod that needs it")
    orphaned_claim_delay: float = tuned(
        DURATION,
        "24h",
        "how long a volume claim stays in a target if its original no longer exists and the agent did not"
        " observe the deletion",
    )
    stand_in_volumes: bool = tuned(
        SWITCH,
        "true",
        "bind a claim whose volume is in a target to a volume in this cluster that represents it and that no"
        " pod can mount; off: such claims stay Pending",
    )
    source_api: str = flag(
        or_empty(_REACHED),
        "",
        "HOST:PORT at which pods in targets reach this cluster's API server; empty: the annotation"
        " multicluster/source-api has no effect",
    )
    source_api_any_account: bool = flag(
        SWITCH,
        "true",
        "give pods tokens of any service account of their namespace; off: only of accounts that the"
        " namespace's annotation names",
    )
    source_api_token: float = tuned(
        duration(least="10m", why="API servers give no token for less"),
        "1h",
        "validity of these tokens, which are renewed in time; at least 10m",
    )
    share_linger: float = tuned(
        DURATION, "10s", "how long a Service stays shared after its last proxy pod has been deleted"
    )
    service_reroute: Literal["auto", "always", "never"] = flag(
        one_of("auto", "always", "never"),
        "auto",
        "when the agent rewrites the selector of a Service that selects proxy pods. auto: only if its"
        " endpoints would be wrong otherwise, as with the network drivers cilium and mcs",
    )
    endpoints_grace: float = tuned(
        DURATION,
        "40s",
        "how long endpoints in a target that does not answer stay ready, as on a silent node",
    )
    service_links: bool = flag(
        SWITCH,
        "true",
        "create a ServiceLink for every shared Service, which reports for each pair of clusters whether endpoints are"
        " reached, and in which users restrict that",
    )
    skupper: bool = flag(
        SWITCH, "false", "allow the network driver skupper: Services reach other clusters through Skupper v2"
    )
    linkerd: bool = flag(
        SWITCH,
        "false",
        "allow the network driver linkerd: Services become members of Linkerd's federated Services. It is"
        " chosen if this cluster and a target have Links to each other",
    )
    istio_namespace: str = flag(
        or_empty(NAME),
        "",
        "namespace of istiod. The network driver istio is chosen for targets for which that namespace has a"
        " remote Secret; empty: only if an annotation names the driver",
    )
    link_namespaces: bool = flag(
        SWITCH,
        "false",
        "let ServiceLinks name callers in other namespaces. The agent creates Services there, so a user who"
        " may write ServiceLinks in one namespace can create Services in others",
    )
    mcs: bool = flag(
        SWITCH,
        "false",
        "implement the Multi-Cluster Services API: a ServiceExport in this cluster or a target becomes a"
        " ServiceImport in all of them. Not for clusters with another implementation",
    )
    gateway: bool = flag(
        SWITCH,
        "false",
        "use the gateways of this cluster: Services reach other clusters with gateways through them if pods"
        " do not reach each other at their addresses",
    )
    gateway_service: str = tuned(
        NAME, GATEWAY_SERVICE, "Service of the gateways, in the agent's namespace, with a port named gateway"
    )
    gateway_headless: bool = flag(
        SWITCH,
        "false",
        "let headless Services reach other clusters through gateways, too. The agent creates a Service with"
        " an address for each of their hosts in other clusters",
    )
    gateway_address: tuple[str, ...] = repeated(
        ADDRESS,
        "HOST:PORT at which gateways of other clusters reach those of this cluster; not given: the addresses"
        " of the gateways' Service",
    )
    gateway_udp: bool = flag(
        SWITCH,
        "false",
        "let UDP ports of Services reach other clusters through gateways, in all clusters of this source",
    )
