"""Envoy's files for UDP: datagrams of a caller's address and port are a session, and travel as CONNECT-UDP (RFC 9298).

A port of a Service has a server name of its own, and where it is offered a filter chain of its own, that leads to its
endpoints and nowhere else. So what is not linked ends where other connections for what is not linked do, and what is
taken away or loses an endpoint ends its own sessions alone. Pure.
"""

from collections.abc import Mapping
from typing import Any

from agent.model.envoycounters import INGRESS, UDP_PEER
from agent.model.envoyparts import (
    EXTENSIONS,
    MANY,
    Place,
    Raw,
    Resources,
    bound_to,
    peer_chain,
    peer_cluster,
    static_cluster,
)
from agent.model.gatewaypeer import UDP, Called, Offered, Peer, server_name

IDLE_SECONDS = 60
"""A session in which nothing is said for so long ends."""
SESSIONS = 16384
"""With a port of a Service at most, in one gateway pod: each takes 20 KiB, and a client has as many as it has ports."""
_DATAGRAM_BYTES = 65535
_EARLY_BYTES = 2 * _DATAGRAM_BYTES
"""Kept for a session until the peer has taken it; what is more is lost."""
_CLIENT = "flotilla-client"
"""Header that says whose session it is: one that begins anew is led to the same endpoint."""
_HEALTH_PATH = "/health"
_UPGRADE = "CONNECT-UDP"
_SLOTS = 1021
"""Of the table by which sessions are led to endpoints; a prime number. Envoy's own takes half a MiB for each."""
_PING_SECONDS = 10
_MARK = "flotilla"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def service_cluster(name: str, endpoints: tuple[str, ...]) -> Raw:
    """Endpoints of an own Service.

    :param name: the server name. The cluster has another one: by this, a peer would reach the same ports by TCP
    """
    made = static_cluster(_cluster_of(name), endpoints)
    made["circuit_breakers"]["thresholds"][0]["max_requests"] = MANY
    return made | {"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": _SLOTS}}


def _cluster_of(name: str) -> str:
    # No server name that a peer's chain takes ends like this.
    return f"{name}/udp"


def chain(peer: Peer, offered: Offered, name: str, place: Place) -> Raw:
    """What takes a peer's sessions with a port of an own Service."""
    cluster = _cluster_of(name)
    upgrade = {"upgrade_type": _UPGRADE}
    to_endpoints = {
        "match": {"connect_matcher": {}},
        "route": {
            "cluster": cluster,
            "timeout": "0s",
            "hash_policy": [{"header": {"header_name": _CLIENT}}],
            "upgrade_configs": [{**upgrade, "connect_config": {}}],
        },
    }
    well = {"match": {"path": _HEALTH_PATH}, "direct_response": {"status": 200}}
    config = {
        "@type": EXTENSIONS + "filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": f"in/{peer.key}",
        "codec_type": "HTTP2",
        "http2_protocol_options": {"allow_connect": True},
        "upgrade_configs": [upgrade],
        "generate_request_id": False,
        "route_config": {
            "validate_clusters": False,
            "virtual_hosts": [{"name": cluster, "domains": ["*"], "routes": [to_endpoints, well]}],
        },
        "http_filters": [{"name": "router", "typed_config": {"@type": EXTENSIONS + "filters.http.router.v3.Router"}}],
    }
    made = peer_chain(
        f"{peer.key}/{offered.name}/{offered.port}/udp",
        peer,
        place,
        name,
        [{"name": "http", "typed_config": config}],
        ["h2"],
    )
    return made | {"metadata": {"filter_metadata": {_MARK: {"cluster": cluster, "lost": 0}}}}


def renewed(old: Resources, new: Resources) -> Resources:
    """With another chain where an endpoint has gone that sessions may be with: of that, Envoy itself takes no notice.

    What changes in a chain ends its sessions, and with the next datagram others begin.
    """
    had = {each["name"]: each for each in _chains(old)}
    chains = [_renewed(each, had.get(each["name"]), old, new) for each in _chains(new)]
    if chains == _chains(new):
        return new
    ingress = {**new.listeners[INGRESS], "filter_chains": chains}
    return Resources(new.clusters, {**new.listeners, INGRESS: ingress})


def _renewed(chain: Raw, had: Raw | None, old: Resources, new: Resources) -> Raw:
    mark, before = _mark(chain), _mark(had or {})
    if not mark or not before:
        return chain
    gone = _endpoints(old, before["cluster"]) - _endpoints(new, mark["cluster"])
    lost = int(before["lost"]) + bool(gone)
    return chain | {"metadata": {"filter_metadata": {_MARK: {**mark, "lost": lost}}}}


def _chains(resources: Resources) -> list[Raw]:
    return list(resources.listeners.get(INGRESS, {}).get("filter_chains", ()))


def _mark(chain: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = chain.get("metadata", {}).get("filter_metadata", {}).get(_MARK, {})
    return found


def _endpoints(resources: Resources, cluster: str) -> set[str]:
    localities = resources.clusters.get(cluster, {}).get("load_assignment", {}).get("endpoints", ())
    return {str(each["endpoint"]["address"]) for locality in localities for each in locality["lb_endpoints"]}


def peers_cluster(peer: Peer, called: Called, own: str, place: Place) -> Raw:
    """A peer's gateways, called for a port of a Service: a server name belongs to a cluster, and not to a session."""
    name = server_name(peer.namespace, called.name, called.port, own, peer.uid, protocol=UDP)
    check = {"http_health_check": {"path": _HEALTH_PATH, "host": name, "codec_client_type": "HTTP2"}}
    made = peer_cluster(name_of(peer, called), peer, place, name, check, ["h2"])
    made["circuit_breakers"]["thresholds"][0] |= {"max_connections": SESSIONS, "max_requests": SESSIONS}
    # A connection on which nobody answers any more ends with its sessions, and others begin.
    pings = {"connection_keepalive": {"interval": f"{_PING_SECONDS}s", "timeout": "5s"}}
    options = {
        "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
        "explicit_http_config": {"http2_protocol_options": pings},
    }
    return made | {"typed_extension_protocol_options": {_HTTP_OPTIONS: options}}


def name_of(peer: Peer, called: Called) -> str:
    """The cluster by which a peer is called for a port of a Service."""
    return f"{UDP_PEER}{peer.key}/{called.name}/{called.port}"


def egress_name(peer: Peer, called: Called, port: int) -> str:
    """The listener at a local port."""
    return f"{name_of(peer, called)}/{port}"


def egress(peer: Peer, called: Called, port: int, place: Place) -> Raw:
    """A local port that stands for a port of a peer's Service."""
    cluster = name_of(peer, called)
    proxy = EXTENSIONS + "filters.udp.udp_proxy."
    route = {"@type": proxy + "v3.Route", "cluster": cluster}
    client = {"header": {"key": _CLIENT, "value": "%DOWNSTREAM_REMOTE_ADDRESS%"}}
    config = {
        "@type": proxy + "v3.UdpProxyConfig",
        "stat_prefix": f"out/{peer.key}",
        "matcher": {"on_no_match": {"action": {"name": "route", "typed_config": route}}},
        "idle_timeout": f"{IDLE_SECONDS}s",
        "session_filters": [
            {"name": "capsules", "typed_config": {"@type": proxy + "session.http_capsule.v3.FilterConfig"}}
        ],
        "tunneling_config": {
            # Who is called is said by TLS; these have to be there.
            "proxy_host": "gateway",
            "target_host": called.name,
            "default_target_port": called.port,
            "retry_options": {"max_connect_attempts": 3},
            "buffer_options": {"max_buffered_bytes": _EARLY_BYTES},
            "headers_to_add": [client],
        },
    }
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": egress_name(peer, called, port),
        "address": bound_to(place.host, port, protocol="UDP"),
        "udp_listener_config": {"downstream_socket_config": {"max_rx_datagram_size": _DATAGRAM_BYTES}},
        "listener_filters": [{"name": "udp_proxy", "typed_config": config}],
    }
