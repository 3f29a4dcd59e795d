"""Envoy's files for a gateway: what it starts with, its clusters, its listeners, and the order in which they change.

Listeners name clusters, so what is new comes into the clusters first, and what is gone leaves them last. Endpoints are
in the clusters: a file of their own would cost an inotify instance each. Pure.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from agent.model import envoystart, envoyudp, hostport
from agent.model.envoycounters import INGRESS, PEER
from agent.model.envoyparts import (
    EXTENSIONS,
    KEEPALIVE_SECONDS,
    OWN,
    Place,
    Raw,
    Resources,
    bound_to,
    peer_chain,
    peer_cluster,
    static_cluster,
)
from agent.model.gatewaypeer import TCP, Called, Gateway, Peer, callers_suffix, health_name, server_name

ADMIN, BOOTSTRAP = envoystart.ADMIN, envoystart.BOOTSTRAP
CLUSTERS, LISTENERS = envoystart.CLUSTERS, envoystart.LISTENERS
DRAIN_SECONDS = 8
"""How long connections of what is gone go on: with the time that files take, they have ended after 10 s."""
HEALTH = "health"
_NOTHING = "refused"
_SOL_SOCKET, _SO_KEEPALIVE, _IPPROTO_TCP, _TCP_KEEPIDLE = 1, 9, 6, 4
_EARLY_BYTES = 65536
_NO_PORT = 1


def resources(gateway: Gateway, place: Place) -> Resources:
    """All of a gateway."""
    endpoints = {
        (each.namespace, each.name, each.port, each.protocol, each.host): each.endpoints for each in gateway.services
    }
    # Envoy takes no listener in which two chains have one server name: of ports that are named twice one counts.
    clusters, chains = list[Raw](), dict[str, Raw]()
    listeners = [_health_listener(place)]
    for peer in gateway.peers:
        clusters.append(static_cluster(health_name(peer.namespace, peer.uid, gateway.cluster), [place.health]))
        chains[peer.key] = _chain(peer, gateway.cluster, place)
        for each in peer.offered:
            found = endpoints.get((peer.namespace, each.name, each.port, each.protocol, each.host))
            if found is None:
                continue
            to = (peer.namespace, each.name, each.port, peer.uid, gateway.cluster, each.host)
            name = server_name(*to, protocol=each.protocol)
            if each.protocol == TCP:
                clusters.append(static_cluster(name, found))
            else:
                clusters.append(envoyudp.service_cluster(name, found))
                chains[name] = envoyudp.chain(peer, each, name, place)
        # Also of one that is not called: Envoy judges the CA of each by this, before it is in the listener of all.
        clusters.append(_peer_cluster(peer, gateway.cluster, place))
        if peer.addresses:
            for called in peer.services:
                if called.protocol == TCP:
                    listeners += [_egress(peer, called, port, gateway.cluster, place) for port in called.locals]
                else:
                    clusters.append(envoyudp.peers_cluster(peer, called, gateway.cluster, place))
                    listeners += [envoyudp.egress(peer, called, port, place) for port in called.locals]
    listeners.insert(1, _ingress(list(chains.values()), place))
    return Resources({each["name"]: each for each in clusters}, {each["name"]: each for each in listeners})


def steps(old: Resources, new: Resources, *, again: bool = False) -> list[tuple[str, Mapping[str, Raw]]]:
    """Which files to write, in this order, with what is in them.

    :param again: also what has not changed
    """
    found: list[tuple[str, Mapping[str, Raw]]] = []
    both = {**old.clusters, **new.clusters}
    if new.listeners == old.listeners and not again:
        return [(CLUSTERS, new.clusters)] if new.clusters != old.clusters else []
    if again or both != old.clusters:
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
    return {OWN: {"@type": EXTENSIONS + "transport_sockets.tls.v3.Secret", "name": OWN, "tls_certificate": found}}


def arguments(directory: str, concurrency: int = 2, drain_seconds: int = DRAIN_SECONDS) -> list[str]:
    """What Envoy is started with."""
    given = {"config-path": f"{directory}/{BOOTSTRAP}", "concurrency": concurrency, "drain-time-s": drain_seconds}
    more = {"drain-strategy": "immediate", "log-level": "warning"}
    # Envoy takes no `--name=value`.
    return [text for name, value in (given | more).items() for text in (f"--{name}", str(value))] + [
        "--disable-hot-restart"
    ]


def _peer_cluster(peer: Peer, own: str, place: Place) -> Raw:
    # With TLS 1.3 a client's handshake is over before its certificate is looked at: only an answer tells.
    check = {"reuse_connection": False, "tcp_health_check": {"receive": [{"text": HEALTH.encode().hex()}]}}
    # The server name of checks of health; connections of clients bring names of their own.
    return peer_cluster(PEER + peer.key, peer, place, health_name(peer.namespace, own, peer.uid), check)


def _listener(name: str, host: str, port: int, chains: list[Raw]) -> Raw:
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


def _ingress(chains: list[Raw], place: Place) -> Raw:
    """What peers call. A chain stays as it is when links come and go: what changes in it ends its connections."""
    made = _listener(INGRESS, place.host, place.port, chains or [_nobody()])
    inspector = {"@type": EXTENSIONS + "filters.listener.tls_inspector.v3.TlsInspector"}
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
    by_server_name = {"@type": EXTENSIONS + "filters.network.sni_cluster.v3.SniCluster"}
    filters = [
        {"name": "sni_cluster", "typed_config": by_server_name},
        _proxy(
            f"in/{peer.key}",
            _NOTHING,
            # Nothing is opened for whoever has not shown a certificate.
            {"upstream_connect_mode": "ON_DOWNSTREAM_TLS_HANDSHAKE", "max_early_data_bytes": _EARLY_BYTES},
        ),
    ]
    return peer_chain(peer.key, peer, place, f"*.{callers_suffix(peer.namespace, peer.uid, own)}", filters)


def _egress(peer: Peer, called: Called, port: int, own: str, place: Place) -> Raw:
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
    """Name of the listener at a local port that stands for a port of a peer's Service."""
    return _egress_name(peer, called, port) if called.protocol == TCP else envoyudp.egress_name(peer, called, port)


def _proxy(counters: str, cluster: str, more: Mapping[str, Any] | None = None) -> Raw:
    config = {
        "@type": EXTENSIONS + "filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": counters,
        "cluster": cluster,
        "idle_timeout": "0s",
        "max_connect_attempts": 3,
        **(more or {}),
    }
    return {"name": "tcp_proxy", "typed_config": config}


def _health_listener(place: Place) -> Raw:
    answer = {
        "@type": EXTENSIONS + "filters.network.direct_response.v3.Config",
        "response": {"inline_string": HEALTH},
    }
    filters = [{"name": "health", "typed_config": answer}]
    return _listener(HEALTH, *hostport.split(place.health), [{"filters": filters}])
