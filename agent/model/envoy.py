"""Envoy's files for a gateway: arguments, clusters, listeners, and the order of their updates. Pure.

Listeners refer to clusters, so new clusters are written before the listeners, and old ones are removed after them.
Clusters contain their endpoints: a separate file for each would need an inotify instance each.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.model import envoystart, envoyudp, hostport
from agent.model.envoycounters import ALIVE, INGRESS, PEER
from agent.model.envoyparts import (
    CHECKS,
    CONNECT_ATTEMPTS,
    EXTENSIONS,
    KEEPALIVE_SECONDS,
    OWN,
    Encoded,
    Place,
    Raw,
    Resources,
    bound_to,
    encoded,
    own_tls,
    peer_chain,
    peer_cluster,
    static_cluster,
    tls_chain,
)
from agent.model.gatewaypeer import TCP, Called, Peer, alive_name, callers_suffix, health_name, server_name

ADMIN, BOOTSTRAP = envoystart.ADMIN, envoystart.BOOTSTRAP
CLUSTERS, LISTENERS = envoystart.CLUSTERS, envoystart.LISTENERS
DRAIN_SECONDS = 8
"""Seconds for which connections of a removed listener continue; with the time to write files, 10 s at most."""
HEALTH = "health"
_NOTHING = "refused"
_ADMISSION_CHECKS = CHECKS | {
    "interval": "30s",
    "no_traffic_healthy_interval": "30s",
    "no_traffic_interval": "2s",
}
"""Whether a peer admits a namespace changes seldom, and each check is a TLS handshake for each namespace."""
_OUTLIERS = {
    "split_external_local_origin_errors": True,
    "consecutive_local_origin_failure": 2,
    "max_ejection_percent": 50,
}
"""Avoids a failed address for 30 s after two failed connections, unless most or all addresses fail."""
_SOL_SOCKET, _SO_KEEPALIVE, _IPPROTO_TCP, _TCP_KEEPIDLE = 1, 9, 6, 4
_ALIVE = "alive"
_LATER = {"upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE", "max_early_data_bytes": 65536}
"""Connects to the destination only after the TLS handshake, which verifies the client's certificate if required."""


def steps(old: Resources, new: Resources, *, again: bool = False) -> list[tuple[str, Encoded]]:
    """Return the files to write, in this order, with their content.

    :param again: whether to write unchanged files, too
    """
    found: list[tuple[str, Encoded]] = []
    if new.listeners == old.listeners and not again:
        return [(CLUSTERS, new.clusters)] if new.clusters != old.clusters else []
    both = {**old.clusters, **new.clusters}
    if again or both != old.clusters:
        found.append((CLUSTERS, both))
    found.append((LISTENERS, new.listeners))
    if both != new.clusters:
        found.append((CLUSTERS, new.clusters))
    return found


def file(content: Encoded) -> tuple[str, bytes]:
    """Return the version and the bytes of a file; equal content gives equal bytes."""
    listed = b"[" + b",".join(content.values()) + b"]"
    version = hashlib.sha256(listed).hexdigest()[:16]
    return version, b'{"version_info":"' + version.encode() + b'","resources":' + listed + b"}"


def certificate(chain: bytes, key: bytes) -> Encoded:
    """Return the content of the file with the gateway's own certificate."""
    found = {"certificate_chain": {"inline_string": chain.decode()}, "private_key": {"inline_string": key.decode()}}
    secret = {"@type": EXTENSIONS + "transport_sockets.tls.v3.Secret", "name": OWN, "tls_certificate": found}
    return encoded([secret])


def arguments(directory: str, concurrency: int = 2, drain_seconds: int = DRAIN_SECONDS) -> list[str]:
    """Return Envoy's command-line arguments.

    :param concurrency: number of worker threads
    """
    given = {"config-path": f"{directory}/{BOOTSTRAP}", "concurrency": concurrency, "drain-time-s": drain_seconds}
    more = {"drain-strategy": "immediate", "log-level": "warning"}
    # Envoy does not accept `--name=value`.
    return [text for name, value in (given | more).items() for text in (f"--{name}", str(value))] + [
        "--disable-hot-restart"
    ]


def tcp_peer_cluster(peer: Peer, own: str, place: Place) -> Raw:
    """Return the cluster of a peer's gateways, for client connections and checks whether they admit the namespace."""
    # With TLS 1.3 the client's handshake succeeds before the server verifies its certificate: only a reply proves it.
    check = _ADMISSION_CHECKS | _answered()
    # The server name of health checks; client connections set their own.
    made = peer_cluster(PEER + peer.key, peer, place, health_name(peer.namespace, own, peer.uid), check)
    return made | {"outlier_detection": _OUTLIERS}


def alive_cluster(peer: Peer, place: Place) -> Raw:
    """Return the cluster that checks whether a peer's gateways work, for its GatewayPeers in all namespaces."""
    return peer_cluster(ALIVE + peer.gateways, peer, place, alive_name(peer.uid), CHECKS | _answered())


def _answered() -> Raw:
    return {"reuse_connection": False, "tcp_health_check": {"receive": [{"text": HEALTH.encode().hex()}]}}


def _listener(name: str, host: str, port: int, chains: Sequence[Raw | msgspec.Raw]) -> Raw:
    return {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": name,
        "address": bound_to(host, port),
        "filter_chains": chains,
        "socket_options": [
            {"level": _SOL_SOCKET, "name": _SO_KEEPALIVE, "int_value": 1, "state": "STATE_LISTENING"},
            {"level": _IPPROTO_TCP, "name": _TCP_KEEPIDLE, "int_value": KEEPALIVE_SECONDS, "state": "STATE_LISTENING"},
        ],
    }


def ingress(chains: Sequence[Raw | msgspec.Raw], place: Place) -> Raw:
    """Return the listener that peers call.

    New links do not change a peer's TCP chain: Envoy closes the connections of a changed chain.
    """
    made = _listener(INGRESS, place.host, place.port, chains)
    inspector = {"@type": EXTENSIONS + "filters.listener.tls_inspector.v3.TlsInspector"}
    return made | {
        "stat_prefix": INGRESS,
        "listener_filters": [{"name": "tls_inspector", "typed_config": inspector}],
        "listener_filters_timeout": "5s",
    }


def alive_chain(own: str, place: Place) -> Raw:
    """Return the filter chain that answers checks whether this gateway works.

    It requires no certificate, since CAs of peers belong to namespaces. Its only destination is the answer.
    """
    return tls_chain(_ALIVE, alive_name(own), {"common_tls_context": own_tls(place)}, [_proxy(_ALIVE, _ALIVE, _LATER)])


def answering_cluster(place: Place) -> Raw:
    """Return the cluster of the listener that answers checks whether this gateway works."""
    return static_cluster(_ALIVE, [place.health])


def chain(peer: Peer, own: str, place: Place) -> Raw:
    """Return the filter chain that accepts a peer's TCP connections."""
    by_server_name = {"@type": EXTENSIONS + "filters.network.sni_cluster.v3.SniCluster"}
    filters = [
        {"name": "sni_cluster", "typed_config": by_server_name},
        _proxy(f"in/{peer.key}", _NOTHING, _LATER),
    ]
    return peer_chain(peer.key, peer, place, f"*.{callers_suffix(peer.namespace, peer.uid, own)}", filters)


def egress(peer: Peer, called: Called, port: int, own: str, place: Place) -> Raw:
    """Return the listener at a local port that represents a port of a peer's Service."""
    name = server_name(peer.namespace, called.name, called.port, own, peer.uid, host=called.host)
    value = {
        "object_key": "envoy.network.upstream_server_name",
        "format_string": {"text_format_source": {"inline_string": name}},
        "shared_with_upstream": "ONCE",
    }
    naming = {
        "@type": EXTENSIONS + "filters.network.set_filter_state.v3.Config",
        "on_new_connection": [value],
    }
    filters = [{"name": "server_name", "typed_config": naming}, _proxy(f"out/{peer.key}", PEER + peer.key)]
    return _listener(_egress_name(peer, called, port), place.host, port, [{"filters": filters}])


def _egress_name(peer: Peer, called: Called, port: int) -> str:
    return f"{peer.key}/{called.name}/{called.port}/{port}"


def listener_of(peer: Peer, called: Called, port: int) -> str:
    """Return the name of the listener at a local port that represents a port of a peer's Service."""
    return _egress_name(peer, called, port) if called.protocol == TCP else envoyudp.egress_name(peer, called, port)


def _proxy(counters: str, cluster: str, more: Mapping[str, Any] | None = None) -> Raw:
    config = {
        "@type": EXTENSIONS + "filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": counters,
        "cluster": cluster,
        "idle_timeout": "0s",
        "max_connect_attempts": CONNECT_ATTEMPTS,
        **(more or {}),
    }
    return {"name": "tcp_proxy", "typed_config": config}


def health_listener(place: Place) -> Raw:
    """Return the listener that answers health checks by peers."""
    answer = {
        "@type": EXTENSIONS + "filters.network.direct_response.v3.Config",
        "response": {"inline_string": HEALTH},
    }
    filters = [{"name": "health", "typed_config": answer}]
    return _listener(HEALTH, *hostport.split(place.health), [{"filters": filters}])
