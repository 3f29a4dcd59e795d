"""Traefik as ingress controller of clusters with real nodes, a process in each cluster's network."""

import contextlib
import functools
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, INGRESSES, SERVICE_ACCOUNTS
from agent.kube.errors import NotFound
from hack.lab.sandbox import process
from hack.lab.sandbox.manifests import service_account
from hack.lab.sandbox.objects import REPOSITORY, apply, token
from tests.e2e.fleet import Fleet

PORT = 8000
_NAME = "traefik"
_READ = ["get", "list", "watch"]


@contextlib.asynccontextmanager
async def traefik(fleet: Fleet, clusters: Sequence[str], namespace: str, path: str) -> AsyncIterator[dict[str, str]]:
    """Run Traefik for the Ingresses of a namespace; yield its addresses by cluster once all answer."""
    async with contextlib.AsyncExitStack() as stack:
        for cluster in clusters:
            pid = await _start(fleet, cluster, namespace, path)
            stack.push_async_callback(_stop, fleet, cluster, pid)
        found = {cluster: f"{fleet.sandbox[cluster].address}:{PORT}" for cluster in clusters}
        for address in found.values():
            probe = functools.partial(_answers, address)
            await fleet.until("Traefik serves the Ingress", probe, about=namespace, seconds=240)
        yield found


async def _stop(fleet: Fleet, cluster: str, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    await process.wait_gone([pid], 10)
    for kind in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
        with contextlib.suppress(NotFound):
            await fleet.clients[cluster].delete(kind, _NAME)


async def ingress(fleet: Fleet, namespace: str, service: str) -> None:
    """Create an Ingress that routes every path to a Service."""
    backend = {"service": {"name": service, "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    head = {"apiVersion": INGRESSES.api_version, "kind": INGRESSES.name}
    await fleet.source.create(INGRESSES, {**head, "metadata": {"name": service}, "spec": {"rules": [rule]}}, namespace)


async def _start(fleet: Fleet, cluster: str, namespace: str, path: str) -> int:
    client, each = fleet.clients[cluster], fleet.sandbox[cluster]
    await apply(client, SERVICE_ACCOUNTS, service_account(_NAME, namespace))
    for manifest in _rights(namespace):
        await apply(client, CLUSTER_ROLES if "rules" in manifest else CLUSTER_ROLE_BINDINGS, manifest)
    provider = "--providers.kubernetesingress"
    return process.start(
        [
            path,
            f"--entrypoints.web.address=:{PORT}",
            provider,
            f"{provider}.endpoint={each.server}",
            f"{provider}.certauthfilepath={each.directory / 'pki' / 'ca.crt'}",
            f"{provider}.token={await token(client, namespace, _NAME)}",
            f"{provider}.namespaces={namespace}",
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
        ],
        process.environment(os.environ, each.runner.mark(_NAME), str(REPOSITORY)),
        log=each.directory / f"{_NAME}.log",
        pid_file=each.directory / f"{_NAME}.pid",
        namespace=each.runner.cluster.namespace,
    )


async def _answers(address: str) -> bool:
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(f"http://{address}/") as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _rights(namespace: str) -> list[dict[str, Any]]:
    """ClusterRole and binding from Traefik's documentation."""
    rules = [
        {"apiGroups": [""], "resources": ["services", "secrets", "nodes", "configmaps"], "verbs": _READ},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "ingressclasses"], "verbs": _READ},
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses/status"], "verbs": ["update"]},
    ]
    role = {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.name, "metadata": {"name": _NAME}}
    binding = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": CLUSTER_ROLE_BINDINGS.name,
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.name, "name": _NAME},
        "subjects": [{"kind": SERVICE_ACCOUNTS.name, "name": _NAME, "namespace": namespace}],
    }
    return [{**role, "rules": rules}, binding]
