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

    pod_missing: float = tuned(DURATION, "60s", "how long a delegate is missing before its chaperon makes it again")
    home_annotation: tuple[str, ...] = repeated(
        _ANNOTATION,
        "annotation of delegates, or domain of its key, that comes home, and no other; none: all but those that others"
        " act upon; of a Target with spec.podCIDRs none that holds addresses of pods",
        expert=True,
    )
    event_rate: float = tuned(
        POSITIVE, "10", "warnings about its delegates that a target may have told per second; ten times as many at once"
    )


@dataclass(frozen=True, kw_only=True)
class Followers:
    """Objects that follow pods."""

    follow_wait: float = tuned(
        DURATION, "5s", "how long a pod waits at most for what it needs to be copied to its target"
    )
    follow_linger: float = tuned(DURATION, "10s", "how long a copy stays in a target after the last pod that needs it")
    orphaned_claim_delay: float = tuned(
        DURATION,
        "24h",
        "how long a volume claim stays in a target that this cluster no longer has and the agent has not seen going",
    )
    stand_in_volumes: bool = tuned(
        SWITCH,
        "true",
        "claims whose volume is in a target are Bound here, too, by a volume that stands for it and that nothing can"
        " mount; off: they stay Pending",
    )
    source_api: str = flag(
        or_empty(_REACHED),
        "",
        "HOST:PORT at which pods in targets reach this cluster's API server; empty: their annotation has no effect",
    )
    source_api_any_account: bool = flag(
        SWITCH,
        "true",
        "tokens of all service accounts may go there; off: those that annotations of their namespaces name",
    )
    source_api_token: float = tuned(
        duration(least="10m", why="API servers give no token for less"),
        "1h",
        "validity of the tokens that they get, renewed in time; 10 minutes or more",
    )
    share_linger: float = tuned(
        DURATION, "10s", "how long a Service stays shared after the last proxy pod that it selects is gone"
    )
    service_reroute: Literal["auto", "always", "never"] = flag(
        one_of("auto", "always", "never"),
        "auto",
        "when selectors of Services that select proxy pods are rewritten in this cluster; auto: only where endpoints"
        " would be wrong otherwise, as with the network drivers cilium and mcs",
    )
    endpoints_grace: float = tuned(
        DURATION,
        "40s",
        "how long endpoints in a target that does not answer count as ready, as those of a silent node do",
    )
    service_links: bool = flag(
        SWITCH,
        "true",
        "create a ServiceLink for every shared Service, which reports for each pair of clusters whether endpoints are"
        " reached, and in which users restrict that",
    )
    skupper: bool = flag(
        SWITCH, "false", "the network driver skupper can be chosen: Services reach other clusters by Skupper v2"
    )
    linkerd: bool = flag(
        SWITCH,
        "false",
        "the network driver linkerd can be chosen: Services are members of Linkerd's federated Services; it is chosen"
        " where this cluster and a target have Links to each other",
    )
    istio_namespace: str = flag(
        or_empty(NAME),
        "",
        "namespace of istiod: the network driver istio is chosen for targets that it has a remote Secret for there;"
        " empty: only where somebody names it",
    )
    link_namespaces: bool = flag(
        SWITCH,
        "false",
        "ServiceLinks may name callers in other namespaces: Services are made there, so whoever may write the ones"
        " may have the others",
    )
    mcs: bool = flag(
        SWITCH,
        "false",
        "implement the Multi-Cluster Services API: ServiceExports in this cluster and its targets become ServiceImports"
        " in all of them; only where no other implementation does",
    )
    gateway: bool = flag(
        SWITCH,
        "false",
        "this cluster has gateways: Services reach other clusters that have some through these, where pods do not reach"
        " each other at their addresses",
    )
    gateway_service: str = tuned(
        NAME, GATEWAY_SERVICE, "Service of the gateways, in the agent's namespace, with a port named gateway"
    )
    gateway_headless: bool = flag(
        SWITCH,
        "false",
        "headless Services reach other clusters through gateways, too: for each host of theirs elsewhere a Service with"
        " an address is made here",
    )
    gateway_address: tuple[str, ...] = repeated(
        ADDRESS, "HOST:PORT where gateways of other clusters call those here; not set: what the Service tells"
    )
    gateway_udp: bool = flag(
        SWITCH,
        "false",
        "UDP ports of Services reach other clusters through gateways as TCP ports do, in all clusters of this source",
    )
