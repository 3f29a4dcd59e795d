"""Namespaces with more mirrored EndpointSlices than recommended."""

import pytest

from agent.api import names
from agent.api.kinds import SERVICES
from agent.cli.checks import mirrored
from agent.cli.checks.finding import Level
from agent.cli.checks.lookup import services_of
from agent.cli.checks.view import TargetView
from agent.kube.client import Client
from agent.model.mirrorcount import MIRRORS_LIMIT
from tests.cli.test_checks import target, view

SHARED = frozenset(("shop", f"web-{number}") for number in range(20)) | {("bank", "web")}


def targets(count: int, reason: str = "EndpointSlices") -> tuple[TargetView, ...]:
    said = {"type": "ServicesShared", "status": "True", "reason": reason, "message": ""}
    return tuple(target(f"t{number}", conditions=(said,), services=SHARED) for number in range(count))


def test_a_namespace_above_the_limit_is_named_with_its_number_and_the_remedy() -> None:
    (finding,) = mirrored.mirrors(view(targets=targets(23), shared=SHARED))
    assert (finding.level, finding.about) == (Level.WARN, "namespace shop")
    assert "20 shared Services have up to 11040 mirrored EndpointSlices, more than 10000" in finding.what
    assert "ServiceLinks" in finding.remedy
    assert 20 * 24 * 23 > MIRRORS_LIMIT >= 20 * 20 * 19


@pytest.mark.parametrize(
    "given",
    [
        view(targets=targets(19), shared=SHARED),
        view(targets=targets(23, "Gateway"), shared=SHARED),
        view(targets=targets(23), shared=None),
        view(targets=tuple(target(f"t{number}", services=None) for number in range(23)), shared=SHARED),
    ],
    ids=["below", "another driver", "not read", "targets not read"],
)
def test_nothing_is_reported_below_the_limit_or_without_mirrors(given: object) -> None:
    assert list(mirrored.mirrors(given)) == []  # type: ignore[arg-type]


@pytest.mark.cluster
async def test_one_list_of_services_has_the_label_of_shared_ones(client: Client, namespace: str) -> None:
    shared = {names.LABEL_GLOBAL: "true"}
    for name, labels in (("web", shared), ("plain", {})):
        service = {"metadata": {"name": name, "labels": labels}, "spec": {"ports": [{"port": 80}]}}
        await client.create(SERVICES, service, namespace)
    assert await services_of(client, namespace) == {(namespace, "web"): shared, (namespace, "plain"): {}}
