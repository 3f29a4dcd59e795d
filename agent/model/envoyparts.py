"""Parts of Envoy's configuration for TCP and UDP: addresses, clusters, listeners, TLS with a peer. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.model import hostport
from agent.model.gatewaypeer import Peer, identity, is_ip

Raw = dict[str, Any]

CERTIFICATE = "certificate.json"
OWN = "own"
EXTENSIONS = "type.googleapis.com/envoy.extensions."
KEEPALIVE_SECONDS = 60
MANY = 1_000_000
"""Practically no limit for connections and streams of one cluster; Envoy's default is 1,024."""
CONNECT_ATTEMPTS = 4
"""Attempts to connect to a peer. Two failures eject an address, but the third attempt may begin before that counts."""
CONNECTIONS = 8192
"""Default of the maximum number of connections of a gateway."""
NOTICED_SECONDS = 7
"""Seconds after which Envoy has certainly detected a silent peer; the intervals and timeouts below: 2 + 2 + 1 + 2."""
CHECKS: Raw = {
    "unhealthy_threshold": 2,
    "healthy_threshold": 1,
    # A peer that twice, one second apart, takes longer than this to answer counts as failed.
    "timeout": "2s",
    "interval": "2s",
    "unhealthy_edge_interval": "1s",
    "unhealthy_interval": "2s",
    # Intervals until the first connection to the peer: while it answers, and after it has not.
    "no_traffic_healthy_interval": "2s",
    "no_traffic_interval": "1s",
}


class Place(msgspec.Struct, frozen=True):
    """Directory of a gateway's files, and its listening addresses."""

    directory: str
    port: int
    host: str = "0.0.0.0"
    """`::` for all addresses of both IP families."""
    health: str = "127.0.0.1:19903"
    """HOST:PORT on loopback that answers the health checks of admitted peers."""
    live: str = "0.0.0.0:8081"
    """HOST:PORT of the liveness endpoint."""
    connections: int = CONNECTIONS
    """Maximum number of connections in total."""


Encoded = Mapping[str, bytes]
"""Resources of one kind as JSON, by name. Equal ones are usually the same bytes object, which compares quickly."""


@dataclass(frozen=True)
class Resources:
    """Clusters and listeners by name."""

    clusters: Encoded = field(default_factory=dict)
    listeners: Encoded = field(default_factory=dict)


def encoded(resources: Iterable[Raw]) -> dict[str, bytes]:
    """Encode resources as JSON, by their names."""
    return {each["name"]: msgspec.json.encode(each) for each in resources}


def from_file(path: str) -> Raw:
    """Return the config source of a kind of resources that Envoy reads from a file."""
    return {"path_config_source": {"path": path}, "resource_api_version": "V3"}


def socket_address(text: str) -> Raw:
    """Convert HOST:PORT to Envoy's address."""
    host, port = hostport.split(text)
    return {"socket_address": {"address": host, "port_value": port}}


def bound_to(host: str, port: int, **more: str) -> Raw:
    """Return the address of a listener. The host `::` means all addresses of both IP families.

    :param more: other fields, such as `protocol`
    """
    address = {**more, "address": host, "port_value": port}
    return {"socket_address": address | ({"ipv4_compat": True} if host == "::" else {})}


def make_cluster(name: str, kind: str, addresses: Iterable[str]) -> Raw:
    """Return a cluster with its endpoints.

    :param kind: Envoy's discovery type, such as STATIC
    :param addresses: HOST:PORT of the endpoints
    """
    found = [{"endpoint": {"address": socket_address(each)}} for each in addresses]
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": kind,
        "connect_timeout": "2s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": found}] if found else []},
        "circuit_breakers": {"thresholds": [{"max_connections": MANY, "max_pending_requests": MANY}]},
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": KEEPALIVE_SECONDS}},
    }


def static_cluster(name: str, addresses: Iterable[str]) -> Raw:
    """Return a cluster whose endpoints have IP addresses."""
    return make_cluster(name, "STATIC", addresses)


def peer_cluster(name: str, peer: Peer, place: Place, sni: str, check: Raw, alpn: Iterable[str] = ()) -> Raw:
    """Return the cluster of a peer's gateways, called by TLS, with health checks.

    :param sni: server name of the TLS connections
    :param check: Envoy's settings of the health check, such as `CHECKS` with what is to be answered
    :param alpn: application protocols to offer
    """
    hosts = (hostport.split(each)[0] for each in peer.addresses)
    made = make_cluster(name, "STATIC" if all(map(is_ip, hosts)) else "STRICT_DNS", peer.addresses)
    tls = {
        "@type": EXTENSIONS + "transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": sni,
        "common_tls_context": tls_with(peer, place, alpn),
        "max_session_keys": 16,
    }
    return made | {
        "transport_socket": {"name": "tls", "typed_config": tls},
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [check],
    }


def tls_with(peer: Peer, place: Place, alpn: Iterable[str] = ()) -> Raw:
    """Return the TLS 1.3 settings for a peer: this gateway's certificate, and the peer's CA and identity."""
    found: Raw = {
        **own_tls(place),
        "validation_context": {
            "trusted_ca": {"inline_string": peer.ca},
            "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": {"exact": identity(peer.uid)}}],
        },
    }
    return found | ({"alpn_protocols": list(alpn)} if alpn else {})


def own_tls(place: Place) -> Raw:
    """Return the TLS 1.3 settings for this gateway's certificate."""
    config = {"name": OWN, "sds_config": from_file(f"{place.directory}/{CERTIFICATE}")}
    return {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificate_sds_secret_configs": [config],
    }


def certificate_cluster(place: Place) -> Raw:
    """Return a cluster without endpoints, with which Envoy loads the gateway's certificate before the first peer.

    Without the certificate Envoy accepts clusters with invalid CAs. One invalid CA would then prevent it from using the
    certificate later.
    """
    tls = {
        "@type": EXTENSIONS + "transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": own_tls(place),
    }
    return static_cluster(OWN, []) | {"transport_socket": {"name": "tls", "typed_config": tls}}


def peer_chain(
    name: str, peer: Peer, place: Place, server_name: str, filters: list[Raw], alpn: Iterable[str] = ()
) -> Raw:
    """Return a filter chain for a peer's connections with a server name; requires the peer's certificate."""
    tls = {"require_client_certificate": True, "common_tls_context": tls_with(peer, place, alpn)}
    return tls_chain(name, server_name, tls, filters)


def tls_chain(name: str, server_name: str, tls: Raw, filters: list[Raw]) -> Raw:
    """Return a filter chain for TLS connections with a server name."""
    kind = {"@type": EXTENSIONS + "transport_sockets.tls.v3.DownstreamTlsContext"}
    return {
        "name": name,
        "filter_chain_match": {"server_names": [server_name]},
        "transport_socket": {"name": "tls", "typed_config": kind | tls},
        "transport_socket_connect_timeout": "10s",
        "filters": filters,
    }


def ca_of(cluster: Mapping[str, Any]) -> str:
    """Return the CA (PEM) that verifies the endpoints of a cluster; empty without TLS validation."""
    tls = cluster.get("transport_socket", {}).get("typed_config", {}).get("common_tls_context", {})
    return str(tls.get("validation_context", {}).get("trusted_ca", {}).get("inline_string", ""))
