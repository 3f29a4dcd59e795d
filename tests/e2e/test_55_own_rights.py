"""Promise 55: a stolen agent account can change nodes, namespaces and Secrets only as the agent itself does."""

import base64
from collections.abc import AsyncIterator, Awaitable

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.agentpolicies import specs
from agent.api.kinds import NAMESPACES, NODES, PERSISTENT_VOLUMES, POLICIES, SECRETS, Kind
from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.kube import config
from agent.kube.client import encode
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from tests.e2e.fleet import Fleet, Raw

PROVIDER = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
MARK = {names.LABEL_TARGET_SECRET: "true"}
LEVEL = "pod-security.kubernetes.io/enforce"
FOREIGN = "example.test/kept"
ADMIRALTYS = f"{names.PREFIX}somebody"
OTHER = {"config": base64.b64encode(b'{"clusters": [], "users": []}').decode()}
"""Data of a Secret with another kubeconfig."""


class Taken(Session):
    """Session of an administrator who impersonates the agent's account. Requests are dry runs."""

    user = ""

    async def try_to(self, method: str, kind: Kind, path: tuple[str | None, str | None, str], body: Raw | None) -> None:
        """Send one dry-run request. Raises KubeError."""
        namespace, name, sub = path
        await self.request(
            method,
            kind.path(namespace, name, sub or None),
            params={"dryRun": "All"},
            body=encode(body) if body is not None else None,
            content_type="application/merge-patch+json" if method == "PATCH" else "application/json",
        )

    async def patch(self, kind: Kind, name: str, body: Raw, namespace: str | None = None, sub: str = "") -> None:
        await self.try_to("PATCH", kind, (namespace, name, sub), body)

    async def _headers(self, content_type: str | None, accept: str) -> dict[str, str]:
        return {**await super()._headers(content_type, accept), "Impersonate-User": self.user}


@pytest_asyncio.fixture(loop_scope="session")
async def agent(fleet: Fleet) -> AsyncIterator[Taken]:
    """Session with the rights of the source's agent, as an attacker with its account has them."""
    async with Taken(config.load(str(fleet.sandbox["cd"].kubeconfig))) as session:
        session.user = f"system:serviceaccount:{fleet.home}:flotilla-agent"
        yield session


@pytest_asyncio.fixture(loop_scope="session")
async def marked(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Name of a target's Secret, once the agent has labelled it and added its finalizer."""

    async def is_marked() -> bool:
        metadata = (await fleet.source.get(SECRETS, "us", namespace))["metadata"]
        is_labelled = metadata.get("labels", {}).items() >= MARK.items()
        return is_labelled and names.FINALIZER_DRAIN in metadata.get("finalizers", ())

    await fleet.until("the agent marks the Secret", is_marked, about=namespace)
    yield "us"


def encoded(text: str) -> str:
    """Return text in base64, the encoding of Secrets."""
    return base64.b64encode(text.encode()).decode()


async def refused(said: str, asking: Awaitable[None]) -> None:
    """Check that a policy about agents denies the request for this reason."""
    with pytest.raises(Forbidden) as caught:
        await asking
    assert said in caught.value.message
    assert "ValidatingAdmissionPolicy 'multicluster-scheduler-agent-" in caught.value.message


@pytest.mark.full("Another clause of the policies on the agent's rights.")
@pytest.mark.parametrize("name", specs(""))
async def test_an_api_server_finds_nothing_to_warn_of_in_a_policy(fleet: Fleet, name: str) -> None:
    async def judged() -> Raw | None:
        status: Raw = (await fleet.source.get(POLICIES, name)).get("status") or {}
        return status if "observedGeneration" in status else None

    status = await fleet.until(f"policy {name} is type-checked", judged)
    assert not status.get("typeChecking"), status


async def test_no_node_but_virtual_ones(fleet: Fleet, namespace: str, agent: Taken) -> None:
    real = (await fleet.source.list(NODES, labels=f"!{names.PROVIDER_KEY}"))[0]["metadata"]["name"]
    virtual, field = names.virtual_node(namespace, "us"), f"metadata.labels[{names.PROVIDER_KEY}] of node"
    label, cordon = {"metadata": {"labels": {"a": "b"}}}, {"spec": {"unschedulable": True}}
    become, status = {"metadata": {"labels": PROVIDER}}, {"status": {"conditions": []}}
    only = f"{field} {real}: the agent of Flotilla writes virtual nodes only"
    for body, sub in ((label, ""), (cordon, ""), (become, ""), (become, "status"), (status, "status")):
        await refused(only, agent.patch(NODES, real, body, sub=sub))
    await refused(only, agent.try_to("DELETE", NODES, (None, real, ""), None))
    for body, sub in ((label, ""), (cordon, ""), (status, "status")):
        await agent.patch(NODES, virtual, body, sub=sub)
    await agent.try_to("DELETE", NODES, (None, virtual, ""), None)
    ordinary: Raw = {"metadata": {"labels": {names.PROVIDER_KEY: None}}}
    makes = "the agent of Flotilla makes virtual nodes only"
    await refused(f"{field} {virtual}: {makes}", agent.patch(NODES, virtual, ordinary))
    fake: Raw = {"metadata": {"name": "e2e-fake"}}
    await refused(f"{field} e2e-fake: {makes}", agent.try_to("POST", NODES, (None, None, ""), fake))
    fake["metadata"]["labels"] = PROVIDER
    await agent.try_to("POST", NODES, (None, None, ""), fake)


@pytest.mark.full("Another clause of the policies on the agent's rights.")
async def test_no_volume_but_those_that_stand_for_others(fleet: Fleet, namespace: str, agent: Taken) -> None:
    field, only = "spec.csi.driver of volume", f"volumes of driver {names.STAND_IN_DRIVER} only"
    spec = {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": namespace}
    theirs: Raw = {"metadata": {"name": namespace}, "spec": {**spec, "hostPath": {"path": "/"}}}
    makes = f"{field} {namespace}: the agent of Flotilla makes {only}"
    await refused(makes, agent.try_to("POST", PERSISTENT_VOLUMES, (None, None, ""), theirs))
    csi = {"driver": "example.test", "volumeHandle": "x"}
    other = {"metadata": {"name": namespace}, "spec": {**spec, "csi": csi}}
    await refused(makes, agent.try_to("POST", PERSISTENT_VOLUMES, (None, None, ""), other))
    ours = {"metadata": {"name": namespace}, "spec": {**spec, "csi": {**csi, "driver": names.STAND_IN_DRIVER}}}
    await agent.try_to("POST", PERSISTENT_VOLUMES, (None, None, ""), ours)
    await fleet.source.create(PERSISTENT_VOLUMES, theirs)
    try:
        writes = f"{field} {namespace}: the agent of Flotilla writes {only}"
        await refused(writes, agent.patch(PERSISTENT_VOLUMES, namespace, {"metadata": {"labels": {"a": "b"}}}))
        await refused(writes, agent.try_to("DELETE", PERSISTENT_VOLUMES, (None, namespace, ""), None))
    finally:
        await fleet.source.delete(PERSISTENT_VOLUMES, namespace)


@pytest.mark.full("Another clause of the policies on the agent's rights.")
async def test_the_agent_puts_back_what_makes_a_node_virtual(fleet: Fleet, namespace: str) -> None:
    node = names.virtual_node(namespace, "us")
    await fleet.source.patch(NODES, node, {"metadata": {"labels": {names.PROVIDER_KEY: None}}})

    async def back() -> bool:
        labels = (await fleet.source.get(NODES, node))["metadata"]["labels"]
        return bool(labels.items() >= PROVIDER.items())

    await fleet.until("the label is back", back, about=namespace)


async def test_nothing_of_namespaces_but_one_label(fleet: Fleet, namespace: str, agent: Taken) -> None:
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": {"a": "b"}}})
    only = f"of namespace {namespace}: the agent of Flotilla changes the label {names.LABEL_ELECT_BY_DEFAULT} only"
    for metadata, field in (
        ({"labels": {names.LABEL_ENABLED: None}}, f"metadata.labels[{names.LABEL_ENABLED}]"),
        ({"labels": {LEVEL: "privileged"}}, f"metadata.labels[{LEVEL}]"),
        ({"annotations": {"a": "c"}}, "metadata.annotations"),
        ({"annotations": None}, "metadata.annotations"),
        ({"finalizers": [FOREIGN]}, "metadata.finalizers"),
    ):
        await refused(f"{field} {only}", agent.patch(NAMESPACES, namespace, {"metadata": metadata}))
    for value in ("true", None):
        one = {"metadata": {"labels": {names.LABEL_ELECT_BY_DEFAULT: value}}}
        await agent.patch(NAMESPACES, namespace, one)


@pytest.mark.full("Another clause of the policies on the agent's rights.")
async def test_no_namespaces_but_those_of_managed_clusters(fleet: Fleet, agent: Taken) -> None:
    if fleet.home != AGENT_NAMESPACE:
        pytest.skip("the chart grants it with agent.placement.crds")
    only = "metadata of namespace e2e-made: the agent of Flotilla makes namespaces of ManagedClusters only"
    own = {LABEL_CLUSTER_NAME: "e2e-made"}
    for metadata in (
        {},
        {"labels": {LABEL_CLUSTER_NAME: "another"}},
        {"labels": {**own, names.LABEL_ENABLED: names.ENABLED_VALUE}},
        {"labels": {**own, LEVEL: "privileged"}},
        {"labels": own, "annotations": {names.SHORT_PREFIX + "elect-by-default": "true"}},
        {"labels": own, "finalizers": [FOREIGN]},
    ):
        made: Raw = {"metadata": {"name": "e2e-made", **metadata}}
        await refused(only, agent.try_to("POST", NAMESPACES, (None, None, ""), made))
    added = {"labels": {**own, "istio-injection": "disabled", LEVEL: "restricted"}, "annotations": {"owner": "team a"}}
    await agent.try_to("POST", NAMESPACES, (None, None, ""), {"metadata": {"name": "e2e-made", **added}})


@pytest.mark.parametrize(
    "kind",
    [
        "kubernetes.io/tls",
        pytest.param("kubernetes.io/service-account-token", marks=pytest.mark.full("Another type of Secrets.")),
        pytest.param("helm.sh/release.v1", marks=pytest.mark.full("Another type of Secrets.")),
    ],
)
async def test_no_content_of_secrets_of_others_types(fleet: Fleet, namespace: str, agent: Taken, kind: str) -> None:
    # The policy has to handle a Secret of almost the maximum size, 1 MiB.
    data = {"tls.crt": encoded("clusters: []"), "tls.key": encoded("x" * 1024 * 1000)}
    metadata = {"name": "theirs", "labels": MARK, "annotations": {"kubernetes.io/service-account.name": "default"}}
    await fleet.source.create(SECRETS, {"metadata": metadata, "type": kind, "data": data}, namespace)
    said = f"data[tls.crt] of secret {namespace}/theirs: the agent of Flotilla changes nothing in those of type {kind}"
    changed = {"data": {"tls.crt": encoded("clusters: 1")}}
    await refused(said, agent.patch(SECRETS, "theirs", changed, namespace))
    # Admiralty's agent, Flotilla's predecessor, put finalizers on such Secrets.
    held = {"metadata": {"finalizers": [FOREIGN, ADMIRALTYS]}}
    await fleet.source.patch(SECRETS, "theirs", held, namespace)
    try:
        await agent.patch(SECRETS, "theirs", {"metadata": {"finalizers": [FOREIGN]}}, namespace)
    finally:
        await fleet.source.patch(SECRETS, "theirs", {"metadata": {"finalizers": None}}, namespace)


@pytest.mark.full("Another clause of the policies on the agent's rights.")
async def test_no_content_of_secrets_but_a_kubeconfig(fleet: Fleet, namespace: str, agent: Taken, marked: str) -> None:
    of, one = f"of secret {namespace}", "the agent of Flotilla changes one key that is there and holds a kubeconfig"
    await fleet.source.patch(SECRETS, marked, {"stringData": {"password": "x"}}, namespace)
    plain = {"metadata": {"name": "plain"}, "stringData": {"config": "clusters: []"}}
    await fleet.source.create(SECRETS, plain, namespace)
    await agent.patch(SECRETS, marked, {"data": OTHER}, namespace)
    for data, keys in (
        ({"config": encoded("nothing")}, "data[config]"),
        ({"config": None}, "data[config]"),
        ({"more": OTHER["config"]}, "data[more]"),
        ({"password": encoded("y")}, "data[password]"),
        ({"password": OTHER["config"]}, "data[password]"),
        ({"password": None, **OTHER}, "]"),
    ):
        await refused(f"{keys} {of}/{marked}: {one}", agent.patch(SECRETS, marked, {"data": data}, namespace))
    nobodys = "the agent of Flotilla changes nothing in those that no Target names"
    await refused(f"data[config] {of}/plain: {nobodys}", agent.patch(SECRETS, "plain", {"data": OTHER}, namespace))


@pytest.mark.full("Another clause of the policies on the agent's rights.")
async def test_no_more_of_secrets_than_its_marks(fleet: Fleet, namespace: str, agent: Taken, marked: str) -> None:
    of = f"of secret {namespace}/{marked}: the agent of Flotilla changes"
    for metadata, said in (
        ({"labels": {names.LABEL_PARENT_CLUSTER_UID: "x"}}, f"metadata.labels[{names.LABEL_PARENT_CLUSTER_UID}] {of}"),
        ({"annotations": {"a": "b"}}, f"metadata.annotations {of}"),
        ({"finalizers": [names.FINALIZER_DRAIN, FOREIGN]}, f"metadata.finalizers {of} {names.FINALIZER_DRAIN}"),
        ({"finalizers": [names.FINALIZER_DRAIN, ADMIRALTYS]}, f"metadata.finalizers {of} {names.FINALIZER_DRAIN}"),
    ):
        await refused(said, agent.patch(SECRETS, marked, {"metadata": metadata}, namespace))
    await refused(f"immutable {of}", agent.patch(SECRETS, marked, {"immutable": True}, namespace))
    free: Raw = {"finalizers": None, "labels": {names.LABEL_TARGET_SECRET: None}}
    await agent.patch(SECRETS, marked, {"metadata": free}, namespace)

    await fleet.source.create(SECRETS, {"metadata": {"name": "new", "finalizers": [FOREIGN]}}, namespace)
    try:
        put = {"finalizers": [FOREIGN, names.FINALIZER_DRAIN], "labels": MARK}
        await agent.patch(SECRETS, "new", {"metadata": put}, namespace)
        said = f"metadata.finalizers of secret {namespace}/new: the agent of Flotilla changes"
        await refused(said, agent.patch(SECRETS, "new", {"metadata": {"finalizers": None}}, namespace))
    finally:
        await fleet.source.patch(SECRETS, "new", {"metadata": {"finalizers": None}}, namespace)
