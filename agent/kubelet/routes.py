"""Routes of requests and the rights they need: the kubelet's own table. Pure."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from agent.kube.streams import Query
from agent.kubelet.requests import Request, Unacceptable

Stream = Literal["exec", "attach", "portforward"]
Page = Literal["healthz", "pods", "runningpods", "summary", "resource", "metrics", "nothing"]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_STREAMS: Mapping[str, Stream] = {"exec": "exec", "attach": "attach", "portForward": "portforward"}
_PAGES: Mapping[tuple[str, ...], Page] = {
    ("healthz",): "healthz",
    ("healthz", "ping"): "healthz",
    ("pods",): "pods",
    ("runningpods",): "runningpods",
    ("stats", "summary"): "summary",
    ("metrics",): "metrics",
    ("metrics", "resource"): "resource",
    # Prometheus scrapes this path of every kubelet: an empty answer avoids a scrape error.
    ("metrics", "cadvisor"): "nothing",
    ("metrics", "probes"): "nothing",
}
_LOG_OPTIONS = ("follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes")
_FINE_GRAINED = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
_COARSE = {
    "stats": "stats",
    "metrics": "metrics",
    "logs": "log",
    "checkpoint": "checkpoint",
    "statusz": "statusz",
    "flagz": "configz",
}
_VERBS = {"GET": "get", "POST": "create"}


class Attributes(msgspec.Struct, frozen=True):
    """The right that a request takes: the verb on any one of these subresources of the node."""

    verb: str
    subresources: tuple[str, ...]


class Logs(msgspec.Struct, frozen=True):
    """The log of a container."""

    namespace: str
    pod: str
    container: str
    query: Query
    """Query for the target's API server, without the container."""
    uid: str = ""


class Upgrade(msgspec.Struct, frozen=True):
    """A connection into a pod; the query as for logs."""

    kind: Stream
    namespace: str
    pod: str
    uid: str
    """UID of the proxy pod; empty if the client does not send it."""
    container: str
    """Empty for port-forward."""
    query: Query


Route = Logs | Upgrade | Page


def attributes(request: Request) -> Attributes:
    """Return the rights like the kubelet, with one difference: every stream needs `create`.

    The kubelet uses the HTTP method, so a user who may `get` nodes/proxy can exec by WebSocket (kubernetes#133515 fixed
    that only in the API server). Raises Unacceptable for a method without a route.
    """
    verb = _VERBS.get(request.method)
    if verb is None:
        raise Unacceptable(405, f"{request.method} is not served")
    head = request.path[0] if request.path else ""
    if head in _STREAMS or head == "run":
        verb = "create"
    fine = (_FINE_GRAINED[head],) if head in _FINE_GRAINED else ()
    return Attributes(verb, (*fine, _COARSE.get(head, "proxy")))


def route(request: Request) -> Route:
    """Return the route of a request. Raises Unacceptable."""
    head = request.path[0] if request.path else ""
    if head in _STREAMS:
        return _upgrade(_STREAMS[head], request)
    if head == "containerLogs" and len(request.path) == 4:
        if request.method != "GET":
            raise Unacceptable(405, f"{request.method} is not served here")
        namespace, pod, container = _names(request.path[1:])
        return Logs(namespace, pod, container, _log_query(request))
    page = _PAGES.get(request.path)
    if page is None:
        raise Unacceptable(404, "virtual nodes do not serve this")
    if request.method != "GET":
        raise Unacceptable(405, f"{request.method} is not served here")
    return page


def _upgrade(kind: Stream, request: Request) -> Upgrade:
    rest = request.path[1:]
    names = 2 if kind == "portforward" else 3
    if len(rest) not in (names, names + 1):
        raise Unacceptable(404, "virtual nodes do not serve this")
    uid = rest[2] if len(rest) > names else ""
    namespace, pod, *container = _names(rest if not uid else (*rest[:2], *rest[3:]))
    if not request.upgrade:
        raise Unacceptable(400, "you must ask for an upgrade of the connection (SPDY/3.1 or WebSocket)")
    if request.upgrade.lower() not in ("spdy/3.1", "websocket"):
        raise Unacceptable(400, f"an upgrade to {request.upgrade!r} is not served")
    query = _ports(request) if kind == "portforward" else _options(kind, request)
    return Upgrade(kind, namespace, pod, uid, container[0] if container else "", query)


def _options(kind: Stream, request: Request) -> Query:
    """Kubelet's `input=1` is the API server's `stdin=true`."""
    stdin, stdout, stderr, tty = (request.first(name) == "1" for name in ("input", "output", "error", "tty"))
    # With a terminal there is only one output stream.
    stderr = stderr and not tty
    if not (stdin or stdout or stderr):
        raise Unacceptable(400, "you must specify at least 1 of stdin, stdout, stderr")
    query = [("command", part) for part in request.all("command")] if kind == "exec" else []
    chosen = (("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("tty", tty))
    # False values are sent, too: the API server's own defaults are stdout and stderr.
    return (*query, *((name, "true" if value else "false") for name, value in chosen))


def _ports(request: Request) -> Query:
    """WebSockets of the old kind name their ports in the URL: kubelet's `port=80,443` is `ports=80&ports=443`."""
    ports = [port for value in request.all("port") for port in value.split(",")]
    if any(not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536) for port in ports):
        raise Unacceptable(400, "port must be a number from 1 to 65535")
    return tuple(("ports", port) for port in ports)


def _log_query(request: Request) -> Query:
    query = [(name, value) for name in _LOG_OPTIONS if (value := request.first(name))]
    tail = request.first("tail")
    if tail:
        query = [pair for pair in query if pair[0] != "tailLines"] + ([("tailLines", tail)] if tail != "all" else [])
    stream = request.first("stream")
    # An API server without the option behaves as with `All`.
    return (*query, *((("stream", stream),) if stream not in ("", "All") else ()))


def _names(parts: tuple[str, ...]) -> tuple[str, ...]:
    for part in parts:
        if len(part) > 253 or not _NAME.fullmatch(part):
            raise Unacceptable(400, f"{part!r} is no name of a namespace, pod or container")
    return parts
