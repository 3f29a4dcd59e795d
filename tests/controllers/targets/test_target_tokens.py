"""Renewal of targets' tokens, on a real API server that is both source and target."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import EVENTS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, TARGETS
from agent.api.roles import SOURCE_ROLE
from agent.base.metrics import REGISTRY
from agent.cli.joining.manifests import Names, renewal
from agent.kube import kubeconfig as documents
from agent.kube.client import Client
from agent.model.token import Claims, claims
from agent.targets.target import TargetController, TargetSecretController, TargetTokenController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.waiting import until

CONTROLLERS = (TargetController, TargetSecretController, TargetTokenController)
SECONDS = 600


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    yield
    await tear_away(client, namespace)


async def account(client: Client, namespace: str, *, may_renew: bool) -> str:
    """Create a source's service account, with or without the right to renew its token; return a first token."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd", "namespace": namespace}})
    subject = {"kind": "ServiceAccount", "name": "cd", "namespace": namespace}
    reference = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": SOURCE_ROLE}
    metadata = {"name": "source", "namespace": namespace}
    await client.create(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})
    if may_renew:
        await allow(client, namespace)
    body = {"metadata": {"name": "cd"}, "spec": {"expirationSeconds": SECONDS}}
    answer = await client.create(SERVICE_ACCOUNTS, body, namespace, sub="token")
    return str(answer["status"]["token"])


async def allow(client: Client, namespace: str) -> None:
    for kind, manifest in renewal(
        Names("cd", "us", False, namespace, namespace), {"metadata": {"name": "cd", "uid": ""}}
    ):
        manifest["metadata"].pop("ownerReferences", None)
        await client.create(kind, manifest)


async def told(client: Client, namespace: str) -> Claims:
    """Return the claims of the token in the Secret."""
    data = (await client.get(SECRETS, "us", namespace))["data"]["config"]
    found = claims(documents.token_of(documents.document_of(base64.b64decode(data))))
    assert found is not None
    return found


def metric(name: str, namespace: str) -> float | None:
    """Return a metric of the token."""
    return REGISTRY.get_sample_value(f"flotilla_target_token_{name}", {"target": f"{namespace}/us"})


async def test_a_token_is_renewed_before_it_ends_and_the_connection_stays(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    first = await account(client, namespace, may_renew=True)
    began = claims(first)
    assert began is not None
    # Due three seconds after its creation.
    async with running(cluster, *CONTROLLERS, token_renewal=3 / SECONDS) as deps:
        await add(client, namespace, "us", kubeconfig(cluster, user={"token": first}))
        await condition(client, namespace, "us", "Ready", "True")
        target = deps.targets.get((namespace, "us"))

        async def renewed() -> bool:
            return (await told(client, namespace)).issued > began.issued

        await until(renewed)
        assert (await told(client, namespace)).seconds == SECONDS
        assert deps.targets.get((namespace, "us")) is target
        assert target is not None
        session = target.cluster.client.session

        async def used() -> bool:
            header = await session.connection.auth.header() or ""
            found = claims(header.removeprefix("Bearer "))
            return found is not None and found.issued > began.issued

        await until(used)
        assert target.ready

        async def measured() -> bool:
            later = await told(client, namespace)
            return metric("expiry_timestamp_seconds", namespace) == later.expires.timestamp()

        await until(measured)
        assert metric("lifetime_seconds", namespace) == SECONDS


async def test_a_token_that_cannot_be_renewed_says_so_until_it_can(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    first = await account(client, namespace, may_renew=False)
    async with running(cluster, *CONTROLLERS, token_renewal=0.001):
        await add(client, namespace, "us", kubeconfig(cluster, user={"token": first}))
        found = await condition(client, namespace, "us", "TokenRenewed", "False", "RenewalFailed")
        assert "cannot be renewed" in found["message"]
        assert 'cannot create resource "serviceaccounts/token"' in found["message"]
        await condition(client, namespace, "us", "Ready", "True")

        async def warned() -> list[Any]:
            found = await client.list(EVENTS, namespace, fields="involvedObject.name=us")
            return [each for each in found if each["reason"] == "TokenRenewalFailed"]

        assert len(await until(warned)) == 1
        await allow(client, namespace)
        # Otherwise the retry would follow after a minute, or on the next change.
        await client.patch(TARGETS, "us", {"metadata": {"annotations": {"a": "b"}}}, namespace)
        await condition(client, namespace, "us", "TokenRenewed", "True")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_token_that_is_revoked_shows_in_the_conditions_of_the_target(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    first = await account(client, namespace, may_renew=True)
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "us", kubeconfig(cluster, user={"token": first}))
        await condition(client, namespace, "us", "Ready", "True")
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        found = await condition(client, namespace, "us", "Authorized", "False", "Unauthorized")
        assert "renew the kubeconfig Secret" in found["message"]
        await condition(client, namespace, "us", "Ready", "False", "Unauthorized")
