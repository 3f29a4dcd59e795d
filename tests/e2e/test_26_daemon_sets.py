"""Promise 26: a stock node agent that tolerates every taint rolls out; its pods on virtual nodes count as
ready."""

import pytest

from agent.api.kinds import ENDPOINT_SLICES, NODES, SERVICES
from agent.api.names import virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition
from tests.e2e.manifests import DAEMONSETS

APP = "node-agent"


def node_agent() -> Raw:
    """Return a node agent as in public charts: tolerates all taints, has system priority and mounts host files."""
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "volumes": [{"name": "log", "hostPath": {"path": "/var/log"}}],
    }
    made = manifests.workload(DAEMONSETS, APP, spec)
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    template = made["spec"]["template"]
    del template["metadata"]["annotations"]
    mount = {"name": "log", "mountPath": "/var/log", "readOnly": True}
    port = {"name": "metrics", "containerPort": 9100}
    template["spec"]["containers"][0] |= {"volumeMounts": [mount], "ports": [port]}
    return made


async def rolled_out(fleet: Fleet, namespace: str) -> None:
    """Wait for the rollout with kubectl."""
    await fleet.kubectl("cd", "rollout", "status", f"daemonset/{APP}", f"--namespace={namespace}", "--timeout=90s")


async def answered(fleet: Fleet, namespace: str) -> dict[str, Raw]:
    """Return the DaemonSet's pods on the virtual nodes of the namespace, by node."""
    pods = {pod["spec"].get("nodeName", ""): pod for pod in await fleet.pods(namespace, APP)}
    return {node: pods[node] for node in (virtual_node(namespace, "us"), virtual_node(namespace, "eu"))}


async def test_a_stock_node_agent_rolls_out_and_is_updated(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DAEMONSETS, node_agent(), namespace)
    await rolled_out(fleet, namespace)
    first = await answered(fleet, namespace)
    for node, pod in first.items():
        status = pod["status"]
        assert (status["phase"], status["reason"]) == ("Running", "VirtualNode")
        assert node in status["message"]
        assert condition(pod, "Ready")["message"] == status["message"]
        assert not status.keys() & {"podIP", "podIPs", "containerStatuses"}
    listed = await fleet.kubectl("cd", "get", "pods", f"--namespace={namespace}", "--no-headers")
    assert sum(" VirtualNode " in line for line in listed.splitlines()) >= len(first)
    assert await fleet.delegates(namespace) == {}

    container = {"name": "main", "image": "busybox:2"}
    image = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await fleet.source.patch(DAEMONSETS, APP, image, namespace, style="strategic")
    await rolled_out(fleet, namespace)
    second = await answered(fleet, namespace)
    assert all(pod["spec"]["containers"][0]["image"] == "busybox:2" for pod in second.values())
    assert not {each["metadata"]["uid"] for each in second.values()} & {
        each["metadata"]["uid"] for each in first.values()
    }

    node, pod = next(iter(second.items()))
    await fleet.kubectl("cd", "delete", "pod", pod["metadata"]["name"], f"--namespace={namespace}", "--timeout=30s")
    await rolled_out(fleet, namespace)
    assert (await answered(fleet, namespace))[node]["metadata"]["uid"] != pod["metadata"]["uid"]


@pytest.mark.full("A variant of the test of a stock node agent.")
async def test_no_service_leads_to_pods_that_do_not_run(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DAEMONSETS, node_agent(), namespace)
    await rolled_out(fleet, namespace)
    ports = [{"name": "before", "port": 80, "targetPort": "metrics"}]
    service = {"metadata": {"name": APP}, "spec": {"selector": {"app": APP}, "ports": ports}}
    await fleet.source.create(SERVICES, service, namespace)
    # After this change, the EndpointSlice controller writes slices that consider all current pods.
    after = {"spec": {"ports": [{**ports[0], "name": "after"}]}}
    await fleet.source.patch(SERVICES, APP, after, namespace)

    async def led_to() -> set[str]:
        slices = await fleet.source.list(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={APP}")
        told = [each for each in slices if [port.get("name") for port in each["ports"] or ()] == ["after"]]
        found = {endpoint["nodeName"] for each in told for endpoint in each["endpoints"] or ()}
        real = {pod["spec"]["nodeName"] for pod in await fleet.pods(namespace, APP) if pod["status"].get("podIP")}
        return found if real and found >= real else set()

    nodes = await fleet.until("the Service has its endpoints", led_to, about=namespace)
    assert nodes
    for name in nodes:
        node = await fleet.source.get(NODES, name)
        assert "virtual-kubelet.io/provider" not in node["metadata"]["labels"]
