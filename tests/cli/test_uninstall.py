"""Removals and refusals of an uninstallation, on a real API server with a namespace per test."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.crds import ac3_crds, p2code_crds
from agent.api.hookroles import UNINSTALL
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SUMMARIES,
    CONFIGMAPS,
    CRDS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    INGRESSES,
    MULTI_CLUSTER_NETWORKS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    SCHEDULING_MANIFESTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.api.ownroles import CONFIGURATION
from agent.cli.uninstall import Policy, Refused, Uninstaller
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.servicelinks import made_for
from agent.model.servicemarks import native, rerouted
from agent.services.copies.controller import CONDITION
from hack.lab.sandbox import Cluster, Sandbox, kubeconfig, manifests
from hack.lab.sandbox.objects import account_token, apply, connect
from tests.cli.command import flotilla
from tests.cli.standin import is_let_go, stand_in
from tests.docs.pages import DOCS, blocks
from tests.waiting import unserved, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120), pytest.mark.usefixtures("alone")]

Raw = dict[str, Any]
OURS = names.finalizer("", "us")
MADE = (
    PODS,
    TARGETS,
    SECRETS,
    CHAPERONS,
    SERVICES,
    ENDPOINT_SLICES,
    SERVICE_LINKS,
    INGRESSES,
    CONFIGMAPS,
    ROLE_BINDINGS,
)
"""Kinds of objects that these tests create in their namespace."""


@pytest_asyncio.fixture
async def client(sandbox: Sandbox, cluster: Cluster) -> AsyncIterator[Client]:
    """Client with only the rights of the chart's hook."""
    admin = connect(cluster.kubeconfig)
    async with admin.session:
        token = await account_token(admin, UNINSTALL)
    authority = (sandbox.directory / cluster.name / "pki" / "ca.crt").read_bytes()
    file = sandbox.directory / "uninstall.kubeconfig"
    text = kubeconfig.render(cluster.name, cluster.server, authority, token=token)
    await asyncio.to_thread(file.write_text, text)
    client = connect(file)
    async with client.session:
        yield client


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Client]:
    """Client with all rights."""
    client = connect(cluster.kubeconfig)
    async with client.session:
        yield client


@pytest_asyncio.fixture
async def namespace(admin: Client) -> AsyncIterator[str]:
    """Namespace that elects by default. It is emptied at the end, since an uninstallation covers all
    namespaces."""
    name = f"uninstall-{secrets.token_hex(4)}"
    labels = {names.LABEL_ELECT_BY_DEFAULT: "true"}
    await admin.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    await account(admin, name)
    yield name
    for kind in MADE:
        for obj in await admin.list(kind, name):
            with contextlib.suppress(NotFound):
                await admin.patch(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}}, name)
                await admin.delete(kind, obj["metadata"]["name"], name, grace=0 if kind == PODS else None)
    await admin.delete(NAMESPACES, name)


async def account(admin: Client, namespace: str) -> None:
    """Create the default service account, which a namespace needs to accept pods."""
    await apply(admin, SERVICE_ACCOUNTS, manifests.service_account("default", namespace))


async def proxy(admin: Client, namespace: str, name: str, *finalizers: str) -> Raw:
    spec = {"schedulerName": names.SCHEDULER_PROXY, "containers": [{"name": "main", "image": "x"}]}
    metadata = {"name": name, "finalizers": [OURS, *finalizers]}
    return await admin.create(PODS, {"metadata": metadata, "spec": spec}, namespace)


async def furnish(admin: Client, namespace: str) -> None:
    """Create the objects that agents leave in a cluster with one target and one source."""
    held = {"finalizers": [names.FINALIZER_DRAIN]}
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": "Target",
        "metadata": {"name": "us", **held},
        "spec": {"self": True},
    }
    await admin.create(TARGETS, target, namespace)
    secret = {"metadata": {"name": "us", "labels": {names.LABEL_TARGET_SECRET: "true"}, **held}}
    await admin.create(SECRETS, secret, namespace)
    node = {"metadata": {"name": "admiralty-us", "labels": {names.PROVIDER_KEY: names.PROVIDER_VALUE}}}
    await admin.create(NODES, node)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "admiralty-source-cd", "labels": {names.LABEL_SOURCE: "cd"}}, "roleRef": reference}
    await admin.create(ROLE_BINDINGS, binding, namespace)
    summary = {
        "apiVersion": CLUSTER_SUMMARIES.api_version,
        "kind": "ClusterSummary",
        "metadata": {"name": names.SUMMARY_NAME},
    }
    await apply(admin, CLUSTER_SUMMARIES, summary)


async def exists(admin: Client, kind: Kind, name: str, namespace: str | None = None) -> bool:
    try:
        await admin.get(kind, name, namespace)
    except NotFound:
        return False
    return True


def uninstaller(client: Client, policy: Policy, namespace: str, seconds: float = 30) -> Uninstaller:
    return Uninstaller(client, policy, "kube-system", "flotilla", seconds, lambda text: None)


async def test_proxy_pods_are_a_reason_to_refuse_and_everything_stays(
    admin: Client, client: Client, namespace: str
) -> None:
    await furnish(admin, namespace)
    volume = await stand_in(admin, namespace)
    await proxy(admin, namespace, "web")
    with pytest.raises(
        Refused, match=rf"1 proxy pod of this cluster \({namespace}/web\).*multicluster/uninstall-policy=delete"
    ):
        await uninstaller(client, Policy.REFUSE, namespace).run()
    assert (await admin.get(TARGETS, "us", namespace))["metadata"]["finalizers"] == [names.FINALIZER_DRAIN]
    assert await exists(admin, NODES, "admiralty-us")

    # Orphaned pods keep foreign finalizers and lose Flotilla's.
    await proxy(admin, namespace, "held", "example.test/other")
    await uninstaller(client, Policy.ORPHAN, namespace).run()
    assert "finalizers" not in (await admin.get(PODS, "web", namespace))["metadata"]
    assert (await admin.get(PODS, "held", namespace))["metadata"]["finalizers"] == ["example.test/other"]
    assert "finalizers" not in (await admin.get(TARGETS, "us", namespace))["metadata"]
    secret = (await admin.get(SECRETS, "us", namespace))["metadata"]
    assert "finalizers" not in secret
    assert names.LABEL_TARGET_SECRET not in (secret.get("labels") or {})
    assert names.LABEL_ELECT_BY_DEFAULT not in (await admin.get(NAMESPACES, namespace))["metadata"]["labels"]
    assert not await exists(admin, NODES, "admiralty-us")
    assert not await exists(admin, ROLE_BINDINGS, "admiralty-source-cd", namespace)
    assert not await exists(admin, CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    await is_let_go(admin, namespace, volume)


async def test_services_select_what_their_users_wrote_again(admin: Client, client: Client, namespace: str) -> None:
    ports = [{"port": 80}]
    plain = {"metadata": {"name": "web", "namespace": namespace}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    written = await admin.create(SERVICES, rerouted(plain, switch=True), namespace)
    assert written["spec"]["selector"] == {names.PREFIX + "app": "web"}
    await admin.create(SERVICES, native({**plain, "metadata": {"name": "kept"}}), namespace)
    shared = {"annotations": {names.ANNOTATION_CILIUM: "true"}, "labels": {names.LABEL_GLOBAL: "true"}}
    await admin.create(SERVICES, {**plain, "metadata": {"name": "shared", **shared}}, namespace)
    now = "2026-01-01T00:00:00Z"
    told = {"type": CONDITION, "status": "False", "reason": "Blocked", "message": "m", "lastTransitionTime": now}
    other = {**told, "type": "example.test/other"}
    await admin.patch(SERVICES, "shared", {"status": {"conditions": [told, other]}}, namespace, sub="status")
    copy = {"annotations": {names.ANNOTATION_IS_DELEGATE: "", names.ANNOTATION_GLOBAL: "true"}}
    await admin.create(SERVICES, {**plain, "metadata": {"name": "copy", **copy}}, namespace)
    broken = {"annotations": {names.ANNOTATION_ORIGINAL_SELECTOR: "nonsense"}}
    await admin.create(SERVICES, {**plain, "metadata": {"name": "broken", **broken}}, namespace)
    for name, manager in (("web-mirror", names.SLICE_MANAGER), ("web-own", "example.test")):
        labels = {names.LABEL_SERVICE_NAME: "web", names.LABEL_SLICE_MANAGED_BY: manager}
        body = {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": []}
        await admin.create(ENDPOINT_SLICES, body, namespace)

    made = made_for(await admin.get(SERVICES, "web", namespace))
    await admin.create(SERVICE_LINKS, made, namespace)
    await admin.create(SERVICE_LINKS, {**made, "metadata": {"name": "mine"}}, namespace)
    theirs = {"labels": {names.LABEL_PARENT_CLUSTER_UID: "another"}}
    await admin.create(SERVICES, {**plain, "metadata": {"name": "brought", **theirs}}, namespace)
    for kind in (CONFIGMAPS, SECRETS):
        await admin.create(kind, {"metadata": {"name": "brought", **theirs}}, namespace)
    marks = {names.ANNOTATION_GLOBAL: "true", names.ANNOTATION_MARKS: f'["{names.ANNOTATION_GLOBAL}"]'}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    metadata = {"name": "web", "annotations": {"note": "mine", **marks}}
    await admin.create(INGRESSES, {"metadata": metadata, "spec": {"defaultBackend": backend}}, namespace)

    said: list[str] = []
    await Uninstaller(client, Policy.REFUSE, "kube-system", "flotilla", 30, said.append).run()
    for name in ("web", "kept"):
        web = await admin.get(SERVICES, name, namespace)
        assert web["spec"]["selector"] == {"app": "web"}
        assert not any(names.is_ours(key) or "cilium" in key for key in web["metadata"].get("annotations") or {})
        assert "labels" not in web["metadata"]
    found = await admin.get(SERVICES, "shared", namespace)
    assert [each["type"] for each in found["status"]["conditions"]] == ["example.test/other"]
    metadata = found["metadata"]
    assert metadata["annotations"] == shared["annotations"], "what its user wrote stays"
    assert "labels" not in metadata
    assert (await admin.get(SERVICES, "copy", namespace))["metadata"]["annotations"] == copy["annotations"]
    assert any(line.startswith(f"Service {namespace}/broken is left as it is: annotation") for line in said)
    assert not await exists(admin, ENDPOINT_SLICES, "web-mirror", namespace)
    assert await exists(admin, ENDPOINT_SLICES, "web-own", namespace)
    assert not await exists(admin, SERVICE_LINKS, "web", namespace)
    assert await exists(admin, SERVICE_LINKS, "mine", namespace)
    for kind in (SERVICES, CONFIGMAPS, SECRETS):
        assert not await exists(admin, kind, "brought", namespace), "nobody brings it up to date any more"
    assert (await admin.get(INGRESSES, "web", namespace))["metadata"]["annotations"] == {"note": "mine"}


@pytest.mark.full("Definitions of AC3 and P2CODE beside; the first tier uninstalls without them.")
async def test_what_others_have_written_goes_without_us(admin: Client, client: Client, namespace: str) -> None:
    """AC3's networks and P2CODE's applications stay and lose Flotilla's finalizers."""
    for definition in (*ac3_crds(), *p2code_crds()):
        await apply(admin, CRDS, definition)
    for kind in (MULTI_CLUSTER_NETWORKS, SCHEDULING_MANIFESTS):
        await until(functools.partial(_served, admin, kind))
    link = {"sourceCluster": "us", "targetCluster": "eu", "sourceNamespace": namespace, "targetNamespace": namespace}
    held = {"name": "hello", "finalizers": ["multicluster/links", "example.test/mine"]}
    network = await admin.create(
        MULTI_CLUSTER_NETWORKS, {**head(MULTI_CLUSTER_NETWORKS), "metadata": held, "spec": {"links": [link]}}, namespace
    )
    held = {"name": "hello", "finalizers": ["scheduling.p2code.eu/finalizer", "example.test/mine"]}
    await admin.create(
        SCHEDULING_MANIFESTS, {**head(SCHEDULING_MANIFESTS), "metadata": held, "spec": {"manifests": []}}, namespace
    )
    made = {"name": "web-1", "labels": {"multicluster/ac3-network-uid": network["metadata"]["uid"]}}
    link = {**head(SERVICE_LINKS), "metadata": made, "spec": {"service": "web", "from": ["us"]}}
    await admin.create(SERVICE_LINKS, link, namespace)
    for name, annotations in (
        ("web", {"multicluster/global": "true", "multicluster/shared-for": "ac3", "note": "mine"}),
        ("own", {"multicluster/global": "true"}),
    ):
        metadata = {"name": name, "annotations": annotations}
        await admin.create(SERVICES, {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}, namespace)
    try:
        await uninstaller(client, Policy.REFUSE, namespace).run()
        for kind in (MULTI_CLUSTER_NETWORKS, SCHEDULING_MANIFESTS):
            found = await admin.get(kind, "hello", namespace)
            assert found["metadata"]["finalizers"] == ["example.test/mine"]
        assert not await exists(admin, SERVICE_LINKS, "web-1", namespace)
        web, own = [await admin.get(SERVICES, name, namespace) for name in ("web", "own")]
        assert web["metadata"]["annotations"] == {"note": "mine"}
        assert own["metadata"]["annotations"] == {"multicluster/global": "true"}, "what its user wrote stays"
    finally:
        for kind in (MULTI_CLUSTER_NETWORKS, SCHEDULING_MANIFESTS):
            await admin.patch(kind, "hello", {"metadata": {"finalizers": None}}, namespace)
        for crd in (*ac3_crds(), *p2code_crds()):
            await unserved(admin, crd["metadata"]["name"])


async def _served(admin: Client, kind: Kind) -> bool:
    try:
        await admin.list(kind)
    except NotFound:
        return False
    return True


def head(kind: Kind) -> Raw:
    return {"apiVersion": kind.api_version, "kind": kind.name}


async def test_accounts_of_sources_that_stay_are_named_with_what_voids_their_tokens(
    admin: Client, client: Client, namespace: str
) -> None:
    made = {"metadata": {"name": "cd", "labels": {names.LABEL_SOURCE: f"{namespace}.cd"}}}
    await admin.create(SERVICE_ACCOUNTS, made, namespace)
    told: list[str] = []
    await Uninstaller(client, Policy.REFUSE, "kube-system", "flotilla", 30, told.append).run()
    (line,) = [each for each in told if "service account" in each]
    assert f"{namespace}/cd" in line
    (documented,) = [block.text for block in blocks(DOCS / "start/installation.md", "sh") if block.mark == "after"]
    assert all(command in line for command in documented.splitlines())
    assert await exists(admin, SERVICE_ACCOUNTS, "cd", namespace)
    await admin.delete(SERVICE_ACCOUNTS, "cd", namespace)


@pytest.mark.full("Pods of other clusters; the first tier keeps the reasons within one cluster.")
async def test_pods_of_other_clusters_are_a_reason_too(admin: Client, client: Client, namespace: str) -> None:
    metadata = {"name": "web-1", "labels": {names.LABEL_PARENT_CLUSTER_NAME: "cd"}}
    chaperon = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "metadata": metadata}
    await admin.create(CHAPERONS, chaperon, namespace)
    with pytest.raises(Refused, match=rf"1 pod of cd \({namespace}/web-1\)"):
        await uninstaller(client, Policy.REFUSE, namespace).run()
    await uninstaller(client, Policy.DELETE, namespace).run()
    assert not await exists(admin, CHAPERONS, "web-1", namespace)


async def test_policy_delete_ends_election_first_and_waits_for_the_agent(
    admin: Client, client: Client, namespace: str
) -> None:
    await admin.create(MUTATING_WEBHOOKS, {"metadata": {"name": CONFIGURATION}})
    await proxy(admin, namespace, "web")
    with pytest.raises(Refused, match=rf"proxy pods are still there after 0\.5 s: {namespace}/web.*force-remove"):
        await uninstaller(client, Policy.DELETE, namespace, seconds=0.5).run()
    assert not await exists(admin, MUTATING_WEBHOOKS, CONFIGURATION)
    assert "deletionTimestamp" in (await admin.get(PODS, "web", namespace))["metadata"]

    async def play_the_agent() -> None:
        await asyncio.sleep(0.5)
        await admin.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)

    await asyncio.gather(uninstaller(client, Policy.DELETE, namespace).run(), play_the_agent())
    assert not await exists(admin, PODS, "web", namespace)


async def test_the_command_says_why_it_refuses(admin: Client, cluster: Cluster, namespace: str) -> None:
    await proxy(admin, namespace, "web")
    flags = (f"--kubeconfig={cluster.kubeconfig}", "--namespace=kube-system")
    code, output, errors = await flotilla("uninstall", *flags)
    assert (code, output) == (1, "")
    assert errors.startswith("flotilla: nothing was changed: 1 proxy pod of this cluster")


@pytest.mark.full("Another agent beside; the first tier uninstalls the only agent.")
async def test_the_finalizer_that_is_ours_alone_is_taken_off_where_another_agent_is_at_work(
    admin: Client, cluster: Cluster, namespace: str
) -> None:
    held = {"finalizers": [names.FINALIZER_DRAIN, "example.com/theirs"]}
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": "Target",
        "metadata": {"name": "us", **held},
        "spec": {"kubeconfigSecret": {"name": "saved"}},
    }
    await admin.create(TARGETS, target, namespace)
    await admin.create(SECRETS, {"metadata": {"name": "saved", **held}}, namespace)
    labelled = {"name": "labelled", "labels": {names.LABEL_TARGET_SECRET: "true"}, **held}
    await admin.create(SECRETS, {"metadata": labelled}, namespace)
    await proxy(admin, namespace, "web")
    node = await admin.create(
        NODES, {"metadata": {"name": "admiralty-us", "labels": {names.PROVIDER_KEY: "admiralty"}}}
    )
    try:
        code, said, errors = await flotilla("uninstall", "--finalizers", f"--kubeconfig={cluster.kubeconfig}")
        assert code == 0, errors
        assert f"took {names.FINALIZER_DRAIN} off 1 Target and 2 Secrets" in said
        for kind, name in ((TARGETS, "us"), (SECRETS, "saved"), (SECRETS, "labelled")):
            metadata = (await admin.get(kind, name, namespace))["metadata"]
            assert metadata["finalizers"] == ["example.com/theirs"]
            assert names.LABEL_TARGET_SECRET not in (metadata.get("labels") or {})
        assert (await admin.get(PODS, "web", namespace))["metadata"]["finalizers"] == [OURS], "that is Admiralty's, too"
        assert (await admin.get(NODES, "admiralty-us"))["metadata"]["uid"] == node["metadata"]["uid"]
    finally:
        await admin.delete(NODES, "admiralty-us")


async def test_it_stays_where_an_agent_of_ours_would_put_it_back(
    admin: Client, cluster: Cluster, namespace: str
) -> None:
    labels = {"app.kubernetes.io/name": "flotilla", "app.kubernetes.io/component": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "agent", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await admin.create(DEPLOYMENTS, {"metadata": {"name": "agent", "labels": labels}, "spec": spec}, namespace)
    try:
        code, _, errors = await flotilla("uninstall", "--finalizers", f"--kubeconfig={cluster.kubeconfig}")
        assert code == 1
        assert f"Deployment {namespace}/agent runs the agent" in errors
        await admin.patch(DEPLOYMENTS, "agent", {"spec": {"replicas": 0}}, namespace, sub="scale")
        code, _, errors = await flotilla("uninstall", "--finalizers", f"--kubeconfig={cluster.kubeconfig}")
        assert code == 0, errors
    finally:
        await admin.delete(DEPLOYMENTS, "agent", namespace)
