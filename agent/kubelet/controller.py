"""Kubelet API: a port for each virtual node, and a server for its requests.

Watches  virtual nodes, added and removed targets, the cluster's client CA, proxy pods, our chaperons.
Writes   CertificateSigningRequests, TokenReviews, SubjectAccessReviews, an event on nodes without a certificate. Ports
         and addresses are passed to `Endpoints`: virtual nodes announce them.
Absent target: its node is still served, and requests fail with a message that the target does not answer.
"""

import asyncio
import contextlib
import ipaddress
import logging
import ssl

import msgspec

from agent.api import names
from agent.api.kinds import NODES
from agent.base.certificates import Pair
from agent.clusters.deps import Deps
from agent.clusters.stores.endpoints import NO_ADDRESS, NO_PORT, Served
from agent.clusters.target import Target
from agent.kube.channel import Channel
from agent.kube.store import Object
from agent.kubelet import pages
from agent.kubelet.access import Authorizer
from agent.kubelet.certificate import Certificate, context
from agent.kubelet.identity import Authenticator, watch_client_ca
from agent.kubelet.pods import Pods
from agent.kubelet.requests import Request
from agent.kubelet.routes import Logs, Route, Upgrade
from agent.kubelet.server import Page, Server, bind
from agent.kubelet.streaming import Streaming
from agent.kubelet.usage import Usage
from agent.runtime.controller import Controller
from agent.runtime.task_group import together
from agent.settings import Settings

log = logging.getLogger(__name__)

VIRTUAL = f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}"
_PORT_RETRY_SECONDS = 30.0
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"


class _Endpoint(msgspec.Struct):
    port: int = msgspec.field(default=0, name="Port")


class _Daemons(msgspec.Struct, rename="camel"):
    kubelet_endpoint: _Endpoint | None = None


class _Status(msgspec.Struct, rename="camel"):
    daemon_endpoints: _Daemons | None = None


class _Node(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Node)


class KubeletController(Controller[str]):
    """Keys are names of virtual nodes."""

    name = "kubelet"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        settings = deps.settings
        self._deps = deps
        self._address = node_address(settings)
        self._pods = Pods(deps)
        self._usage = Usage(deps, self._pods)
        self._streaming = Streaming(self._pods, settings.stream_idle)
        client = deps.local.client
        self._server = Server(Authenticator(client), Authorizer(client), self._answer)
        self._listening: dict[str, asyncio.Server] = {}
        self._pair: Pair | None = None
        self._authority = ""
        self._told: Served | None = None
        self._warned: dict[str, str] = {}
        """UIDs of the nodes that have an Event about the certificate, by name."""
        self._nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self.watch(self._nodes, lambda node: [node.name])
        deps.targets.on_change(self._changed)
        deps.targets.on_detach(self._changed)
        deps.endpoints.active = True

    async def run(self) -> None:
        """Keep ports, certificate and connections until cancelled."""
        stop = watch_client_ca(self._deps.local, self._trust)
        # Also when it is started again after a failure, which has closed all ports.
        for node in self._nodes.store:
            self.queue.add(node.name)
        for target in self._deps.targets:
            self.queue.add(target.node_name)
        try:
            serving = (self._server.run(), self._certify()) if self._address else ()
            await together(*serving, super().run())
        finally:
            stop()
            for server in self._listening.values():
                server.close()
            self._listening.clear()

    async def reconcile(self, key: str) -> float | None:
        """Serve the kubelet API of one virtual node, or stop its server."""
        node = self._nodes.store.get(("", key))
        if node is not None:
            self._warn(node)
        elif self._deps.targets.by_node(key) is None:
            self._end(key)
            return None
        if key in self._listening:
            return None
        if not self._address:
            self._deps.endpoints.fail(key, Served(NO_ADDRESS, _no_address(self._deps.settings)))
            return None
        return await self._listen(key, node)

    async def _listen(self, name: str, node: Object | None) -> float | None:
        first = self._deps.settings.kubelet_port
        others = {_announced(other) for other in self._nodes.store if other.name != name}
        try:
            made = bind(self._address, first, _announced(node), {port for port in others if port})
        except OSError as error:
            made, reason = None, str(error)
        else:
            reason = f"no port is free from {first} up: choose others with --kubelet-port"
        if made is None:
            self._deps.endpoints.fail(name, Served(NO_PORT, reason))
            return _PORT_RETRY_SECONDS
        loop = asyncio.get_running_loop()
        # Store the socket before a cancellation can occur: a forgotten one would listen forever.
        listening = await loop.create_server(self._server.accept(name), sock=made, start_serving=False)
        self._listening[name] = listening
        await listening.start_serving()
        port: int = made.getsockname()[1]
        log.info("kubelet API of node %s on port %d", name, port)
        self._deps.endpoints.announce(name, port)
        return None

    def _end(self, name: str) -> None:
        server = self._listening.pop(name, None)
        if server is not None:
            server.close()
        self._deps.endpoints.withdraw(name)
        self._usage.forget(name)
        self._warned.pop(name, None)

    async def _certify(self) -> None:
        kept = Certificate(self._deps.local, self._address, self._deps.settings.signer, self._use)
        await kept.run(self._tell)

    def _tell(self, served: Served) -> None:
        if served == self._told:
            return
        self._told = served
        self._warned.clear()
        self._deps.endpoints.all(served)
        if not served.well:
            log.warning("kubelet API: %s", served.message)
            for node in self._nodes.store:
                self._warn(node)

    def _warn(self, node: Object) -> None:
        """Report in an Event why a node has no signed certificate, also for a node that was created later."""
        if self._told is None or self._told.well or self._warned.get(node.name) == node.uid:
            return
        self._warned[node.name] = node.uid
        self._deps.recorder.event(node.decode(), "Warning", self._told.reason, self._told.message)

    def _changed(self, target: Target) -> None:
        self.queue.add(target.node_name)

    def _use(self, pair: Pair) -> None:
        self._pair = pair
        self._renew()

    def _trust(self, bundle: str) -> None:
        self._authority = bundle
        self._renew()

    def _renew(self) -> None:
        """Use the new certificate and CA for new connections; existing ones stay unchanged."""
        if self._pair is None:
            return
        try:
            self._server.tls = context(self._pair, self._authority)
        except ssl.SSLError as error:
            log.warning("the client CA of this cluster cannot be used, only tokens are taken: %s", error)
            self._server.tls = context(self._pair, "")

    async def _answer(self, node: str, channel: Channel, request: Request, wanted: Route) -> Page | None:
        match wanted:
            case Logs():
                await self._streaming.logs(channel, node, wanted)
                return None
            case Upgrade():
                await self._streaming.upgrade(channel, node, wanted, request)
                return None
            case "healthz":
                return _TEXT, b"ok"
            case "pods":
                return _JSON, pages.pod_list(pod.raw for pod in self._pods.on(node))
            case "runningpods":
                return _JSON, pages.pod_list(pod.raw for pod in self._running(node))
            case "metrics":
                return _METRICS, pages.metrics(node, len(self._running(node)), len(self._pods.on(node))).encode()
            case "summary":
                summary = pages.summary(node, await self._usage.of(node), self._deps.clock.now())
                return _JSON, msgspec.json.encode(summary)
            case "resource":
                return _METRICS, pages.resource(await self._usage.of(node), self._deps.clock.now()).encode()
            case "nothing":
                return _METRICS, b""

    def _running(self, node: str) -> list[Object]:
        return [pod for pod in self._pods.on(node) if pod.phase == "Running"]


def node_address(settings: Settings) -> str:
    """Return the address of virtual nodes; empty if it is unknown or not an IP address."""
    address = settings.announced_address
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(address))
    return ""


def _no_address(settings: Settings) -> str:
    given = settings.announced_address
    reason = f"{given!r} is no IP address" if given else "no address is known"
    return f"logs and exec do not work: {reason}: set --node-address, or $VKUBELET_POD_IP from status.podIP"


def _announced(node: Object | None) -> int | None:
    daemons = _decoder.decode(node.raw).status.daemon_endpoints if node is not None else None
    endpoint = daemons.kubelet_endpoint if daemons is not None else None
    return endpoint.port if endpoint is not None else None
