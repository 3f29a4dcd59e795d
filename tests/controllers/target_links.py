"""Targets whose cluster is the shared test cluster, reached with a kubeconfig."""

import base64
import contextlib
from pathlib import Path
from typing import Any

import yaml

from agent.api.conditions import find_condition
from agent.api.kinds import PODS, SECRETS, TARGETS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Cluster
from tests.waiting import until

Raw = dict[str, Any]


def target(name: str, namespace: str, **spec: Any) -> Raw:
    return {
        "apiVersion": TARGETS.api_version,
        "kind": "Target",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec or {"kubeconfigSecret": {"name": name}},
    }


def by_gateway(name: str, namespace: str) -> Raw:
    """Return a Target that names the driver `gateway`."""
    made = target(name, namespace)
    made["metadata"]["annotations"] = {"multicluster/network-driver": "gateway"}
    return made


def secret(name: str, namespace: str, **data: str) -> Raw:
    return {"metadata": {"name": name, "namespace": namespace}, "stringData": data}


def kubeconfig(cluster: Cluster, *, server: str = "", user: Raw | None = None) -> str:
    """Return the cluster's admin kubeconfig, optionally with another server or user."""
    document = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    if server:
        document["clusters"][0]["cluster"]["server"] = server
    if user is not None:
        document["users"][0]["user"] = user
    text: str = yaml.safe_dump(document)
    return text


async def add(client: Client, namespace: str, name: str, config: str) -> None:
    await client.create(SECRETS, secret(name, namespace, config=config))
    await client.create(TARGETS, target(name, namespace))


async def rewrite(client: Client, namespace: str, name: str, config: str) -> None:
    data = {"config": base64.b64encode(config.encode()).decode()}
    await client.patch(SECRETS, name, {"data": data}, namespace)


async def condition(client: Client, namespace: str, name: str, type: str, status: str, reason: str = "") -> Raw:
    """Return the condition, once it has this status (and reason)."""

    async def probe() -> Raw | None:
        found = await client.get(TARGETS, name, namespace)
        one = find_condition(found.get("status", {}).get("conditions"), type)
        return dict(one) if one and one["status"] == status and reason in ("", one["reason"]) else None

    found = await until(probe)
    return found


async def tear_away(client: Client, namespace: str) -> None:
    """Delete Targets, Secrets and pods of a namespace, and remove their finalizers."""
    for kind in (TARGETS, SECRETS, PODS):
        for obj in await client.list(kind, namespace):
            name = obj["metadata"]["name"]
            with contextlib.suppress(NotFound):
                await client.delete(kind, name, namespace, grace=0 if kind == PODS else None)
                await client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
