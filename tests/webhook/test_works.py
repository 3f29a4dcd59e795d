"""ManifestWorks of a hub: texts of refusals, and the right to name an executor."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.crds.works import hub_crds
from agent.api.kinds import MANIFEST_WORKS
from agent.kube.errors import BadRequest, Forbidden
from tests.waiting import defined, unserved, until
from tests.webhook.replica import Place
from webhook.review import Malformed
from webhook.works import WorkGuard, flaw

Raw = dict[str, Any]


def manifest(name: str = "a", **metadata: Any) -> Raw:
    named = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, "namespace": "shop", **metadata}}


def work(*manifests: Raw, **spec: Any) -> Raw:
    return {
        "apiVersion": MANIFEST_WORKS.api_version,
        "kind": "ManifestWork",
        "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": list(manifests)}, **spec},
    }


def executor(name: str) -> Raw:
    return {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": name}}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (work(manifest(), manifest("b")), ""),
        (work(), "manifests should not be empty"),
        (work(manifest("")), "name must be set in manifest"),
        (work(manifest("", generateName="a-")), "generateName must not be set in manifest"),
        (work(manifest(), manifest()), "duplicate manifest for resource shop/a with resource type v1.ConfigMap"),
        (work(manifest(), {**manifest(), "apiVersion": "v2"}), ""),
    ],
)
def test_invalid_manifests_are_named(given: Raw, reason: str) -> None:
    assert flaw(given) == reason


def test_manifests_have_a_maximum_size() -> None:
    large = {**manifest(), "data": {"a": "x" * 512_000}}
    assert flaw(work(large)).endswith(" bytes which exceeds the 512000 limit")
    assert flaw(work({**manifest(), "data": {"a": "x" * 500_000}})) == ""


async def test_another_kind_is_malformed() -> None:
    with pytest.raises(Malformed):
        await WorkGuard(None).of_work({"object": manifest(), "uid": "1"})  # type: ignore[arg-type]


@pytest.fixture
async def guarded(place: Place) -> AsyncIterator[Place]:
    """Run a webhook that is called for ManifestWorks; a user may create them and name one executor."""
    for crd in hub_crds():
        await defined(place.client, crd)
    group = MANIFEST_WORKS.group
    account = "system:serviceaccount:shop:deployer"
    rules = [
        {"apiGroups": [group], "resources": ["manifestworks"], "verbs": ["create"]},
        {"apiGroups": [group], "resources": ["manifestworks"], "resourceNames": [account], "verbs": ["execute-as"]},
    ]
    async with place.replica("--placements"), place.user("ann", rules):
        await until(lambda: asked(place), what="the API server asks about ManifestWorks")
        yield place
    await unserved(place.client, MANIFEST_WORKS)


async def asked(place: Place) -> bool:
    """Return whether the user exists and the webhook is called."""
    try:
        await place.warnings(MANIFEST_WORKS, work(), user="ann")
    except BadRequest as error:
        return error.message.endswith("manifests should not be empty")
    except Forbidden:
        return False
    return False


@pytest.mark.cluster
async def test_an_executor_takes_the_right_to_execute_as_it(guarded: Place) -> None:
    assert await guarded.warnings(MANIFEST_WORKS, work(manifest()), user="ann") == []
    mine = work(manifest(), executor=executor("deployer"))
    assert await guarded.warnings(MANIFEST_WORKS, mine, user="ann") == []
    refusal = f"user ann cannot manipulate the Manifestwork with executor shop/other in namespace {guarded.namespace}"
    with pytest.raises(BadRequest, match=refusal):
        await guarded.warnings(MANIFEST_WORKS, work(manifest(), executor=executor("other")), user="ann")
    with pytest.raises(BadRequest, match=r"duplicate manifest for resource shop/a with resource type v1\.ConfigMap"):
        await guarded.warnings(MANIFEST_WORKS, work(manifest(), manifest()), user="ann")
