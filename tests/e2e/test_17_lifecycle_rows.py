"""Promise 17: what becomes of pods when something is lost, row by row of the contract's table (section 5)."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, LEASES, NODES, PODS, TARGETS
from agent.api.names import ANNOTATION_POD_MISSING_SINCE, virtual_node
from agent.kube.errors import NotFound
from agent.sandbox import Sandbox
from tests.e2e import manifests
from tests.e2e.conftest import AGENT_FLAGS, fleet_of
from tests.e2e.fleet import Fleet, condition, on_virtual_node
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

MISSING_SECONDS = 3
AWAY_SECONDS = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Source cd and target us, whose agent makes a lost delegate again after seconds rather than a minute."""
    flags = (*AGENT_FLAGS, f"--pod-missing={MISSING_SECONDS}", "--agent-interval=1")
    sandbox = Sandbox(tmp_path_factory.mktemp("fleet") / "rows", ("cd", "us"), "kwok:2", agent_flags=flags)
    async with fleet_of(sandbox) as fleet:
        yield fleet


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(pair: Fleet) -> AsyncIterator[str]:
    """A namespace whose pods run in us."""
    async with pair.namespace(("us",)) as name:
        yield name


@contextlib.asynccontextmanager
async def source_away(fleet: Fleet) -> AsyncIterator[None]:
    """The source's agent is dead for a while."""
    await fleet.sandbox.kill("cd", "agent")
    try:
        yield
    finally:
        await fleet.sandbox.start("cd", "agent")


async def run(fleet: Fleet, namespace: str, **spec: Any) -> tuple[Raw, Raw]:
    """A single pod that runs, as proxy pod and delegate; a fake node is soon done with one that never restarts."""
    await fleet.source.create(PODS, manifests.pod("a", **spec), namespace)
    over = "Succeeded" if spec.get("restartPolicy") == "Never" else "Running"

    async def bound() -> Raw:
        pod = await fleet.source.get(PODS, "a", namespace)
        return pod if pod["status"]["phase"] == over else {}

    proxy = await fleet.until(f"the pod is {over}", bound, about=namespace)
    return proxy, await delegate_of(fleet, namespace)


async def delegate_of(fleet: Fleet, namespace: str) -> Raw:
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    return delegate


async def lose(fleet: Fleet, delegate: Raw) -> None:
    metadata = delegate["metadata"]
    await fleet.clients["us"].delete(PODS, metadata["name"], metadata["namespace"], grace=0)


async def set_status(fleet: Fleet, delegate: Raw, status: Raw) -> None:
    metadata = delegate["metadata"]
    await fleet.clients["us"].patch(
        PODS, metadata["name"], {"status": status}, metadata["namespace"], sub="status", style="strategic"
    )


async def empty(fleet: Fleet, namespace: str) -> None:
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


async def test_a_deleted_proxy_pod_takes_its_delegate_with_it(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    await pair.source.delete(PODS, "a", namespace)
    await empty(pair, namespace)


async def test_a_delegate_has_its_own_grace_period_and_the_proxy_pod_goes_last(pair: Fleet, namespace: str) -> None:
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


async def test_a_delegate_lost_while_the_link_is_up_ends_its_proxy_pod_and_is_replaced(
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


async def test_a_delegate_lost_while_the_source_is_away_is_made_again(pair: Fleet, namespace: str) -> None:
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


async def test_a_delegate_that_is_never_restarted_stays_missing_until_the_source_is_back(
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
async def test_a_delegate_that_has_ended_is_kept_and_told_of(pair: Fleet, namespace: str, phase: str) -> None:
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


async def test_a_chaperon_deleted_by_hand_ends_its_proxy_pod(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    (chaperon,) = await pair.clients["us"].list(CHAPERONS, namespace)
    await pair.clients["us"].delete(CHAPERONS, chaperon["metadata"]["name"], namespace)
    await empty(pair, namespace)


async def test_a_removed_target_takes_its_delegates_its_pods_and_its_node(pair: Fleet, namespace: str) -> None:
    await run(pair, namespace)
    await pair.source.delete(TARGETS, "us", namespace)
    await pair.gone(TARGETS, "us", namespace)
    await empty(pair, namespace)
    await pair.gone(NODES, virtual_node(namespace, "us"))


async def test_an_unreachable_target_keeps_its_pods_and_their_last_status(pair: Fleet, namespace: str) -> None:
    proxy, delegate = await run(pair, namespace)
    await pair.sandbox.set_link("us", up=False)
    try:

        async def noticed() -> bool:
            target = await pair.source.get(TARGETS, "us", namespace)
            return condition(target, "Reachable").get("status") == "False"

        await pair.until("the Target is unreachable", noticed, about=namespace)
        name = delegate["metadata"]["name"]
        patch = json.dumps({"metadata": {"annotations": {"while": "away"}}})
        await pair.kubectl("us", "patch", "pod", name, f"--namespace={namespace}", "--type=merge", f"--patch={patch}")
        still = await pair.source.get(PODS, "a", namespace)
        assert (still["metadata"]["uid"], still["status"]["phase"]) == (proxy["metadata"]["uid"], "Running")
        assert "deletionTimestamp" not in still["metadata"]
    finally:
        await pair.sandbox.set_link("us", up=True)

    async def home() -> bool:
        return bool((await pair.source.get(PODS, "a", namespace))["metadata"]["annotations"].get("while"))

    await pair.until("what happened is home", home, about=namespace)
    assert (await delegate_of(pair, namespace))["metadata"]["uid"] == delegate["metadata"]["uid"]


async def test_a_source_whose_agent_is_away_for_a_minute_loses_and_evicts_nothing(pair: Fleet, namespace: str) -> None:
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
