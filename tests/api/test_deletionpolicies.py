"""What kubectl tells the user of a deletion that the API server ignores: on a real API server."""

import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import deletionpolicies
from agent.api.admission import is_in_force, policies
from agent.api.kinds import PODS, POLICIES, POLICY_BINDINGS
from agent.api.names import SCHEDULER_PROXY
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.kube.client import Client
from agent.sandbox import Cluster
from agent.sandbox.objects import apply
from tests.e2e.debugging import Kubectl
from tests.waiting import until

Raw = dict[str, Any]

KEPT = "example.com/kept"
KINDS = {kind.name: kind for kind in (POLICIES, POLICY_BINDINGS)}


def objects() -> list[Raw]:
    """The policy and its binding."""
    return [
        each for each in policies("agent", "home", "hook") if each["metadata"]["name"] == deletionpolicies.DELETIONS
    ]


def test_a_policy_is_in_force_if_a_binding_has_the_action_that_it_needs() -> None:
    policy, binding = objects()
    assert is_in_force(policy, [binding])
    assert not is_in_force(policy, [])
    assert not is_in_force(policy, [{"spec": {**binding["spec"], "validationActions": ["Audit"]}}])
    other = {"metadata": {"name": "other"}}
    assert not is_in_force(other, [{"spec": {"policyName": "other", "validationActions": ["Warn"]}}])
    assert is_in_force(other, [{"spec": {"policyName": "other", "validationActions": ["Deny"]}}])


async def create(client: Client, namespace: str, name: str, **spec: Any) -> None:
    """A pod on a node that nobody looks after; it stays while it has its finalizer."""
    spec = {"nodeName": "nowhere", "terminationGracePeriodSeconds": 0, "schedulerName": SCHEDULER_PROXY, **spec}
    spec["containers"] = [{"name": "main", "image": "app:1"}]
    await client.create(PODS, {"metadata": {"name": name, "finalizers": [KEPT]}, "spec": spec}, namespace)


@pytest_asyncio.fixture
async def kubectl(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Kubectl]:
    """kubectl in a namespace of a cluster whose API server warns."""
    kubectl = Kubectl(cluster.runner.plan.programs["kubectl"], cluster.kubeconfig, namespace)
    for each in objects():
        await apply(client, KINDS[each["kind"]], each)
    await create(client, namespace, "probe")
    await said(kubectl, "probe")

    async def warns() -> bool:
        return "Warning: " in await said(kubectl, "probe", "--now")

    await until(warns, what="the policy is in force")
    yield kubectl
    for each in reversed(objects()):
        await client.delete(KINDS[each["kind"]], each["metadata"]["name"])
    for pod in await client.list(PODS, namespace):
        await client.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)


async def said(kubectl: Kubectl, pod: str, *flags: str) -> str:
    """Warnings of a deletion, without kubectl's own."""
    code, _, errors = await kubectl.run("delete", "pod", pod, "--wait=false", *flags)
    assert code == 0, errors
    return "\n".join(line for line in errors.splitlines() if "does not wait for confirmation" not in line)


@pytest.mark.cluster
async def test_a_deletion_that_the_api_server_ignores_is_warned_of_with_the_remedy(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    delete = functools.partial(said, kubectl)
    for name in ("plain", "short"):
        await create(client, namespace, name)
    await create(client, namespace, "stays", schedulerName="default-scheduler")
    for name in ("plain", "stays"):
        assert await delete(name) == "", name
    for flag in ("--now", "--force", "--grace-period=5"):
        warning = await delete("plain", flag)
        assert "Warning: " in warning, flag
        assert f"kubectl annotate pod plain --namespace {namespace} {ANNOTATION_GRACE_PERIOD}=1" in warning
        assert await delete("stays", flag) == "", flag
    assert await delete("plain") == ""
    assert await delete("short", "--grace-period=60") == ""
    assert await delete("short", "--now") == ""
    assert (await client.get(PODS, "short", namespace))["metadata"]["deletionGracePeriodSeconds"] == 1

    async def checked() -> Raw:
        status: Raw = (await client.get(POLICIES, deletionpolicies.DELETIONS)).get("status") or {}
        return status if "typeChecking" in status else {}

    assert "expressionWarnings" not in (await until(checked))["typeChecking"]


@pytest.mark.cluster
async def test_a_deletion_by_force_cannot_be_told_from_one_without_a_grace_period(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    found = []
    for name, flags in (("forced", ("--force",)), ("plain", ())):
        await create(client, namespace, name)
        assert await said(kubectl, name, *flags) == "", name
        found.append((await client.get(PODS, name, namespace))["metadata"]["deletionGracePeriodSeconds"])
    assert found == [0, 0]
