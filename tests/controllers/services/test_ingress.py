"""Secrets follow the Ingresses that name them only if they hold certificates, on real API servers."""

import base64
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, INGRESSES, NAMESPACES, SECRETS, SERVICES
from agent.model import ingress, sharedcopies
from agent.services.copies import GlobalServices
from agent.services.ingress import IngressController, IngressSecretController
from tests.controllers.pair import Pair
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (GlobalServices, IngressController, IngressSecretController)
TLS = {key: base64.b64encode(b"x").decode() for key in ("tls.crt", "tls.key")}


async def shared_ingress(pair: Pair, *secrets: str, name: str = "web") -> None:
    """Create an Ingress that routes to the shared Service and names these Secrets."""
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    tls = [{"secretName": secret} for secret in secrets]
    await pair.create(INGRESSES, name, spec={"defaultBackend": backend, "tls": tls})


async def service(pair: Pair) -> None:
    metadata = {"annotations": {"multicluster/global": "true"}}
    await pair.create(SERVICES, "web", metadata=metadata, spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})


async def told(pair: Pair, ingress: str) -> list[str]:
    """Return the messages of events about an Ingress."""
    events = await pair.here.list(EVENTS, pair.namespace, fields=f"involvedObject.name={ingress},reason=SharingBlocked")
    return [each["message"] for each in events]


async def test_an_ingress_takes_certificates_along_and_no_other_secret(pair: Pair) -> None:
    await service(pair)
    await pair.create(SECRETS, "good", type="kubernetes.io/tls", data=TLS)
    await pair.create(SECRETS, "password", type="Opaque", data=TLS)
    account = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    await pair.create(SECRETS, "token", type="kubernetes.io/service-account-token", metadata=account)
    async with pair.at_work(*CONTROLLERS):
        await shared_ingress(pair, "token", "password", "good")
        await pair.copy(SECRETS, "good")
        await until(lambda: _said(pair, "web", 2))
        of_types = sorted(await told(pair, "web"))
        assert of_types[0].startswith("Secret password is of type Opaque and not copied to targets")
        assert of_types[1].startswith("Secret token is of type kubernetes.io/service-account-token")
        assert all("kubernetes.io/tls" in each and "kubectl create secret tls" in each for each in of_types)
        await shared_ingress(pair, "password", name="second")
        await until(lambda: _said(pair, "second", 1))
        assert await pair.no_copy(SECRETS, "password")
        assert await pair.no_copy(SECRETS, "token")
        # A Secret that is recreated with the right type is copied.
        await pair.here.delete(SECRETS, "password", pair.namespace)
        await pair.create(SECRETS, "password", type="kubernetes.io/tls", data=TLS)
        await pair.copy(SECRETS, "password")


async def test_what_an_agent_before_has_copied_of_another_type_is_taken_away(pair: Pair) -> None:
    await service(pair)
    password = await pair.create(SECRETS, "password", type="Opaque", data=TLS)
    await pair.create(SECRETS, "good", type="kubernetes.io/tls", data=TLS)
    await shared_ingress(pair, "password", "good")
    uid = (await pair.here.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    await pair.there.create(SECRETS, sharedcopies.secret(password, "here", uid))
    copy = await pair.there.get(SECRETS, "password", pair.namespace)
    assert copy["metadata"]["labels"][names.LABEL_INGRESS_SECRET] == uid
    async with pair.at_work(*CONTROLLERS):
        await pair.gone(SECRETS, "password")
        await pair.copy(SECRETS, "good")


async def _said(pair: Pair, ingress: str, count: int) -> bool:
    return len(await told(pair, ingress)) == count


async def test_an_ingress_that_names_thousands_of_secrets_is_not_copied_and_an_event_says_so(pair: Pair) -> None:
    await service(pair)
    async with pair.at_work(*CONTROLLERS):
        await shared_ingress(pair, *(f"s{index}" for index in range(ingress.LIMIT + 1)), name="long")
        await shared_ingress(pair, name="short")
        await pair.copy(INGRESSES, "short")
        await until(lambda: _said(pair, "long", 1))
        assert "it names more than 1000 Secrets, and is not copied: split it" in (await told(pair, "long"))[0]
        assert await pair.no_copy(INGRESSES, "long")
