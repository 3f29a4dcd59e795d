"""Completed work of a delegate counts once, whatever was down when the delegate ended and was deleted."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, PODS
from agent.api.names import ANNOTATION_POD_MISSING_SINCE
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition
from tests.e2e.losses import node_by_hand, source_away, target_away
from tests.e2e.manifests import JOBS

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

Away = Callable[[Fleet, str], AbstractAsyncContextManager[None]]


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace whose only target is us."""
    async with fleet.namespace(("us",)) as name:
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def node(fleet: Fleet) -> AsyncIterator[str]:
    """A node in us without a kubelet, whose pod status the test sets."""
    async with node_by_hand(fleet) as name:
        yield name


@contextlib.asynccontextmanager
async def agent_away(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Stop the source's agent; counterpart of `target_away`."""
    async with source_away(fleet):
        yield


async def at_work(fleet: Fleet, namespace: str, node: str, completions: int, **spec: Any) -> list[str]:
    """Start a Job on the node without a kubelet; return the names of its delegates."""
    job = manifests.job("work", completions, nodeSelector={"e2e/node": "manual"})
    job["spec"] |= spec
    await fleet.source.create(JOBS, job, namespace)

    async def bound() -> list[str]:
        found = [pod for _, pod in (await fleet.delegates(namespace)).values() if pod["spec"].get("nodeName") == node]
        return [pod["metadata"]["name"] for pod in found] if len(found) == completions else []

    names = await fleet.until("all delegates have the node", bound, about=namespace)
    for name in names:
        await say(fleet, namespace, name, "Running")
    await fleet.running(namespace, "work", completions)
    return names


async def say(fleet: Fleet, namespace: str, name: str, phase: str, code: int | None = None) -> None:
    """Set a delegate's status like a kubelet; also works while the cluster's link is cut."""
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    container = {"name": "main", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    patch = json.dumps({"status": {"phase": phase, "containerStatuses": [container]}})
    arguments = (f"--namespace={namespace}", "--subresource=status", "--type=merge", f"--patch={patch}")
    await fleet.kubectl("us", "patch", "pod", name, *arguments)


async def remove(fleet: Fleet, namespace: str, name: str) -> None:
    """Delete a delegate without grace period, like a kubelet after the pod ended, or like a user."""
    arguments = (f"--namespace={namespace}", "--grace-period=0", "--force")
    await fleet.kubectl("us", "delete", "pod", name, *arguments)


async def chaperons(fleet: Fleet, namespace: str) -> list[Raw]:
    """Return the PodChaperons in us; also works while its link is cut."""
    found = await fleet.kubectl("us", "get", CHAPERONS.plural, f"--namespace={namespace}", "--output=json")
    items: list[Raw] = json.loads(found)["items"]
    return items


async def over(fleet: Fleet, namespace: str, kind: str) -> Raw:
    """Wait until the Job has this condition; return its status."""

    async def ended() -> Raw:
        job = await fleet.source.get(JOBS, "work", namespace)
        return job if condition(job, kind).get("status") == "True" else {}

    job = await fleet.until(f"the Job is {kind}", ended, about=namespace)
    status: Raw = job["status"]
    return status


@pytest.mark.parametrize(
    ("away", "removed"),
    [
        pytest.param(target_away, "delegates", id="the link, and the delegates go"),
        pytest.param(target_away, "chaperons", id="the link, and the chaperons go", marks=pytest.mark.seldom),
        pytest.param(agent_away, "delegates", id="the agent, and the delegates go", marks=pytest.mark.seldom),
    ],
)
async def test_a_job_whose_pods_end_and_go_while_nobody_hears_of_it_runs_once(
    fleet: Fleet, namespace: str, node: str, away: Away, removed: str
) -> None:
    delegates = await at_work(fleet, namespace, node, 2)
    async with away(fleet, namespace):
        for name in delegates:
            await say(fleet, namespace, name, "Succeeded", 0)

        async def told() -> bool:
            return [each["status"]["phase"] for each in await chaperons(fleet, namespace)] == ["Succeeded"] * 2

        await fleet.until("the chaperons tell of it", told, about=namespace)
        if removed == "chaperons":
            await fleet.kubectl("us", "delete", CHAPERONS.plural, "--all", f"--namespace={namespace}")
        else:
            for name in delegates:
                await remove(fleet, namespace, name)

        async def gone() -> bool:
            found = await chaperons(fleet, namespace)
            return all(ANNOTATION_POD_MISSING_SINCE in each["metadata"]["annotations"] for each in found)

        await fleet.until("the chaperons tell of that, too", gone, about=namespace)
    status = await over(fleet, namespace, "Complete")
    assert (status.get("succeeded"), status.get("failed", 0)) == (2, 0)
    assert [pod["status"]["phase"] for pod in await fleet.pods(namespace, "work")] == ["Succeeded"] * 2
    assert len(fleet.census.of(namespace, fleet.census.born.values())) == 2
    await fleet.source.delete(JOBS, "work", namespace, propagation="Background")
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


ON_CODE_3 = {
    "backoffLimit": 3,
    "podReplacementPolicy": "Failed",
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}]
    },
}


@pytest.mark.parametrize(("phase", "code", "kind"), [("Succeeded", 0, "Complete"), ("Failed", 3, "Failed")])
async def test_a_job_with_policies_learns_how_a_deleted_pod_ended(
    fleet: Fleet, namespace: str, node: str, phase: str, code: int, kind: str
) -> None:
    (delegate,) = await at_work(fleet, namespace, node, 1, **ON_CODE_3)
    (proxy,) = await fleet.pods(namespace, "work")
    await fleet.source.delete(PODS, proxy["metadata"]["name"], namespace)

    async def ending() -> bool:
        return "deletionTimestamp" in (await fleet.clients["us"].get(PODS, delegate, namespace))["metadata"]

    await fleet.until("the delegate ends", ending, about=namespace)
    await say(fleet, namespace, delegate, phase, code)

    async def home() -> bool:
        return bool((await fleet.source.get(PODS, proxy["metadata"]["name"], namespace))["status"]["phase"] == phase)

    # The delegate and the proxy pod exist until the test deletes the delegate.
    await fleet.until("the proxy pod tells how it ended", home, about=namespace)
    await remove(fleet, namespace, delegate)
    status = await over(fleet, namespace, kind)
    counts = {"Succeeded": (1, 0), "Failed": (0, 1)}
    assert (status.get("succeeded", 0), status.get("failed", 0)) == counts[phase]
    if kind == "Failed":
        told = condition({"status": status}, kind)
        assert told["reason"] == "PodFailurePolicy"
        assert "exit code 3" in told["message"]
    assert len(fleet.census.of(namespace, fleet.census.born.values())) == 1
    await fleet.gone(PODS, proxy["metadata"]["name"], namespace)
