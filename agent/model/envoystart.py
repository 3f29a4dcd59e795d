"""Envoy's bootstrap configuration: files, admin socket, liveness endpoint, limits of connections. Pure."""

from typing import Any

from agent.model import hostport
from agent.model.envoycounters import COUNTERS, INGRESS
from agent.model.envoyparts import EXTENSIONS, Place, Raw, bound_to, from_file

ADMIN = "admin.sock"
BOOTSTRAP, CLUSTERS, LISTENERS = "bootstrap.json", "clusters.json", "listeners.json"
LIVE = "live"
LIVE_PATH = "/ready"
"""Path of Envoy's admin interface that the liveness endpoint serves; the only one reachable from other pods."""
_LIVE_SECONDS = 4
_PEERS_SHARE = 0.75
_MONITOR = "envoy.resource_monitors.global_downstream_max_connections"


def bootstrap(place: Place, node: str) -> Raw:
    """Return Envoy's bootstrap configuration, which never changes while Envoy runs."""
    directory = place.directory
    return {
        "node": {"id": node, "cluster": "flotilla-gateway"},
        "admin": {"address": _admin(place, mode=0o600)},
        "dynamic_resources": {
            "cds_config": from_file(f"{directory}/{CLUSTERS}"),
            "lds_config": from_file(f"{directory}/{LISTENERS}"),
        },
        "static_resources": {"listeners": [_live(place)], "clusters": [_admin_cluster(place)]},
        "overload_manager": {"resource_monitors": [_all_connections(place)]},
        "layered_runtime": {"layers": [{"name": "limits", "static_layer": _limits(place)}]},
        # Two thousand Services would have a hundred counters each; the gateway reads only these.
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [{"safe_regex": {"regex": COUNTERS}}]}}},
    }


def of_peers(connections: int) -> int:
    """Return the maximum number of connections at the port that peers call.

    Any client can connect to that port, and is authenticated only by the TLS handshake. The remaining connections are
    reserved for pods of this cluster.
    """
    return max(1, int(connections * _PEERS_SHARE))


def _limits(place: Place) -> dict[str, Any]:
    return {f"envoy.resource_limits.listener.{INGRESS}.connection_limit": of_peers(place.connections)}


def _all_connections(place: Place) -> Raw:
    kind = EXTENSIONS + "resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    return {
        "name": _MONITOR,
        "typed_config": {"@type": kind, "max_active_downstream_connections": place.connections},
    }


def _admin(place: Place, **more: int) -> Raw:
    return {"pipe": {"path": f"{place.directory}/{ADMIN}", **more}}


def _admin_cluster(place: Place) -> Raw:
    endpoint = {"endpoint": {"address": _admin(place)}}
    return {
        "name": ADMIN,
        "type": "STATIC",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": ADMIN, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _live(place: Place) -> Raw:
    """Return the listener of the liveness endpoint.

    A worker thread forwards the request to the admin interface on the main thread. No reply means that either hangs.
    """
    host, port = hostport.split(place.live)
    route = {"match": {"path": LIVE_PATH}, "route": {"cluster": ADMIN, "timeout": f"{_LIVE_SECONDS}s"}}
    config = {
        "@type": EXTENSIONS + "filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": LIVE,
        "codec_type": "HTTP1",
        "common_http_protocol_options": {"idle_timeout": "5s", "max_connection_duration": "15s"},
        "request_headers_timeout": "5s",
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": LIVE, "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": EXTENSIONS + "filters.http.router.v3.Router"}}],
    }
    return {
        "name": LIVE,
        "address": bound_to(host, port),
        "ignore_global_conn_limit": True,
        "filter_chains": [{"filters": [{"name": "http", "typed_config": config}]}],
    }
