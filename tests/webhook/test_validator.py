"""Flotilla's own kinds, created through a real API server that calls a real webhook."""

import base64
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest

from agent.api.kinds import (
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.kube.errors import Invalid, NotFound
from tests.waiting import until
from tests.webhook.replica import Place, Raw

pytestmark = pytest.mark.cluster

KUBECONFIG = b"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
UNVERIFIED = KUBECONFIG.replace(b'1"}', b'1", insecure-skip-tls-verify: true}')


@contextlib.asynccontextmanager
async def validating(place: Place, *flags: str) -> AsyncIterator[None]:
    """Run a replica that the API server also calls for Flotilla's kinds."""

    async def asked() -> bool:
        try:
            await place.warnings(SOURCES, ours(SOURCES, {}, "nobody"))
        except Invalid:
            return True
        return False

    async with place.replica(*flags):
        await until(asked, what="API server asks the webhook about Sources")
        yield


def ours(kind: Kind, spec: Raw, name: str) -> Raw:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def naming(place: Place, **more: str) -> Raw:
    return ours(TARGETS, {"kubeconfigSecret": {"name": "c2", **more}}, "c2")


async def put(place: Place, data: Mapping[str, bytes]) -> None:
    fields = {key: base64.b64encode(value).decode() for key, value in data.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c2"}, "data": fields}
    await place.client.create(SECRETS, secret, place.namespace)


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (TARGETS, {"self": True, "excludedLabelsRegexp": "("}, "spec.excludedLabelsRegexp"),
        (CLUSTER_TARGETS, {"self": True, "excludedLabelsRegexp": "("}, "spec.excludedLabelsRegexp"),
        (SOURCES, {}, "set userName, serviceAccountName, or both"),
        (CLUSTER_SOURCES, {}, "set userName, serviceAccount, or both"),
    ],
    ids=str,
)
async def test_a_fault_is_refused_with_field_and_remedy(place: Place, kind: Kind, spec: Raw, field: str) -> None:
    async with validating(place):
        with pytest.raises(Invalid) as refused:
            await place.client.create(kind, ours(kind, spec, place.namespace), place.namespace)
    assert field in refused.value.message
    assert f'admission webhook "validate.{place.namespace}.multicluster.admiralty.io" denied' in refused.value.message
    with pytest.raises(NotFound):
        await place.client.get(kind, place.namespace, place.namespace)


async def test_a_name_that_is_no_label_value_is_refused(place: Place) -> None:
    async with validating(place):
        with pytest.raises(Invalid, match=r"metadata\.name: has 64 characters"):
            await place.client.create(TARGETS, ours(TARGETS, {"self": True}, "c" * 64), place.namespace)
        await place.client.create(TARGETS, ours(TARGETS, {"self": True}, "c" * 63), place.namespace)


async def test_a_fault_from_before_can_be_repaired_and_is_told_until_then(place: Place) -> None:
    made = await place.client.create(
        TARGETS, ours(TARGETS, {"self": True, "excludedLabelsRegexp": "("}, "c2"), place.namespace
    )
    assert made["spec"]["excludedLabelsRegexp"] == "("
    async with validating(place):
        await place.client.patch(TARGETS, "c2", {"metadata": {"labels": {"a": "b"}}}, place.namespace)
        with pytest.raises(Invalid, match="excludedLabelsRegexp"):
            await place.client.patch(TARGETS, "c2", {"spec": {"excludedLabelsRegexp": "["}}, place.namespace)
        repaired = {"spec": {"excludedLabelsRegexp": "^a="}}
        assert (await place.client.patch(TARGETS, "c2", repaired, place.namespace))["spec"] == {
            "self": True,
            **repaired["spec"],
        }


async def test_without_the_webhook_operators_work_on(place: Place) -> None:
    async with validating(place):
        pass
    await place.client.create(TARGETS, ours(TARGETS, {"self": True}, "c2"), place.namespace)
    await place.client.create(SOURCES, ours(SOURCES, {"userName": "cd"}, "cd"), place.namespace)


async def test_a_secret_that_is_not_there_yet_is_a_warning(place: Place) -> None:
    async with validating(place):
        (warning,) = await place.warnings(TARGETS, naming(place))
        (other,) = await place.warnings(
            CLUSTER_TARGETS,
            ours(CLUSTER_TARGETS, {"kubeconfigSecret": {"namespace": place.namespace, "name": "c3"}}, place.namespace),
        )
    assert warning == (
        f"spec.kubeconfigSecret: Secret {place.namespace}/c2 does not exist: the target is connected once it does"
    )
    assert f"{place.namespace}/c3 does not exist" in other


async def test_who_may_not_read_a_secret_hears_nothing_of_it(place: Place) -> None:
    await put(place, {"other": KUBECONFIG})
    name = await user(place, "mallory")
    missing = ours(TARGETS, {"kubeconfigSecret": {"name": "missing"}}, "c2")
    async with validating(place):
        for target in (naming(place), missing):
            assert await place.warnings(TARGETS, target), "who may read it is told"
            assert await place.warnings(TARGETS, target, user=name) == []


async def test_the_agent_hears_nothing_of_secrets_when_it_writes_for_it_heeds_no_warnings(place: Place) -> None:
    reads = {"apiGroups": [""], "resources": [SECRETS.plural], "verbs": ["get"]}
    agent, another = [await user(place, name, reads) for name in ("agent", "another")]
    async with validating(place, f"--agent-user={agent}"):
        assert await place.warnings(TARGETS, naming(place), user=another)
        assert await place.warnings(TARGETS, naming(place), user=agent) == []


async def user(place: Place, name: str, *more: Raw) -> str:
    """Create a user who may create Targets, with more rules if given."""
    name = f"{place.namespace}-{name}"
    rules = [{"apiGroups": [TARGETS.group], "resources": [TARGETS.plural], "verbs": ["create"]}, *more]
    await place.client.create(ROLES, {"metadata": {"name": name}, "rules": rules}, place.namespace)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": ROLES.group, "kind": "User", "name": name}],
    }
    await place.client.create(ROLE_BINDINGS, binding, place.namespace)
    return name


@pytest.mark.parametrize(
    ("data", "reference", "want"),
    [
        pytest.param({"config": KUBECONFIG}, {}, "", id="a good one"),
        pytest.param({"other": KUBECONFIG}, {"key": "other"}, "", id="a good one under another key"),
        pytest.param({"other": KUBECONFIG}, {}, "has no key 'config'", id="under another key than said"),
        pytest.param(
            {"config": b"{"},
            {},
            "is no usable kubeconfig: the condition Ready of the target will say why",
            id="damaged",
        ),
        pytest.param({"config": UNVERIFIED}, {}, "insecure-skip-tls-verify is true", id="one that verifies nothing"),
        pytest.param({"config": KUBECONFIG}, {"context": "d"}, "is no usable kubeconfig", id="an unknown context"),
        pytest.param(
            {
                "config": KUBECONFIG.replace(
                    b"token: t", b"exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"
                )
            },
            {},
            "",
            id="a credential plugin, which may be allowed",
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_a_warning(
    place: Place, data: dict[str, bytes], reference: dict[str, str], want: str
) -> None:
    await put(place, data)
    async with validating(place):
        found = await place.warnings(TARGETS, naming(place, **reference))
    assert len(found) == bool(want)
    assert want in "".join(found)
