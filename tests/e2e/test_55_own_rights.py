"""Promise 55: whoever has an agent's account changes nodes, namespaces and Secrets only as the agent itself does."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import NAMESPACES, NODES, SECRETS
from agent.sandbox.errors import SandboxError
from tests.e2e.fleet import Fleet, Raw

As = Callable[..., Awaitable[str]]

DRY_RUN = "--dry-run=server"
PROVIDER = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
MARK = {names.LABEL_TARGET_SECRET: "true"}
LEVEL = "pod-security.kubernetes.io/enforce"
FOREIGN = "example.test/kept"
ADMIRALTYS = f"{names.PREFIX}somebody"


@pytest.fixture
def agent(fleet: Fleet) -> As:
    """kubectl in the source as the agent's account, which changes nothing for good."""

    async def run(*arguments: str) -> str:
        user = f"--as=system:serviceaccount:{fleet.home}:flotilla-agent"
        return await fleet.kubectl("cd", user, *arguments, DRY_RUN)

    return run


@pytest_asyncio.fixture(loop_scope="session")
async def real(fleet: Fleet) -> AsyncIterator[str]:
    """A node that is no virtual one."""
    nodes = await fleet.source.list(NODES, labels=f"!{names.PROVIDER_KEY}")
    yield nodes[0]["metadata"]["name"]


@pytest_asyncio.fixture(loop_scope="session")
async def marked(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """The Secret of a target, once the agent has marked it."""

    async def is_marked() -> bool:
        metadata = (await fleet.source.get(SECRETS, "us", namespace))["metadata"]
        return metadata["labels"].items() >= MARK.items() and names.FINALIZER_DRAIN in metadata["finalizers"]

    await fleet.until("the agent marks the Secret", is_marked, about=namespace)
    yield "us"


def patch(kind: str, name: str, body: Raw, *flags: str) -> tuple[str, ...]:
    """Arguments of kubectl."""
    return ("patch", kind, name, *flags, "--type=merge", "-p", json.dumps(body))


def encoded(text: str) -> str:
    """As Secrets hold it."""
    return base64.b64encode(text.encode()).decode()


async def refused(agent: As, said: str, *arguments: str) -> None:
    """See that the API server says no for this reason."""
    with pytest.raises(SandboxError) as caught:
        await agent(*arguments)
    assert said in str(caught.value)
    assert "ValidatingAdmissionPolicy 'multicluster-scheduler-agent-" in str(caught.value)


async def test_no_node_but_virtual_ones(fleet: Fleet, namespace: str, agent: As, real: str) -> None:
    virtual, field = names.virtual_node(namespace, "us"), f"metadata.labels[{names.PROVIDER_KEY}] of node"
    label, taint = {"metadata": {"labels": {"a": "b"}}}, {"spec": {"unschedulable": True}}
    status = {"status": {"conditions": []}}
    become = {"metadata": {"labels": PROVIDER}}
    said = f"{field} {real}: the agent of Flotilla writes virtual nodes only"
    for body, *flags in (
        (label,),
        (taint,),
        (become,),
        (become, "--subresource=status"),
        (status, "--subresource=status"),
    ):
        await refused(agent, said, *patch("node", real, body, *flags))
    await refused(agent, said, "delete", "node", real)
    for body, *flags in ((label,), (taint,), (status, "--subresource=status")):
        await agent(*patch("node", virtual, body, *flags))
    await agent("delete", "node", virtual)
    await refused(
        agent,
        f"{field} {virtual}: the agent of Flotilla makes virtual nodes only",
        *patch("node", virtual, {"metadata": {"labels": {names.PROVIDER_KEY: None}}}),
    )
    for name, labels in (("fake", {}), ("own", PROVIDER)):
        file = fleet.sandbox.directory / f"{name}.json"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"e2e-{name}", "labels": labels}}
        file.write_text(json.dumps(node))
        if labels:
            await agent("create", "-f", str(file))
        else:
            await refused(agent, f"{field} e2e-fake: the agent of Flotilla makes", "create", "-f", str(file))


async def test_the_agent_puts_back_what_makes_a_node_virtual(fleet: Fleet, namespace: str) -> None:
    node = names.virtual_node(namespace, "us")
    await fleet.source.patch(NODES, node, {"metadata": {"labels": {names.PROVIDER_KEY: None}}})

    async def back() -> bool:
        labels = (await fleet.source.get(NODES, node))["metadata"]["labels"]
        return bool(labels.items() >= PROVIDER.items())

    await fleet.until("the label is back", back, about=namespace)


async def test_nothing_of_namespaces_but_one_label(fleet: Fleet, namespace: str, agent: As) -> None:
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": {"a": "b"}}})
    only = f"of namespace {namespace}: the agent of Flotilla changes the label {names.LABEL_ELECT_BY_DEFAULT} only"
    for metadata, field in (
        ({"labels": {names.LABEL_ENABLED: None}}, f"metadata.labels[{names.LABEL_ENABLED}]"),
        ({"labels": {LEVEL: "privileged"}}, f"metadata.labels[{LEVEL}]"),
        ({"annotations": {"a": "c"}}, "metadata.annotations"),
        ({"annotations": None}, "metadata.annotations"),
        ({"finalizers": [FOREIGN]}, "metadata.finalizers"),
    ):
        await refused(agent, f"{field} {only}", *patch("namespace", namespace, {"metadata": metadata}))
    for value in ("true", None):
        await agent(*patch("namespace", namespace, {"metadata": {"labels": {names.LABEL_ELECT_BY_DEFAULT: value}}}))


@pytest.mark.parametrize("kind", ["kubernetes.io/tls", "kubernetes.io/service-account-token", "helm.sh/release.v1"])
async def test_no_content_of_secrets_of_others_types(fleet: Fleet, namespace: str, agent: As, kind: str) -> None:
    config = encoded("clusters: []")
    data = {"tls.crt": config, "tls.key": config}
    metadata = {"name": "theirs", "labels": MARK, "annotations": {"kubernetes.io/service-account.name": "default"}}
    await fleet.source.create(SECRETS, {"metadata": metadata, "type": kind, "data": data}, namespace)
    here = ("-n", namespace)
    said = f"data[tls.crt] of secret {namespace}/theirs: the agent of Flotilla changes nothing in those of type {kind}"
    await refused(agent, said, *patch("secret", "theirs", {"data": {"tls.crt": encoded("clusters: 1")}}, *here))
    # Admiralty's agent, here before, has put finalizers on such Secrets.
    old = {"metadata": {"finalizers": [FOREIGN, ADMIRALTYS]}}
    await fleet.source.patch(SECRETS, "theirs", old, namespace)
    await agent(*patch("secret", "theirs", {"metadata": {"finalizers": [FOREIGN]}}, *here))
    await fleet.source.patch(SECRETS, "theirs", {"metadata": {"finalizers": None}}, namespace)


async def test_no_content_of_secrets_but_a_kubeconfig(fleet: Fleet, namespace: str, agent: As, marked: str) -> None:
    here, of = ("-n", namespace), f"of secret {namespace}"
    other = encoded('{"clusters": [], "users": []}')
    for name, labels in (("plain", {}), ("labelled", MARK)):
        secret = {
            "metadata": {"name": name, "labels": labels},
            "stringData": {"password": "x", "config": "clusters: []"},
        }
        await fleet.source.create(SECRETS, secret, namespace)
    await agent(*patch("secret", marked, {"data": {"config": other}}, *here))
    await agent(*patch("secret", "labelled", {"data": {"config": other}}, *here))
    one = "the agent of Flotilla changes one key that is there and holds a kubeconfig"
    for name, data, said in (
        (marked, {"config": encoded("nothing")}, f"data[config] {of}/{marked}: {one}"),
        (marked, {"config": None}, f"data[config] {of}/{marked}: {one}"),
        (marked, {"more": other}, f"data[more] {of}/{marked}: {one}"),
        ("labelled", {"password": encoded("y")}, f"data[password] {of}/labelled: {one}"),
        ("labelled", {"password": other}, f"data[password] {of}/labelled: {one}"),
        ("labelled", {"password": other, "config": other}, f"{of}/labelled: {one}"),
        ("plain", {"config": other}, "changes nothing in those that no Target names"),
    ):
        await refused(agent, said, *patch("secret", name, {"data": data}, *here))


async def test_no_more_of_secrets_than_its_marks(fleet: Fleet, namespace: str, agent: As, marked: str) -> None:
    here, of = ("-n", namespace), f"of secret {namespace}/{marked}: the agent of Flotilla changes"
    for metadata, said in (
        ({"labels": {names.LABEL_PARENT_CLUSTER_UID: "x"}}, f"metadata.labels[{names.LABEL_PARENT_CLUSTER_UID}] {of}"),
        ({"annotations": {"a": "b"}}, f"metadata.annotations {of}"),
        ({"finalizers": [names.FINALIZER_DRAIN, FOREIGN]}, f"metadata.finalizers {of} {names.FINALIZER_DRAIN}"),
        ({"finalizers": [names.FINALIZER_DRAIN, ADMIRALTYS]}, f"metadata.finalizers {of} {names.FINALIZER_DRAIN}"),
    ):
        await refused(agent, said, *patch("secret", marked, {"metadata": metadata}, *here))
    await refused(agent, f"immutable {of}", *patch("secret", marked, {"immutable": True}, *here))
    free: Raw = {"finalizers": None, "labels": {names.LABEL_TARGET_SECRET: None}}
    await agent(*patch("secret", marked, {"metadata": free}, *here))
    await fleet.source.create(SECRETS, {"metadata": {"name": "new", "finalizers": [FOREIGN]}}, namespace)
    added = {"finalizers": [FOREIGN, names.FINALIZER_DRAIN], "labels": MARK}
    await agent(*patch("secret", "new", {"metadata": added}, *here))
    said = f"metadata.finalizers of secret {namespace}/new: the agent of Flotilla changes"
    await refused(agent, said, *patch("secret", "new", {"metadata": {"finalizers": None}}, *here))
    await fleet.source.patch(SECRETS, "new", {"metadata": {"finalizers": None}}, namespace)
