"""Envoy's clusters, filter chains and listeners for UDP. Pure.

Datagrams from one client address and port form a session, which gateways tunnel as CONNECT-UDP (RFC 9298). Each UDP
port of a Service has its own server name. In the cluster of the Service, it also has its own filter chain, which routes
only to its endpoints. Gateways therefore refuse calls to an unlinked port as they do for TCP. The removal of a port or
endpoint ends only the sessions of that port.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.model.envoycounters import INGRESS, UDP_PEER
from agent.model.envoyparts import (
    CHECKS,
    CONNECT_ATTEMPTS,
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
"""Seconds without a datagram after which a session ends."""
SESSIONS = 16384
"""Maximum number of sessions for a port of a Service in one gateway pod.

Each session takes 20 KiB; a client has one session for each of its source ports.
"""
_DATAGRAM_BYTES = 65535
_EARLY_BYTES = 2 * _DATAGRAM_BYTES
"""Bytes that Envoy buffers for a session until the peer accepts it; further datagrams are dropped."""
_CLIENT = "flotilla-client"
"""Header with the client's address, so that Envoy routes a client's next session to the same endpoint."""
_HEALTH_PATH = "/health"
_UPGRADE = "CONNECT-UDP"
_SLOTS = 1021
"""Size of the Maglev table of a cluster, a prime number. Envoy's default table takes half a MiB per cluster."""
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
    """Return the cluster with the endpoints of a local Service's UDP port.

    :param name: server name. The cluster has a different name; otherwise a peer could reach the endpoints by TCP
    """
    made = static_cluster(_cluster_of(name), endpoints)
    made["circuit_breakers"]["thresholds"][0]["max_requests"] = MANY
    return made | {"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": _SLOTS}}


def _cluster_of(name: str) -> str:
    # The TCP chain of a peer accepts no server name with this suffix.
    return f"{name}/udp"


def chain(peer: Peer, offered: Offered, name: str, place: Place) -> Raw:
    """Return the filter chain that accepts a peer's sessions with a UDP port of a local Service."""
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
    """Return the new resources, with a changed filter chain for each UDP port that has lost an endpoint.

    Envoy does not end sessions with a removed endpoint. It ends all sessions of a changed chain, and the next datagram
    of a client starts a new session.
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
    """Return the cluster of a peer's gateways for a UDP port of a Service; in Envoy a cluster has one server name."""
    name = server_name(peer.namespace, called.name, called.port, own, peer.uid, protocol=UDP)
    check = CHECKS | {"http_health_check": {"path": _HEALTH_PATH, "host": name, "codec_client_type": "HTTP2"}}
    made = peer_cluster(name_of(peer, called), peer, place, name, check, ["h2"])
    made["circuit_breakers"]["thresholds"][0] |= {"max_connections": SESSIONS, "max_requests": SESSIONS}
    # Envoy closes a connection without replies together with its sessions, and clients start new ones.
    pings = {"connection_keepalive": {"interval": f"{_PING_SECONDS}s", "timeout": "5s"}}
    options = {
        "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
        "explicit_http_config": {"http2_protocol_options": pings},
    }
    return made | {"typed_extension_protocol_options": {_HTTP_OPTIONS: options}}


def name_of(peer: Peer, called: Called) -> str:
    """Return the name of the cluster that calls a UDP port of a peer's Service."""
    return f"{UDP_PEER}{peer.key}/{called.name}/{called.port}"


def egress_name(peer: Peer, called: Called, port: int) -> str:
    """Return the name of the listener at a local UDP port."""
    return f"{name_of(peer, called)}/{port}"


def egress(peer: Peer, called: Called, port: int, place: Place) -> Raw:
    """Return the listener at a local UDP port that represents a port of a peer's Service."""
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
            # The TLS server name selects the called Service; Envoy requires these fields all the same.
            "proxy_host": "gateway",
            "target_host": called.name,
            "default_target_port": called.port,
            "retry_options": {"max_connect_attempts": CONNECT_ATTEMPTS},
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
