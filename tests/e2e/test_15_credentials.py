"""Promise 15: a target's credentials are found by key and context, and replacing them does not affect running
pods."""

import base64

import pytest
import yaml

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TARGETS,
)
from agent.api.names import LABEL_PARENT_UID, finalizer, virtual_node
from hack.lab.sandbox import kubeconfig
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

Raw = manifests.Raw


async def rotate(fleet: Fleet, namespace: str, target: str, text: str) -> None:
    """Replace the kubeconfig in the Secret of a target."""
    data = {"config": base64.b64encode(text.encode()).decode()}
    await fleet.source.patch(SECRETS, target, {"data": data}, namespace)


async def everything(fleet: Fleet, namespace: str) -> dict[str, tuple[str, int]]:
    """Return the UID and the restart count of each proxy pod's delegate, by proxy pod."""
    delegates = await fleet.delegates(namespace)
    return {
        pod["metadata"]["uid"]: (
            delegates[pod["metadata"]["uid"]][1]["metadata"]["uid"],
            sum(status["restartCount"] for status in pod["status"]["containerStatuses"]),
        )
        for pod in await fleet.running(namespace, "web", 6)
    }


async def test_a_rotated_token_disturbs_no_running_pod_and_new_pods_flow(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)
        await fleet.running(namespace, "web", 6)
        before = await everything(fleet, namespace)
        await rotate(fleet, namespace, "us", await fleet.kubeconfig(namespace, "us"))

        # Deleting the service account invalidates the first token; the Source recreates the account.
        account = await fleet.clients["us"].get(SERVICE_ACCOUNTS, "cd", namespace)
        await fleet.clients["us"].delete(SERVICE_ACCOUNTS, "cd", namespace)

        async def made_again() -> bool:
            found = await fleet.clients["us"].get(SERVICE_ACCOUNTS, "cd", namespace)
            return bool(found["metadata"]["uid"] != account["metadata"]["uid"])

        await fleet.until("the Source makes its service account again", made_again, about=namespace)

        async def refused() -> bool:
            ready = condition(await fleet.source.get(TARGETS, "us", namespace), "Ready")
            return ready.get("reason") == "Unauthorized"

        await fleet.until("the old token is refused", refused, about=namespace)
        assert await everything(fleet, namespace) == before
        await rotate(fleet, namespace, "us", await fleet.kubeconfig(namespace, "us"))
        await fleet.ready(namespace, "us")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("late", 3), namespace)
        await fleet.running(namespace, "late", 3)
        await fleet.agree(namespace)
        assert await everything(fleet, namespace) == before
        fleet.census.check(namespace, at_most=9)


@pytest.mark.full("A variant of the test that rotates a token.")
async def test_a_kubeconfig_is_found_by_key_and_context(fleet: Fleet) -> None:
    async with fleet.namespace(targets=()) as namespace:
        good = yaml.safe_load(await fleet.kubeconfig(namespace, "eu"))
        wrong = yaml.safe_load(kubeconfig.render("wrong", "https://127.0.0.1:1", b"none", token="none"))
        context = good["contexts"][0]["name"]
        both = {field: [*wrong[field], *good[field]] for field in ("clusters", "users", "contexts")}
        text = yaml.safe_dump({**wrong, **both})
        secret = manifests.secret("keys", namespace, "not a kubeconfig")
        secret["stringData"]["other"] = text
        await apply(fleet.source, SECRETS, secret)
        spec = {"kubeconfigSecret": {"name": "keys", "key": "other", "context": context}}
        await apply(fleet.source, TARGETS, manifests.ours("Target", "eu", namespace, spec))
        await fleet.ready(namespace, "eu")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
        await fleet.running(namespace, "web", 2)


@pytest.mark.full("A variant of the test that rotates a token.")
async def test_a_target_and_a_cluster_target_of_one_cluster_share_its_pods_and_one_goes_without_the_other(
    fleet: Fleet,
) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        everyone = f"all-{namespace}"
        await fleet.join_everywhere(namespace, "us", everyone)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 12), namespace)
        pods = await fleet.running(namespace, "web", 12)
        nodes = {virtual_node(namespace, "us"), virtual_node("", everyone)}
        assert {pod["spec"]["nodeName"] for pod in pods} == nodes
        await fleet.agree(namespace)
        chaperons = await fleet.clients["us"].list(CHAPERONS, namespace)
        parents = [each["metadata"]["labels"][LABEL_PARENT_UID] for each in chaperons]
        assert sorted(parents) == sorted(pod["metadata"]["uid"] for pod in pods)
        stay = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] == virtual_node(namespace, "us")}
        await fleet.sandbox.restart("cd", "agent")

        await fleet.source.delete(CLUSTER_TARGETS, everyone)

        async def released() -> bool:
            found = await fleet.source.list(PODS, namespace)
            return not any(finalizer("", everyone) in (pod["metadata"].get("finalizers") or ()) for pod in found)

        # The agent promises at most 10 s for this; the timeout is longer for busy machines.
        await fleet.until("no pod carries the removed target's finalizer", released, about=namespace)
        await fleet.gone(CLUSTER_TARGETS, everyone)
        await fleet.gone(NODES, virtual_node("", everyone))
        pods = await fleet.running(namespace, "web", 12)
        assert stay <= {pod["metadata"]["uid"] for pod in pods}
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "us")}
        await fleet.agree(namespace)
        assert fleet.census.duplicates == []
        await fleet.clients["us"].delete(CLUSTER_SOURCES, everyone)
