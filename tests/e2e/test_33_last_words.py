"""Promise 33: the exit of a container on SIGTERM counts for its pod in the source as it would in one cluster."""

import asyncio
from typing import Any

import pytest

from agent.api.kinds import PODS
from agent.api.names import LABEL_PARENT_UID
from tests.e2e import manifests
from tests.e2e.debugging import IMAGE
from tests.e2e.fleet import Fleet, Raw, condition
from tests.e2e.manifests import JOBS

pytestmark = [pytest.mark.realnodes]

POLICIES = {
    "backoffLimit": 0,
    "podReplacementPolicy": "Failed",
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}]
    },
}


def obedient(name: str, code: int, *, elected: bool, **spec: Any) -> Raw:
    """Return a Job whose only pod exits with `code` on SIGTERM; elected, or on a node of the source."""
    job = manifests.job(name, 1, terminationGracePeriodSeconds=20)
    pod = job["spec"]["template"]
    script = f"trap 'exit {code}' TERM; echo ready; while true; do sleep 0.1; done"
    pod["spec"]["containers"][0] |= {"image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    if not elected:
        del pod["metadata"]["annotations"]
    job["spec"] |= spec
    return job


async def runs(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Wait until the pod of a Job runs, and return it."""
    (pod,) = await fleet.running(namespace, name, 1, seconds=120)
    return pod


async def verdict(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Wait until a Job is Complete or Failed; return its counts and reasons."""

    async def over() -> Raw:
        status: Raw = (await fleet.source.get(JOBS, name, namespace))["status"]
        ended = any(condition({"status": status}, kind).get("status") == "True" for kind in ("Complete", "Failed"))
        return status if ended else {}

    status = await fleet.until(f"Job {name} is over", over, about=namespace, seconds=120)
    reasons = [condition({"status": status}, kind).get("reason", "") for kind in ("Complete", "Failed")]
    return {"succeeded": status.get("succeeded", 0), "failed": status.get("failed", 0), "reasons": reasons}


@pytest.mark.parametrize("code", [0, 3, 7])
async def test_a_deleted_pod_of_a_job_ends_for_it_as_a_plain_one_does(fleet: Fleet, code: int) -> None:
    async with fleet.namespace(("us",)) as namespace:
        for name, elected in (("plain", False), ("federated", True)):
            job = obedient(name, code, elected=elected, **POLICIES)
            await fleet.source.create(JOBS, job, namespace)
        pods = await asyncio.gather(*(runs(fleet, namespace, name) for name in ("plain", "federated")))
        for pod in pods:
            await fleet.source.delete(PODS, pod["metadata"]["name"], namespace)
        plain, federated = [await verdict(fleet, namespace, name) for name in ("plain", "federated")]
        assert federated == plain
        assert federated["succeeded" if code == 0 else "failed"] == 1


async def test_a_delegate_that_somebody_deletes_in_the_target_and_that_ends_well_has_done_its_work(
    fleet: Fleet,
) -> None:
    us = fleet.clients["us"]
    async with fleet.namespace(("us",)) as namespace:
        await fleet.source.create(JOBS, obedient("work", 0, elected=True), namespace)
        proxy = await runs(fleet, namespace, "work")
        (delegate,) = await us.list(PODS, namespace, labels=LABEL_PARENT_UID)
        await us.delete(PODS, delegate["metadata"]["name"], namespace)
        told = await verdict(fleet, namespace, "work")
        assert (told["succeeded"], told["failed"]) == (1, 0)
        await fleet.gone(PODS, delegate["metadata"]["name"], namespace, source="us")
        (after,) = await fleet.pods(namespace, "work")
        assert after["metadata"]["uid"] == proxy["metadata"]["uid"]
        assert after["status"]["phase"] == "Succeeded"
