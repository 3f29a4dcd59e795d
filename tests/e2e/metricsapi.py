"""A metrics API (metrics.k8s.io) that serves values set by tests. Fake nodes have no kubelet to measure pods."""

import contextlib
import datetime
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from agent.api.kinds import PODS, SERVICES, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox.certificates import Authority
from tests.e2e.fleet import Fleet
from tests.webhook.replica import host_facing

API_SERVICES = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
API_SERVICE = "v1beta1.metrics.k8s.io"
_PATH = "/apis/metrics.k8s.io/v1beta1"


class Metrics:
    """Serves the same usage, `cpu`, for every pod."""

    def __init__(self, client: Client) -> None:
        self.cpu = "0"
        self._client = client

    async def discovery(self, request: web.Request) -> web.Response:
        """Serve the resource list of the API group."""
        pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        answer = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _PATH.removeprefix("/apis/")}
        return web.json_response(answer | {"resources": [pods]})

    async def pods(self, request: web.Request) -> web.Response:
        """Serve PodMetrics of all pods that a label selector matches."""
        chosen = await self._client.list(
            PODS, request.match_info["namespace"], labels=request.query.get("labelSelector", "")
        )
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {
                "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
                "timestamp": now,
                "window": "1s",
                "containers": [{"name": "main", "usage": {"cpu": self.cpu, "memory": "1Mi"}}],
            }
            for pod in chosen
        ]
        answer: dict[str, Any] = {"kind": "PodMetricsList", "apiVersion": _PATH.removeprefix("/apis/"), "metadata": {}}
        return web.json_response(answer | {"items": items})


@contextlib.asynccontextmanager
async def metrics_api(fleet: Fleet, namespace: str) -> AsyncIterator[Metrics]:
    """Serve the metrics API from this process and register it in the source."""
    host = host_facing(fleet.sandbox[fleet.names[0]])
    metrics = Metrics(fleet.source)
    app = web.Application()
    app.router.add_get(_PATH, metrics.discovery)
    app.router.add_get(_PATH + "/namespaces/{namespace}/pods", metrics.pods)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=_serving(host)).start()
        await register(fleet.source, namespace, host, runner.addresses[0][1])
        await fleet.until("the metrics API is served", lambda: _is_served(fleet.source, namespace), about=namespace)
        yield metrics
    finally:
        with contextlib.suppress(NotFound):
            await fleet.source.delete(API_SERVICES, API_SERVICE)
        await runner.cleanup()


async def register(client: Client, namespace: str, host: str, port: int) -> None:
    """Register an APIService, so that the API server forwards requests for metrics.k8s.io to HOST:PORT."""
    service = {"metadata": {"name": "metrics"}, "spec": {"type": "ExternalName", "externalName": host}}
    await client.create(SERVICES, service, namespace)
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "metrics", "namespace": namespace, "port": port},
    }
    await client.create(API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": spec})


async def _is_served(client: Client, namespace: str) -> bool:
    answer = await client.session.request("GET", f"{_PATH}/namespaces/{namespace}/pods")
    return b"PodMetricsList" in answer


def _serving(host: str) -> ssl.SSLContext:
    pair = Authority("metrics", datetime.datetime.now(datetime.UTC)).serving([host])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
