"""Promise 3: the status of a delegate appears on its proxy pod, and controllers in the source count correctly."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import PODS
from agent.kube.client import Client
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition, told
from tests.e2e.losses import node_by_hand
from tests.e2e.manifests import DEPLOYMENTS, JOBS, REPLICASETS

Raw = dict[str, Any]
NOW = "2026-01-02T03:04:05Z"


@pytest_asyncio.fixture(loop_scope="session")
async def node(fleet: Fleet) -> AsyncIterator[str]:
    """A node of us without a kubelet: only the test changes the status of its pods."""
    async with node_by_hand(fleet) as name:
        yield name


async def started(fleet: Fleet, namespace: str, name: str, **spec: Any) -> Raw:
    """Create a pod, and return its delegate on the node without a kubelet."""
    pod = manifests.pod(name, nodeSelector={"e2e/node": "manual"}, **spec)
    await fleet.source.create(PODS, pod, namespace)

    async def delegate() -> Raw:
        for _, each in (await fleet.delegates(namespace)).values():
            if each["spec"].get("nodeName") == "us-manual":
                return each
        return {}

    return await fleet.until("the delegate has the node", delegate, about=namespace)


def running(count: int = 0) -> Raw:
    """Return the status of a running pod with one container, as a kubelet writes it."""
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "hostIP": "192.0.2.9",
        "hostIPs": [{"ip": "192.0.2.9"}],
        "podIP": "198.51.100.7",
        "podIPs": [{"ip": "198.51.100.7"}, {"ip": "2001:db8::7"}],
        "startTime": NOW,
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": NOW} for each in conditions],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox",
                "imageID": "docker.io/library/busybox@sha256:" + "0" * 64,
                "containerID": f"containerd://{count:064d}",
                "restartCount": count,
                "ready": True,
                "started": True,
                "state": {"running": {"startedAt": NOW}},
            }
        ],
    }


async def say(client: Client, pod: Raw, status: Raw) -> Raw:
    """Write a pod's status like a kubelet, and return it as the API server stores it."""
    metadata = pod["metadata"]
    patched = await client.patch(PODS, metadata["name"], {"status": status}, metadata["namespace"], sub="status")
    return dict(patched["status"])


async def proxy_says(fleet: Fleet, namespace: str, name: str, fields: Raw) -> Raw:
    """Wait until the proxy pod's status has these values."""

    async def same() -> Raw:
        pod = await fleet.source.get(PODS, name, namespace)
        return pod if all(pod["status"].get(key) == value for key, value in fields.items()) else {}

    return await fleet.until(f"the proxy pod says {fields}", same, about=namespace)


async def test_status_and_annotations_come_home_word_for_word(fleet: Fleet, namespace: str, node: str) -> None:
    delegate = await started(fleet, namespace, "a")
    target = fleet.clients["us"]
    status = await say(target, delegate, running())
    fields = ("phase", "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "containerStatuses")
    proxy = await proxy_says(fleet, namespace, "a", {field: status[field] for field in fields})
    assert told(proxy)["podIPs"] == running()["podIPs"]
    conditions = {each["type"]: (each["status"], each["lastTransitionTime"]) for each in proxy["status"]["conditions"]}
    assert conditions == {each["type"]: (each["status"], NOW) for each in running()["conditions"]}

    name = delegate["metadata"]["name"]
    await target.patch(PODS, name, {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/status": "[]"}}}, namespace)

    async def annotated() -> bool:
        pod = await fleet.source.get(PODS, "a", namespace)
        return bool(pod["metadata"]["annotations"].get("k8s.v1.cni.cncf.io/status") == "[]")

    await fleet.until("the annotation comes home", annotated, about=namespace)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    crashed = running(3)
    crashed["containerStatuses"][0] |= {"state": waiting, "ready": False, "started": False}
    status = await say(target, delegate, crashed)
    assert status["containerStatuses"][0]["state"] == waiting
    await proxy_says(fleet, namespace, "a", {"containerStatuses": status["containerStatuses"]})


@pytest.mark.full("A variant of the test that copies a status word for word.")
async def test_a_pod_that_fails_fails_at_home_with_its_exit_code(fleet: Fleet, namespace: str, node: str) -> None:
    delegate = await started(fleet, namespace, "a", restartPolicy="Never")
    status = running()
    await say(fleet.clients["us"], delegate, status)
    end = {"exitCode": 7, "reason": "Error", "startedAt": NOW, "finishedAt": NOW}
    status["phase"] = "Failed"
    status["containerStatuses"][0] |= {"ready": False, "started": False, "state": {"terminated": end}}
    await say(fleet.clients["us"], delegate, status)
    proxy = await proxy_says(fleet, namespace, "a", {"phase": "Failed"})
    assert proxy["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


@pytest.mark.full("A variant of the test that copies a status word for word.")
async def test_an_evicted_delegate_is_replaced_by_its_replica_set(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 3), namespace)
    await fleet.running(namespace, "web", 3)
    victim, (cluster, delegate) = next(iter((await fleet.delegates(namespace)).items()))
    await say(fleet.clients[cluster], delegate, {"phase": "Failed", "reason": "Evicted", "message": "no disk"})

    async def replaced() -> bool:
        pods = {pod["metadata"]["uid"]: pod["status"] for pod in await fleet.pods(namespace, "web")}
        evicted = pods.pop(victim, {})
        return (evicted.get("phase"), evicted.get("reason")) == ("Failed", "Evicted") and [
            status["phase"] for status in pods.values()
        ] == ["Running"] * 3

    await fleet.until("the replica set has replaced the evicted pod", replaced, about=namespace)


async def test_a_deployment_is_as_available_as_its_delegates(fleet: Fleet, namespace: str, node: str) -> None:
    spec = {"nodeSelector": {"e2e/node": "manual"}}
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2, **spec), namespace)

    async def placed() -> list[Raw]:
        delegates = [pod for _, pod in (await fleet.delegates(namespace)).values()]
        return delegates if len([pod for pod in delegates if pod["spec"].get("nodeName")]) == 2 else []

    delegates = await fleet.until("both delegates have the node", placed, about=namespace)
    unready = running()
    for each in unready["conditions"]:
        if each["type"] in ("Ready", "ContainersReady"):
            each |= {"status": "False", "reason": "ContainersNotReady"}
    unready["containerStatuses"][0] |= {"ready": False}
    await say(fleet.clients["us"], delegates[0], running())
    await say(fleet.clients["us"], delegates[1], unready)
    await available(fleet, namespace, {"replicas": 2, "readyReplicas": 1, "unavailableReplicas": 1})
    await say(fleet.clients["us"], delegates[1], running())
    await available(fleet, namespace, {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2})
    (replica_set,) = await fleet.source.list(REPLICASETS, namespace)
    assert replica_set["status"]["readyReplicas"] == 2


async def available(fleet: Fleet, namespace: str, wanted: Raw) -> None:
    """Wait until the Deployment's status has these numbers."""

    async def same() -> bool:
        status = (await fleet.source.get(DEPLOYMENTS, "web", namespace))["status"]
        return all(status.get(key) == value for key, value in wanted.items())

    await fleet.until(f"the Deployment says {wanted}", same, about=namespace)


async def test_a_job_counts_each_completed_pod_once(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(JOBS, manifests.job("sum", 5), namespace)

    async def complete() -> Raw:
        job = await fleet.source.get(JOBS, "sum", namespace)
        return job if condition(job, "Complete").get("status") == "True" else {}

    job = await fleet.until("the Job completes", complete, about=namespace)
    assert job["status"]["succeeded"] == 5
    assert "failed" not in job["status"]
    assert job["status"].get("uncountedTerminatedPods") in (None, {})
    assert len(await fleet.pods(namespace)) == 5
    fleet.census.check(namespace, at_most=5)
