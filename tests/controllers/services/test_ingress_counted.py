"""Many Ingresses of one Service and one Secret: an event decodes only the affected ones."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import INGRESSES, NAMESPACES, SECRETS, SERVICES
from agent.kube.store import Object
from agent.services.ingress import IngressController, IngressSecretController
from tests.controllers.offline import Offline, offline, quiet

MANY = 30
TEAM = {"labels": {names.LABEL_ENABLED: names.ENABLED_VALUE}}
SHARED = {"annotations": {names.SHORT_PREFIX + "global": "true"}}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the Ingresses that were decoded."""
    found: list[str] = []
    decode = Object.decode

    def counted(obj: Object) -> dict[str, Any]:
        if obj.kind is INGRESSES:
            found.append(obj.name)
        return decode(obj)

    monkeypatch.setattr(Object, "decode", counted)
    return found


def put_ingresses(cluster: Offline) -> None:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    for number in range(MANY):
        spec = {"defaultBackend": backend, "tls": [{"secretName": f"tls{secret}"} for secret in range(MANY)]}
        cluster.put(cluster.deps.local.informer(INGRESSES), INGRESSES, f"i{number}", "team", spec=spec)


def put_service(cluster: Offline, metadata: dict[str, Any], **status: Any) -> None:
    spec = {"selector": {"app": "web"}}
    informer = cluster.deps.local.informer(SERVICES)
    cluster.put(informer, SERVICES, "web", "team", metadata=metadata, spec=spec, status=status)


@pytest.mark.parametrize("make", [IngressController, IngressSecretController])
async def test_a_service_that_is_shared_as_before_has_no_ingress_decoded(make: Any, decoded: list[str]) -> None:
    async with offline(make) as (cluster, controller):
        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team", metadata=TEAM)
        put_service(cluster, {})
        put_ingresses(cluster)
        for secret in range(MANY if make is IngressSecretController else 0):
            cluster.put(controller.originals, SECRETS, f"tls{secret}", "team")
        await quiet(controller)
        decoded.clear()
        put_service(cluster, {}, loadBalancer={})
        await quiet(controller)
        assert not decoded
        assert not any(controller.shared(each) for each in controller.originals.store)
        put_service(cluster, SHARED)
        await quiet(controller)
        assert all(controller.shared(each) for each in controller.originals.store)
        assert len(decoded) <= MANY
