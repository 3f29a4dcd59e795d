"""Promise 17: what becomes of pods when something is lost, row by row of the contract's table (section 5).

1  a proxy pod is deleted                           8  a delegate has Failed or Succeeded
2  one without finalizers is deleted                9  a chaperon is deleted by hand
3  one is bound and has finalizers of others       10  a target cannot be reached
4  one is bound past the proxy scheduler           11  a Target is deleted
5  a delegate is deleted, the link is up           12  the source's agent is away
6  the same, source away, restartPolicy Always     13  etcd is restored: orphans on both sides
7  the same, restartPolicy Never or OnFailure
"""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, LEASES, NODES, PODS, TARGETS
from agent.api.names import ANNOTATION_PARENT_NAME, ANNOTATION_POD_MISSING_SINCE, PREFIX, finalizer, virtual_node
from agent.kube.errors import NotFound
from tests.e2e import manifests
from tests.e2e.conftest import AGENT_FLAGS, NewSandbox, fleet_of
from tests.e2e.fleet import Fleet, Raw, condition, on_virtual_node
from tests.e2e.losses import delegate_of, empty, lose, run, set_status, source_away, target_away
from tests.e2e.manifests import DEPLOYMENTS
from tests.peers.contract import bind

MISSING_SECONDS = 3
AWAY_SECONDS = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(new_sandbox: NewSandbox) -> AsyncIterator[Fleet]:
    """Source cd and target us, whose agent makes a lost delegate again after seconds rather than a minute."""
    flags = (*AGENT_FLAGS, f"--pod-missing={MISSING_SECONDS}", "--agent-interval=1")
    async with fleet_of(new_sandbox(("cd", "us"), "kwok:2", agent_flags=flags)) as fleet:
        yield fleet


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(pair: Fleet) -> AsyncIterator[str]:
    """A namespace whose pods run in us."""
    async with pair.namespace(("us",)) as name:
        yield name


async def test_row_01_a_deleted_proxy_pod_takes_its_delegate_with_it(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    await pair.source.delete(PODS, "a", namespace)
    await empty(pair, namespace)


async def test_row_01_a_delegate_has_its_own_grace_period_and_the_proxy_pod_goes_last(
    pair: Fleet, namespace: str
) -> None:
    us = pair.clients["us"]
    # Nothing on this node ends pods but the test.
    manifest = manifests.manual_node("us-manual", "us")
    await us.create(NODES, manifest)
    await us.patch(NODES, "us-manual", {"status": manifest["status"]}, sub="status")
    pod = manifests.pod("a", nodeSelector={"e2e/node": "manual"}, terminationGracePeriodSeconds=7)
    await pair.source.create(PODS, pod, namespace)

    async def bound() -> bool:
        return on_virtual_node(await pair.source.get(PODS, "a", namespace))

    await pair.until("the proxy pod is bound", bound, about=namespace)
    name = (await delegate_of(pair, namespace))["metadata"]["name"]
    arguments = ("delete", "pod", "a", f"--namespace={namespace}", "--grace-period=30", "--wait=false")
    await pair.kubectl("cd", *arguments)

    async def grace() -> int:
        metadata: Raw = (await us.get(PODS, name, namespace))["metadata"]
        return int(metadata.get("deletionGracePeriodSeconds", 0))

    assert await pair.until("the delegate ends", grace, about=namespace) == 7
    assert (await pair.source.get(PODS, "a", namespace))["metadata"]["finalizers"]
    await us.delete(PODS, name, namespace, grace=0)
    await empty(pair, namespace)
    await us.delete(NODES, "us-manual")


async def test_row_02_and_13_what_is_an_orphan_when_the_source_is_back_goes_on_both_sides(
    pair: Fleet, namespace: str
) -> None:
    """As after the restoration of an older etcd: a pod that nothing held is gone here, a chaperon there."""
    us = pair.clients["us"]
    for name in ("a", "b"):
        await pair.source.create(PODS, manifests.pod(name), namespace)
    for name in ("a", "b"):
        await pair.running(namespace, name, 1)
    chaperons = {
        each["metadata"]["annotations"][ANNOTATION_PARENT_NAME]: each for each in await us.list(CHAPERONS, namespace)
    }
    async with source_away(pair):
        await pair.source.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace)
        await pair.source.delete(PODS, "a", namespace)
        await pair.gone(PODS, "a", namespace)
        await us.delete(CHAPERONS, chaperons["b"]["metadata"]["name"], namespace)
        await us.get(CHAPERONS, chaperons["a"]["metadata"]["name"], namespace)
        await pair.source.get(PODS, "b", namespace)
    await empty(pair, namespace)


async def test_row_03_a_bound_pod_carries_the_finalizer_of_its_own_target_alone(pair: Fleet, namespace: str) -> None:
    await pair.join(namespace, "us", name="again")
    both = {finalizer(namespace, name) for name in ("us", "again")}
    await pair.source.create(PODS, manifests.pod("a"), namespace)
    (proxy,) = await pair.running(namespace, "a", 1)
    (kept,) = proxy["metadata"]["finalizers"]
    assert proxy["spec"]["nodeName"] in {virtual_node(namespace, name) for name in ("us", "again")}
    await pair.source.patch(PODS, "a", {"metadata": {"finalizers": sorted(both)}}, namespace)

    async def alone() -> bool:
        return bool((await pair.source.get(PODS, "a", namespace))["metadata"]["finalizers"] == [kept])

    await pair.until("the other finalizer is gone", alone, about=namespace)
    await pair.agree(namespace)


async def test_row_04_a_pod_bound_past_the_proxy_scheduler_goes(pair: Fleet, namespace: str) -> None:
    nowhere = {PREFIX + "proxy-pod-scheduling-constraints": f"nodeSelector: {{{manifests.REGION}: nowhere}}"}
    proxy = await pair.source.create(PODS, manifests.pod("a", annotations=nowhere), namespace)
    await bind(pair.source, proxy, virtual_node(namespace, "us"))
    await pair.gone(PODS, "a", namespace)
    await empty(pair, namespace)


async def test_row_05_a_delegate_lost_while_the_link_is_up_ends_its_proxy_pod_and_is_replaced(
    pair: Fleet, namespace: str
) -> None:
    await pair.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    (before,) = await pair.running(namespace, "web", 1)
    await lose(pair, await delegate_of(pair, namespace))

    async def replaced() -> bool:
        pods = await pair.pods(namespace, "web")
        return [pod["metadata"]["uid"] for pod in pods] != [before["metadata"]["uid"]] and len(pods) == 1

    await pair.until("there is another proxy pod", replaced, about=namespace)
    await pair.running(namespace, "web", 1)
    await pair.agree(namespace)


async def test_row_06_a_delegate_lost_while_the_source_is_away_is_made_again(pair: Fleet, namespace: str) -> None:
    proxy, delegate = await run(pair, namespace)
    status = delegate["status"]["containerStatuses"][0]
    await set_status(pair, delegate, {"containerStatuses": [{**status, "restartCount": 4}]})

    async def restarts() -> int:
        (pod,) = await pair.pods(namespace, "a")
        return int(pod["status"]["containerStatuses"][0]["restartCount"])

    await pair.until("the restarts are home", restarts, about=namespace)
    async with source_away(pair):
        await lose(pair, delegate)

        async def again() -> bool:
            pod = await pair.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
            running: bool = pod["status"]["phase"] == "Running"
            return running and pod["metadata"]["uid"] != delegate["metadata"]["uid"]

        await pair.until("the delegate is made again", again, about=namespace)
        (chaperon,) = await pair.clients["us"].list(CHAPERONS, namespace)
    await pair.running(namespace, "a", 1)

    async def settled() -> bool:
        (chaperon,) = await pair.clients["us"].list(CHAPERONS, namespace)
        return ANNOTATION_POD_MISSING_SINCE not in chaperon["metadata"]["annotations"]

    await pair.until("nothing is said to be missing", settled, about=namespace)
    await pair.source.create(PODS, manifests.pod("later"), namespace)
    await pair.running(namespace, "later", 1)
    (after,) = await pair.pods(namespace, "a")
    assert after["metadata"]["uid"] == proxy["metadata"]["uid"]
    (kept,) = [
        each
        for each in await pair.clients["us"].list(CHAPERONS, namespace)
        if each["metadata"]["name"] == chaperon["metadata"]["name"]
    ]
    assert kept["metadata"]["uid"] == chaperon["metadata"]["uid"]
    assert await restarts() >= 4, "a restart count was lowered"


async def test_row_07_a_delegate_that_is_never_restarted_stays_missing_until_the_source_is_back(
    pair: Fleet, namespace: str
) -> None:
    _, delegate = await run(pair, namespace, restartPolicy="Never")
    async with source_away(pair):
        await lose(pair, delegate)

        async def said() -> bool:
            (chaperon,) = await pair.clients["us"].list(CHAPERONS, namespace)
            return ANNOTATION_POD_MISSING_SINCE in chaperon["metadata"]["annotations"]

        await pair.until("the pod is said to be missing", said, about=namespace)
        await asyncio.sleep(2 * MISSING_SECONDS)
        with pytest.raises(NotFound):
            await pair.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
    await empty(pair, namespace)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_row_08_a_delegate_that_has_ended_is_kept_and_told_of(pair: Fleet, namespace: str, phase: str) -> None:
    proxy, delegate = await run(pair, namespace, restartPolicy="Never")
    await set_status(pair, delegate, {"phase": phase, "reason": "Over"})

    async def told() -> bool:
        pod = await pair.source.get(PODS, "a", namespace)
        return bool(pod["status"]["phase"] == phase and pod["status"].get("reason") == "Over")

    await pair.until("the proxy pod says so", told, about=namespace)
    await pair.sandbox.restart("cd", "agent")
    await pair.sandbox.restart("us", "agent")
    await pair.source.create(PODS, manifests.pod("later"), namespace)
    await pair.running(namespace, "later", 1)
    kept = await pair.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
    assert kept["metadata"]["uid"] == delegate["metadata"]["uid"]
    assert (await pair.source.get(PODS, "a", namespace))["metadata"]["uid"] == proxy["metadata"]["uid"]
    assert await told()


async def test_row_09_a_chaperon_deleted_by_hand_ends_its_proxy_pod(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    (chaperon,) = await pair.clients["us"].list(CHAPERONS, namespace)
    await pair.clients["us"].delete(CHAPERONS, chaperon["metadata"]["name"], namespace)
    await empty(pair, namespace)


async def test_row_11_a_removed_target_takes_its_delegates_its_pods_and_its_node(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    await pair.source.delete(TARGETS, "us", namespace)
    await pair.gone(TARGETS, "us", namespace)
    await empty(pair, namespace)
    await pair.gone(NODES, virtual_node(namespace, "us"))


async def test_row_11_a_target_removed_while_it_is_away_frees_its_pods_and_is_emptied_when_it_is_back(
    pair: Fleet, namespace: str
) -> None:
    await run(pair, namespace)
    async with target_away(pair, namespace):
        await pair.source.delete(TARGETS, "us", namespace)
        await pair.gone(PODS, "a", namespace)

        async def said() -> bool:
            drained = condition(await pair.source.get(TARGETS, "us", namespace), "Drained")
            return (drained.get("status"), drained.get("reason")) == ("False", "Unreachable")

        await pair.until("the Target says that delegates may still run", said, about=namespace)
        name = virtual_node(namespace, "us")
        assert (await pair.source.get(NODES, name))["spec"]["taints"], "the node stays, and takes no pods"
    await empty(pair, namespace)
    await pair.gone(TARGETS, "us", namespace)
    await pair.gone(NODES, name)


async def test_row_10_an_unreachable_target_keeps_its_pods_and_their_last_status(pair: Fleet, namespace: str) -> None:
    proxy, delegate = await run(pair, namespace)
    async with target_away(pair, namespace):
        name = delegate["metadata"]["name"]
        patch = json.dumps({"metadata": {"annotations": {"while": "away"}}})
        await pair.kubectl("us", "patch", "pod", name, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
        still = await pair.source.get(PODS, "a", namespace)
        assert (still["metadata"]["uid"], still["status"]["phase"]) == (proxy["metadata"]["uid"], "Running")
        assert "deletionTimestamp" not in still["metadata"]

    async def home() -> bool:
        return bool((await pair.source.get(PODS, "a", namespace))["metadata"]["annotations"].get("while"))

    await pair.until("what happened is home", home, about=namespace)
    assert (await delegate_of(pair, namespace))["metadata"]["uid"] == delegate["metadata"]["uid"]


async def test_row_12_a_source_whose_agent_is_away_for_a_minute_loses_and_evicts_nothing(
    pair: Fleet, namespace: str
) -> None:
    await pair.source.create(DEPLOYMENTS, manifests.deployment("web", 3), namespace)
    before = {pod["metadata"]["uid"] for pod in await pair.running(namespace, "web", 3)}
    delegates = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await pair.delegates(namespace)).items()}
    async with source_away(pair):
        await asyncio.sleep(AWAY_SECONDS)
        pods = await pair.source.list(PODS, namespace)
        assert {pod["metadata"]["uid"] for pod in pods} == before
        assert not any("deletionTimestamp" in pod["metadata"] for pod in pods), "proxy pods were evicted"
    await pair.running(namespace, "web", 3)
    await pair.agree(namespace)
    after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await pair.delegates(namespace)).items()}
    assert after == delegates
    pair.census.check(namespace, at_most=3)

    async def renewed() -> bool:
        node = await pair.source.get(NODES, virtual_node(namespace, "us"))
        await pair.source.get(LEASES, virtual_node(namespace, "us"), "kube-node-lease")
        return bool(condition(node, "Ready")["status"] == "True")

    await pair.until("the virtual node is ready again", renewed, about=namespace)
