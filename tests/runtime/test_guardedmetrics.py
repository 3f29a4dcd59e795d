"""Access to protected metrics, checked by a real API server's reviews."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.tokens import bearer
from agent.runtime.guardedmetrics import GuardedMetrics
from agent.runtime.health import Health
from hack.lab.sandbox.objects import token
from tests.examples import examples
from tests.runtime.test_health import free_port


@given(st.text(max_size=50) | st.text(max_size=50).map(lambda text: f"Bearer {text}"))
@settings(max_examples=examples(200))
def test_whatever_a_header_says_is_a_token_that_a_review_takes_or_none(header: str) -> None:
    found = bearer(header)
    assert found.isascii()
    assert found in header
    assert not found or header.lower().startswith("bearer ")


@pytest.fixture
async def address(client: Client) -> AsyncIterator[str]:
    """Address of the metrics."""
    address = f"127.0.0.1:{free_port()}"
    serving = asyncio.create_task(GuardedMetrics(address, client).serve())
    yield address
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def ask(address: str, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    """Return status and body of a request, once the server listens."""
    async with aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"https://{address}{path}", ssl=False, headers=headers) as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.01)


async def account(client: Client, namespace: str, *paths: str) -> str:
    """Return a token of a service account that may get these non-resource URLs."""
    name = f"{namespace}-{secrets.token_hex(2)}"
    metadata = {"name": name, "namespace": namespace}
    await client.create(SERVICE_ACCOUNTS, {"metadata": metadata})
    if paths:
        rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
        await client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subjects = [{"kind": "ServiceAccount", **metadata}]
        await client.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
    return await token(client, namespace, name)


@pytest.mark.cluster
async def test_metrics_are_for_tokens_that_may_get_them_and_for_nobody_else(
    client: Client, namespace: str, address: str
) -> None:
    reader, stranger = await account(client, namespace, "/metrics"), await account(client, namespace, "/healthz")
    assert (await ask(address))[0] == 401
    assert (await ask(address, Authorization="Basic eDp5"))[0] == 401
    assert await ask(address, Authorization="Bearer nobodys") == (401, "the token is nobody's\n")
    status, text = await ask(address, Authorization=f"Bearer {stranger}")
    assert (status, text.split(" ", 1)[1]) == (403, "may not get the non-resource URL /metrics\n")
    status, text = await ask(address, Authorization=f"Bearer {reader}")
    assert status == 200
    assert "process_resident_memory_bytes" in text
    assert (await ask(address, "/healthz", Authorization=f"Bearer {reader}"))[0] == 404


@pytest.mark.cluster
async def test_without_an_api_server_nobody_reads_them(client: Client, address: str) -> None:
    await client.session.close()
    status, text = await ask(address, Authorization="Bearer any")
    assert (status, text) == (503, "who asks cannot be found out: see the log\n")


async def test_health_has_no_metrics_where_they_are_served_elsewhere() -> None:
    address = f"127.0.0.1:{free_port()}"
    serving = asyncio.create_task(Health(address, metrics=False).serve())
    try:
        async with aiohttp.ClientSession() as http:
            for path, status in (("/healthz", 200), ("/metrics", 404)):
                while True:
                    try:
                        async with http.get(f"http://{address}{path}") as response:
                            assert response.status == status
                            break
                    except aiohttp.ClientConnectorError:
                        await asyncio.sleep(0.01)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
