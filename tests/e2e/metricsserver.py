"""The real metrics-server in a cluster with real nodes."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import kubeconfig, process
from hack.lab.sandbox.manifests import service_account
from hack.lab.sandbox.objects import REPOSITORY, apply, token
from tests.e2e.fleet import Fleet
from tests.e2e.metricsapi import API_SERVICE, API_SERVICES, register

PORT = 4443
_NAME = "metrics-server"


@contextlib.asynccontextmanager
async def metrics_server(fleet: Fleet, cluster: str, namespace: str, path: str) -> AsyncIterator[None]:
    """Run metrics-server with the rights of its own manifests. It scrapes kubelets every 10 s and serves
    metrics.k8s.io."""
    client, each = fleet.clients[cluster], fleet.sandbox[cluster]
    for kind, manifest in _rights(namespace):
        await apply(client, kind, manifest)
    authority = (each.directory / "pki" / "ca.crt").read_bytes()
    config = each.directory / f"{_NAME}.kubeconfig"
    config.write_text(kubeconfig.render(cluster, each.server, authority, token=await token(client, namespace, _NAME)))
    pid = _start(fleet, cluster, path, config)
    try:
        await register(client, namespace, each.address, PORT)
        yield
    finally:
        # The namespace controller cannot finish a deletion while an APIService is unavailable.
        await _forget(client, namespace)
        os.kill(pid, signal.SIGKILL)
        await process.wait_gone([pid], 10)


def _start(fleet: Fleet, cluster: str, path: str, config: Path) -> int:
    each = fleet.sandbox[cluster]
    same = (f"--{use}={config}" for use in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"))
    return process.start(
        [
            path,
            *same,
            f"--secure-port={PORT}",
            f"--cert-dir={each.directory / _NAME}",
            "--kubelet-insecure-tls",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-use-node-status-port",
            "--metric-resolution=10s",
            "--kubelet-request-timeout=5s",
        ],
        process.environment(os.environ, each.runner.mark(_NAME), str(REPOSITORY)),
        log=each.directory / f"{_NAME}.log",
        pid_file=each.directory / f"{_NAME}.pid",
        namespace=each.runner.cluster.namespace,
    )


async def _forget(client: Client, namespace: str) -> None:
    gone = [(API_SERVICES, API_SERVICE, None)]
    gone += [(kind, each["metadata"]["name"], each["metadata"].get("namespace")) for kind, each in _rights(namespace)]
    for kind, name, where in gone:
        with contextlib.suppress(NotFound):
            await client.delete(kind, name, where)


def _rights(namespace: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Yield the rights from metrics-server's own manifests."""
    yield SERVICE_ACCOUNTS, service_account(_NAME, namespace)
    account = {"kind": SERVICE_ACCOUNTS.name, "name": _NAME, "namespace": namespace}
    scrape = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ]
    yield CLUSTER_ROLES, _role(_NAME, scrape)
    yield CLUSTER_ROLE_BINDINGS, _binding(_NAME, _NAME, account)
    yield CLUSTER_ROLE_BINDINGS, _binding(f"{_NAME}-delegator", "system:auth-delegator", account)
    yield ROLE_BINDINGS, _binding(_NAME, "extension-apiserver-authentication-reader", account, "kube-system")


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.name}
    return head | {"metadata": {"name": name}, "rules": rules}


def _binding(name: str, role: str, subject: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return a ClusterRoleBinding; with a namespace, a RoleBinding."""
    scope = "" if namespace else "Cluster"
    return {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": f"{scope}RoleBinding",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": f"{scope}Role", "name": role},
        "subjects": [subject],
    }
