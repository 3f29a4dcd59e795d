"""A cluster for chart tests only, since charts own cluster-wide objects."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_ROLES, CRDS, NAMESPACES
from agent.kube.client import Client
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.objects import connect
from tests.chart.helm import NAMESPACE, Raw

OTHERS = {
    "cert-manager.io/v1": ("Issuer", "Certificate"),
    "monitoring.coreos.com/v1": ("ServiceMonitor", "PrometheusRule"),
}
"""Kinds of other projects that the chart may use, by group and version."""


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def chart_sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """One real cluster with fake nodes and without any object of Flotilla."""
    async with Sandbox(tmp_path_factory.mktemp("chart") / "one", ["chart"], "kwok:2", agents=False) as sandbox:
        await clear(sandbox["chart"])
        yield sandbox


async def clear(cluster: Cluster) -> None:
    """Delete objects that the chart creates; create its namespace and the CRDs of other projects."""
    client = connect(cluster.kubeconfig)
    async with client.session:
        for crd in await client.list(CRDS):
            await client.delete(CRDS, crd["metadata"]["name"])
        for role in await client.list(CLUSTER_ROLES):
            if role["metadata"]["name"].startswith("multicluster-scheduler-"):
                await client.delete(CLUSTER_ROLES, role["metadata"]["name"])
        for version, names in OTHERS.items():
            for name in names:
                await client.create(CRDS, _open(version, name))
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


@pytest.fixture
def cluster(chart_sandbox: Sandbox) -> Cluster:
    """Cluster for chart tests."""
    return chart_sandbox["chart"]


@pytest_asyncio.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """Client with all rights in the cluster."""
    client = connect(cluster.kubeconfig)
    async with client.session:
        yield client


def _open(version: str, name: str) -> Raw:
    """Return a CRD that accepts any object."""
    group, _, number = version.partition("/")
    plural = f"{name.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.name,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "versions": [
                {"name": number, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}},
            ],
        },
    }
