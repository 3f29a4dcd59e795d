"""Envoy's files for UDP: datagrams of a caller's address and port are a session, and travel as CONNECT-UDP (RFC 9298).

A port of a Service has a server name of its own, and where it is offered a filter chain of its own, that leads to its
endpoints and nowhere else. So what is not linked ends where other connections for what is not linked do, and what is
taken away or loses an endpoint ends its own sessions alone. Pure.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

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
_MARKED = b'"filter_metadata":{"flotilla":'
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class _Ingress(msgspec.Struct):
    filter_chains: list[msgspec.Raw] = []


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_ingress = msgspec.json.Decoder(_Ingress).decode


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
    chains = _chains(new)
    if not any(map(_is_marked, chains)):
        return new
    had = {each["name"]: _mark(each) for each in map(_decode, filter(_is_marked, _chains(old)))}
    made = [_renewed(each, had, old, new) if _is_marked(each) else each for each in chains]
    if made == chains:
        return new
    ingress = _decode_fields(new.listeners[INGRESS])
    ingress["filter_chains"] = msgspec.Raw(b"[" + b",".join(made) + b"]")
    return Resources(new.clusters, {**new.listeners, INGRESS: msgspec.json.encode(ingress)})


def _renewed(chain: bytes, had: Mapping[str, Mapping[str, Any]], old: Resources, new: Resources) -> bytes:
    found = _decode(chain)
    mark, before = _mark(found), had.get(found["name"])
    if not before:
        return chain
    lost = int(before["lost"]) + _has_lost(before["cluster"], mark["cluster"], old, new)
    if lost == mark["lost"]:
        return chain
    return msgspec.json.encode(found | {"metadata": {"filter_metadata": {_MARK: {**mark, "lost": lost}}}})


def _has_lost(before: str, now: str, old: Resources, new: Resources) -> bool:
    """Return True if endpoints of the cluster before are not in the cluster now."""
    had, has = old.clusters.get(before, b"{}"), new.clusters.get(now, b"{}")
    return had is not has and bool(_endpoints(had) - _endpoints(has))


def _chains(resources: Resources) -> list[bytes]:
    listener = resources.listeners.get(INGRESS)
    return [bytes(each) for each in _decode_ingress(listener).filter_chains] if listener is not None else []


def _is_marked(chain: bytes) -> bool:
    return _MARKED in chain


def _mark(chain: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = chain.get("metadata", {}).get("filter_metadata", {}).get(_MARK, {})
    return found


def _endpoints(cluster: bytes) -> set[str]:
    localities = _decode(cluster).get("load_assignment", {}).get("endpoints", ())
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
