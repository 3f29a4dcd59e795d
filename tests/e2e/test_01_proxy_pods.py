"""Promise 1: elected pods of a labelled namespace become proxy pods as the wire contract says; nothing else changes."""

import hashlib
import json
from typing import Any

import pytest

from agent.api.kinds import NODES, PODS
from agent.kube.errors import KubeError, StatusError
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, on_virtual_node

P = "multicluster.admiralty.io/"
SHORT = "multicluster/"

Raw = dict[str, Any]


async def create(fleet: Fleet, namespace: str, pod: Raw, *, dry_run: bool = False) -> Raw:
    """Create a pod, and return it as the API server's response contains it."""
    body = json.dumps(pod).encode()
    params = {"dryRun": "All"} if dry_run else None
    answer = await fleet.source.session.request("POST", PODS.path(namespace), params=params, body=body)
    return dict(json.loads(answer))


@pytest.mark.parametrize("key", [P + "elect", SHORT + "elect"])
async def test_an_elected_pod_becomes_a_proxy_pod_to_the_letter(fleet: Fleet, namespace: str, key: str) -> None:
    pod = manifests.pod("a", elect=key, nodeSelector={manifests.REGION: "eu"}, automountServiceAccountToken=False)
    pod["metadata"]["labels"] = {"app": "a", "example.com/tier": "web"}
    pod["metadata"]["finalizers"] = [P + "stale", "example.com/kept"]
    proxy = await create(fleet, namespace, pod, dry_run=True)
    assert proxy["metadata"]["labels"] == {"app": "a", "example.com/tier": "web", P + "has-finalizer": "true"}
    ours = {f"{P}{finalizer_of(namespace, target)}" for target in ("us", "eu")}
    assert set(proxy["metadata"]["finalizers"]) == {"example.com/kept"} | ours
    assert set(proxy["metadata"]["annotations"]) == {key, P + "sourcepod-manifest", SHORT + "created-by"}
    spec = proxy["spec"]
    assert spec["nodeSelector"] == {"virtual-kubelet.io/provider": "admiralty"}
    assert spec["tolerations"] == [
        {"key": "virtual-kubelet.io/provider", "value": "admiralty"},
        {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ]
    assert spec["schedulerName"] == "admiralty-proxy"
    assert spec["terminationGracePeriodSeconds"] == 0
    assert "affinity" not in spec
    assert "topologySpreadConstraints" not in spec


@pytest.mark.full("Webhook tests on one API server cover the same rule.")
async def test_the_manifest_holds_the_whole_original(fleet: Fleet, namespace: str) -> None:
    pod = manifests.pod("a", automountServiceAccountToken=False, annotations={"note": "ü\n'\""})
    plain = await create(fleet, "default", pod, dry_run=True)
    proxy = await create(fleet, namespace, pod, dry_run=True)
    manifest = json.loads(proxy["metadata"]["annotations"][P + "sourcepod-manifest"])
    assert manifest["kind"] == "Pod"
    assert manifest["metadata"]["namespace"] == namespace
    assert manifest["metadata"]["labels"] == pod["metadata"]["labels"]
    assert manifest["metadata"]["annotations"] == pod["metadata"]["annotations"]
    assert "managedFields" not in manifest["metadata"]
    # The API server's built-in admission adds tolerations after webhooks; the user has not sent them.
    late = [each for each in plain["spec"].pop("tolerations") if each.get("tolerationSeconds") == 300]
    tolerations = manifest["spec"].pop("tolerations", [])
    assert all(each in late for each in tolerations)
    assert manifest["spec"] == plain["spec"]


async def test_a_proxy_pod_runs_on_the_virtual_node_of_its_target(fleet: Fleet, namespace: str) -> None:
    await create(fleet, namespace, manifests.pod("a", elect=SHORT + "elect", nodeSelector={manifests.REGION: "eu"}))
    (proxy,) = await fleet.running(namespace, "a", 1)
    assert on_virtual_node(proxy)
    node = await fleet.source.get(NODES, proxy["spec"]["nodeName"])
    assert node["metadata"]["labels"][P + "target-name"] == "eu"
    assert proxy["metadata"]["finalizers"] == [P + finalizer_of(namespace, "eu")]
    ((cluster, _),) = (await fleet.delegates(namespace)).values()
    assert cluster == "eu"


async def test_other_pods_and_other_namespaces_are_untouched(fleet: Fleet, namespace: str) -> None:
    not_elected = [
        manifests.pod("a", elect=None),
        manifests.pod("b", elect=None, annotations={SHORT + "elect": "false"}),
    ]
    for pod in not_elected:
        left_alone(await create(fleet, namespace, pod, dry_run=True), pod)
    elected = manifests.pod("c")
    left_alone(await create(fleet, "default", elected, dry_run=True), elected)


@pytest.mark.full("Webhook tests on one API server cover the same rule.")
async def test_a_mistake_in_an_annotation_is_refused_with_the_reason(fleet: Fleet, namespace: str) -> None:
    pod = manifests.pod("a", annotations={P + "no-prefix-label-regexp": "?!foo"})
    with pytest.raises(StatusError, match="no-prefix-label-regexp"):
        await create(fleet, namespace, pod)


@pytest.mark.full("Webhook tests on one API server cover the same rule.")
async def test_without_the_webhook_only_elected_pods_are_refused(fleet: Fleet, namespace: str) -> None:
    async def is_refused() -> bool:
        """Treat a timeout as "not yet": the API server may wait for the webhook longer than the client waits."""
        try:
            await create(fleet, namespace, manifests.pod("b"))
        except StatusError as error:
            return "failed calling webhook" in str(error)
        raise AssertionError("the pod was created")

    await fleet.sandbox.kill("cd", "webhook")
    try:
        left_alone(await create(fleet, namespace, manifests.pod("a", elect=None)), manifests.pod("a", elect=None))
        await fleet.until("an elected pod is refused", is_refused, about=namespace)
    finally:
        await fleet.sandbox.start("cd", "webhook")

    async def elected_again() -> bool:
        try:
            proxy = await create(fleet, namespace, manifests.pod("b"), dry_run=True)
        except KubeError:
            return False
        return bool(proxy["spec"]["schedulerName"] == "admiralty-proxy")

    await fleet.until("the webhook answers again", elected_again)


def finalizer_of(namespace: str, target: str) -> str:
    """Return a target's finalizer. Names with a dash contain a hash, which is computed independently of the
    agent's code."""
    digest = hashlib.sha256(f"{namespace}/{target}".encode()).hexdigest()[:10]
    return f"{namespace}-{target}-{digest}"


def left_alone(created: Raw, pod: Raw) -> None:
    """Check that the webhook has not changed a pod, and that the default scheduler schedules it."""
    assert created["spec"]["schedulerName"] == "default-scheduler"
    assert created["metadata"].get("annotations", {}) == pod["metadata"]["annotations"]
    assert created["metadata"]["labels"] == pod["metadata"]["labels"]
    assert "finalizers" not in created["metadata"]
    assert created["spec"]["terminationGracePeriodSeconds"] == 5
