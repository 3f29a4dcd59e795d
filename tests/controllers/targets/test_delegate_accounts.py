"""No pod from another cluster runs as an account of a source, or of Flotilla itself, in this cluster."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.accountpolicies import CLUSTER_SOURCE, OWN, OWN_ACCOUNTS, SOURCE, specs
from agent.api.admission import policies
from agent.api.conditions import condition_of
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    EVENTS,
    NAMESPACES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SOURCES,
)
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.pods.chaperon.controller import Chaperon
from agent.targets.source import SourceController
from agent.targets.source.controller import OCCUPIED_SECONDS
from agent.targets.source.decide import Roles, wanted_bindings
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_chaperon import chaperon, status
from tests.controllers.starting import running
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


async def source(client: Client, namespace: str, **spec: Any) -> Raw:
    """Create the Source `cd`, with a ServiceAccount of that name by default."""
    made = {"apiVersion": SOURCES.api_version, "kind": SOURCES.name, "metadata": {"name": "cd"}}
    return await client.create(SOURCES, {**made, "spec": spec or {"serviceAccountName": "cd"}}, namespace)


@contextlib.asynccontextmanager
async def cluster_source(client: Client, name: str, **spec: Any) -> AsyncIterator[None]:
    """Create a ClusterSource for as long as the context lasts."""
    made = {"apiVersion": SOURCES.api_version, "kind": CLUSTER_SOURCES.name, "metadata": {"name": name}, "spec": spec}
    await client.create(CLUSTER_SOURCES, made)
    try:
        yield
    finally:
        await client.delete(CLUSTER_SOURCES, name)


async def account(client: Client, namespace: str, name: str) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace)


async def pod(client: Client, namespace: str, name: str, account: str) -> Raw:
    """Create a pod as a user of the cluster does."""
    return await client.create(PODS, manifest(name, account), namespace)


def manifest(name: str, account: str = "") -> Raw:
    """Return a pod that names an account, or none."""
    named = {"serviceAccountName": account} if account else {}
    return {"metadata": {"name": name}, "spec": {**named, "containers": [{"name": "main", "image": "busybox"}]}}


async def bound_before(cluster: Cluster, client: Client, namespace: str, name: str) -> Raw:
    """Create the state of an earlier version: a Source with its rights, whose account a delegate runs as."""
    await account(client, namespace, "cd")
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, chaperon(name, serviceAccountName="cd"), namespace)
        await status(client, namespace, name, phase="Running")
    made = await source(client, namespace)
    roles = Roles("multicluster-scheduler-source", "multicluster-scheduler-cluster-summary-viewer")
    for (kind, _), manifest in wanted_bindings((namespace, "cd"), made, roles).items():
        await client.create(kind, manifest)
    return await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)


async def refused(client: Client, namespace: str, name: str) -> str:
    """Wait until a PodChaperon reports why it has no pod; return the reason."""

    async def probe() -> str:
        found = condition_of(await client.get(CHAPERONS, name, namespace), "PodScheduled") or {}
        return str(found.get("message", "")) if found.get("reason") == "Refused" else ""

    message: str = await until(probe)
    with pytest.raises(NotFound):
        await client.get(PODS, name, namespace)
    return message


async def told(client: Client, namespace: str | None, name: str, type: str, reason: str) -> str:
    """Wait until a Source has a condition with this reason, and return its message."""
    kind = SOURCES if namespace else CLUSTER_SOURCES

    async def probe() -> str:
        found = condition_of(await client.get(kind, name, namespace), type) or {}
        return str(found.get("message", "")) if found.get("reason") == reason else ""

    message: str = await until(probe)
    return message


async def test_a_delegate_never_runs_as_the_account_of_a_source(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    # As `flotilla join` makes it: a Source without a policy, whose account has the name of the source's cluster.
    async with running(cluster, SourceController, Chaperon):
        await source(client, namespace)
        await told(client, namespace, "cd", "Ready", "Bound")
        for name, spec in (
            ("web", {"serviceAccountName": "cd"}),
            ("old", {"serviceAccount": "cd"}),
            ("candidate", {"serviceAccountName": "cd", "schedulerName": names.SCHEDULER_CANDIDATE}),
        ):
            await client.create(CHAPERONS, chaperon(name, **spec), namespace)
            message = await refused(client, namespace, name)
            assert message.startswith(f"Source {namespace}/cd: spec.serviceAccountName: cd is the account by which")
            assert "have the pod name another service account" in message
        by = condition_of(await client.get(CHAPERONS, "web", namespace), "multicluster/WithinPolicy") or {}
        assert by["message"] == f"Source {namespace}/cd"
        events = await client.list(EVENTS, namespace, fields="involvedObject.name=web,reason=FailedCreate")
        assert events[0]["message"] == message
        await client.create(CHAPERONS, chaperon("other"), namespace)
        await status(client, namespace, "other", phase="Running")


async def test_the_accounts_of_cluster_sources_of_users_and_of_other_namespaces_count(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    user = f"system:serviceaccount:{namespace}:"
    await source(client, "default", userName=f"{user}elsewhere")
    try:
        async with (
            cluster_source(client, f"{namespace}-a", serviceAccount={"name": "wide", "namespace": namespace}),
            cluster_source(client, f"{namespace}-b", userName=f"{user}named"),
            running(cluster, Chaperon),
        ):
            for name, title in (
                ("wide", f"ClusterSource {namespace}-a"),
                ("named", f"ClusterSource {namespace}-b"),
                ("elsewhere", "Source default/cd"),
            ):
                await client.create(CHAPERONS, chaperon(name, serviceAccountName=name), namespace)
                assert (await refused(client, namespace, name)).startswith(f"{title}: spec.serviceAccountName: {name}")
    finally:
        await client.delete(SOURCES, "cd", "default")


async def test_flotillas_own_accounts_are_refused_in_its_own_namespace(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon, namespace=namespace, own_account=("mine", "flotilla-webhook")):
        for name in ("mine", "flotilla-webhook"):
            await client.create(CHAPERONS, chaperon(name, serviceAccountName=name), namespace)
            message = await refused(client, namespace, name)
            assert message.startswith(f"spec.serviceAccountName: {name} is the account by which Flotilla itself acts")
        await account(client, namespace, "flotilla-agent")
        await client.create(CHAPERONS, chaperon("web", serviceAccountName="flotilla-agent"), namespace)
        await status(client, namespace, "web", phase="Running")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_pods_that_ran_as_the_account_before_the_source_came_keep_it_from_its_rights(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await account(client, namespace, "cd")
    async with running(cluster, SourceController, Chaperon):
        await client.create(CHAPERONS, chaperon("early", serviceAccountName="cd"), namespace)
        await status(client, namespace, "early", phase="Running")
        await source(client, namespace)
        message = await told(client, namespace, "cd", "Ready", "AccountInUse")
        assert (
            f"ServiceAccount {namespace}/cd gets no rights while pods of other clusters, or of the account" in message
        )
        assert "pod early" in message
        with pytest.raises(NotFound):
            await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)
        # The pod runs on as it is: neither deleted nor changed.
        meant = {names.ANNOTATION_LIVE_CHANGES: json.dumps({"images": {"main": "other"}, "serviceAccountName": "web"})}
        changed = {"metadata": {"annotations": meant}, "spec": {"serviceAccountName": "web"}}
        await client.patch(CHAPERONS, "early", changed, namespace)
        await until(lambda: client.list(EVENTS, namespace, fields="involvedObject.name=early,reason=FailedUpdate"))
        pod = await client.get(PODS, "early", namespace)
        assert pod["spec"]["containers"][0]["image"] == "busybox"
        assert pod["spec"]["serviceAccountName"] == "cd"
        await client.delete(CHAPERONS, "early", namespace)
        await told(client, namespace, "cd", "Ready", "Bound")
        assert await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)


async def test_a_source_that_was_granted_its_rights_keeps_them_and_says_which_pods_share_them(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    made = await bound_before(cluster, client, namespace, "web")
    await pod(client, namespace, "mine", "cd")
    async with running(cluster, SourceController):
        message = await told(client, namespace, "cd", "AccountExclusive", "PodsRunAsIt")
        assert f"ServiceAccount {namespace}/cd is also that of pods mine, web, with the source's rights" in message
        assert "name another account" in message
        await told(client, namespace, "cd", "Ready", "Bound")
    kept = await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert kept["subjects"] == made["subjects"]
    for name in ("mine", "web"):
        await client.delete(PODS, name, namespace, grace=0)
    async with running(cluster, SourceController):
        await told(client, namespace, "cd", "AccountExclusive", "Exclusive")


async def test_a_cluster_source_says_that_pods_of_its_accounts_namespace_are_elected(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    enabled = {"metadata": {"labels": {names.LABEL_ENABLED: names.ENABLED_VALUE}}}
    spec = {"serviceAccount": {"name": "wide", "namespace": namespace}}
    async with cluster_source(client, namespace, **spec), running(cluster, SourceController):
        await told(client, None, namespace, "Ready", "Bound")
        await client.patch(NAMESPACES, namespace, enabled)
        message = await told(client, None, namespace, "AccountExclusive", "NamespaceElects")
        assert message.startswith(f"spec.serviceAccount.namespace: pods of namespace {namespace} are elected")
        await client.patch(NAMESPACES, namespace, {"metadata": {"labels": {names.LABEL_ENABLED: None}}})
        await told(client, None, namespace, "AccountExclusive", "Exclusive")


async def test_delegates_are_deleted_with_their_account_before_it_is_created_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await bound_before(cluster, client, namespace, "spy")
    held = {"metadata": {"finalizers": ["test/hold"]}}
    before = (await client.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"]
    await client.create(CHAPERONS, chaperon("web"), namespace)
    async with running(cluster, SourceController, Chaperon, pod_missing=0.5):
        await told(client, namespace, "cd", "Ready", "Bound")
        await status(client, namespace, "web", phase="Running")
        await client.patch(PODS, "spy", held, namespace)
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        message = await told(client, namespace, "cd", "Ready", "AccountInUse")
        assert f"ServiceAccount {namespace}/cd does not exist, and is created once no pod names it" in message
        assert "pod spy; those of PodChaperons are being deleted" in message
        deleted = await client.get(PODS, "spy", namespace)
        assert "deletionTimestamp" in deleted["metadata"]
        # As a kubelet reports it, before it unmounts the volumes and deletes the pod.
        await client.patch(PODS, "spy", {"status": {"phase": "Failed"}}, namespace, sub="status")
        await asyncio.sleep(2 * OCCUPIED_SECONDS)
        with pytest.raises(NotFound):
            await client.get(SERVICE_ACCOUNTS, "cd", namespace)
        await client.patch(PODS, "spy", {"metadata": {"finalizers": None}}, namespace)
        await until(lambda: client.get(SERVICE_ACCOUNTS, "cd", namespace))
        await gone(lambda: client.get(PODS, "spy", namespace))
        assert (await client.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"] != before
        await told(client, namespace, "cd", "Ready", "Bound")
        assert "cd is the account by which its source acts" in await refused(client, namespace, "spy")
        (event,) = await client.list(EVENTS, namespace, fields="involvedObject.name=spy,reason=AccountRevoked")
        assert f"ran as ServiceAccount {namespace}/cd, by which Source {namespace}/cd acts" in event["message"]
    # Delegates of other accounts stay.
    assert (await client.get(PODS, "web", namespace))["status"]["phase"] == "Running"


async def test_pods_of_others_are_named_and_keep_their_account_from_being_created_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    # Also one that a PodChaperon controlled: a source may delete that and leave the pod behind.
    await bound_before(cluster, client, namespace, "orphan")
    await client.delete(CHAPERONS, "orphan", namespace, propagation="Orphan")
    await pod(client, namespace, "mine", "cd")

    async def is_orphan() -> bool:
        return "ownerReferences" not in (await client.get(PODS, "orphan", namespace))["metadata"]

    await until(is_orphan)
    async with running(cluster, SourceController):
        await told(client, namespace, "cd", "Ready", "Bound")
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        message = await told(client, namespace, "cd", "Ready", "AccountInUse")
        assert "pods mine, orphan; those of PodChaperons are being deleted, delete the others" in message
        for name in ("mine", "orphan"):
            with pytest.raises(NotFound):
                await client.get(SERVICE_ACCOUNTS, "cd", namespace)
            assert "deletionTimestamp" not in (await client.get(PODS, name, namespace))["metadata"]
            await client.delete(PODS, name, namespace, grace=0)
        # No watch reports such pods: the agent lists them once a minute, and when the Source changes.
        await client.patch(SOURCES, "cd", {"metadata": {"annotations": {"team/again": "1"}}}, namespace)
        await until(lambda: client.get(SERVICE_ACCOUNTS, "cd", namespace))
        await told(client, namespace, "cd", "Ready", "Bound")


async def test_delegates_that_outlived_an_account_that_somebody_else_created_again_are_deleted(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    # A token is accepted for up to 10 s after its account was deleted: enough to create the account again with it.
    await bound_before(cluster, client, namespace, "spy")
    await asyncio.sleep(1.1)

    async def again() -> None:
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        await account(client, namespace, "cd")

    # Before the agent started, as before an upgrade: pods stay, and are named.
    await again()
    async with running(cluster, SourceController):
        assert "pod spy" in await told(client, namespace, "cd", "AccountExclusive", "PodsRunAsIt")
        assert "deletionTimestamp" not in (await client.get(PODS, "spy", namespace))["metadata"]
        await again()
        await gone(lambda: client.get(PODS, "spy", namespace))
        await told(client, namespace, "cd", "Ready", "Bound")


async def test_a_pod_that_outlived_an_account_that_its_source_created_again_has_no_rights(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    # The source orphans the pod first, so that the agent takes it for one of the cluster's users.
    await bound_before(cluster, client, namespace, "spy")
    await client.delete(CHAPERONS, "spy", namespace, propagation="Orphan")
    await gone(lambda: client.get(CHAPERONS, "spy", namespace))
    await asyncio.sleep(1.1)
    async with running(cluster, SourceController):
        await told(client, namespace, "cd", "Ready", "Bound")
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        await account(client, namespace, "cd")
        message = await told(client, namespace, "cd", "Ready", "AccountInUse")
        assert "pod spy" in message
        await gone(lambda: client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace))
        await client.delete(PODS, "spy", namespace, grace=0)
        await client.patch(SOURCES, "cd", {"metadata": {"annotations": {"team/again": "1"}}}, namespace)
        await told(client, namespace, "cd", "Ready", "Bound")
        assert await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)


async def test_a_source_deletes_and_names_no_pods_of_another_namespace(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    other = f"{namespace}-other"
    await client.create(NAMESPACES, {"metadata": {"name": other}})
    await account(client, other, "cd")
    async with running(cluster, Chaperon, namespace=other):
        await client.create(CHAPERONS, chaperon("web", serviceAccountName="cd"), other)
        await status(client, other, "web", phase="Running")
    await client.delete(SERVICE_ACCOUNTS, "cd", other)
    async with running(cluster, SourceController):
        await source(client, namespace, userName=f"system:serviceaccount:{other}:cd")
        message = await told(client, namespace, "cd", "Ready", "AccountInUse")
        assert f"ServiceAccount {other}/cd does not exist" in message
        assert ": 1 pod; delete these" in message
        assert "web" not in message
    assert "deletionTimestamp" not in (await client.get(PODS, "web", other))["metadata"]


AGENT = "system:serviceaccount:flotilla:agent-of-this-test"


@contextlib.asynccontextmanager
async def policies_at_work(client: Client, namespace: str) -> AsyncIterator[Client]:
    """Install the policies, bound to an agent of this test that may create pods in a namespace, and act as it."""
    objects = [each for each in policies(AGENT, namespace, "webhook") if each["metadata"]["name"] in specs("", "", "")]
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "admin"}
    user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": AGENT}
    await client.create(ROLE_BINDINGS, {"metadata": {"name": "pods"}, "roleRef": role, "subjects": [user]}, namespace)
    kinds = {kind.name: kind for kind in (POLICIES, POLICY_BINDINGS)}
    try:
        for each in objects:
            await client.create(kinds[each["kind"]], each)
        yield client.as_user(AGENT)
    finally:
        for each in objects:
            await client.delete(kinds[each["kind"]], each["metadata"]["name"])


async def test_the_api_server_refuses_such_pods_of_the_agent_and_no_others(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    own = OWN_ACCOUNTS[0]
    for name in ("cd", "wide", "named", "web", own):
        await account(client, namespace, name)
    await source(client, namespace, serviceAccountName="cd")
    user = f"system:serviceaccount:{namespace}:named"
    async with (
        cluster_source(client, f"{namespace}-a", serviceAccount={"name": "wide", "namespace": namespace}),
        cluster_source(client, f"{namespace}-b", userName=user),
        cluster_source(client, f"{namespace}-c"),
        policies_at_work(client, namespace) as agent,
    ):
        whose = {"cd": "Source cd", "wide": f"ClusterSource {namespace}-a", "named": f"ClusterSource {namespace}-b"}

        async def is_refused(name: str) -> str:
            try:
                await agent.create_raw(PODS, manifest("try", name), namespace, dry_run=True)
            except Forbidden as error:
                return error.message
            return ""

        for name, title in whose.items():
            message = await until(lambda name=name: is_refused(name))  # type: ignore[misc]
            assert f"spec.serviceAccountName of pod try: {name} is the account by which the source of {title} acts" in (
                message
            )
        assert "by which Flotilla itself acts in this cluster" in await until(lambda: is_refused(own))
        old = manifest("old")
        old["spec"]["serviceAccount"] = "cd"
        with pytest.raises(Forbidden, match="cd is the account by which the source of Source cd acts"):
            await agent.create(PODS, old, namespace)
        await agent.create(PODS, manifest("allowed", "web"), namespace)
        await agent.create(PODS, manifest("none"), namespace)
        await client.create(PODS, manifest("theirs", "cd"), namespace)
        moved = manifest("moved", "cd")
        moved["spec"]["schedulerName"] = names.SCHEDULER_PROXY
        await agent.create(PODS, moved, namespace)
        for policy in (OWN, SOURCE, CLUSTER_SOURCE):
            found = (await client.get(POLICIES, policy)).get("status", {})
            assert not found.get("typeChecking", {}).get("expressionWarnings")
