"""Envoy's files for a gateway: what it starts with, its clusters, its listeners, and the order in which they change.

Listeners name clusters, so what is new comes into the clusters first, and what is gone leaves them last. Endpoints are
in the clusters: a file of their own would cost an inotify instance each. Pure.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.model import hostport
from agent.model.envoycounters import COUNTERS, INGRESS, PEER
from agent.model.gatewaypeer import (
    Called,
    Gateway,
    Peer,
    callers_suffix,
    health_name,
    identity,
    is_ip,
    server_name,
)

Raw = dict[str, Any]

ADMIN = "admin.sock"
BOOTSTRAP, CLUSTERS, LISTENERS, CERTIFICATE = "bootstrap.json", "clusters.json", "listeners.json", "certificate.json"
DRAIN_SECONDS = 8
"""How long connections of what is gone go on: with the time that files take, they have ended after 10 s."""
HEALTH = "health"
_OWN = "own"
_NOTHING = "refused"
_KEEPALIVE_SECONDS = 60
_EXTENSIONS = "type.googleapis.com/envoy.extensions."
_SOL_SOCKET, _SO_KEEPALIVE, _IPPROTO_TCP, _TCP_KEEPIDLE = 1, 9, 6, 4
_MANY, _EARLY_BYTES = 1_000_000, 65536
_NO_PORT = 1


class Place(msgspec.Struct, frozen=True):
    """Where a gateway listens, and where its files are."""

    directory: str
    port: int
    host: str = "0.0.0.0"
    health: str = "127.0.0.1:19903"
    """On loopback: answers peers that ask whether they are admitted."""


@dataclass(frozen=True)
class Resources:
    """Clusters and listeners by name."""

    clusters: Mapping[str, Raw] = field(default_factory=dict)
    listeners: Mapping[str, Raw] = field(default_factory=dict)


def resources(gateway: Gateway, place: Place) -> Resources:
    """All of a gateway."""
    endpoints = {(each.namespace, each.name, each.port, each.host): each.endpoints for each in gateway.services}
    clusters = list[Raw]()
    listeners = [_health_listener(place), _ingress(gateway, place)]
    for peer in gateway.peers:
        clusters.append(_static(health_name(peer.namespace, peer.uid, gateway.cluster), [place.health]))
        for each in peer.offered:
            found = endpoints.get((peer.namespace, each.name, each.port, each.host))
            if found is not None:
                name = server_name(peer.namespace, each.name, each.port, peer.uid, gateway.cluster, host=each.host)
                clusters.append(_static(name, found))
        if peer.addresses:
            clusters.append(_peer_cluster(peer, gateway.cluster, place))
            listeners += [
                _egress(peer, called, port, gateway.cluster, place)
                for called in peer.services
                for port in called.locals
            ]
    return Resources({each["name"]: each for each in clusters}, {each["name"]: each for each in listeners})


def steps(old: Resources, new: Resources) -> list[tuple[str, Mapping[str, Raw]]]:
    """Which files to write, in this order, with what is in them."""
    found: list[tuple[str, Mapping[str, Raw]]] = []
    both = {**old.clusters, **new.clusters}
    if new.listeners == old.listeners:
        return [(CLUSTERS, new.clusters)] if new.clusters != old.clusters else []
    if both != old.clusters:
        found.append((CLUSTERS, both))
    found.append((LISTENERS, new.listeners))
    if both != new.clusters:
        found.append((CLUSTERS, new.clusters))
    return found


def file(content: Mapping[str, Raw]) -> tuple[str, bytes]:
    """A file's version and its bytes; the same for the same content."""
    listed = msgspec.json.encode(list(content.values()))
    version = hashlib.sha256(listed).hexdigest()[:16]
    return version, b'{"version_info":"' + version.encode() + b'","resources":' + listed + b"}"


def certificate(chain: bytes, key: bytes) -> Mapping[str, Raw]:
    """The file of the gateway's own certificate."""
    found = {"certificate_chain": {"inline_string": chain.decode()}, "private_key": {"inline_string": key.decode()}}
    return {_OWN: {"@type": _EXTENSIONS + "transport_sockets.tls.v3.Secret", "name": _OWN, "tls_certificate": found}}


def bootstrap(place: Place, node: str) -> Raw:
    """What Envoy starts with; it never changes."""
    directory = place.directory
    return {
        "node": {"id": node, "cluster": "flotilla-gateway"},
        "admin": {"address": {"pipe": {"path": f"{directory}/{ADMIN}", "mode": 0o600}}},
        "dynamic_resources": {
            "cds_config": _from_file(f"{directory}/{CLUSTERS}"),
            "lds_config": _from_file(f"{directory}/{LISTENERS}"),
        },
        # Two thousand Services have a hundred counters each, of which nobody asks for more than these.
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [{"safe_regex": {"regex": COUNTERS}}]}}},
    }


def arguments(directory: str, concurrency: int = 2, drain_seconds: int = DRAIN_SECONDS) -> list[str]:
    """What Envoy is started with."""
    given = {"config-path": f"{directory}/{BOOTSTRAP}", "concurrency": concurrency, "drain-time-s": drain_seconds}
    more = {"drain-strategy": "immediate", "log-level": "warning"}
    # Envoy takes no `--name=value`.
    return [text for name, value in (given | more).items() for text in (f"--{name}", str(value))] + [
        "--disable-hot-restart"
    ]


def _from_file(path: str) -> Raw:
    return {"path_config_source": {"path": path}, "resource_api_version": "V3"}


def _address(text: str) -> Raw:
    host, port = hostport.split(text)
    return {"socket_address": {"address": host, "port_value": port}}


def _endpoints(name: str, addresses: Iterable[str]) -> Raw:
    found = [{"endpoint": {"address": _address(each)}} for each in addresses]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": found}] if found else []}


def _cluster(name: str, kind: str, addresses: Iterable[str]) -> Raw:
    return {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": kind,
        "connect_timeout": "2s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": _endpoints(name, addresses),
        # Envoy's own limit is 1,024 connections.
        "circuit_breakers": {"thresholds": [{"max_connections": _MANY, "max_pending_requests": _MANY}]},
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": _KEEPALIVE_SECONDS}},
    }


def _static(name: str, addresses: Iterable[str]) -> Raw:
    return _cluster(name, "STATIC", addresses)


def _peer_cluster(peer: Peer, own: str, place: Place) -> Raw:
    name = PEER + peer.key
    hosts = (hostport.split(each)[0] for each in peer.addresses)
    made = _cluster(name, "STATIC" if all(map(is_ip, hosts)) else "STRICT_DNS", peer.addresses)
    tls = {
        "@type": _EXTENSIONS + "transport_sockets.tls.v3.UpstreamTlsContext",
        # Of checks of health; connections of clients bring names of their own.
        "sni": health_name(peer.namespace, own, peer.uid),
        "common_tls_context": _tls(peer, place),
        "max_session_keys": 16,
    }
    return made | {
        "transport_socket": {"name": "tls", "typed_config": tls},
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [
            {
                "timeout": "2s",
                "interval": "5s",
                "unhealthy_interval": "2s",
                "no_traffic_interval": "5s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "reuse_connection": False,
                # With TLS 1.3 a client's handshake is over before its certificate is looked at: only an answer tells.
                "tcp_health_check": {"receive": [{"text": HEALTH.encode().hex()}]},
            }
        ],
    }


def _tls(peer: Peer, place: Place) -> Raw:
    """TLS 1.3 with a peer: this gateway's certificate, and only that peer's CA and name."""
    return {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "tls_certificate_sds_secret_configs": [
            {"name": _OWN, "sds_config": _from_file(f"{place.directory}/{CERTIFICATE}")}
        ],
        "validation_context": {
            "trusted_ca": {"inline_string": peer.ca},
            "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": {"exact": identity(peer.uid)}}],
        },
    }


def _listener(name: str, host: str, port: int, chains: list[Raw]) -> Raw:
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": name,
        "address": {"socket_address": {"address": host, "port_value": port}},
        "filter_chains": chains,
        "socket_options": [
            {"level": _SOL_SOCKET, "name": _SO_KEEPALIVE, "int_value": 1, "state": "STATE_LISTENING"},
            {"level": _IPPROTO_TCP, "name": _TCP_KEEPIDLE, "int_value": _KEEPALIVE_SECONDS, "state": "STATE_LISTENING"},
        ],
    }


def _ingress(gateway: Gateway, place: Place) -> Raw:
    """What peers call. A chain stays as it is when links come and go: what changes in it ends its connections."""
    chains = [_chain(peer, gateway.cluster, place) for peer in gateway.peers] or [_nobody()]
    made = _listener(INGRESS, place.host, place.port, chains)
    inspector = {"@type": _EXTENSIONS + "filters.listener.tls_inspector.v3.TlsInspector"}
    return made | {
        "stat_prefix": INGRESS,
        "listener_filters": [{"name": "tls_inspector", "typed_config": inspector}],
        "listener_filters_timeout": "5s",
    }


def _nobody() -> Raw:
    """What no connection matches, for Envoy takes no listener without a chain: without peers all are counted, too."""
    filters = [_proxy("nobody", _NOTHING)]
    return {"name": "nobody", "filter_chain_match": {"destination_port": _NO_PORT}, "filters": filters}


def _chain(peer: Peer, own: str, place: Place) -> Raw:
    tls = {
        "@type": _EXTENSIONS + "transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": _tls(peer, place),
    }
    by_server_name = {"@type": _EXTENSIONS + "filters.network.sni_cluster.v3.SniCluster"}
    return {
        "name": peer.key,
        "filter_chain_match": {"server_names": [f"*.{callers_suffix(peer.namespace, peer.uid, own)}"]},
        "transport_socket": {"name": "tls", "typed_config": tls},
        "transport_socket_connect_timeout": "10s",
        "filters": [
            {"name": "sni_cluster", "typed_config": by_server_name},
            _proxy(
                f"in/{peer.key}",
                _NOTHING,
                # Nothing is opened for whoever has not shown a certificate.
                {"upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE", "max_early_data_bytes": _EARLY_BYTES},
            ),
        ],
    }


def _egress(peer: Peer, called: Called, port: int, own: str, place: Place) -> Raw:
    name = server_name(peer.namespace, called.name, called.port, own, peer.uid, host=called.host)
    value = {
        "object_key": "envoy.network.upstream_server_name",
        "format_string": {"text_format_source": {"inline_string": name}},
        "shared_with_upstream": "ONCE",
    }
    naming = {
        "@type": _EXTENSIONS + "filters.network.set_filter_state.v3.Config",
        "on_new_connection": [value],
    }
    filters = [{"name": "server_name", "typed_config": naming}, _proxy(f"out/{peer.key}", PEER + peer.key)]
    return _listener(f"{peer.key}/{called.name}/{called.port}/{port}", place.host, port, [{"filters": filters}])


def _proxy(counters: str, cluster: str, more: Mapping[str, Any] | None = None) -> Raw:
    config = {
        "@type": _EXTENSIONS + "filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": counters,
        "cluster": cluster,
        "idle_timeout": "0s",
        "max_connect_attempts": 3,
        **(more or {}),
    }
    return {"name": "tcp_proxy", "typed_config": config}


def _health_listener(place: Place) -> Raw:
    answer = {
        "@type": _EXTENSIONS + "filters.network.direct_response.v3.Config",
        "response": {"inline_string": HEALTH},
    }
    filters = [{"name": "health", "typed_config": answer}]
    return _listener(HEALTH, *hostport.split(place.health), [{"filters": filters}])
