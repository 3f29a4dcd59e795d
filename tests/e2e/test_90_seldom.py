"""Rare operations: each test uses a right that no other test uses."""

import asyncio
import contextlib
import functools
import json
import sys
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SOURCES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SECRETS,
    SOURCES,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.api.ownroles import CONFIGURATION, WEBHOOK_SECRET
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, SOURCE_ROLE
from agent.kube.client import Client
from hack.lab.sandbox import SandboxError, faults
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, token_of
from tests.e2e.test_10_self_target import home

pytestmark = pytest.mark.full("Exercises a right that no other test needs.")

Raw = dict[str, Any]
_ASK = """
import ssl, sys, urllib.error, urllib.request as u
anybody = u.HTTPSHandler(context=ssl._create_unverified_context())
try:
    request = u.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
    print(u.build_opener(u.ProxyHandler({}), anybody).open(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
except Exception:
    print(0)
"""
"""Program that sends a request from within a cluster, where the addresses of pods are routed."""
DEBUGGING = (("logs", "lone"), ("exec", "lone", "--", "true"), ("attach", "lone"), ("port-forward", "lone", "8080"))


def bound(kind: Kind, name: str, role: str) -> tuple[Kind, Raw]:
    """Return a binding without subjects, as a user could have created it."""
    reference = {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.name, "name": role}
    return kind, {"metadata": {"name": name}, "roleRef": reference}


async def test_bindings_that_were_there_before_become_those_of_sources(fleet: Fleet) -> None:
    client = fleet.source
    async with fleet.namespace(targets=()) as namespace:
        everyone = f"all-{namespace}"
        found = (
            bound(ROLE_BINDINGS, names.source_binding("visitor"), CLUSTER_SUMMARY_VIEWER_ROLE),
            bound(
                CLUSTER_ROLE_BINDINGS, names.source_viewer_binding(namespace, "visitor"), CLUSTER_SUMMARY_VIEWER_ROLE
            ),
            bound(CLUSTER_ROLE_BINDINGS, names.cluster_source_binding(everyone), SOURCE_ROLE),
        )
        for kind, binding in found:
            await client.create(kind, binding, namespace if kind.namespaced else None)

        async def bind(account: str) -> None:
            reference = {"serviceAccount": {"name": account, "namespace": namespace}}
            source = manifests.ours("Source", "visitor", namespace, {"serviceAccountName": account})
            await apply(client, SOURCES, source)
            await apply(client, CLUSTER_SOURCES, manifests.ours("ClusterSource", everyone, None, reference))
            for kind, binding in found:
                name = binding["metadata"]["name"]
                probe = functools.partial(is_of, client, kind, name, namespace, account)
                await fleet.until(f"{name} is of {account}", probe, about=namespace)

        await bind("one")
        await bind("other")
        await client.delete(SOURCES, "visitor", namespace)
        await client.delete(CLUSTER_SOURCES, everyone)
        for kind, binding in found:
            await fleet.gone(kind, binding["metadata"]["name"], namespace if kind.namespaced else None)


async def is_of(client: Client, kind: Kind, name: str, namespace: str, account: str) -> bool:
    """Return True if the service account is the only subject of a binding."""
    found = await client.get(kind, name, namespace if kind.namespaced else None)
    return [each["name"] for each in found.get("subjects") or ()] == [account]


async def test_a_virtual_node_whose_label_was_taken_gets_it_back(fleet: Fleet, namespace: str) -> None:
    node = names.virtual_node(namespace, "us")
    await fleet.source.patch(NODES, node, {"metadata": {"labels": {names.PROVIDER_KEY: None}}})

    async def labelled() -> bool:
        return names.PROVIDER_KEY in (await fleet.source.get(NODES, node))["metadata"]["labels"]

    await fleet.until("the label is back", labelled, about=namespace)


async def test_a_pod_at_home_is_asked_for_through_its_virtual_node(fleet: Fleet) -> None:
    """Fake nodes have no logs; the API server must not answer that the request is forbidden."""
    async with fleet.namespace(targets=()) as namespace:
        await home(fleet, namespace)
        await fleet.source.create(PODS, manifests.pod("lone"), namespace)
        await fleet.running(namespace, "lone", 1)
        for command in DEBUGGING:
            with pytest.raises(SandboxError) as caught:
                async with asyncio.timeout(60):
                    await fleet.kubectl("cd", "-n", namespace, *command)
            assert "forbidden" not in str(caught.value).lower()
        node = names.virtual_node(namespace, "cd")
        with contextlib.suppress(SandboxError):
            await fleet.kubectl("cd", "get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/resource")


async def test_who_asks_a_virtual_node_with_a_token_is_known_by_it(fleet: Fleet, namespace: str) -> None:
    for token, want in (("nonsense", 401), (await token_of(fleet.source, "default", namespace), 403)):
        asking = functools.partial(ask, fleet, names.virtual_node(namespace, "us"), token)
        assert await fleet.until("the virtual node answers", asking, about=namespace) == want


async def ask(fleet: Fleet, name: str, token: str) -> int:
    """Return the HTTP status of a virtual node for this token; 0 while the node is not served."""
    status = (await fleet.source.get(NODES, name))["status"]
    address = next((each["address"] for each in status["addresses"] if each["type"] == "InternalIP"), "")
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
    command = (sys.executable, "-c", _ASK, f"https://{address}:{port}/metrics/resource", token)
    return int(await faults.inside(fleet.sandbox[fleet.names[0]].runner.cluster, *command))


async def test_what_somebody_does_to_a_webhooks_certificate_is_undone(fleet: Fleet) -> None:
    client, nothing = fleet.clients["eu"], "bm90aGluZw=="
    before = await client.get(SECRETS, WEBHOOK_SECRET, fleet.home)
    await client.patch(SECRETS, WEBHOOK_SECRET, {"data": dict.fromkeys(before["data"], nothing)}, fleet.home)

    async def made_again() -> bool:
        return nothing not in (await client.get(SECRETS, WEBHOOK_SECRET, fleet.home))["data"].values()

    await fleet.until("there is a certificate", made_again)
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        found = await client.get(kind, CONFIGURATION)
        webhooks = [{"name": each["name"], "clientConfig": {"caBundle": "Q0E="}} for each in found["webhooks"]]
        await client.patch(kind, CONFIGURATION, {"webhooks": webhooks}, style="strategic")

        async def trusted(kind: Kind = kind) -> bool:
            return "Q0E=" not in json.dumps(await client.get(kind, CONFIGURATION))

        await fleet.until(f"the {kind.name} trusts the webhook", trusted)
