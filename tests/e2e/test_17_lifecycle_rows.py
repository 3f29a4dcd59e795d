"""Promise 17: pods survive or end after losses as each row of the contract's table says (section 5).

1  a proxy pod is deleted                           8  a delegate has Failed or Succeeded
2  a pod without finalizers is deleted              9  the user deletes a chaperon
3  a bound pod has finalizers of other targets     10  a target is unreachable
4  a pod is bound without the proxy scheduler      11  a Target is deleted
5  a delegate is deleted while the link is up      12  the source's agent is down
6  like 5, agent down, restartPolicy Always        13  etcd is restored: orphans in both clusters
7  like 6, restartPolicy Never or OnFailure
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, LEASES, NODES, PODS, TARGETS
from agent.api.names import ANNOTATION_PARENT_NAME, ANNOTATION_POD_MISSING_SINCE, PREFIX, finalizer, virtual_node
from agent.kube.errors import NotFound
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition, on_virtual_node
from tests.e2e.fleets import MISSING_SECONDS
from tests.e2e.losses import (
    delegate_of,
    empty,
    lose,
    node_by_hand,
    run,
    set_status,
    source_away,
    target_away,
)
from tests.e2e.manifests import DEPLOYMENTS
from tests.peers.contract import bind


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace whose only target is us."""
    async with fleet.namespace(("us",)) as name:
        yield name


async def placed(fleet: Fleet, namespace: str, node: str, **spec: Any) -> Raw:
    """Create the pod `a`; return its delegate on the node without a kubelet."""
    pod = manifests.pod("a", nodeSelector={"e2e/node": "manual"}, **spec)
    await fleet.source.create(PODS, pod, namespace)

    async def bound() -> bool:
        return on_virtual_node(await fleet.source.get(PODS, "a", namespace))

    await fleet.until("the proxy pod is bound", bound, about=namespace)
    delegate = await delegate_of(fleet, namespace)
    assert delegate["spec"]["nodeName"] == node
    return delegate


async def is_missing(fleet: Fleet, namespace: str) -> bool:
    """Check that the only chaperon in us is marked as missing its pod."""
    (chaperon,) = await fleet.clients["us"].list(CHAPERONS, namespace)
    return ANNOTATION_POD_MISSING_SINCE in chaperon["metadata"]["annotations"]


async def test_row_01_a_deleted_proxy_pod_takes_its_delegate_with_it(fleet: Fleet, namespace: str) -> None:
    await run(fleet, namespace)
    await fleet.source.delete(PODS, "a", namespace)
    await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_01_a_delegate_has_its_own_grace_period_and_the_proxy_pod_goes_last(
    fleet: Fleet, namespace: str
) -> None:
    us = fleet.clients["us"]
    async with node_by_hand(fleet) as node:
        name = (await placed(fleet, namespace, node, terminationGracePeriodSeconds=7))["metadata"]["name"]
        arguments = ("delete", "pod", "a", f"--namespace={namespace}", "--grace-period=30", "--wait=false")
        await fleet.kubectl("cd", *arguments)

        async def grace() -> int:
            metadata: Raw = (await us.get(PODS, name, namespace))["metadata"]
            return int(metadata.get("deletionGracePeriodSeconds", 0))

        assert await fleet.until("the delegate ends", grace, about=namespace) == 7
        assert (await fleet.source.get(PODS, "a", namespace))["metadata"]["finalizers"]
        await us.delete(PODS, name, namespace, grace=0)
        await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; a test of the controllers holds the grace period of evictions.")
async def test_row_01_a_drain_with_a_grace_period_ends_the_delegate_with_it(fleet: Fleet, namespace: str) -> None:
    us, virtual = fleet.clients["us"], virtual_node(namespace, "us")
    async with node_by_hand(fleet) as node:
        name = (await placed(fleet, namespace, node, terminationGracePeriodSeconds=60))["metadata"]["name"]
        flags = ("--grace-period=7", "--force", "--ignore-daemonsets")
        drain = asyncio.create_task(fleet.kubectl("cd", "drain", virtual, *flags, "--timeout=120s"))

        async def grace() -> int:
            metadata: Raw = (await us.get(PODS, name, namespace))["metadata"]
            return int(metadata.get("deletionGracePeriodSeconds", 0))

        assert await fleet.until("the delegate ends", grace, about=namespace) == 7
        await us.delete(PODS, name, namespace, grace=0)
        assert f"{virtual} drained" in await drain
        await fleet.kubectl("cd", "uncordon", virtual)
        await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_02_and_13_what_is_an_orphan_when_the_source_is_back_goes_on_both_sides(
    fleet: Fleet, namespace: str
) -> None:
    """Simulate an older etcd backup: a proxy pod without finalizers disappears in the source, a chaperon in the
    target."""
    us = fleet.clients["us"]
    for name in ("a", "b"):
        await fleet.source.create(PODS, manifests.pod(name), namespace)
    for name in ("a", "b"):
        await fleet.running(namespace, name, 1)
    chaperons = {
        each["metadata"]["annotations"][ANNOTATION_PARENT_NAME]: each for each in await us.list(CHAPERONS, namespace)
    }
    async with source_away(fleet):
        await fleet.source.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace)
        await fleet.source.delete(PODS, "a", namespace)
        await fleet.gone(PODS, "a", namespace)
        await us.delete(CHAPERONS, chaperons["b"]["metadata"]["name"], namespace)
        await us.get(CHAPERONS, chaperons["a"]["metadata"]["name"], namespace)
        await fleet.source.get(PODS, "b", namespace)
    await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_03_a_bound_pod_carries_the_finalizer_of_its_own_target_alone(fleet: Fleet, namespace: str) -> None:
    await fleet.join(namespace, "us", name="again")
    both = {finalizer(namespace, name) for name in ("us", "again")}
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    (proxy,) = await fleet.running(namespace, "a", 1)
    (kept,) = proxy["metadata"]["finalizers"]
    assert proxy["spec"]["nodeName"] in {virtual_node(namespace, name) for name in ("us", "again")}
    await fleet.source.patch(PODS, "a", {"metadata": {"finalizers": sorted(both)}}, namespace)

    async def alone() -> bool:
        return bool((await fleet.source.get(PODS, "a", namespace))["metadata"]["finalizers"] == [kept])

    await fleet.until("the other finalizer is gone", alone, about=namespace)
    await fleet.agree(namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_04_a_pod_bound_past_the_proxy_scheduler_goes(fleet: Fleet, namespace: str) -> None:
    nowhere = {PREFIX + "proxy-pod-scheduling-constraints": f"nodeSelector: {{{manifests.REGION}: nowhere}}"}
    proxy = await fleet.source.create(PODS, manifests.pod("a", annotations=nowhere), namespace)
    await bind(fleet.source, proxy, virtual_node(namespace, "us"))
    await fleet.gone(PODS, "a", namespace)
    await empty(fleet, namespace)


async def test_row_05_a_delegate_lost_while_the_link_is_up_ends_its_proxy_pod_and_is_replaced(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    (before,) = await fleet.running(namespace, "web", 1)
    await lose(fleet, await delegate_of(fleet, namespace))

    async def replaced() -> bool:
        pods = await fleet.pods(namespace, "web")
        return [pod["metadata"]["uid"] for pod in pods] != [before["metadata"]["uid"]] and len(pods) == 1

    await fleet.until("there is another proxy pod", replaced, about=namespace)
    await fleet.running(namespace, "web", 1)
    await fleet.agree(namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_06_a_delegate_lost_while_the_source_is_away_is_made_again(fleet: Fleet, namespace: str) -> None:
    proxy, delegate = await run(fleet, namespace)
    status = delegate["status"]["containerStatuses"][0]
    await set_status(fleet, delegate, {"containerStatuses": [{**status, "restartCount": 4}]})

    async def restarts() -> int:
        (pod,) = await fleet.pods(namespace, "a")
        return int(pod["status"]["containerStatuses"][0]["restartCount"])

    await fleet.until("the restarts are home", restarts, about=namespace)
    async with source_away(fleet):
        await lose(fleet, delegate)

        async def again() -> bool:
            pod = await fleet.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
            running: bool = pod["status"]["phase"] == "Running"
            return running and pod["metadata"]["uid"] != delegate["metadata"]["uid"]

        await fleet.until("the delegate is made again", again, about=namespace)
        (chaperon,) = await fleet.clients["us"].list(CHAPERONS, namespace)
    await fleet.running(namespace, "a", 1)

    async def settled() -> bool:
        (chaperon,) = await fleet.clients["us"].list(CHAPERONS, namespace)
        return ANNOTATION_POD_MISSING_SINCE not in chaperon["metadata"]["annotations"]

    await fleet.until("nothing is said to be missing", settled, about=namespace)
    await fleet.source.create(PODS, manifests.pod("later"), namespace)
    await fleet.running(namespace, "later", 1)
    (after,) = await fleet.pods(namespace, "a")
    assert after["metadata"]["uid"] == proxy["metadata"]["uid"]
    (kept,) = [
        each
        for each in await fleet.clients["us"].list(CHAPERONS, namespace)
        if each["metadata"]["name"] == chaperon["metadata"]["name"]
    ]
    assert kept["metadata"]["uid"] == chaperon["metadata"]["uid"]
    assert await restarts() >= 4, "a restart count was lowered"


@pytest.mark.seldom
async def test_row_07_a_delegate_that_is_never_restarted_stays_missing_until_the_source_is_back(
    fleet: Fleet, namespace: str
) -> None:
    async with node_by_hand(fleet) as node:
        delegate = await placed(fleet, namespace, node, restartPolicy="Never")
        await set_status(fleet, delegate, {"phase": "Running"})
        await fleet.running(namespace, "a", 1)
        async with source_away(fleet):
            await lose(fleet, delegate)
            await fleet.until("the pod is said to be missing", lambda: is_missing(fleet, namespace), about=namespace)
            await asyncio.sleep(2 * MISSING_SECONDS)
            with pytest.raises(NotFound):
                await fleet.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
        await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_07_one_that_had_done_its_work_has_done_it(fleet: Fleet, namespace: str) -> None:
    proxy, delegate = await run(fleet, namespace, restartPolicy="Never")
    (chaperon,) = await fleet.clients["us"].list(CHAPERONS, namespace)
    async with source_away(fleet):
        await lose(fleet, delegate)
        await fleet.until("the pod is said to be missing", lambda: is_missing(fleet, namespace), about=namespace)
    await fleet.source.create(PODS, manifests.pod("later"), namespace)
    await fleet.running(namespace, "later", 1)
    await fleet.source.delete(PODS, "later", namespace)
    await fleet.gone(PODS, "later", namespace)
    after = await fleet.source.get(PODS, "a", namespace)
    assert (after["metadata"]["uid"], after["status"]["phase"]) == (proxy["metadata"]["uid"], "Succeeded")
    assert "deletionTimestamp" not in after["metadata"]
    (kept,) = await fleet.clients["us"].list(CHAPERONS, namespace)
    assert kept["metadata"]["uid"] == chaperon["metadata"]["uid"]
    await fleet.source.delete(PODS, "a", namespace)
    await empty(fleet, namespace)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
@pytest.mark.parametrize("phase", ["Succeeded", pytest.param("Failed", marks=pytest.mark.seldom)])
async def test_row_08_a_delegate_that_has_ended_is_kept_and_told_of(fleet: Fleet, namespace: str, phase: str) -> None:
    proxy, delegate = await run(fleet, namespace, restartPolicy="Never")
    await set_status(fleet, delegate, {"phase": phase, "reason": "Over"})

    async def told() -> bool:
        pod = await fleet.source.get(PODS, "a", namespace)
        return bool(pod["status"]["phase"] == phase and pod["status"].get("reason") == "Over")

    await fleet.until("the proxy pod says so", told, about=namespace)
    await fleet.sandbox.restart("cd", "agent")
    await fleet.sandbox.restart("us", "agent")
    await fleet.source.create(PODS, manifests.pod("later"), namespace)
    await fleet.running(namespace, "later", 1)
    kept = await fleet.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
    assert kept["metadata"]["uid"] == delegate["metadata"]["uid"]
    assert (await fleet.source.get(PODS, "a", namespace))["metadata"]["uid"] == proxy["metadata"]["uid"]
    assert await told()


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_09_a_chaperon_deleted_by_hand_ends_its_proxy_pod(fleet: Fleet, namespace: str) -> None:
    await run(fleet, namespace)
    (chaperon,) = await fleet.clients["us"].list(CHAPERONS, namespace)
    await fleet.clients["us"].delete(CHAPERONS, chaperon["metadata"]["name"], namespace)
    await empty(fleet, namespace)


async def test_row_11_a_removed_target_takes_its_delegates_its_pods_and_its_node(fleet: Fleet, namespace: str) -> None:
    await run(fleet, namespace)
    await fleet.source.delete(TARGETS, "us", namespace)
    await fleet.gone(TARGETS, "us", namespace)
    await empty(fleet, namespace)
    await fleet.gone(NODES, virtual_node(namespace, "us"))


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_11_a_target_removed_while_it_is_away_frees_its_pods_and_is_emptied_when_it_is_back(
    fleet: Fleet, namespace: str
) -> None:
    await run(fleet, namespace)
    async with target_away(fleet, namespace):
        await fleet.source.delete(TARGETS, "us", namespace)
        await fleet.gone(PODS, "a", namespace)

        async def said() -> bool:
            drained = condition(await fleet.source.get(TARGETS, "us", namespace), "Drained")
            return (drained.get("status"), drained.get("reason")) == ("False", "Unreachable")

        await fleet.until("the Target says that delegates may still run", said, about=namespace)
        name = virtual_node(namespace, "us")
        assert (await fleet.source.get(NODES, name))["spec"]["taints"], "the node stays, and takes no pods"
    await empty(fleet, namespace)
    await fleet.gone(TARGETS, "us", namespace)
    await fleet.gone(NODES, name)


@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
async def test_row_10_an_unreachable_target_keeps_its_pods_and_their_last_status(fleet: Fleet, namespace: str) -> None:
    proxy, delegate = await run(fleet, namespace)
    async with target_away(fleet, namespace):
        name = delegate["metadata"]["name"]
        patch = json.dumps({"metadata": {"annotations": {"while": "away"}}})
        await fleet.kubectl("us", "patch", "pod", name, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
        still = await fleet.source.get(PODS, "a", namespace)
        assert (still["metadata"]["uid"], still["status"]["phase"]) == (proxy["metadata"]["uid"], "Running")
        assert "deletionTimestamp" not in still["metadata"]

    async def home() -> bool:
        return bool((await fleet.source.get(PODS, "a", namespace))["metadata"]["annotations"].get("while"))

    await fleet.until("what happened is home", home, about=namespace)
    assert (await delegate_of(fleet, namespace))["metadata"]["uid"] == delegate["metadata"]["uid"]


# After 40 s without heartbeats the virtual nodes are no longer ready.
@pytest.mark.full("Another row of the table; the model of the controllers covers it too.")
@pytest.mark.parametrize("seconds", [5.0, pytest.param(60.0, marks=pytest.mark.seldom)])
async def test_row_12_a_source_whose_agent_is_away_loses_and_evicts_nothing(
    fleet: Fleet, namespace: str, seconds: float
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 3), namespace)
    before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", 3)}
    delegates = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
    async with source_away(fleet):
        await asyncio.sleep(seconds)
        pods = await fleet.source.list(PODS, namespace)
        assert {pod["metadata"]["uid"] for pod in pods} == before
        assert not any("deletionTimestamp" in pod["metadata"] for pod in pods), "proxy pods were evicted"
    await fleet.running(namespace, "web", 3)
    await fleet.agree(namespace)
    after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(namespace)).items()}
    assert after == delegates
    fleet.census.check(namespace, at_most=3)

    async def renewed() -> bool:
        node = await fleet.source.get(NODES, virtual_node(namespace, "us"))
        await fleet.source.get(LEASES, virtual_node(namespace, "us"), "kube-node-lease")
        return bool(condition(node, "Ready")["status"] == "True")

    await fleet.until("the virtual node is ready again", renewed, about=namespace)
